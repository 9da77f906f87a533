"""A span for each frame and each message, without a change of their results."""

import asyncio
import gzip
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event as Flag
from threading import Thread
from typing import Any, ClassVar

import pytest
from opentelemetry import trace as api
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from twisted.internet.defer import Deferred, fail, succeed
from typing_extensions import override

from bridge.monitoring.tracing import (
    Tracer,
    TracingUnavailable,
    open_tracer,
    shut_down_within,
    span_context_ids,
    trace_key,
    traced_apply,
    traced_handler,
    traced_sender,
)
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.deliveries import ClaimedDelivery, current_delivery
from bridge.queue.states import QueueEvent
from mllp.contract import ReplyCallback, as_deferred
from mllp.errors import LossReason, ReplyLost
from mllp.framing import Frame
from mllp.testing import MemoryClient, MemoryPeer


class Recorder:
    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = Tracer(provider.get_tracer("tests"))

    @property
    def spans(self) -> list[tuple[str, dict[str, Any]]]:
        ended = self._exporter.get_finished_spans()
        return [(item.name, dict(item.attributes or {})) for item in ended]

    @property
    def traces(self) -> list[int]:
        return [span.context.trace_id for span in self._exporter.get_finished_spans()]


def test_a_frame_is_a_span_until_it_is_answered() -> None:
    """A frame is one span. Its attributes are names, sizes and classes of errors."""
    recorder = Recorder()
    waiting: list[ReplyCallback] = []
    handle = traced_handler(
        lambda frame, peer, reply: waiting.append(reply), recorder.tracer, "ris"
    )
    replies: list[object] = []
    handle(Frame(b"SECRET"), MemoryPeer(), replies.append)
    assert recorder.spans == []
    waiting[0]([b"ACK"])
    assert replies == [[b"ACK"]]
    assert recorder.spans == [("hl7 receive", {"hl7.listener": "ris", "hl7.size": 6})]


@pytest.mark.parametrize("lost", [False, True])
def test_a_message_is_a_span_until_its_reply(*, lost: bool) -> None:
    class Line:
        def send(self, payload: bytes) -> Deferred[bytes]:
            return fail(ReplyLost(LossReason.TIMEOUT)) if lost else succeed(b"ACK")

        def close(self) -> Deferred[None]:
            return succeed(None)

    recorder = Recorder()
    results: list[Any] = []
    traced_sender(Line(), recorder.tracer, "out").send(b"SECRET").addBoth(results.append)
    ((name, attributes),) = recorder.spans
    assert name == "hl7 send"
    assert attributes.get("error.type") == ("ReplyLost" if lost else None)
    assert len(results) == 1
    assert "SECRET" not in str(recorder.spans)


def test_nothing_is_wrapped_without_a_tracer() -> None:
    """Without a tracer the function returns the connection itself."""
    line = MemoryClient(lambda payload: payload)
    assert traced_sender(line, None, "out") is line


ORDER = b"MSH|^~\\&|RIS\rPID|1||SECRET\r"
DELIVERY = ClaimedDelivery(3, "out", "R1", "k", "final", {"orders": []}, "C", b"ORU", 1, 0, 0)


