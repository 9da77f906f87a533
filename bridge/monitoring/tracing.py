"""
Tracing: a span for each frame received, each message applied, and each message sent.

The trace key is the digest of a received message. Spans with the same key form one trace, from the
arrival of a message to the results of its orders. Attributes are configured names, sizes and codes.
`open_tracer` exports them to an OpenTelemetry collector, with OpenTelemetry's SDK: an optional
dependency that is loaded on demand.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from hashlib import blake2b
from importlib.util import find_spec
from threading import Thread
from types import MappingProxyType
from typing import Any, Final, Protocol

from sqlalchemy import select
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from bridge.contract import OrderKey
from bridge.errors import BridgeError
from bridge.executors import CONSOLE_THREADS
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.deliveries import ClaimedDelivery, current_delivery
from bridge.queue.digests import digest, stored_digest
from bridge.queue.statements import MESSAGE
from bridge.store.database import Database
from bridge.store.records import order_index
from bridge.transports import MessageSender
from mllp.contract import Handler, Peer, ReplyCallback
from mllp.framing import Frame


class Span(Protocol):
    """A span of OpenTelemetry."""

    def set_attribute(self, key: str, value: Any) -> None:
        """Set an attribute."""

    def end(self) -> None:
        """End the span."""


class Tracer:
    """A tracer of the SDK that puts spans with the same key into one trace."""

    def __init__(self, tracer: Any) -> None:
        """`tracer` is the SDK's tracer."""
        self._tracer = tracer

    def start_span(self, name: str, *, attributes: dict[str, Any], key: int | None = None) -> Span:
        """Start a span; spans with the same key belong to one trace."""
        context = None if key is None else _context(key)
        span: Span = self._tracer.start_span(name, context=context, attributes=attributes)
        return span


TraceKeyFinder = Callable[[ClaimedDelivery], Awaitable[int | None]]
"""Returns the trace key of the message that created the first order of a delivery."""

ApplyMessages = Callable[[Sequence[ClaimedMessage]], AsyncGenerator[Sequence[MessageOutcome]]]
"""Applies messages and yields their outcomes."""


def trace_key(payload: bytes) -> int:
    """Return the trace key of a message: 64 bits of its digest, as stored in the queue."""
    return stored_digest(digest(payload))


