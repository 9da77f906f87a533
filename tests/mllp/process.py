"""A process that runs `live.py`, and the events it reports."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.eventually import PATIENCE

PROGRAM = Path(__file__).with_name("live.py")
ROOT = PROGRAM.parents[2]


class Live:
    """A running `live.py`."""

    def __init__(self, command: str, options: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), command, json.dumps(options)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self.next()[1]) if command == "serve" else 0

    def next(self) -> list[Any]:
        """Return the next event, or an empty list after the last one."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return list(json.loads(line)) if line else []

    def rest(self) -> list[list[Any]]:
        assert self.process.stdin is not None
        self.process.stdin.close()
        events = list(iter(self.next, []))
        assert self.process.wait(PATIENCE) == 0
        return events

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
