"""
Tracing: a span for each frame received, each message applied, and each message sent.

The trace key is the digest of a received message. Spans with the same key form one trace, from the
arrival of a message to the results of its orders. Attributes are configured names, sizes and codes.
`otlp_export` exports the spans.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from types import MappingProxyType
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.deliveries import ClaimedDelivery, current_delivery
from bridge.queue.ledger.arrivals import digest
from bridge.queue.ledger.deduplication import stored_digest
from bridge.transports import MessageSender
from mllp.contract import Handler, Peer, ReplyCallback
from mllp.framing import Frame


class Span(Protocol):
    """A span of OpenTelemetry."""

    def set_attribute(self, key: str, value: Any) -> None:
        """Set an attribute."""

    def end(self) -> None:
        """End the span."""


class Tracer(Protocol):
    """Starts spans; implemented by `otlp_export.LinkingTracer`."""

    def start_span(self, name: str, *, attributes: dict[str, Any], key: int | None = None) -> Span:
        """Start a span; spans with the same key belong to one trace."""


MessageOrigin = Callable[[ClaimedDelivery], Awaitable[int | None]]
"""Returns the trace key of the message with the order of a delivery."""

ApplyMessages = Callable[[Sequence[ClaimedMessage]], AsyncGenerator[Sequence[MessageOutcome]]]
"""Applies messages and yields their outcomes."""


def trace_key(payload: bytes) -> int:
    """Return the trace key of a message: 64 bits of its digest, as stored in the queue."""
    return stored_digest(digest(payload))


def traced_handler(handle: Handler, tracer: Tracer, listener: str) -> Handler:
    """Wrap the handler of a listener: a span for each frame, from its arrival to its ACK."""

    def answer(frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        attributes = {"hl7.listener": listener, "hl7.size": len(frame.payload)}
        key = trace_key(frame.payload)
        span = tracer.start_span("hl7 receive", attributes=attributes, key=key)
        handle(frame, peer, lambda replies: reply(_ended(replies, span)))

    return answer


def traced_apply(apply: ApplyMessages, tracer: Tracer | None) -> ApplyMessages:
    """Wrap `apply`: a span for each message; messages of a batch have the same duration."""
    if tracer is None:
        return apply

    async def answer(claimed: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        spans = {
            each.message_id: tracer.start_span(
                "hl7 apply",
                attributes={"hl7.listener": each.listener, "bridge.message_id": each.message_id},
                key=trace_key(each.payload),
            )
            for each in claimed
        }
        events: dict[int, MessageOutcome] = {}
        try:
            async with aclosing(apply(claimed)) as given:
                async for outcomes in given:
                    events |= {each.message_id: each for each in outcomes}
                    yield outcomes
        finally:
            for message_id, span in spans.items():
                _told(span, events.get(message_id))

    return answer


def _told(span: Span, outcome: MessageOutcome | None) -> None:
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
        origin: MessageOrigin | None = None,
    ) -> None:
        """Send by `inner`; `origin` returns the trace key of a delivery."""
        self._inner = inner
        self._tracer = tracer
        self._destination = destination
        self._origin = origin

    def send(self, payload: bytes) -> Deferred[bytes]:
        """Send one message; return its reply."""
        delivery = current_delivery.get()
        if delivery is None or self._origin is None:
            return self._send(payload, None)
        sending = self._send_of(payload, self._origin, delivery)
        return Deferred.fromFuture(asyncio.ensure_future(sending))

    async def _send_of(
        self, payload: bytes, origin: MessageOrigin, delivery: ClaimedDelivery
    ) -> bytes:
        key = None
        with suppress(Exception):  # tracing must not change what it traces
            key = await origin(delivery)
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
    origin: MessageOrigin | None = None,
) -> MessageSender:
    """Return the sender, wrapped if tracing is on."""
    return inner if tracer is None else TracedSender(inner, tracer, destination, origin)


def _ended(outcome: Any, span: Span) -> Any:
    with suppress(Exception):  # a trace must not change what it traces
        if isinstance(outcome, Failure):
            span.set_attribute("error.type", type(outcome.value).__name__)
        span.end()
    return outcome
