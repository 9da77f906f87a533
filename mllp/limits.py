"""
What connections may use: slots, memory, and read rate. Pure: opens no socket and reads no clock.

Used by MLLP listeners and by HL7 over HTTP.

**Admission**, in this order:

1. With an allow-list, other addresses are refused.
2. A source (an IPv4 address, or an IPv6 /64) with `per_source` connections gets another one only
   if one of its own idle connections is closed.
3. If all slots are taken, a connection of the source with most connections is closed: the longest
   idle one, or else the one whose frame has been unfinished the longest. If the limit of the
   process is reached, the connection may be one of another listener. The new connection's source
   must not have more connections than the other source. It must have less than half as many if the
   old connection has an unfinished frame, or has been idle for less than `SETTLED_SECONDS`.
4. A connection with unanswered frames is never closed.

**Memory** of all unfinished and unanswered frames of a process. Each connection has a
`MemoryAccount` and reports its bytes after each read and each reply. `RESERVE` bytes of each
connection are free, so that a sender of ordinary messages never waits. Further bytes are charged
to the connection's source and to the process:

* A source may use `SOURCE_SHARE` of the limit; the rest is for other sources.
* A connection that would exceed a limit stops reading (back-pressure) until memory is released. At
  any time one waiting connection may continue beyond the limit, or frames that block each other
  would never end. The frame's time limit ends the wait: the frame is refused.
* If the whole limit is used, a source that uses less than the heaviest one gets the memory of the
  largest unfinished frames of that source: these frames are refused at once.
"""

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Protocol
from weakref import WeakSet

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

SETTLED_SECONDS = 1.0
"""Seconds for which no source of equal weight displaces a new or just answered connection."""

_SEARCH_AGAIN_SECONDS = 0.1
"""
Seconds without a search after a failed one: sources with as many connections are refused, because
refusing a flood must be cheap.
"""

_IPV6_SITE = 64  # bits of the prefix; a host chooses the remaining bits itself


class AdmissionRefusal(StrEnum):
    """Why a connection was closed at accept."""

    NOT_ALLOWED = "not allowed"
    SOURCE_LIMIT = "too many connections from this address"
    LIMIT = "too many connections"
    DRAINING = "the listener is stopping"


class ConnectionActivity(IntEnum):
    IDLE = 0
    """No frame has begun and all frames are answered; also during the TLS handshake."""
    UNFINISHED = 1
    """A frame has begun; all complete frames are answered."""
    BUSY = 2
    """A frame waits for its reply."""


class AdmittedConnection(Protocol):
    """A connection that holds a slot."""

    @property
    def source(self) -> str:
        """Its source, as `source_of` returns it."""

    @property
    def since(self) -> float:
        """When it became idle, or its unfinished frame began (seconds of the caller's clock)."""

    @property
    def activity(self) -> ConnectionActivity:
        """What it is doing."""

    def evict(self) -> None:
        """Close it; its slot is needed for another connection."""


def source_of(host: str) -> str:
    """Return the source of an address: the IPv4 address, or the /64 of an IPv6 address."""
    try:
        address = _parse(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.IPv6Network((int(address), _IPV6_SITE), strict=False))


