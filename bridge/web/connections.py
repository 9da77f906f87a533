"""
HTTP connections of a process: limits on their number, and which one is closed for a new one.

A connection has one of three ranks. `BUSY`: the application works on its request. `STALLED`: the
client still sends the body, or does not read the response. `IDLE`: no request has begun, or its
head is incomplete. Beyond a limit, a connection is closed for the new one: the oldest stalled one
if most are stalled, else the oldest idle one. So a flood of one kind closes its own connections. A
busy one is never closed. If all are busy, the new connection may ask for health and metrics only.
"""

import asyncio
import ipaddress
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from bridge.network_source import parse_address, source_of_parsed

RESERVED = 32
"""Connections beyond `HttpLimits.connections`, for probes."""

STARTS_PER_TURN = 4
"""Requests that are started in one iteration of the event loop."""

PROBE_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})

_LONGEST_SWEEP, _SHORTEST_SWEEP = 1.0, 0.02  # seconds between two checks of the time limits
_SWEEPS_PER_TIMEOUT = 4
_REPORT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """
    Limits of one HTTP listener; durations in seconds, `body_rate` in bytes per second.

    A connection may be `silent` before its first request, and `idle` between two.

    After a response that precedes the end of its request, input is discarded until one of the
    limits `linger` and `linger_bytes`: an early reset could destroy the response. `proxies` are
    networks whose connections do not count against `per_source`.
    """

    connections: int = 1000
    per_source: int = 250
    silent: float = 10.0
    head: float = 10.0
    body: float = 10.0
    body_rate: int = 16 * 2**10
    idle: float = 75.0
    write: float = 30.0
    linger: float = 5.0
    linger_bytes: int = 2**20
    proxies: tuple[str, ...] = ()


class Rank(IntEnum):
    """How readily a connection is closed for a new one."""

    BUSY = 0
    STALLED = 1
    IDLE = 2


@dataclass(slots=True, eq=False)
class HttpConnection:
    """A connection; `scope["state"]["connection"]` of its requests."""

    peer: str
    expire: Callable[[float], str]
    """Closes the connection if a time limit has passed; returns the reason, or ''."""
    abort: Callable[[], object]
    """Closes the connection without a response."""
    rank: Rank = Rank.IDLE
    surplus: bool = False
    """Whether it is beyond a limit, so that it may ask for probes only."""
    is_open: bool = True


class _EvictionOrder:
    """Connections that may be closed, by rank; in each rank the oldest first."""

    def __init__(self) -> None:
        self._by_rank: dict[Rank, OrderedDict[HttpConnection, None]] = {
            Rank.IDLE: OrderedDict(),
            Rank.STALLED: OrderedDict(),
        }

    def add(self, connection: HttpConnection, rank: Rank) -> None:
        self.remove(connection)
        if rank in self._by_rank:
            self._by_rank[rank][connection] = None

    def remove(self, connection: HttpConnection) -> None:
        for connections in self._by_rank.values():
            connections.pop(connection, None)

    def first(self, other_than: HttpConnection) -> HttpConnection | None:
        """Return the connection to close first: the oldest of the rank with most connections."""
        ranks = sorted(self._by_rank.values(), key=len, reverse=True)
        return next((found for rank in ranks for found in rank if found is not other_than), None)


