"""Admission control decides which connections the server accepts, and which it closes for them."""

from ipaddress import ip_network
from typing import Any

import pytest
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.task import Clock

from mllp.contract import ServerLimits
from mllp.limits import (
    Admission,
    AdmissionRefusal,
    ConnectionActivity,
    SharedConnectionLimit,
    source_of,
)
from mllp.testing import MemoryCaller, MemoryServer, connect_protocols, deliver_all
from tests.mllp.server_fixture import ManualHandler, RecordingObserver, echo


class Slot:
    """A connection as admission control knows it."""

    def __init__(
        self, host: str, since: float, activity: ConnectionActivity = ConnectionActivity.IDLE
    ) -> None:
        self.source, self.since, self.activity = source_of(host), since, activity
        self.evicted = False

    def evict(self) -> None:
        self.evicted = True


def fill(admission: Admission, *slots: Slot) -> None:
    for slot in slots:
        admission.enter(slot)


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
    ],
)
def test_sources(host: str, source: str) -> None:
    """An IPv6 host chooses the lower half of its address, so only the /64 identifies a source."""
    assert source_of(host) == source


class TestAllowList:
    """The addresses from which the server accepts connections."""

    @pytest.mark.parametrize("host", ["10.1.2.3", "::ffff:10.1.2.3", "192.0.2.9", "2001:db8::5"])
    def test_listed_addresses(self, host: str) -> None:
        """Admission accepts listed networks and addresses, also as IPv4 mapped to IPv6."""
        allow = [ip_network(item) for item in ("10.1.0.0/16", "192.0.2.9", "2001:db8::/32")]

        assert Admission(9, allow=allow).request(host, 0) is None

    @pytest.mark.parametrize("host", ["10.2.0.1", "192.0.2.10", "::1", "", "localhost"])
    def test_other_addresses(self, host: str) -> None:
        """Admission refuses other addresses, and evicts no connection for them."""
        allow = [ip_network(item) for item in ("10.1.0.0/16", "192.0.2.9")]
        admission = Admission(1, allow=allow)
        idle = Slot("10.1.0.1", since=0)
        fill(admission, idle)

        assert admission.request(host, 100) is AdmissionRefusal.NOT_ALLOWED
        assert not idle.evicted


class TestLimits:
    def test_a_source_with_all_slots(self) -> None:
        """A source that holds all slots loses an idle connection to another source."""
        admission = Admission(10)
        connections = [Slot("10.0.0.1", since=number) for number in range(10)]
        fill(admission, *connections)

        assert admission.request("10.0.0.2", 9.1) is None

        assert [connection.evicted for connection in connections] == [True] + [False] * 9
        assert len(admission) == 9

    def test_the_heaviest_source_gives_way(self) -> None:
        """The source with most connections loses one. A single, longer idle connection stays."""
        admission = Admission(4)
        quiet, *connections = (
            Slot("10.0.0.9", since=0),
            *(Slot("10.0.0.1", since=50) for _ in range(3)),
        )
        fill(admission, quiet, *connections)

        assert admission.request("10.0.0.2", 100) is None

        assert not quiet.evicted
        assert sum(connection.evicted for connection in connections) == 1

    def test_a_heavy_source_evicts_no_lighter_source(self) -> None:
        """A source with many connections does not evict sources with few."""
        admission = Admission(3)
        quiet = Slot("10.0.0.9", since=0)
        connections = [Slot("10.0.0.1", 0, ConnectionActivity.UNFINISHED) for _ in range(2)]
        fill(admission, quiet, *connections)

        assert admission.request("10.0.0.1", 100) is AdmissionRefusal.LIMIT
        assert not quiet.evicted

    def test_unfinished_frames_give_way_to_lighter_sources(self) -> None:
        """A lighter source evicts the oldest unfinished frame, an equal one none."""
        admission = Admission(3)
        connections = [
            Slot("10.0.0.1", 5 - number, ConnectionActivity.UNFINISHED) for number in range(3)
        ]
        fill(admission, *connections)

        assert admission.request("10.0.0.1", 6) is AdmissionRefusal.LIMIT
        assert admission.request("10.0.0.2", 6) is None
        assert [connection.evicted for connection in connections] == [False, False, True]

    def test_sources_of_equal_weight_do_not_evict_each_other(self) -> None:
        """Sources of equal weight are refused. A source with few connections is still accepted."""
        admission = Admission(12)
        for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
            fill(admission, *(Slot(host, 0, ConnectionActivity.UNFINISHED) for _ in range(4)))

        assert admission.request("10.0.0.1", 5) is AdmissionRefusal.LIMIT
        assert admission.request("10.0.0.2", 5.01) is AdmissionRefusal.LIMIT
        assert admission.request("10.0.0.9", 5.02) is None

    def test_idle_connections_give_way_to_a_source_of_equal_weight(self) -> None:
        admission = Admission(2)
        own, idle = Slot("10.0.0.1", 0, ConnectionActivity.BUSY), Slot("10.0.0.2", 0)
        fill(admission, own, idle)

        assert admission.request("10.0.0.1", 5) is None
        assert idle.evicted

    def test_busy_connections_are_not_evicted(self) -> None:
        """A connection that waits for a reply is never evicted; the new connection is refused."""
        admission = Admission(2)
        fill(admission, *(Slot("10.0.0.1", 0, ConnectionActivity.BUSY) for _ in range(2)))

        assert admission.request("10.0.0.2", 100) is AdmissionRefusal.LIMIT

    def test_limit_of_a_source(self) -> None:
        """A source at its limit replaces its own idle connections only."""
        admission = Admission(10, per_source=2)
        first, second = Slot("10.0.0.1", since=0), Slot("10.0.0.1", since=1)
        fill(admission, first, second)
        assert admission.request("10.0.0.1", 1.5) is None
        assert first.evicted

        fill(admission, Slot("10.0.0.1", 1, ConnectionActivity.UNFINISHED))
        assert admission.request("10.0.0.1", 1.5) is AdmissionRefusal.SOURCE_LIMIT
        assert admission.request("10.0.0.2", 1.5) is None

    def test_limit_of_the_process(self) -> None:
        """The limit of the process counts the connections of all listeners."""
        shared = SharedConnectionLimit(2)
        one, other = (Admission(9, shared_limit=shared) for _ in range(2))
        slots = [Slot("10.0.0.1", 0, ConnectionActivity.BUSY) for _ in range(2)]
        fill(one, *slots)

        assert other.request("10.0.0.2", 9) is AdmissionRefusal.LIMIT
        one.leave(slots[0])
        one.leave(slots[0])
        assert other.request("10.0.0.2", 9) is None
        assert shared.open == 1


