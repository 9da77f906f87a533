"""Replies that are told within a bundle leave at its end, in one write for each connection."""

from collections.abc import Sequence

import pytest
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from mllp.contract import Peer, ServerLimits, Tell
from mllp.framing import Frame, frame
from mllp.reply_bundle import REPLIES
from mllp.server import MLLPServerFactory


class Later:
    """A handler that keeps what it is to answer."""

    def __init__(self) -> None:
        self.tells: list[Tell] = []
        self.taken: list[bytes] = []

    def direct(self, arrived: Frame, _peer: Peer, tell: Tell) -> None:
        self.taken.append(arrived.payload)
        self.tells.append(tell)


class Line:
    """A transport that keeps what is written, write by write."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.read = True
        self.closing = False

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def getPeer(self) -> None:  # noqa: N802  # Twisted's name
        """Be nobody."""

    def registerProducer(self, _producer: object, _streaming: bool) -> None:  # noqa: N802
        """Never be full."""

    def unregisterProducer(self) -> None:  # noqa: N802
        """Never be full."""

    def pauseProducing(self) -> None:  # noqa: N802
        self.read = False

    def resumeProducing(self) -> None:  # noqa: N802
        self.read = True

    def loseConnection(self) -> None:  # noqa: N802
        self.closing = True


def connected(handler: Later, count: int, window: int = 64) -> list[tuple[Line, object]]:
    """Open connections to one listener."""
    factory = MLLPServerFactory(handler, ServerLimits(window=window), clock=Clock())  # type: ignore[arg-type]
    made = []
    for _ in range(count):
        connection, line = factory.buildProtocol(None), Line()
        connection.transport = line  # type: ignore[assignment]
        connection.connectionMade()
        made.append((line, connection))
    return made


def said(number: int) -> Sequence[bytes]:
    """One reply."""
    return (b"MSA|AA|%d" % number,)


def test_one_write_for_each_connection() -> None:
    """Whatever order they are told in; before it ends nothing leaves, behind it all at once."""
    handler = Later()
    (one, first), (two, second) = connected(handler, 2)
    first.dataReceived(frame(b"1") + frame(b"2"))  # type: ignore[attr-defined]
    second.dataReceived(frame(b"3"))  # type: ignore[attr-defined]
    with REPLIES:
        for tell, number in zip(handler.tells[::-1], (3, 2, 1), strict=True):
            tell(said(number))
        assert not one.writes + two.writes
    assert one.writes == [frame(b"MSA|AA|1") + frame(b"MSA|AA|2")]
    assert two.writes == [frame(b"MSA|AA|3")]


def test_what_is_told_without_one_leaves_at_once() -> None:
    """Also after one has ended in an error: nobody waits for its end."""
    handler = Later()
    ((line, connection),) = connected(handler, 1)
    connection.dataReceived(frame(b"1") + frame(b"2"))  # type: ignore[attr-defined]

    def broken() -> None:
        with REPLIES:
            handler.tells[0](said(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert line.writes == [frame(b"MSA|AA|1")]
    handler.tells[1](said(2))
    assert len(line.writes) == 2


def test_a_full_window_opens_at_its_end() -> None:
    """Frames that wait are taken then, and one that is answered at once is no exception."""
    handler = Later()
    ((line, connection),) = connected(handler, 1, window=2)
    connection.dataReceived(b"".join(frame(b"%d" % n) for n in range(4)))  # type: ignore[attr-defined]
    assert handler.taken == [b"0", b"1"]
    with REPLIES:
        handler.tells[0](said(0))
        handler.tells[1](said(1))
        assert len(handler.taken) == 2
    assert handler.taken == [b"0", b"1", b"2", b"3"]
    assert len(line.writes) == 1


def test_one_that_fails_ends_its_own_connection_alone() -> None:
    """What was told before it leaves, what comes behind it does not, others get theirs."""
    handler = Later()
    (one, first), (two, second) = connected(handler, 2)
    first.dataReceived(b"".join(frame(b"%d" % n) for n in range(3)))  # type: ignore[attr-defined]
    second.dataReceived(frame(b"4"))  # type: ignore[attr-defined]
    with REPLIES:
        handler.tells[0](said(0))
        handler.tells[1](Failure(ZeroDivisionError()))  # type: ignore[no-untyped-call]
        handler.tells[2](said(2))
        handler.tells[3](said(4))
    assert b"".join(one.writes) == frame(b"MSA|AA|0")
    assert two.writes == [frame(b"MSA|AA|4")]
    assert one.closing
    assert not two.closing


def test_one_that_cannot_write_keeps_none_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was raised is raised, when everybody else has their reply."""
    handler = Later()
    (one, first), (two, second) = connected(handler, 2)
    first.dataReceived(frame(b"1"))  # type: ignore[attr-defined]
    second.dataReceived(frame(b"2"))  # type: ignore[attr-defined]

    def broken(_data: bytes) -> None:
        raise ZeroDivisionError

    def all_told() -> None:
        with REPLIES:
            handler.tells[0](said(1))
            handler.tells[1](said(2))

    monkeypatch.setattr(one, "write", broken)
    with pytest.raises(ZeroDivisionError):
        all_told()
    assert two.writes == [frame(b"MSA|AA|2")]
