"""A span for each frame and each message, and nothing changed by it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed

from bridge.operations.telemetry import identities
from bridge.operations.tracing import mark_of, traced, traced_apply, traced_handler
from bridge.queue.deliveries import ClaimedDelivery, in_hand
from bridge.queue.states import Event
from bridge.queue.work import Claimed, Outcome
from mllp.errors import LossReason, ReplyLost
from mllp.framing import Frame
from mllp.testing import MemoryClient, MemoryPeer

pytestmark = pytest.mark.anyio


class Recorder:
    """A tracer, and its spans: what began, and what ended with which attributes."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, dict[str, Any]]] = []
        self.ended = 0
        self.marks: list[int | None] = []

    def start_span(
        self, name: str, *, attributes: dict[str, Any], mark: int | None = None
    ) -> "Recorder":
        self.spans.append((name, attributes))
        self.marks.append(mark)
        return self

    def set_attribute(self, key: str, value: Any) -> None:
        self.spans[-1][1][key] = value

    def end(self) -> None:
        self.ended += 1


def test_a_frame_is_a_span_until_it_is_answered() -> None:
    """Names, sizes and classes of errors; the answer is what it was."""
    recorder = Recorder()
    waiting: Deferred[Any] = Deferred()
    handle = traced_handler(lambda frame, peer: waiting, recorder, "ris")
    answer = handle(Frame(b"SECRET"), MemoryPeer())
    assert recorder.ended == 0
    got: list[object] = []
    answer.addCallback(got.append)
    waiting.callback([b"ACK"])
    assert got == [[b"ACK"]]
    assert recorder.spans == [("hl7 receive", {"hl7.listener": "ris", "hl7.size": 6})]
    assert recorder.ended == 1


@pytest.mark.parametrize("lost", [False, True])
def test_a_message_is_a_span_until_its_reply(*, lost: bool) -> None:
    """A reply that is lost is told by its class."""

    class Line:
        def send(self, payload: bytes) -> Deferred[bytes]:
            return fail(ReplyLost(LossReason.TIMEOUT)) if lost else succeed(b"ACK")

        def close(self) -> Deferred[None]:
            return succeed(None)

    recorder = Recorder()
    got: list[Any] = []
    traced(Line(), recorder, "out").send(b"SECRET").addBoth(got.append)
    ((name, attributes),) = recorder.spans
    assert name == "hl7 send"
    assert attributes.get("error.type") == ("ReplyLost" if lost else None)
    assert recorder.ended == len(got) == 1
    assert "SECRET" not in str(recorder.spans)


def test_nothing_is_wrapped_without_a_tracer() -> None:
    """The connection itself."""
    line = MemoryClient(lambda payload: payload)
    assert traced(line, None, "out") is line


ORDER = b"MSH|^~\\&|RIS\rPID|1||SECRET\r"
DELIVERY = ClaimedDelivery(3, "out", "R1", "k", "final", {"orders": []}, "C", b"ORU", 1, 0, 0)


async def test_from_the_arrival_to_the_result_it_is_one_trace() -> None:
    """Received, applied and sent with one mark, on whatever node; and no word of the message."""
    recorder = Recorder()
    handle = traced_handler(lambda frame, peer: succeed([b"ACK"]), recorder, "ris")
    await handle(Frame(ORDER), MemoryPeer())

    async def apply(claimed: Sequence[Claimed]) -> Sequence[Outcome]:
        return [Outcome(each.message_id, Event.ACCEPTED, code="report_kept") for each in claimed]

    claimed = Claimed(7, ORDER, "ris", "orders", "v", (1,), 1, 0, 0, "ORM^O01")
    await traced_apply(apply, recorder)([claimed])

    async def origin(delivery: ClaimedDelivery) -> int | None:
        assert delivery is DELIVERY
        return mark_of(ORDER)

    in_hand.set(DELIVERY)
    line = traced(MemoryClient(lambda payload: b"ACK"), recorder, "out", origin)
    assert await line.send(b"ORU").asFuture(asyncio.get_running_loop()) == b"ACK"
    assert recorder.marks == [mark_of(ORDER)] * 3
    assert recorder.ended == 3
    assert recorder.spans[1] == (
        "hl7 apply",
        {
            "hl7.listener": "ris",
            "bridge.message_id": 7,
            "bridge.outcome": "accepted",
            "bridge.code": "report_kept",
        },
    )
    assert recorder.spans[2][1]["bridge.delivery_id"] == 3
    assert "SECRET" not in str(recorder.spans)


async def test_an_origin_that_cannot_be_found_stops_nothing() -> None:
    """The message is sent, in a trace of its own."""
    recorder = Recorder()

    async def origin(delivery: ClaimedDelivery) -> int | None:
        raise OSError

    in_hand.set(DELIVERY)
    line = traced(MemoryClient(lambda payload: b"ACK"), recorder, "out", origin)
    assert await line.send(b"ORU").asFuture(asyncio.get_running_loop()) == b"ACK"
    assert recorder.marks == [None]


async def test_applying_that_fails_ends_its_spans() -> None:
    """What was not answered for says so."""
    recorder = Recorder()

    async def apply(claimed: Sequence[Claimed]) -> Sequence[Outcome]:
        raise OSError("away")

    claimed = Claimed(7, ORDER, "ris", "orders", "v", (1,), 1, 0, 0, "ORM^O01")
    with pytest.raises(OSError, match="away"):
        await traced_apply(apply, recorder)([claimed])
    assert recorder.spans[0][1]["bridge.outcome"] == "none"
    assert recorder.ended == 1


def test_marks_are_traces() -> None:
    """The same on every node, and valid: neither is nought."""
    assert identities(-5) == identities(-5) != identities(5)
    trace, span = identities(-5)
    assert 0 < trace < 1 << 128
    assert 0 < span < 1 << 64
