"""A machine that lacks a program skips the tests that need it, and the run says how to get it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import programs
from tests.bare_machine import SKIPPED, SMOKE

ROOT = Path(__file__).resolve().parents[1]

_CASES = """
import pytest
from tests.programs import CHROMIUM, HAPROXY, STRACE

@pytest.fixture
def browser():
    return CHROMIUM.require()

def test_page(browser): pass

@pytest.mark.needs(CHROMIUM)
@pytest.mark.parametrize("number", range(3))
def test_pages(number): pass

@pytest.mark.needs(HAPROXY, STRACE)
def test_cluster(): pass

def test_else(): pass
"""


def run(folder: Path, **environment: str) -> tuple[int, str]:
    """Run cases that need programs, in an environment; return status and output."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = needs: …\n", "utf-8")
    (folder / "test_cases.py").write_text(_CASES, "utf-8")
    options = ["-q", "-n", "0", "-p", "tests.conftest", "--rootdir", str(folder), str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-c", str(folder / "pytest.ini")],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_each_missing_program_is_named_once(tmp_path: Path) -> None:
    """The summary has its name, the command that installs it, and the number of tests."""
    status, output = run(tmp_path, PATH="")
    assert status == 0, output
    assert "1 passed, 5 skipped" in output
    (chromium,) = [line for line in output.splitlines() if "Chromium" in line]
    assert re.match(r" +4 tests  no Chromium .*: apt-get install chromium", chromium)
    (haproxy,) = [line for line in output.splitlines() if "HAProxy" in line]
    assert re.match(r" +1 test  +no HAProxy .*: apt-get install haproxy$", haproxy)


def test_a_program_beside_path_is_found(tmp_path: Path) -> None:
    """A program in `sbin` is found by an account whose PATH has only `bin`; nothing is skipped."""
    for name in ("bin/chromium-browser", "bin/strace", "sbin/haproxy"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    status, output = run(tmp_path, PATH=str(tmp_path / "bin"))
    assert (status, "skipped" in output) == (0, False), output


def test_nothing_may_be_skipped_where_all_is_installed(tmp_path: Path) -> None:
    """With REPORT_BRIDGE_NOTHING_SKIPPED a run fails if it skips a test."""
    status, output = run(tmp_path, PATH="", REPORT_BRIDGE_NOTHING_SKIPPED="1")
    assert status == 1, output


def test_a_library_that_cannot_be_loaded_is_missing(tmp_path: Path) -> None:
    """A file that is no library of FUSE counts as no library."""
    broken = tmp_path / "libfuse3.so.3"
    broken.touch()
    code = "from tests.programs import LIBFUSE; print(LIBFUSE.path)"
    printed = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, env={**os.environ, "FUSE_LIBRARY_PATH": str(broken)},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert printed == "None\n"


def test_the_missing_packages_are_printed(tmp_path: Path) -> None:
    """`.ci/run` installs what `python -m tests.programs` prints."""
    printed = subprocess.run(
        [sys.executable, "-m", "tests.programs"],
        cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert set(printed.split()) >= {"chromium", "haproxy", "strace", "systemd"}
    assert "$(.venv/bin/python -m tests.programs)" in (ROOT / ".ci" / "run").read_text("utf-8")


def test_only_the_list_of_programs_looks_for_programs() -> None:
    """No test decides by itself whether a program is there."""
    own = {Path("tests/programs.py"), Path("tests/bare_machine.py"), Path("tests/test_programs.py")}
    allowed = {Path("tests/peers/conftest.py"), Path("tests/benchmarks/peers.py")}  # Node by PyPI
    pattern = re.compile(r"shutil\.which\(|\"/dev/fuse\"|find_library\(")
    found = {
        path.relative_to(ROOT)
        for path in (ROOT / "tests").rglob("*.py")
        if pattern.search(path.read_text("utf-8"))
    }
    assert found - own - allowed == set()


@pytest.mark.parametrize("beginning", [*SMOKE, *SKIPPED])
def test_the_tests_of_a_bare_machine_exist(beginning: str) -> None:
    """The check of a bare machine names files and functions of the tests."""
    file, _, function = beginning.partition("::")
    assert (ROOT / file).exists()
    if function:
        assert re.search(
            rf"^(async )?def {function}", (ROOT / file).read_text("utf-8"), re.MULTILINE
        )


def test_every_listed_program_is_needed() -> None:
    names = {name: item for name, item in vars(programs).items() if item in programs.OF_THE_TESTS}
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py")
                       if path.parent != ROOT / "tests")  # fmt: skip
    used = "FUSE" in source
    unused = [name for name, item in names.items() if item not in programs.FUSE
              and not re.search(rf"\b{name}\b(?:\.require|\)|,)", source)]  # fmt: skip
    assert (used, unused) == (True, [])
