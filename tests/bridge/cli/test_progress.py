"""Long commands show progress on a terminal only, and say after Ctrl-C what was done."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bridge.admin.background.jobs import DONE, JobRow
from bridge.cli.application import application
from bridge.cli.output import print_requeue_results
from tests.bridge.cli.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = Home(tmp_path / "home")
    made.init()
    made.ok("site", "add", "SITE1")
    return made.folder


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "bridge", *map(str, arguments)]


def test_progress_on_a_terminal(home: Path, tmp_path: Path) -> None:
    """The steps, with the elapsed and the remaining time; the result is on the output."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(
        command("backup", tmp_path / "a.backup", "--home", home),
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=env,
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:
        pass  # the terminal is closed when the process ends
    os.close(ours)
    output = process.communicate()[0].decode()
    assert process.returncode == 0, shown
    assert b"writing the backup" in shown
    assert b"left" in shown
    assert output.startswith("wrote ")


def test_nothing_in_a_pipe(home: Path, tmp_path: Path) -> None:
    for arguments in (
        ("backup", tmp_path / "a.backup", "--home", home),
        ("restore", tmp_path / "a.backup", tmp_path / "again"),
        ("migrate", "--home", home),
        ("prune", "--older-than", "90d", "--home", home),
        ("rotate-keys", "--home", home),
    ):
        done = CliRunner().invoke(application, [*map(str, arguments)])
        assert (done.exit_code, done.stderr) == (0, ""), arguments


@pytest.mark.parametrize(
    ("use_case", "arguments", "said"),
    [
        (
            "bridge.admin.access.access_administration.upgrade_databases",
            ("migrate",),
            "each database is as before, or migrated completely",
        ),
        (
            "bridge.admin.installation.retention.prune_home",
            ("prune", "--older-than", "90d"),
            "what was removed until now is removed completely",
        ),
        (
            "bridge.admin.installation.key_rotation.rotate_keys",
            ("rotate-keys",),
            "old and new keys are in the ring, and all links work",
        ),
    ],
)
def test_ctrl_c(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    use_case: str,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    """The exit status is 130, and the text says in which state everything is."""

    def interrupt(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(use_case, interrupt)
    result = CliRunner().invoke(application, [*arguments, "--home", str(home)])
    assert result.exit_code == 130
    assert f"interrupted: {said}" in result.stderr


def test_ctrl_c_during_a_replay_of_many(capsys: pytest.CaptureFixture[str]) -> None:
    """The counts of what was queued, of what failed, and of the rest."""

    def results() -> Iterator[JobRow]:
        yield JobRow(1, DONE, "")
        yield JobRow(2, "not_parked", "it is not parked")
        yield JobRow(3, DONE, "")
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as left:
        print_requeue_results(results(), "message", 7)
    assert left.value.exit_code == 130
    captured = capsys.readouterr()
    assert "queued message 3 again" in captured.out
    assert "interrupted: 2 queued, 1 failed, 4 are as before" in captured.err