def _parse(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Parse an address; an IPv4-mapped IPv6 address is an IPv4 address. Raises ValueError."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


class SharedConnectionLimit:
    """The connections of all listeners of a process; `limit` 0 means unlimited."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.open = 0
        self.listeners: WeakSet[Admission] = WeakSet()

    @property
    def is_reached(self) -> bool:
        """Whether no listener may accept another connection."""
        return 0 < self.limit <= self.open


class Admission:
    """The slots of one listener; `limit` 0 and `per_source` 0 mean unlimited."""

    def __init__(
        self,
        limit: int,
        *,
        per_source: int = 0,
        allow: Sequence[Network] = (),
        shared_limit: SharedConnectionLimit | None = None,
    ) -> None:
        self._limit = limit
        self._per_source = per_source
        self._allow = tuple(allow)
        self._shared_limit = shared_limit or SharedConnectionLimit()
        self._shared_limit.listeners.add(self)
        self.connections: set[AdmittedConnection] = set()
        self.count_by_source: Counter[str] = Counter()
        self._refused_from, self._refused_at = 0, -_SEARCH_AGAIN_SECONDS

    def __len__(self) -> int:
        return len(self.connections)

    def request(self, host: str, now: float) -> AdmissionRefusal | None:
        """Decide on a new connection; may close another one to make room."""
        if self._allow and not self._is_allowed(host):
            return AdmissionRefusal.NOT_ALLOWED
        source = source_of(host)
        if host and 0 < self._per_source <= self.count_by_source[source]:
            own = [connection for connection in self.connections if connection.source == source]
            idle = (connection for connection in own if _is_settled_idle(connection, now))
            if not _evict_one(idle, self.count_by_source, [self]):
                return AdmissionRefusal.SOURCE_LIMIT
        if self._is_full and not self._make_room(source, now):
            return AdmissionRefusal.LIMIT
        return None

    def enter(self, connection: AdmittedConnection) -> None:
        self.connections.add(connection)
        self.count_by_source[connection.source] += 1
        self._shared_limit.open += 1

    def leave(self, connection: AdmittedConnection) -> None:
        """Take the slot back. Idempotent."""
        if connection not in self.connections:
            return
        self.connections.remove(connection)
        self._shared_limit.open -= 1
        self.count_by_source[connection.source] -= 1
        if not self.count_by_source[connection.source]:
            del self.count_by_source[connection.source]  # the table must not grow

    @property
    def _is_full(self) -> bool:
        return self._shared_limit.is_reached or self._is_own_limit_reached

    @property
    def _is_own_limit_reached(self) -> bool:
        return 0 < self._limit <= len(self.connections)

    def _is_allowed(self, host: str) -> bool:
        try:
            address = _parse(host)
        except ValueError:
            return False
        return any(address in network for network in self._allow)

    def _make_room(self, source: str, now: float) -> bool:
        listeners = [self] if self._is_own_limit_reached else list(self._shared_limit.listeners)
        counts = sum((listener.count_by_source for listener in listeners), Counter[str]())
        own = counts[source]
        if own >= self._refused_from and now - self._refused_at < _SEARCH_AGAIN_SECONDS:
            return False
        for activity in (ConnectionActivity.IDLE, ConnectionActivity.UNFINISHED):
            found = (connection for one in listeners for connection in one.connections)
            candidates = (connection for connection in found if connection.activity is activity)
            if _evict_one(_displaceable(candidates, counts, own, now), counts, listeners):
                return True
        self._refused_from, self._refused_at = own, now
        return False


def _displaceable(
    candidates: Iterable[AdmittedConnection], counts: Mapping[str, int], own: int, now: float
) -> Iterator[AdmittedConnection]:
    """Yield the connections that give way to a source with `own` connections."""
    for candidate in candidates:
        held = counts[candidate.source]
        # Sources of similar weight would take slots from each other without end.
        if held > 2 * (own + 1) or (held >= own and _is_settled_idle(candidate, now)):
            yield candidate


def _evict_one(
    candidates: Iterable[AdmittedConnection],
    counts: Mapping[str, int],
    listeners: Iterable[Admission],
) -> bool:
    """Close the longest waiting candidate of the source with most connections."""
    evicted = max(
        candidates, key=lambda candidate: (counts[candidate.source], -candidate.since), default=None
    )
    if evicted is None:
        return False
    for listener in listeners:
        listener.leave(evicted)
    evicted.evict()
    return True


def _is_settled_idle(connection: AdmittedConnection, now: float) -> bool:
    return (
        connection.activity is ConnectionActivity.IDLE and now - connection.since >= SETTLED_SECONDS
    )


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
        """Refuse unfinished frames of heavier sources, largest first; True if there is room."""
        while self.used > self.limit:
            heaviest = max(self._by_source, key=self._by_source.__getitem__)
            refused = max(
                (other for other in self._charged if other.source == heaviest and other.unfinished),
                key=lambda other: other.unfinished,
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
            while (account := self._first_with_room(promised)) is not None:
                promised += RESERVE
                self._resume(account)
            if self._over_limit is None and self._waiting:
                self._over_limit = min(
                    self._waiting, key=lambda account: self._by_source[account.source]
                )
                self._resume(self._over_limit)
        finally:
            self._waking = False

    def _first_with_room(self, promised: int) -> "MemoryAccount | None":
        return next(
            (account for account in self._waiting if self._has_room(account, promised)), None
        )

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
        """Set the bytes of complete frames and of the open one; True if more can be read."""
        self.unfinished = unfinished
        size = max(unanswered + unfinished - RESERVE, 0)
        self._budget.charge(self, size)
        return not size or self._budget.admits(self)

    def close(self) -> None:
        """Release everything."""
        self.unfinished = 0
        self._budget.charge(self, 0)


LARGE_FRAME_RATE = 16 * 2**20
"""Bytes per second of all large frames together: a frame of 16 MiB takes a second."""

UNCONTENDED_FACTOR = 2.0
"""Large frames are read faster by this factor while no ordinary frames arrive."""

SAMPLE_SECONDS = 1.0
"""Interval at which the arrival of ordinary frames is checked."""

MIN_PAUSE_SECONDS = 0.0005
"""Shorter pauses are postponed: they would cost more than they save."""


class ReadThrottle:
    """
    Limits the rate at which large frames are read, so that other connections are also
    served.

    A sender on a fast network fills a large frame as fast as it is read. Times are the caller's,
    in seconds.
    """

    __slots__ = (
        "_free_at",
        "_is_uncontended",
        "_rate",
        "_sampled_at",
        "_seen",
        "ordinary_frames",
    )

    def __init__(self, rate: float = LARGE_FRAME_RATE) -> None:
        self.ordinary_frames = 0
        """Ordinary frames that have arrived; sessions count them."""
        self._rate = rate
        self._free_at = 0.0  # time at which the bytes read so far are due at this rate
        self._is_uncontended, self._seen, self._sampled_at = False, 0, 0.0

    def pause_after(self, size: int, now: float) -> float:
        """Record that `size` bytes were read; return the seconds to pause before the next read."""
        passed = now - self._sampled_at
        if passed >= SAMPLE_SECONDS:
            self._is_uncontended = (
                passed < 2 * SAMPLE_SECONDS and self.ordinary_frames == self._seen
            )
            self._seen, self._sampled_at = self.ordinary_frames, now
        rate = self._rate * UNCONTENDED_FACTOR if self._is_uncontended else self._rate
        self._free_at = max(self._free_at, now) + size / rate
        pause = self._free_at - now
        return pause if pause >= MIN_PAUSE_SECONDS else 0.0


class SharedWindow:
    """
    Counts the unanswered frames of a listener.

    A flood over many connections would otherwise put thousands of frames before those of others.
    """

    __slots__ = ("_limit", "_window", "unanswered")

    def __init__(self, window: int, limit: int) -> None:
        """`window` is that of one connection, `limit` that of all together."""
        self._window, self._limit = window, limit
        self.unanswered = 0

    @property
    def size(self) -> int:
        """How many unanswered frames a connection may have now."""
        return self._window if self.unanswered < self._limit else 1
