"""The commands of the guides do what the guides say."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.house import bridge

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guides" / "backup-and-restore.md"


def commands(heading: str) -> str:
    """The commands of a chapter, joined; without the lines that set where things are."""
    text = GUIDE.read_text("utf-8").partition(f"## {heading}")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return "\n".join(line for block in blocks for line in block.splitlines() if "=/var" not in line)


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="needs the sqlite3 command")
def test_a_backup_is_restored(tmp_path: Path) -> None:
    """Into an empty folder: settings, secrets, both databases; all checks are good."""
    home, again, backup = tmp_path / "home", tmp_path / "again", tmp_path / "backup"
    bridge("init", str(home))
    bridge("site", "add", "SITE1", "--home", str(home))
    for chapter, folder in (("Back up (SQLite)", home), ("Restore", again)):
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        given = {"BRIDGE_HOME": str(folder), "BACKUP": str(backup), "PATH": path}
        script = commands(chapter)
        done = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", script],
            env=given,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "SITE1" in bridge("site", "list", "--home", str(again))
    names = {path.relative_to(again).as_posix() for path in again.rglob("*")}
    assert {"bridge.toml", "secrets/index.key", "bridge.db", "bridge-engine.db"} <= names
    assert "other users" not in done.stdout
