"""
The worker process for large messages: a host of one process that runs our own functions.

Calls that split, decode or search a large message hold the interpreter for milliseconds. In a
process of their own nobody else waits for them. One message at a time is read there, so that the
memory that large messages need is bounded.
"""

import pickle
from collections.abc import Callable
from typing import Any

from bridge.workers import trusted
from bridge.workers.host import MEBIBYTE, WorkerHost

LARGE = 256 * 2**10
"""Bytes from which a message is large: stored in chunks, and read in the worker process."""
SECONDS = 120.0
"""Seconds that one answer may take."""
WAIT = 300.0
"""Seconds that a call waits while other messages are read."""
MEMORY = 1024 * MEBIBYTE
"""Address space of the process; a message needs about five times its own size."""
_NICE = 10


class Offload(WorkerHost):
    """The process for large messages, whether it runs just now or not."""

    def __init__(
        self, *, memory: int = MEMORY, idle: float = 60.0, seconds: float = SECONDS
    ) -> None:
        given = {"memory": memory, "nice": _NICE}
        super().__init__("large messages", trusted.__name__, given, size=1, idle=idle)
        self._seconds = seconds

    def run(self, function: Callable[..., Any], payload: bytes, *given: Any) -> Any:
        """
        Give what `function(payload, *given)` gives in the process, or raise what it raises.

        `function` is one of a module; what is given and returned can be pickled. Raises
        WorkerTimeout, WorkerBusy, WorkerFailed.
        """
        call = pickle.dumps((function, given))
        reply = self.ask(call, payload, seconds=self._seconds, wait=WAIT)
        good, answer = pickle.loads(reply)  # noqa: S301  # our own process's
        if good:
            return answer
        raise answer
