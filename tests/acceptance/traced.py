"""
`bridge …` that notes which of our modules get a message's bytes as an argument of a function.

A message is recognized by texts that its bytes contain. The trace begins with SIGUSR1, after which
its file exists; the modules are written to it when the process ends.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType

from bridge.cli import main as run
from tests.acceptance.forked import ROOT, Running

FILE, TEXTS = "TRACED_FILE", "TRACED_TEXTS"
PACKAGES = ("bridge", "mllp", "mappings")


def traced(arguments: Sequence[str], env: Mapping[str, str], output: Path, errors: Path) -> Running:
    """Start `bridge` with the trace."""
    with output.open("ab") as out, errors.open("ab") as err:
        return subprocess.Popen(
            [sys.executable, "-m", __name__, *arguments],
            cwd=ROOT, env={**os.environ, **env}, stdout=out, stderr=err,
        )  # fmt: skip


class Trace:
    def __init__(self, messages: Mapping[str, Sequence[str]]) -> None:
        """`messages` has the texts of each message, by its name."""
        self._texts = {name: [each.encode() for each in texts] for name, texts in messages.items()}
        self._modules: dict[CodeType, str] = {}
        self.found: dict[str, set[str]] = {name: set() for name in messages}
        self.active = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if not self.active or event != "call" or not (module := self._module(code)):
            return
        given = frame.f_locals
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            value = given.get(name)
            if isinstance(value, bytes | bytearray):
                for message, texts in self._texts.items():
                    if all(text in value for text in texts):
                        self.found[message].add(module)

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
        """Write the modules of each message."""
        file.write_text(json.dumps({name: sorted(each) for name, each in self.found.items()}))


def main() -> None:
    """Run `bridge` in this process."""
    trace, file = Trace(json.loads(os.environ[TEXTS])), Path(os.environ[FILE])
    threading.setprofile(trace)
    signal.signal(signal.SIGUSR1, lambda *_: trace.begin(file))
    atexit.register(trace.write, file)
    run()


if __name__ == "__main__":
    main()