class HttpConnections:
    """Counts connections in total and per source address, and ends those that take too long."""

    def __init__(
        self, limits: HttpLimits, note: Callable[[str], None] = lambda _: None, log: Any = None
    ) -> None:
        """
        `note` is called with the reason of each connection that is refused or closed.

        `log`, if there is one, gets a line for each reason once a minute.
        """
        self.limits = limits
        self._note = note
        self._proxies = tuple(ipaddress.ip_network(proxy, strict=False) for proxy in limits.proxies)
        self._sources: dict[HttpConnection, str] = {}
        self._counts: Counter[str] = Counter()
        self._order = _EvictionOrder()
        self._order_of: dict[str, _EvictionOrder] = {}
        self._surplus: set[HttpConnection] = set()
        self._queues: OrderedDict[str, deque[tuple[HttpConnection, asyncio.Future[bool]]]] = (
            OrderedDict()
        )
        self._begun = 0  # requests started in this iteration of the event loop
        self._turn_ends = False  # whether `_end_turn` is scheduled
        self._timer: asyncio.TimerHandle | None = None
        self._closed: Counter[str] = Counter()
        self._reported = 0.0
        self._log = log

    def __len__(self) -> int:
        return len(self._sources)

    def add(self, connection: HttpConnection) -> None:
        """Register a new connection; another one, or this one, may be closed for it."""
        source = self._source(connection.peer)
        self._sources[connection] = source
        self._counts[source] += 1
        self._order_of.setdefault(source, _EvictionOrder())
        self.rank(connection, connection.rank)
        self._arm()
        if source and self._counts[source] > self.limits.per_source:
            self._make_room(self._order_of[source], connection)
        elif self._regular() > self.limits.connections:
            self._make_room(self._order, connection)

    def remove(self, connection: HttpConnection) -> None:
        """Forget a connection that has ended."""
        source = self._sources.pop(connection, None)
        if source is None:
            return
        self._order.remove(connection)
        self._order_of[source].remove(connection)
        self._surplus.discard(connection)
        self._counts[source] -= 1
        if not self._counts[source]:
            del self._counts[source], self._order_of[source]

    def rank(self, connection: HttpConnection, rank: Rank) -> None:
        """Record that the rank of a connection has changed."""
        source = self._sources.get(connection)
        if source is not None:
            self._order.add(connection, rank)
            self._order_of[source].add(connection, rank)

    def admits(self, connection: HttpConnection, path: str) -> bool:
        """True if a connection may send this request: a surplus one asks for probes only."""
        if not connection.surplus or path in PROBE_PATHS:
            return True
        source = self._sources.get(connection, "")
        full = self._regular() >= self.limits.connections
        if full or (source and self._counts[source] > self.limits.per_source):
            self.count_closed("no_room")
            return False
        connection.surplus = False
        self._surplus.discard(connection)
        return True

    async def turn(self, connection: HttpConnection, path: str) -> bool:
        """
        Wait until a request may start: few do in one iteration of the loop, sources in rotation.

        Probes start at once. Health, metrics and MLLP therefore wait for a few requests only.
        Returns False if the connection has ended.
        """
        loop = asyncio.get_running_loop()
        if not self._turn_ends:
            self._turn_ends = True
            loop.call_soon(self._end_turn)
        if path in PROBE_PATHS or (not self._queues and self._begun < STARTS_PER_TURN):
            self._begun += 1
            return connection in self._sources
        source = self._sources.get(connection, "")
        starts: asyncio.Future[bool] = loop.create_future()
        self._queues.setdefault(source, deque()).append((connection, starts))
        return await starts

    def _end_turn(self) -> None:
        self._begun, self._turn_ends = 0, False
        while self._queues and self._begun < STARTS_PER_TURN:
            source, queue = self._queues.popitem(last=False)
            connection, starts = queue.popleft()
            if queue:
                self._queues[source] = queue  # at the end of the rotation
            is_open = connection in self._sources
            self._begun += is_open
            if not starts.done():  # the server cancels tasks when it stops
                starts.set_result(is_open)
        if self._queues or self._begun:
            self._turn_ends = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    def count_closed(self, reason: str) -> None:
        """Count a connection that the server refused or closed."""
        if self._log is not None:
            self._closed[reason] += 1
        self._note(reason)

    def stop(self) -> None:
        """Stop checking the time limits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _regular(self) -> int:
        """Return the number of connections that are within the limits."""
        return len(self._sources) - len(self._surplus)

    def _make_room(self, order: _EvictionOrder, connection: HttpConnection) -> None:
        """Close a connection for a new one, or let the new one ask for probes only."""
        victim = order.first(connection)
        if victim is None or victim in self._surplus:
            connection.surplus = True
            self._surplus.add(connection)
            if len(self._surplus) <= RESERVED:
                return
            idle = (surplus for surplus in self._surplus if surplus.rank is Rank.IDLE)
            victim = victim or next(idle, connection)
        self.count_closed("made_room")
        self.remove(victim)
        victim.abort()

    def _source(self, peer: str) -> str:
        """Return the source that a connection counts against; '' if it has no own limit."""
        address = parse_address(peer)
        if address is None or any(address in network for network in self._proxies):
            return ""
        return source_of_parsed(address)

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._period(), self._sweep)

    def _period(self) -> float:
        limits = self.limits
        times = (limits.silent, limits.head, limits.body, limits.idle, limits.write)
        return max(_SHORTEST_SWEEP, min(_LONGEST_SWEEP, min(times) / _SWEEPS_PER_TIMEOUT))

    def _sweep(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for connection in list(self._sources):
            if reason := connection.expire(now):
                self.count_closed(reason)
        self._report(now)
        if self._sources:
            self._arm()

    def _report(self, now: float) -> None:
        """Log once a minute how many connections were closed, and why."""
        if self._closed and now - self._reported >= _REPORT_SECONDS:
            for reason, count in sorted(self._closed.items()):
                self._log.warning("http connections closed", reason=reason, count=count)
            self._closed.clear()
            self._reported = now


def fit_to_descriptors(wanted: int, descriptors: int) -> int:
    """Return how many connections fit into half of the file descriptors (the soft limit)."""
    return wanted if descriptors < 0 else min(wanted, max(RESERVED, descriptors // 2))
