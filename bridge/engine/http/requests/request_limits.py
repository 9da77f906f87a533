"""
Limits of requests that wait.

Each waiting request holds a connection: an event stream or a long poll. Without a limit one account
could hold all of them.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError

STREAMS, STREAMS_EACH = 400, 32
"""Event streams of a process, and of one account."""

POLLS, POLLS_EACH = 200, 16
"""Long polls of a process, and of one token or account."""


class WaitingRequests:
    def __init__(self, total: int, per_caller: int) -> None:
        self._total = total
        self._per_caller = per_caller
        self._callers: Counter[str] = Counter()

    def require_room(self, caller: str) -> None:
        """Raise 429 if the caller is at its limit, and 503 if the process is."""
        if self._callers[caller] >= self._per_caller:
            raise _refusal(ErrorCode.TOO_MANY_WAITING)
        if self._callers.total() >= self._total:
            raise _refusal(ErrorCode.OVERLOADED, "too many requests wait")

    @contextmanager
    def counted(self, caller: str) -> Iterator[None]:
        self._callers[caller] += 1
        try:
            yield
        finally:
            self._callers[caller] -= 1
            if not self._callers[caller]:
                del self._callers[caller]


def _refusal(code: ErrorCode, detail: str = "") -> EngineError:
    return EngineError(code, detail, headers={"Retry-After": "5"})
