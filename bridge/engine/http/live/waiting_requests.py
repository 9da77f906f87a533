"""
Limits for requests that wait: event streams and long polls, for each caller and in total.

Each waiting request holds a connection. Without a limit one account could hold all of them.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from bridge.engine.http.requests.problems import HttpProblem, Problem

STREAMS, STREAMS_EACH = 400, 32
"""Event streams of a process, and of one account."""

POLLS, POLLS_EACH = 200, 16
"""Long polls of a process, and of one token or account."""


class WaitingRequests:
    """Counts the waiting requests of each caller."""

    def __init__(self, total: int, each: int) -> None:
        self._total = total
        self._each = each
        self._callers: Counter[str] = Counter()

    def require_room(self, caller: str) -> None:
        """Raise 429 if the caller is at its limit, and 503 if the process is."""
        if self._callers[caller] >= self._each:
            raise _refusal(429, "too_many_waiting", "too many requests of this caller wait")
        if self._callers.total() >= self._total:
            raise _refusal(503, "overloaded", "too many requests wait")

    @contextmanager
    def counted(self, caller: str) -> Iterator[None]:
        """Count a request while it waits."""
        self._callers[caller] += 1
        try:
            yield
        finally:
            self._callers[caller] -= 1
            if not self._callers[caller]:
                del self._callers[caller]


def _refusal(status: int, code: str, detail: str) -> HttpProblem:
    headers = {"Retry-After": "5"}
    return HttpProblem(Problem(status, code, detail, headers=headers, retryable=True))
