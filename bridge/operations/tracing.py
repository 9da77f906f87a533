"""
Traces by OpenTelemetry, where they are asked for: a span for each frame in and each message out.

Attributes are our own names, sizes and codes. The SDK is an extra; nothing is loaded without it.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from bridge.errors import BridgeError
from mllp.contract import Handler, Peer
from mllp.framing import Frame


class TracingUnavailable(BridgeError):  # noqa: N818  # named for what happened
    """Traces are asked for, and OpenTelemetry's SDK is not installed."""

    def __init__(self) -> None:
        super().__init__("tracing.endpoint is set: install report-bridge[tracing]")


class Span(Protocol):
    """What is needed of a span."""

    def set_attribute(self, key: str, value: Any) -> None:
        """Say something about it."""

    def end(self) -> None:
        """Note that it is over."""


class Tracer(Protocol):
    """What is needed of a tracer."""

    def start_span(self, name: str, *, attributes: dict[str, Any]) -> Span:
        """Begin a span."""


class Sending(Protocol):
    """A connection that sends messages."""

    def send(self, payload: bytes) -> Deferred[bytes]:
        """Send one, give its reply."""

    def close(self) -> Deferred[None]:
        """Stop for good."""


def open_tracer(endpoint: str, share: float) -> tuple[Tracer, Callable[[], None]]:
    """Give a tracer that exports to a collector, and its end. Raises TracingUnavailable."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  # an extra
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  # an extra
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import TraceIdRatioBased  # noqa: PLC0415
    except ImportError:
        raise TracingUnavailable from None
    resource = Resource.create({"service.name": "report-bridge"})
    provider = TracerProvider(sampler=TraceIdRatioBased(share), resource=resource)
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider.get_tracer("report-bridge"), provider.shutdown


def traced_handler(handle: Handler, tracer: Tracer, listener: str) -> Handler:
    """Let every frame of a listener be a span, from its arrival to its answer."""

    def answer(frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        attributes = {"hl7.listener": listener, "hl7.size": len(frame.payload)}
        span = tracer.start_span("hl7 receive", attributes=attributes)
        return handle(frame, peer).addBoth(_ended, span)

    return answer


class TracedSender:
    """A connection whose messages are spans, from their sending to their reply."""

    def __init__(self, inner: Sending, tracer: Tracer, destination: str) -> None:
        """Send by `inner`."""
        self._inner = inner
        self._tracer = tracer
        self._destination = destination

    def send(self, payload: bytes) -> Deferred[bytes]:
        """Send one message, give its reply."""
        attributes = {"hl7.destination": self._destination, "hl7.size": len(payload)}
        span = self._tracer.start_span("hl7 send", attributes=attributes)
        return self._inner.send(payload).addBoth(_ended, span)

    def close(self) -> Deferred[None]:
        """Stop for good."""
        return self._inner.close()


def traced(inner: Sending, tracer: Tracer | None, destination: str) -> Sending:
    """Give a connection that is traced, if anything is."""
    return inner if tracer is None else TracedSender(inner, tracer, destination)


def _ended(outcome: Any, span: Span) -> Any:
    with suppress(Exception):  # a trace must not change what it traces
        if isinstance(outcome, Failure):
            span.set_attribute("error.type", type(outcome.value).__name__)
        span.end()
    return outcome
