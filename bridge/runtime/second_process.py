"""The process of a second engine, as its parent has it. Blocking, but for `kill`: for a thread."""

import os
import pickle
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from bridge import __version__
from bridge.runtime.web import bind
from config import Settings
from config.quantities import Address

HOST = "127.0.0.1"
NEVER_BEGAN = -1
"""The status of one that could not be started."""
_COMPUTED = 2  # of a process's clocks the one of the scheduler, as Linux counts them


class EngineProcess:
    """
    One process, the pipe that it lives by, and the socket on which it listens.

    The socket is ours too, so that nobody else ever listens there while it is asked.
    """

    def __init__(self, settings: Settings, mark: str) -> None:
        self._told = (settings, mark)
        self._listening = bind(Address(f"{HOST}:0"))
        self.port: int = self._listening.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._unwanted = False
        self._has_begun = False
        self._over = threading.Event()

    @property
    def pid(self) -> int | None:
        """Its number, once it has one."""
        return None if self._process is None else self._process.pid

    def computed(self) -> float:
        """Give the seconds of a processor that it has used; 0 where nobody says."""
        if self._process is None:
            return 0.0
        try:
            return time.clock_gettime(~self._process.pid << 3 | _COMPUTED)
        except OSError:  # it has ended
            return 0.0

    def begin(self) -> bool:
        """Start it; tell whether it is ready."""
        try:
            said, say = os.pipe()
        except OSError:  # no descriptor left
            return False
        with os.fdopen(said, "rb") as ready:
            try:
                self._process = process = self._started(say)
            except OSError:
                return False
            finally:
                os.close(say)
            with suppress(OSError, ValueError):  # it has ended, or was ended meanwhile
                assert process.stdin is not None  # noqa: S101  # it is a pipe
                process.stdin.write(f"{__version__}\n".encode() + pickle.dumps(self._told))
                process.stdin.flush()
            if self._unwanted:
                self.kill()
            self._has_begun = bool(ready.read(1))
            return self._has_begun

    def wait(self) -> int:
        """Wait until it has ended; give its status."""
        status = NEVER_BEGAN if self._process is None else self._process.wait()
        self.end()
        self._listening.close()
        self._over.set()
        return status

    def end(self) -> None:
        """Let it finish what is in hand, and end."""
        self._unwanted = True
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def kill(self) -> None:
        """End it now."""
        self._unwanted = True
        if self._process is not None:
            self._process.kill()

    def finish(self, patience: float) -> None:
        """Let it end, or end it; one that is not ready has nothing in hand."""
        if not self._has_begun:
            self.kill()
        self.end()
        if not self._over.wait(patience):
            self.kill()
            self._over.wait()

    def _started(self, say: int) -> subprocess.Popen[bytes]:
        listening = self._listening.fileno()
        path = os.pathsep.join(each or str(Path.cwd()) for each in sys.path)
        # -P: where we were started may be anybody's folder, and is in `path` if it was in ours.
        return subprocess.Popen(  # noqa: S603  # our own interpreter, and two numbers
            [sys.executable, "-P", "-m", "bridge.runtime.second_engine", str(listening), str(say)],
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            pass_fds=(listening, say),
            start_new_session=True,
        )
