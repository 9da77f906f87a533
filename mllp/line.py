"""
The payloads that wait to be sent, first come first served.

Knows no connection.
"""

from collections import deque
from collections.abc import Callable

from twisted.internet.defer import Deferred

from mllp.errors import MLLPError, NotConnected
from mllp.framing import checked_frame


class Job:
    """One payload, and who waits for its reply."""

    __slots__ = ("framed", "payload", "reply")

    def __init__(self, payload: bytes, withdraw: Callable[["Job"], None]) -> None:
        self.payload = payload
        self.framed = checked_frame(payload)
        self.reply: Deferred[bytes] = Deferred(lambda _: withdraw(self))

    def fail(self, error: MLLPError) -> None:
        """Tell that there is no reply, unless nobody waits any more."""
        if not self.reply.called:
            self.reply.errback(error)


class Line:
    """Jobs in the order they came."""

    __slots__ = ("_jobs",)

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()

    def __len__(self) -> int:
        return len(self._jobs)

    def join(self, job: Job) -> None:
        """Stand at the end."""
        self._jobs.append(job)

    def first(self) -> Job:
        """Take the job whose turn it is."""
        return self._jobs.popleft()

    def leave(self, job: Job) -> None:
        """Take a job out, wherever it stands; no matter if it is not there."""
        if job in self._jobs:
            self._jobs.remove(job)

    def dissolve(self, cause: str) -> None:
        """Tell all, in order, that nothing was sent."""
        jobs, self._jobs = self._jobs, deque()
        for job in jobs:
            job.fail(NotConnected(cause))
