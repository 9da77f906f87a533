"""
OTLP export: sends spans to an OpenTelemetry collector.

The only module that uses OpenTelemetry's SDK, an optional dependency that is loaded on demand.
"""

from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from importlib.util import find_spec
from threading import Thread
from typing import Any, Final

from bridge.errors import BridgeError
from bridge.monitoring.tracing import Span, Tracer

PATIENCE: Final = 3.0
"""Seconds that a stop waits for the collector to accept the last spans."""

_NEEDED: Final = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
_WIDTH = 8
_ALL = (1 << 64) - 1


class TracingUnavailable(BridgeError):  # noqa: N818  # named for what happened
    """Tracing is on, and OpenTelemetry's SDK is not installed."""

    def __init__(self) -> None:
        super().__init__("tracing.endpoint: install report-bridge[tracing], or leave it empty")


def span_context_ids(key: int) -> tuple[int, int]:
    """Derive trace id and parent span id from a trace key, so that all nodes use the same."""
    made = blake2b((key & _ALL).to_bytes(_WIDTH), digest_size=3 * _WIDTH).digest()
    return int.from_bytes(made[_WIDTH:]), int.from_bytes(made[:_WIDTH])


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
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  # an extra
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  # an extra
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.sampling import TraceIdRatioBased  # noqa: PLC0415

    resource = Resource.create({"service.name": "report-bridge"})
    sampler = TraceIdRatioBased(share)
    provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return LinkingTracer(provider.get_tracer("report-bridge")), partial(
        shut_down_within, provider.shutdown
    )


def shut_down_within(end: Callable[[], object], patience: float = PATIENCE) -> None:
    """Export the remaining spans, or drop them after `patience` seconds."""
    ending = Thread(target=end, name="traces", daemon=True)
    ending.start()
    ending.join(patience)


class LinkingTracer:
    """A tracer of the SDK that puts spans with the same key into one trace."""

    def __init__(self, tracer: Any) -> None:
        """`tracer` is the SDK's tracer."""
        self._tracer = tracer

    def start_span(self, name: str, *, attributes: dict[str, Any], key: int | None = None) -> Span:
        """Start a span; spans with the same key belong to one trace."""
        context = None if key is None else _context(key)
        span: Span = self._tracer.start_span(name, context=context, attributes=attributes)
        return span


def _context(key: int) -> Any:
    from opentelemetry import trace  # noqa: PLC0415  # an extra

    trace_id, span_id = span_context_ids(key)
    sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    parent = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=sampled)
    return trace.set_span_in_context(trace.NonRecordingSpan(parent))
