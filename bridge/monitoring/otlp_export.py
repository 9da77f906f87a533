"""The door to OpenTelemetry's SDK, an extra: not loaded where no traces are asked for."""

from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from importlib.util import find_spec
from threading import Thread
from typing import Any, Final

from bridge.errors import BridgeError
from bridge.monitoring.tracing import Span, Tracer

PATIENCE: Final = 3.0
"""Seconds that the end of the service may wait for a collector to take the last spans."""

_NEEDED: Final = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
_WIDTH = 8
_ALL = (1 << 64) - 1


class TracingUnavailable(BridgeError):  # noqa: N818  # named for what happened
    """Traces are asked for, and OpenTelemetry's SDK is not installed."""

    def __init__(self) -> None:
        super().__init__("tracing.endpoint: install report-bridge[tracing], or leave it empty")


def span_context_ids(mark: int) -> tuple[int, int]:
    """Give the trace and the parent span that all spans with a mark have, on whatever node."""
    made = blake2b((mark & _ALL).to_bytes(_WIDTH), digest_size=3 * _WIDTH).digest()
    return int.from_bytes(made[_WIDTH:]), int.from_bytes(made[:_WIDTH])


def require_sdk() -> None:
    """Raise TracingUnavailable where the SDK or its exporter is not installed."""
    for name in _NEEDED:
        try:
            found = find_spec(name)
        except ModuleNotFoundError:  # not even what it is a part of
            found = None
        if found is None:
            raise TracingUnavailable


def open_tracer(endpoint: str, share: float) -> tuple[Tracer, Callable[[], None]]:
    """Give a tracer that exports to a collector, and its end. Raises TracingUnavailable."""
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
    """Hand over what is left; a collector that is away or slow loses it, and holds nobody up."""
    ending = Thread(target=end, name="traces", daemon=True)
    ending.start()
    ending.join(patience)


class LinkingTracer:
    """A tracer of the SDK, as `tracing` wants it: marks become traces."""

    def __init__(self, tracer: Any) -> None:
        """Begin spans by `tracer`."""
        self._tracer = tracer

    def start_span(self, name: str, *, attributes: dict[str, Any], mark: int | None = None) -> Span:
        """Begin a span; those with one mark belong together."""
        context = None if mark is None else _context(mark)
        span: Span = self._tracer.start_span(name, context=context, attributes=attributes)
        return span


def _context(mark: int) -> Any:
    from opentelemetry import trace  # noqa: PLC0415  # an extra

    trace_id, span_id = span_context_ids(mark)
    sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    parent = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=sampled)
    return trace.set_span_in_context(trace.NonRecordingSpan(parent))
