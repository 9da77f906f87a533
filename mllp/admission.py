"""
Admission control of a listener: allow-list, connection limits, and eviction of idle connections.

Opens no socket and reads no clock: the caller asks for each new connection. Used by MLLP listeners
and by HL7 over HTTP.

Rules, in this order:

1. With an allow-list, other addresses are refused.
2. A source (an IPv4 address, or an IPv6 /64) with `per_source` connections gets another one only
   if one of its own idle connections is closed.
3. If all slots are taken, a connection of the source with most connections is closed: the longest
   idle one, or else the one whose frame has been unfinished the longest. If the limit of the
   process is reached, the connection may be one of another listener. The new connection's source
   must not have more connections than the other source. It must have less than half as many if the
   old connection has an unfinished frame, or has been idle for less than `SETTLED_SECONDS`.
4. A connection with unanswered frames is never closed.
"""

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
            own = [each for each in self.connections if each.source == source]
            idle = (each for each in own if _is_settled_idle(each, now))
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
        counts = sum((each.count_by_source for each in listeners), Counter[str]())
        own = counts[source]
        if own >= self._refused_from and now - self._refused_at < _SEARCH_AGAIN_SECONDS:
            return False
        for activity in (ConnectionActivity.IDLE, ConnectionActivity.UNFINISHED):
            found = (each for one in listeners for each in one.connections)
            candidates = (each for each in found if each.activity is activity)
            if _evict_one(_displaceable(candidates, counts, own, now), counts, listeners):
                return True
        self._refused_from, self._refused_at = own, now
        return False


def _displaceable(
    candidates: Iterable[AdmittedConnection], counts: Mapping[str, int], own: int, now: float
) -> Iterator[AdmittedConnection]:
    """Yield the connections that give way to a source with `own` connections."""
    for each in candidates:
        held = counts[each.source]
        # Sources of similar weight would take slots from each other without end.
        if held > 2 * (own + 1) or (held >= own and _is_settled_idle(each, now)):
            yield each


def _evict_one(
    candidates: Iterable[AdmittedConnection],
    counts: Mapping[str, int],
    listeners: Iterable[Admission],
) -> bool:
    """Close the longest waiting candidate of the source with most connections."""
    evicted = max(candidates, key=lambda each: (counts[each.source], -each.since), default=None)
    if evicted is None:
        return False
    for each in listeners:
        each.leave(evicted)
    evicted.evict()
    return True


def _is_settled_idle(connection: AdmittedConnection, now: float) -> bool:
    return (
        connection.activity is ConnectionActivity.IDLE and now - connection.since >= SETTLED_SECONDS
    )
