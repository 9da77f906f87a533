"""
`python -m tests.bare_machine`: the tests on a machine with only what README names.

Collects all tests and runs some of each package, with a PATH and a library path that have none of
the programs of `tests/programs.py`. Exits with 1 if a test cannot be collected, if a test fails
that needs none of them, or if one that needs a program is not skipped for it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.programs import CHROMIUM, HAPROXY, LIBFUSE, STRACE, SYSTEMD_ANALYZE

ROOT = Path(__file__).resolve().parents[1]
NAMED = ("python3", "git", "make", "sh", "bash")
EVERYWHERE = (
    "[ arch awk base32 base64 basename cat chmod chown cmp cp cut date dd df diff dirname du echo "
    "env expr false find getconf grep gunzip gzip head hostname id install kill ln ls md5sum mkdir "
    "mkfifo mktemp mount mv nice nproc od printf ps pwd readlink realpath rm rmdir sed seq "
    "sha256sum sleep sort stat stty tail tar tee test timeout touch tr true tty umount uname uniq "
    "wc which xargs zcat"
)
"""Programs that each Linux has."""

SMOKE = (
    "tests/acceptance/test_commands.py::test_reconcile",
    "tests/bridge/admin/test_packages.py",
    "tests/bridge/cli/test_release.py",
    "tests/bridge/delivery/test_reply_policy.py",
    "tests/bridge/engine/rules/",
    "tests/bridge/queue/test_inbox.py",
    "tests/config/",
    "tests/mappings/hl7/test_escapes.py",
    "tests/mllp/test_framing.py",
    "tests/parsers/test_xml.py",
    "tests/power/test_images.py",
    "tests/release/test_wheel.py",
    "tests/test_architecture.py",
    "tests/web/test_checks.py::test_the_lock",
)
"""The beginnings of the ids of tests that must pass."""

SKIPPED = {
    "tests/acceptance/test_cluster.py::test_orders_survive_rolling_restarts_and_kills_behind_haproxy": HAPROXY,  # noqa: E501
    "tests/browser/editor/test_text.py::": CHROMIUM,
    "tests/browser/embedding/test_windows.py::": CHROMIUM,
    "tests/power/test_power.py::": LIBFUSE,
    "tests/power/test_syncs.py::": LIBFUSE,
    "tests/release/test_guides.py::test_the_systemd_unit_is_valid": SYSTEMD_ANALYZE,
    "tests/sweep/test_sweep.py::test_calls_of_a_migration": LIBFUSE,
    "tests/sweep/test_sweep.py::test_system_calls": STRACE,
}
"""The beginnings of the ids of tests that must be skipped, and what for."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = (*SMOKE, *SKIPPED)
    for beginning in chosen:
        assert any(item.nodeid.startswith(beginning) for item in items), beginning
    config.hook.pytest_deselected(
        items=[item for item in items if not item.nodeid.startswith(chosen)]
    )
    items[:] = [item for item in items if item.nodeid.startswith(chosen)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    report.user_properties.append(("id", report.nodeid))


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="bare-machine-") as name:
        folder = Path(name)
        report = folder / "report.xml"
        options = ["-q", "-p", "tests.bare_machine", f"--junitxml={report}", "--durations=5"]
        command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", *options]
        status = subprocess.run(
            command, cwd=ROOT, env=bare_environment(folder), check=False
        ).returncode
        wrong = list(compare(report)) if report.exists() else ["the tests did not run"]
    for line in wrong:
        print(f"WRONG: {line}")  # noqa: T201
    return 1 if status or wrong else 0


def bare_environment(folder: Path) -> dict[str, str]:
    """Return an environment with few programs, and without a library of FUSE that can be loaded."""
    programs, libraries = folder / "bin", folder / "lib"
    programs.mkdir()
    libraries.mkdir()
    for name in (*NAMED, *EVERYWHERE.split()):
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    listed = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True)
    for line in listed.stdout.splitlines():
        if (name := line.split()[0]).startswith("libfuse"):
            (libraries / name).touch()  # the loader finds it first, and it is no library
    kept = {name: value for name, value in os.environ.items() if name in ("HOME", "LANG", "TZ")}
    return kept | {"PATH": str(programs), "LD_LIBRARY_PATH": str(libraries)}


def compare(report: Path) -> list[str]:
    wrong = []
    for case in ET.parse(report).iter("testcase"):  # noqa: S314  # pytest wrote it
        found = case.find("properties/property[@name='id']")
        assert found is not None
        test = found.get("value", "")
        skipped = case.find("skipped")
        reason = None if skipped is None else skipped.get("message", "")
        needed = next((need for begin, need in SKIPPED.items() if test.startswith(begin)), None)
        expected = None if needed is None else str(needed)
        if reason != expected:
            wrong.append(f"{test}: skipped for {reason!r}, expected: {expected!r}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