def call(server: MemoryServer, host: str) -> MemoryCaller:
    version = IPv6Address if ":" in host else IPv4Address
    address: Any = version("TCP", host, 1)
    caller = MemoryCaller(server.clock)
    connect_protocols(server.clock, server.factory.buildProtocol(address), caller)
    deliver_all(server.clock)
    return caller


class TestServer:
    def test_idle_connections_of_one_address(
        self, clock: Clock, observer: RecordingObserver
    ) -> None:
        """Idle connections of one address do not block other sources."""
        server = MemoryServer(echo, ServerLimits(max_connections=5), clock=clock, observer=observer)
        connections = [call(server, "192.0.2.1") for _ in range(5)]

        assert call(server, "192.0.2.2").exchange(b"ORDER") == [b"order"]

        assert [connection.closed for connection in connections].count(True) == 1
        assert ("refused",) not in observer.events

    def test_noise_is_no_activity(self, clock: Clock) -> None:
        """A connection that sends bytes but no frames counts as idle."""
        limits = ServerLimits(max_connections=2)
        server = MemoryServer(echo, limits, clock=clock)
        noisy = call(server, "192.0.2.1")
        clock.advance(5)
        other_source = call(server, "192.0.2.1")
        clock.advance(5)
        noisy.write(b"hello?")

        call(server, "192.0.2.3")

        assert (noisy.closed, other_source.closed) == (True, False)

    def test_a_reply_ends_the_idle_time(self, clock: Clock) -> None:
        """The connection is closed whose last reply was sent first."""
        server = MemoryServer(echo, ServerLimits(max_connections=2), clock=clock)
        answered, silent = call(server, "192.0.2.1"), call(server, "192.0.2.1")
        clock.advance(5)
        answered.send(b"1")
        clock.advance(5)

        call(server, "192.0.2.3")

        assert (answered.closed, silent.closed) == (False, True)

    def test_an_unanswered_frame(self, clock: Clock, handler: ManualHandler) -> None:
        """A connection with an unanswered frame stays open until the reply."""
        server = MemoryServer(handler, ServerLimits(max_connections=2), clock=clock)
        waiting, idle = call(server, "192.0.2.1"), call(server, "192.0.2.1")
        waiting.send(b"1")
        clock.advance(100)

        assert not call(server, "192.0.2.2").closed
        handler.reply(0, b"A")
        deliver_all(clock)

        assert (waiting.frames, idle.closed) == ([b"A"], True)

    def test_allow_list(self, clock: Clock, observer: RecordingObserver) -> None:
        """The server closes other addresses at accept, and counts them."""
        limits = ServerLimits(allow=[ip_network("192.0.2.0/28")])
        server = MemoryServer(echo, limits, clock=clock, observer=observer)

        assert call(server, "192.0.2.200").closed
        assert observer.events == [("refused",)]
        assert call(server, "192.0.2.3").exchange(b"ORDER") == [b"order"]

    def test_unfinished_frames_of_many_sources(self, clock: Clock, handler: ManualHandler) -> None:
        """A new source gets a slot while unfinished frames of others hold all slots."""
        limits = ServerLimits(max_connections=8, max_connections_per_source=4)
        server = MemoryServer(handler, limits, clock=clock)
        for host in ("192.0.2.1", "192.0.2.2"):
            for _ in range(4):
                call(server, host).write(b"\x0bMSH|")

        other_source = call(server, "192.0.2.3")
        other_source.send(b"1")

        assert handler.payloads == [b"1"]
        handler.reply(0, b"A")
        clock.advance(15)


def test_a_flood_of_one_listener_makes_room_in_another() -> None:
    """One source fills the limit of all listeners; its connection is closed for another source."""
    shared = SharedConnectionLimit(4)
    first, second, third = (Admission(9, per_source=2, shared_limit=shared) for _ in range(3))
    flood = [Slot("192.0.2.9", at, ConnectionActivity.UNFINISHED) for at in range(4)]
    fill(first, *flood[:2])
    fill(second, *flood[2:])
    assert shared.is_reached

    assert third.request("10.0.0.1", 100) is None
    assert [peer.evicted for peer in flood] == [True, False, False, False]
    assert not shared.is_reached


def test_the_limit_of_a_listener_makes_room_in_it_only() -> None:
    """A connection of another listener would free no slot of this one."""
    shared = SharedConnectionLimit(9)
    full, other = Admission(1, shared_limit=shared), Admission(9, shared_limit=shared)
    busy = Slot("10.0.0.2", 0, ConnectionActivity.BUSY)
    idle = [Slot("192.0.2.9", 0) for _ in range(4)]
    fill(full, busy)
    fill(other, *idle)
    assert full.request("10.0.0.1", 100) is AdmissionRefusal.LIMIT
    assert not any(peer.evicted for peer in idle)
