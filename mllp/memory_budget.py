"""The memory that all unfinished and unanswered frames of a process may use together.

Pure. Each connection has a `MemoryAccount` and reports its bytes after each read and each reply.
`RESERVE` bytes of each connection are free, so that a sender of ordinary messages never waits.
Further bytes are charged to the connection's source and to the process:

* A source may use `SOURCE_SHARE` of the limit; the rest is for other sources.
* A connection that would exceed a limit stops reading (back-pressure) until memory is released. At
  any time one waiting connection may continue beyond the limit, or frames that block each other
  would never end. The frame's time limit ends the wait: the frame is refused.
* If the whole limit is used, a source that uses less than the heaviest one gets the memory of the
  largest unfinished frames of that source: these frames are refused at once.
"""

from collections import Counter
from collections.abc import Callable

RESERVE = 64 * 2**10
"""Bytes of each connection that are not charged, and the most that one socket read returns."""

DEFAULT_FRAME_MEMORY = 256 * 2**20

SOURCE_SHARE = 0.625
"""160 MiB of 256: ten unfinished frames of the largest default size, from one interface engine."""


class FrameBudget:
    """The limit in bytes, and the bytes in use by source."""

    def __init__(self, limit: int = DEFAULT_FRAME_MEMORY) -> None:
        self.limit = limit
        self.used = 0
        self._by_source: Counter[str] = Counter()
        self._charged: dict[MemoryAccount, None] = {}  # ordered: of equals, the oldest is refused
        self._waiting: dict[MemoryAccount, None] = {}  # in order of arrival
        self._over_limit: MemoryAccount | None = None  # continues beyond the limit
        self._waking = False

    def account(
        self, source: str, *, resume: Callable[[], object], refuse: Callable[[], object]
    ) -> "MemoryAccount":
        """Open a connection's account: `resume` continues reading, `refuse` abandons its frame."""
        return MemoryAccount(self, source, resume, refuse)

    @property
    def waiting(self) -> int:
        """How many connections wait for memory."""
        return len(self._waiting)

    def charge(self, account: "MemoryAccount", size: int) -> None:
        """Set the bytes of a connection; if they decrease, wake waiting connections."""
        change = size - account.charged
        if not change:
            return
        account.charged = size
        self.used += change
        self._by_source[account.source] += change
        if size:
            self._charged.setdefault(account)
        else:
            self._charged.pop(account, None)
            self._waiting.pop(account, None)
            if self._over_limit is account:
                self._over_limit = None
            if not self._by_source[account.source]:
                del self._by_source[account.source]  # sources come and go
        if change < 0 and self._waiting:
            self._wake()

    def admits(self, account: "MemoryAccount") -> bool:
        """Whether a connection may continue to read; if not, it is resumed later."""
        if self._has_room(account, 0) or self._over_limit is account or self._reclaim(account):
            self._waiting.pop(account, None)
            return True
        if self._over_limit is None and not self._waiting:
            self._over_limit = account
            return True
        self._waiting.setdefault(account)
        return False

    def _has_room(self, account: "MemoryAccount", promised: int) -> bool:
        share = self.limit * SOURCE_SHARE
        return self.used + promised <= self.limit and self._by_source[account.source] <= share

    def _reclaim(self, account: "MemoryAccount") -> bool:
        """
        Refuse unfinished frames of heavier sources, largest first; tell whether there is room
        now.
        """
        while self.used > self.limit:
            heaviest = max(self._by_source, key=self._by_source.__getitem__)
            refused = max(
                (each for each in self._charged if each.source == heaviest and each.unfinished),
                key=lambda each: each.unfinished,
                default=None,
            )
            lighter = self._by_source[account.source] < self._by_source[heaviest]
            if refused is None or not lighter:
                return False
            refused.refuse()
        return self._has_room(account, 0)

    def _wake(self) -> None:
        """Resume connections that have room, in order of arrival, and one beyond the limit."""
        if self._waking:  # a resumed connection may release memory itself: this prevents recursion
            return
        self._waking, promised = True, 0
        try:
            while (each := self._first_with_room(promised)) is not None:
                promised += RESERVE
                self._resume(each)
            if self._over_limit is None and self._waiting:
                self._over_limit = min(self._waiting, key=lambda each: self._by_source[each.source])
                self._resume(self._over_limit)
        finally:
            self._waking = False

    def _first_with_room(self, promised: int) -> "MemoryAccount | None":
        return next((each for each in self._waiting if self._has_room(each, promised)), None)

    def _resume(self, account: "MemoryAccount") -> None:
        self._waiting.pop(account, None)
        account.resume()


class MemoryAccount:
    """The bytes that one connection holds in memory."""

    __slots__ = ("_budget", "charged", "refuse", "resume", "source", "unfinished")

    def __init__(
        self,
        budget: FrameBudget,
        source: str,
        resume: Callable[[], object],
        refuse: Callable[[], object],
    ) -> None:
        self._budget = budget
        self.source = source
        self.resume = resume
        self.refuse = refuse
        self.charged = 0
        self.unfinished = 0
        """Bytes of the open frame: what a refusal would release."""

    def report(self, unanswered: int, unfinished: int) -> bool:
        """Set the bytes of complete frames and of the open one; tell whether to read on."""
        self.unfinished = unfinished
        size = max(unanswered + unfinished - RESERVE, 0)
        self._budget.charge(self, size)
        return not size or self._budget.admits(self)

    def close(self) -> None:
        """Release everything."""
        self.unfinished = 0
        self._budget.charge(self, 0)