def traced_handler(handle: Handler, tracer: Tracer, listener: str) -> Handler:
    """Wrap the handler of a listener: a span for each frame, from its arrival to its ACK."""

    def handle_traced(frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        attributes = {"hl7.listener": listener, "hl7.size": len(frame.payload)}
        key = trace_key(frame.payload)
        span = tracer.start_span("hl7 receive", attributes=attributes, key=key)
        handle(frame, peer, lambda replies: reply(_ended(replies, span)))

    return handle_traced


def traced_apply(apply: ApplyMessages, tracer: Tracer | None) -> ApplyMessages:
    """Wrap `apply`: a span for each message; messages of a batch have the same duration."""
    if tracer is None:
        return apply

    async def apply_traced(
        claimed: Sequence[ClaimedMessage],
    ) -> AsyncGenerator[Sequence[MessageOutcome]]:
        spans = {
            message.message_id: tracer.start_span(
                "hl7 apply",
                attributes={
                    "hl7.listener": message.listener,
                    "bridge.message_id": message.message_id,
                },
                key=trace_key(message.payload),
            )
            for message in claimed
        }
        outcome_by_id: dict[int, MessageOutcome] = {}
        try:
            async with aclosing(apply(claimed)) as batches:
                async for outcomes in batches:
                    outcome_by_id |= {outcome.message_id: outcome for outcome in outcomes}
                    yield outcomes
        finally:
            for message_id, span in spans.items():
                _end_span(span, outcome_by_id.get(message_id))

    return apply_traced


def _end_span(span: Span, outcome: MessageOutcome | None) -> None:
    with suppress(Exception):  # a trace must not change what it traces
        span.set_attribute("bridge.outcome", outcome.event.value if outcome else "none")
        if outcome is not None and outcome.code:
            span.set_attribute("bridge.code", outcome.code)
        span.end()


class TracedSender:
    """Wraps a sender: a span for each message, from sending to its reply."""

    def __init__(
        self,
        inner: MessageSender,
        tracer: Tracer,
        destination: str,
        find_key: TraceKeyFinder | None = None,
    ) -> None:
        """Send by `inner`; `find_key` returns the trace key of a delivery."""
        self._inner = inner
        self._tracer = tracer
        self._destination = destination
        self._find_key = find_key

    def send(self, payload: bytes) -> Deferred[bytes]:
        """Send one message; return its reply."""
        delivery = current_delivery.get()
        if delivery is None or self._find_key is None:
            return self._send(payload, None)
        sending = self._send_with_key(payload, self._find_key, delivery)
        return Deferred.fromFuture(asyncio.ensure_future(sending))

    async def _send_with_key(
        self, payload: bytes, find_key: TraceKeyFinder, delivery: ClaimedDelivery
    ) -> bytes:
        key = None
        with suppress(Exception):  # tracing must not change what it traces
            key = await find_key(delivery)
        sent = self._send(payload, key, {"bridge.delivery_id": delivery.delivery_id})
        return await sent.asFuture(asyncio.get_running_loop())

    def _send(
        self, payload: bytes, key: int | None, more: Mapping[str, Any] = MappingProxyType({})
    ) -> Deferred[bytes]:
        attributes = {"hl7.destination": self._destination, "hl7.size": len(payload), **more}
        span = self._tracer.start_span("hl7 send", attributes=attributes, key=key)
        return self._inner.send(payload).addBoth(_ended, span)

    def close(self) -> Deferred[None]:
        """Stop for good."""
        return self._inner.close()


def traced_sender(
    inner: MessageSender,
    tracer: Tracer | None,
    destination: str,
    find_key: TraceKeyFinder | None = None,
) -> MessageSender:
    return inner if tracer is None else TracedSender(inner, tracer, destination, find_key)


def order_trace_keys(database: Database) -> TraceKeyFinder:
    def look_up(delivery: ClaimedDelivery) -> int | None:
        orders = delivery.orders["orders"] if delivery.orders else []
        keys = [
            OrderKey(str(order["SiteID"]), str(order["PatientMRN"]), str(order["Accession"]))
            for order in orders[:1]
        ]
        with database.read() as connection:
            for known in order_index.find(connection, keys).values():
                digest = select(MESSAGE.c.digest).where(MESSAGE.c.id == known.first_message)
                found: int | None = connection.scalar(digest)
                return found
        return None

    async def find_key(delivery: ClaimedDelivery) -> int | None:
        return await CONSOLE_THREADS.run(look_up, delivery)

    return find_key


def _ended(outcome: Any, span: Span) -> Any:
    with suppress(Exception):  # a trace must not change what it traces
        if isinstance(outcome, Failure):
            span.set_attribute("error.type", type(outcome.value).__name__)
        span.end()
    return outcome


SHUTDOWN_SECONDS: Final = 3.0
"""Seconds that a stop waits for the collector to accept the last spans."""

_NEEDED: Final = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
_ID_BYTES = 8
_64_BIT_MASK = (1 << 64) - 1


class TracingUnavailable(BridgeError):
    """Tracing is on, and OpenTelemetry's SDK is not installed."""

    def __init__(self) -> None:
        super().__init__("tracing.endpoint: install report-bridge[tracing], or leave it empty")


def span_context_ids(key: int) -> tuple[int, int]:
    """Return trace id and parent span id, derived from a trace key: the same on all nodes."""
    hashed = blake2b((key & _64_BIT_MASK).to_bytes(_ID_BYTES), digest_size=3 * _ID_BYTES).digest()
    return int.from_bytes(hashed[_ID_BYTES:]), int.from_bytes(hashed[:_ID_BYTES])


def require_sdk() -> None:
    """Raise TracingUnavailable if the SDK or its exporter is not installed."""
    for name in _NEEDED:
        try:
            found = find_spec(name)
        except ModuleNotFoundError:  # its parent package is missing
            found = None
        if found is None:
            raise TracingUnavailable


def open_tracer(endpoint: str, share: float) -> tuple[Tracer, Callable[[], None]]:
    """Return a tracer and the function that ends it. Raises TracingUnavailable."""
    require_sdk()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  # an extra
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  # an extra
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.sampling import TraceIdRatioBased  # noqa: PLC0415

    resource = Resource.create({"service.name": "report-bridge"})
    sampler = TraceIdRatioBased(share)
    provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracer(provider.get_tracer("report-bridge")), partial(
        shut_down_within, provider.shutdown
    )


def shut_down_within(end: Callable[[], object], patience: float = SHUTDOWN_SECONDS) -> None:
    """Export the remaining spans, or drop them after `patience` seconds."""
    ending = Thread(target=end, name="traces", daemon=True)
    ending.start()
    ending.join(patience)


def _context(key: int) -> Any:
    from opentelemetry import trace  # noqa: PLC0415  # an extra

    trace_id, span_id = span_context_ids(key)
    sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    parent = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=sampled)
    return trace.set_span_in_context(trace.NonRecordingSpan(parent))
