"""A span for each frame and each message, and nothing changed by it."""

from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed

from bridge.operations.tracing import traced, traced_handler
from mllp.errors import LossReason, ReplyLost
from mllp.framing import Frame
from mllp.testing import MemoryClient, MemoryPeer


class Recorder:
    """A tracer, and its spans: what began, and what ended with which attributes."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, dict[str, Any]]] = []
        self.ended = 0

    def start_span(self, name: str, *, attributes: dict[str, Any]) -> "Recorder":
        self.spans.append((name, attributes))
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
