"""
`bridge …` that notes which of our modules the first order and its result enter.

A module is entered if any of its functions runs. The trace begins with SIGUSR1, after which its
file exists; the modules are written to it when the process ends.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, FrameType

from bridge.cli import main as run
from tests.acceptance.forked import ROOT, Running

FILE, TEXT = "TRACED_FILE", "TRACED_TEXT"
PACKAGES = ("bridge", "mllp", "mappings")
BACKGROUND = ("bridge/console/", "bridge/admin/", "bridge/monitoring/", "bridge/runtime/")
"""What else runs in the process: pages, the message index, states for operators, periodic jobs."""

ACKNOWLEDGED = "from its frame to its acknowledgment"
APPLIED = "from its claim to the report engine"
SENT = "from its release to the reply to its result"

Point = tuple[str, str]
"""A module and one of its functions."""
STORED: Point = ("bridge/intake/receive/handler.py", "_on_stored")
CLAIMED: Point = ("bridge/queue/inbox.py", "claim_batch")
CHANGED: Point = ("bridge/delivery/change_feed.py", "process")
REPLIED: Point = ("bridge/delivery/reply_policy.py", "read_reply")
TASKS: Mapping[Point, str] = {
    ("bridge/queue/worker.py", "_run"): APPLIED,
    ("bridge/delivery/change_feed.py", "_run"): SENT,
    ("bridge/delivery/courier.py", "_run"): SENT,
}
"""The tasks of a way. Other work that runs at the same time does not count."""

_task_of: ContextVar[str] = ContextVar("_task_of", default="")
"""The way of the current task; what it starts, on the loop or on a thread, inherits it."""


def traced(arguments: Sequence[str], env: Mapping[str, str], output: Path, errors: Path) -> Running:
    """Start `bridge` with the trace."""
    with output.open("ab") as out, errors.open("ab") as err:
        return subprocess.Popen(
            [sys.executable, "-m", __name__, *arguments],
            cwd=ROOT, env={**os.environ, **env}, stdout=out, stderr=err,
        )  # fmt: skip


class Trace:
    def __init__(self, text: str) -> None:
        """`text` is in the bytes of the order only."""
        self._text = text.encode()
        self._modules: dict[CodeType, str] = {}
        self._way = ""
        self.found: dict[str, set[str]] = {}
        self.active = False
        self._applied = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if not self.active or event not in {"call", "return"} or not (module := self._module(code)):
            return
        point = (module, code.co_name)
        if event == "call":
            self._enter(point, frame)
        elif point == STORED and self._way == ACKNOWLEDGED:
            self._way = ""  # the service process goes on

    def _enter(self, point: Point, frame: FrameType) -> None:
        module, _ = point
        if point in TASKS:
            _task_of.set(TASKS[point])
        if not self.found and module.startswith("mllp/") and self._has_text(frame):
            self._begin(ACKNOWLEDGED)
        elif point == CLAIMED and self._way in {"", APPLIED} and not self._applied:
            self._begin(APPLIED)  # again for each claim, until one has a message
        elif self._way == APPLIED == _task_of.get() and module.startswith("bridge/engine/"):
            self._way, self._applied = "", True
        elif point == CHANGED and self._way in {"", SENT} and self._applied:
            self._begin(SENT)  # again for each page, until one has a release
        self._count(module)
        if self._way == SENT and point == REPLIED:
            self._way = "done"
            self.found["done"] = set()

    def _count(self, module: str) -> None:
        belongs = self._way in {ACKNOWLEDGED, _task_of.get()}
        if self._way and belongs and not module.startswith((*BACKGROUND, "bridge/engine/")):
            self.found[self._way].add(module)

    def _begin(self, way: str) -> None:
        self._way = way
        self.found[way] = set()

    def _has_text(self, frame: FrameType) -> bool:
        return any(
            isinstance(value, bytes | bytearray) and self._text in value
            for value in frame.f_locals.values()
        )

    def _module(self, code: CodeType) -> str:
        if code not in self._modules:
            path = Path(code.co_filename)
            ours = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in PACKAGES
            self._modules[code] = str(path.relative_to(ROOT)) if ours else ""
        return self._modules[code]

    def begin(self, file: Path) -> None:
        """Trace this thread, and the others that began after `main`."""
        self.active = True
        sys.setprofile(self)
        self.write(file)

    def write(self, file: Path) -> None:
        file.write_text(json.dumps({name: sorted(item) for name, item in self.found.items()}))


def main() -> None:
    """Run `bridge` in this process."""
    trace, file = Trace(os.environ[TEXT]), Path(f"{os.environ[FILE]}.{os.getpid()}")
    threading.setprofile(trace)
    signal.signal(signal.SIGUSR1, lambda *_: trace.begin(file))
    atexit.register(trace.write, file)
    run()


if __name__ == "__main__":
    main()
