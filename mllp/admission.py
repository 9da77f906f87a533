"""
Admission control of a listener: allow-list, connection limits, and eviction of idle connections.

Opens no socket and reads no clock: the caller asks for each new connection, and the controller
closes others to make room. Used by MLLP listeners and by HL7 over HTTP.

Rules, in this order:

1. With an allow-list, other addresses are refused.
2. A source (an IPv4 address, or an IPv6 /64) that holds `per_source` connections gets a further
   one only by giving up an idle one of its own.
3. When all slots are taken, the source that holds most connections gives one up: the longest idle
   one, or, where none is idle, the one whose frame has been unfinished the longest. A source gives
   way only to sources that hold no more connections than itself, and an unfinished frame, or what
   has been idle for less than `SETTLED` seconds, only to sources that hold less than half as many.
4. A connection with frames that wait for their reply is never closed.
"""

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum, StrEnum
from typing import Protocol

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

SETTLED = 1.0
"""Seconds for which a new or just answered connection is not closed in favour of its equals."""

_REFUSE_AGAIN = 0.1
"""Seconds in which no connection is looked for again for sources that hold as many as one that got
none: to refuse a flood must cost little."""

_IPV6_SITE = 64  # bits: a host chooses the others itself


class Refusal(StrEnum):
    """Why a connection was closed at accept."""

    NOT_ALLOWED = "not allowed"
    SOURCE_LIMIT = "too many connections from this address"
    LIMIT = "too many connections"
    DRAINING = "the listener is stopping"


class Activity(IntEnum):
    """What a connection is doing."""

    IDLE = 0
    """No frame has begun, and no reply is owed; also during the TLS handshake."""
    UNFINISHED = 1
    """A frame has begun; no reply is owed."""
    BUSY = 2
    """A reply is owed."""


class Occupant(Protocol):
    """A connection that holds a slot."""

    @property
    def source(self) -> str:
        """Whose it is, by `source_of`."""

    @property
    def since(self) -> float:
        """When it became idle, or when its unfinished frame began (s of the caller's clock)."""

    @property
    def activity(self) -> Activity:
        """What it is doing."""

    def evict(self) -> None:
        """Close; the slot has been given away."""


def source_of(host: str) -> str:
    """Return the unit that is counted: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        address = _parse(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.IPv6Network((int(address), _IPV6_SITE), strict=False))


def _parse(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Read an address; one of IPv4 that IPv6 carries is one of IPv4. Raises ValueError."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


class Ceiling:
    """Connections of all listeners of a process together; `limit` 0: unlimited."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.open = 0

    @property
    def is_reached(self) -> bool:
        """Whether no listener may take a further connection."""
        return 0 < self.limit <= self.open


class Admission:
    """The slots of one listener; `limit` 0 and `per_source` 0 mean unlimited."""

    def __init__(
        self,
        limit: int,
        *,
        per_source: int = 0,
        allow: Sequence[Network] = (),
        ceiling: Ceiling | None = None,
    ) -> None:
        self._limit = limit
        self._per_source = per_source
        self._allow = tuple(allow)
        self._ceiling = ceiling or Ceiling()
        self._occupants: set[Occupant] = set()
        self._held: Counter[str] = Counter()
        self._refused_from, self._refused_at = 0, -_REFUSE_AGAIN

    def __len__(self) -> int:
        return len(self._occupants)

    def request(self, host: str, now: float) -> Refusal | None:
        """Decide on a new connection, closing another where that makes room."""
        if self._allow and not self._is_allowed(host):
            return Refusal.NOT_ALLOWED
        source = source_of(host)
        if host and 0 < self._per_source <= self._held[source]:
            own = [each for each in self._occupants if each.source == source]
            if not self._give_up(each for each in own if _is_settled_idle(each, now)):
                return Refusal.SOURCE_LIMIT
        if self._is_full and not self._make_room(source, now):
            return Refusal.LIMIT
        return None

    def enter(self, occupant: Occupant) -> None:
        """Give a slot to a connection that has been admitted."""
        self._occupants.add(occupant)
        self._held[occupant.source] += 1
        self._ceiling.open += 1

    def leave(self, occupant: Occupant) -> None:
        """Take the slot back; nothing happens if it has been taken already."""
        if occupant not in self._occupants:
            return
        self._occupants.remove(occupant)
        self._ceiling.open -= 1
        self._held[occupant.source] -= 1
        if not self._held[occupant.source]:
            del self._held[occupant.source]  # sources come and go: the table must not grow

    @property
    def _is_full(self) -> bool:
        return self._ceiling.is_reached or 0 < self._limit <= len(self._occupants)

    def _is_allowed(self, host: str) -> bool:
        try:
            address = _parse(host)
        except ValueError:
            return False
        return any(address in network for network in self._allow)

    def _make_room(self, source: str, now: float) -> bool:
        own = self._held[source]
        if own >= self._refused_from and now - self._refused_at < _REFUSE_AGAIN:
            return False
        for activity in (Activity.IDLE, Activity.UNFINISHED):
            if self._give_up(self._candidates(activity, own, now)):
                return True
        self._refused_from, self._refused_at = own, now
        return False

    def _candidates(self, activity: Activity, own: int, now: float) -> Iterator[Occupant]:
        for each in self._occupants:
            if each.activity is not activity:
                continue
            held = self._held[each.source]
            # Sources of about equal weight would only take places from each other, without end.
            if held > 2 * (own + 1) or (held >= own and _is_settled_idle(each, now)):
                yield each

    def _give_up(self, candidates: Iterable[Occupant]) -> bool:
        """Close the one of the source with most connections that has been so the longest."""
        victim = max(
            candidates, key=lambda each: (self._held[each.source], -each.since), default=None
        )
        if victim is None:
            return False
        self.leave(victim)
        victim.evict()
        return True


def _is_settled_idle(occupant: Occupant, now: float) -> bool:
    return occupant.activity is Activity.IDLE and now - occupant.since >= SETTLED