async def test_from_the_arrival_to_the_result_it_is_one_trace() -> None:
    """Receiving, applying and sending share one trace on all nodes, without message content."""
    recorder = Recorder()
    handle = traced_handler(lambda frame, peer, reply: reply([b"ACK"]), recorder.tracer, "ris")
    await as_deferred(handle, Frame(ORDER), MemoryPeer())

    async def apply(claimed: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        yield [
            MessageOutcome(message.message_id, QueueEvent.ACCEPTED, code="report_kept")
            for message in claimed
        ]

    claimed = ClaimedMessage(7, ORDER, "ris", "orders", "v", (1,), 1, 0, 0, "ORM^O01")
    assert len([message async for message in traced_apply(apply, recorder.tracer)([claimed])]) == 1

    async def origin(delivery: ClaimedDelivery) -> int | None:
        assert delivery is DELIVERY
        return trace_key(ORDER)

    current_delivery.set(DELIVERY)
    line = traced_sender(MemoryClient(lambda payload: b"ACK"), recorder.tracer, "out", origin)
    assert await line.send(b"ORU").asFuture(asyncio.get_running_loop()) == b"ACK"
    assert recorder.traces == [span_context_ids(trace_key(ORDER))[0]] * 3
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


async def test_an_unknown_origin() -> None:
    """The message is sent, in its own trace."""
    recorder = Recorder()

    async def origin(delivery: ClaimedDelivery) -> int | None:
        raise OSError

    current_delivery.set(DELIVERY)
    line = traced_sender(MemoryClient(lambda payload: b"ACK"), recorder.tracer, "out", origin)
    assert await line.send(b"ORU").asFuture(asyncio.get_running_loop()) == b"ACK"
    (trace,) = recorder.traces
    assert trace != span_context_ids(trace_key(ORDER))[0]


async def test_a_failed_application_ends_its_spans() -> None:
    """Messages without an outcome have the outcome `none`."""
    recorder = Recorder()

    async def apply(claimed: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        yield []
        raise OSError("away")

    claimed = ClaimedMessage(7, ORDER, "ris", "orders", "v", (1,), 1, 0, 0, "ORM^O01")
    with pytest.raises(OSError, match="away"):
        [message async for message in traced_apply(apply, recorder.tracer)([claimed])]
    ((_, attributes),) = recorder.spans
    assert attributes["bridge.outcome"] == "none"


def test_keys_determine_traces() -> None:
    """Trace ids are equal on all nodes, and never zero."""
    assert span_context_ids(-5) == span_context_ids(-5) != span_context_ids(5)
    trace, span = span_context_ids(-5)
    assert 0 < trace < 1 << 128
    assert 0 < span < 1 << 64


def test_the_key_determines_the_parent() -> None:
    span: Any = Tracer(api.NoOpTracer()).start_span("hl7 apply", attributes={}, key=-5)
    context = span.get_span_context()
    assert (context.trace_id, context.span_id) == span_context_ids(-5)
    assert context.trace_flags.sampled


def test_an_unresponsive_collector_does_not_delay_the_stop() -> None:
    """Spans that are not exported in time are lost."""
    exported = Flag()
    shut_down_within(exported.wait, patience=0.01)
    assert not exported.is_set()
    exported.set()
    shut_down_within(exported.wait)


class Collector(BaseHTTPRequestHandler):
    received: ClassVar[list[ExportTraceServiceRequest]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/v1/traces"
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    @override
    def log_message(self, format: str, *args: object) -> None:  # its own name
        """Log nothing."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(Collector, "received", [])
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        serving.join()


async def test_a_collector_gets_the_spans(collector: str) -> None:
    """The SDK exports one trace over a socket, without content of the message."""
    tracer, end = open_tracer(collector, 1.0)
    handle = traced_handler(lambda frame, peer, reply: reply([b"ACK"]), tracer, "ris")
    await as_deferred(handle, Frame(ORDER), MemoryPeer())
    current_delivery.set(None)
    line = traced_sender(MemoryClient(lambda payload: b"ACK"), tracer, "out")
    await line.send(b"SECRET").asFuture(asyncio.get_running_loop())
    await asyncio.to_thread(end)

    (resource,) = [span for received in Collector.received for span in received.resource_spans]
    named = {
        attribute.key: attribute.value.string_value for attribute in resource.resource.attributes
    }
    assert named["service.name"] == "report-bridge"
    received, sent = [span for scope in resource.scope_spans for span in scope.spans]
    trace, parent = span_context_ids(trace_key(ORDER))
    assert (received.name, sent.name) == ("hl7 receive", "hl7 send")
    assert (int.from_bytes(received.trace_id), int.from_bytes(received.parent_span_id)) == (
        trace,
        parent,
    )
    assert sent.trace_id != received.trace_id
    assert received.end_time_unix_nano >= received.start_time_unix_nano > 0
    assert {attribute.key for attribute in received.attributes} == {"hl7.listener", "hl7.size"}
    assert b"SECRET" not in b"".join(message.SerializeToString() for message in Collector.received)


async def test_a_share_of_zero_exports_nothing(collector: str) -> None:
    tracer, end = open_tracer(collector, 0.0)
    handle = traced_handler(lambda frame, peer, reply: reply([b"ACK"]), tracer, "ris")
    assert await as_deferred(handle, Frame(ORDER), MemoryPeer()) == [b"ACK"]
    await asyncio.to_thread(end)
    assert Collector.received == []


def test_a_missing_sdk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra to install."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    monkeypatch.delitem(sys.modules, "opentelemetry.sdk.trace", raising=False)
    with pytest.raises(TracingUnavailable, match=r"install report-bridge\[tracing\]"):
        open_tracer("http://127.0.0.1:4318", 1.0)
