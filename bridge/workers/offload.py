"""The worker process for large messages: a host of one process that runs our own functions.

Splitting, decoding or searching a large message holds the interpreter lock for milliseconds. In
a separate process it does not delay the service. It reads one message at a time, so that the
memory for large messages is bounded.
"""

import pickle
from collections.abc import Callable
from typing import Any

from bridge.workers import function_server
from bridge.workers.host import MEBIBYTE, WorkerHost

LARGE = 256 * 2**10
"""Bytes from which a message is large: stored in chunks, and read in the worker process."""
SECONDS = 120.0
"""Seconds for one answer."""
WAIT = 300.0
"""Seconds for which a call waits while other messages are read."""
MEMORY = 1024 * MEBIBYTE
"""Address space of the process; a message needs about five times its own size."""
_NICE = 10


class Offload(WorkerHost):
    """The process for large messages, started on demand."""

    def __init__(
        self, *, memory: int = MEMORY, idle: float = 60.0, seconds: float = SECONDS
    ) -> None:
        given = {"memory": memory, "nice": _NICE}
        super().__init__("large messages", function_server.__name__, given, size=1, idle=idle)
        self._seconds = seconds

    def run(self, function: Callable[..., Any], payload: bytes, *given: Any) -> Any:
        """
        Return the result of `function(payload, *given)` in the process, or raise its exception.

        `function` is a module's function; arguments and result must be picklable. Raises
        WorkerTimeout, WorkerBusy, WorkerFailed.
        """
        call = pickle.dumps((function, given))
        reply = self.ask(call, payload, seconds=self._seconds, wait=WAIT)
        good, answer = pickle.loads(reply)  # noqa: S301  # from our own process
        if good:
            return answer
        raise answer
