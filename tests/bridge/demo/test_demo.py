"""`make demo` in a new folder: from a pipe, interrupted, and with a failing service."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.eventually import PATIENCE, eventually

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.slow


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the demo in its own folder, also for temporary files."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(folder),
        "BRIDGE_HTTP__BIND": "not an address",  # the caller's settings must not apply
    }
    return subprocess.Popen(
        [sys.executable, "-m", "bridge.demo", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )


def ended(demo: subprocess.Popen[str], within: float = 300) -> tuple[int, str]:
    try:
        output, _ = demo.communicate(timeout=within)
    finally:
        demo.kill()
    return demo.returncode, output


def service_id(folder: Path) -> int:
    """Return the process id of the `bridge serve` whose data directory is in a folder."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"serve" in command and any(str(folder).encode() in part for part in command):
            return int(entry.name)
    raise AssertionError("no such process")


def service_log(folder: Path) -> str:
    return "".join(path.read_text("utf-8") for path in folder.glob("*/serve.log"))


def console_permissions(address: str, email: str, password: str) -> list[str]:
    with httpx.Client(base_url=address.removesuffix("/console"), timeout=PATIENCE) as browser:
        form = {"email": email, "password": password, "token": "", "next": ""}
        assert browser.post("/reporting/login", data=form).status_code == 303
        found: list[str] = browser.get("/console/api/me").json()["permissions"]
    return found


def row(output: str, name: str) -> list[str]:
    line = next(line for line in output.splitlines() if line.startswith(f"│ {name} "))
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_the_demo_with_keep(tmp_path: Path) -> None:
    """
    The demo prints the documented summary. With --keep it prints addresses to open and orders to
    send.

    Ctrl-C then exits with 0 and removes the folder. `.ci/run` runs the demo without --keep.
    """
    demo = start(tmp_path, "--keep")
    lines = lines_until(demo, "what went out")
    output = "".join(lines)
    (to_try,) = [line for line in lines if line.startswith("  an order ")]
    command = shlex.split(to_try.removeprefix("  an order "))
    tried = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    demo.send_signal(signal.SIGINT)
    status, rest = ended(demo)

    check_summary(output)
    assert output.count("/reporting/launch-report/clinical?token=") == 4
    assert (tried.returncode, "MSA|AA|Q3" in tried.stdout) == (0, True), tried
    assert status == 0, rest
    assert list(tmp_path.iterdir()) == []


def lines_until(demo: subprocess.Popen[str], text: str) -> list[str]:
    assert demo.stdout is not None
    lines: list[str] = []
    while text not in (line := demo.stdout.readline()):
        assert line, lines
        lines.append(line)
    return lines


def check_summary(output: str) -> None:
    summary, _, _ = output.partition("All as it should be")
    assert max(map(len, summary.splitlines())) <= 100
    orders, kinds = row(output, "Order messages in")[1:]
    assert int(orders) >= 10
    assert {kind.split("^")[0] for kind in kinds.split(", ")} == {"ORM", "OMG", "OMI"}
    assert row(output, "Senders")[2] == "RIS A (UTF-8) 9, HIS B (8859/1) 5"
    assert row(output, "ACKs")[2] == "AA 15, AE 2, AR 1"
    assert row(output, "Reports")[2] == "Addendum 1, Final 2, Draft 1"
    assert row(output, "ORUs out")[1:] == ["8", "preliminary 1, final 5, with addendum 2"]
    assert re.fullmatch(r"\d+ ms", row(output, "Sign to ORU")[1])
    assert "required field missing: OBR-18" in output
    assert re.search(r"^ *PID\|1\|\|A10001\^\^\^NORTH\^MR", output, re.MULTILINE)


def test_an_interruption_cleans_up(tmp_path: Path) -> None:
    """Ctrl-C during the start removes the folder, and the exit status shows it."""
    demo = start(tmp_path)
    assert demo.stdout is not None
    while "bridge init" not in demo.stdout.readline():
        assert demo.poll() is None
    demo.send_signal(signal.SIGINT)
    status, output = ended(demo)

    assert status == 130, output
    assert "Interrupted" in output
    assert list(tmp_path.iterdir()) == []


def test_a_killed_service_fails_the_demo(tmp_path: Path) -> None:
    """If the service is killed, the demo exits with 1, and prints the end of the log."""
    demo = start(tmp_path)
    eventually(lambda: re.search(r"\bready\b", service_log(tmp_path)))
    os.kill(service_id(tmp_path), signal.SIGKILL)
    status, output = ended(demo)

    assert status == 1, output
    assert "`bridge serve` ended by itself, with -9" in output
    assert "listening" in output
    assert list(tmp_path.iterdir()) == []
