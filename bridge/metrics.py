"""
Prometheus metrics. Labels are configured names and standard codes only.

Each process has one `Metrics`. `FastCounters` and `FastHistograms` replace the library's classes on
the ACK path, because the library takes a lock for each increment, which costs more than the
increment. The registry exports them in the same format.
"""

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from bridge.handshake_counts import HandshakeCounts

_INFINITE = "+Inf"


class FastCounter:
    """A counter without a lock, for one thread."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, amount: int = 1) -> None:
        self.value += amount


class FastCounters(Collector):
    def __init__(
        self, name: str, text: str, labels: Sequence[str], registry: CollectorRegistry
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._counters: dict[tuple[str, ...], FastCounter] = {}
        registry.register(self)

    def labels(self, *values: str) -> FastCounter:
        return self._counters.setdefault(values, FastCounter())

    def values(self) -> dict[tuple[str, ...], int]:
        """Return the counts by the values of their labels."""
        return {values: count.value for values, count in list(self._counters.items())}

    @override
    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for values, count in list(self._counters.items()):
            family.add_metric(values, count.value)
        yield family


class FastHistogram:
    """A histogram without a lock, for one thread."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulative counts by upper bound, as Prometheus expects them."""
        cumulative, buckets = 0, []
        for bound, count in zip((*map(str, self.bounds), _INFINITE), self.counts, strict=True):
            cumulative += count
            buckets.append((bound, float(cumulative)))
        return buckets


class FastHistograms(Collector):
    """Histograms with labels; `bounds` are in ascending order."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        registry: CollectorRegistry,
        bounds: Sequence[float],
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._bounds = bounds
        self._histograms: dict[tuple[str, ...], FastHistogram] = {}
        registry.register(self)

    def labels(self, *values: str) -> FastHistogram:
        return self._histograms.setdefault(values, FastHistogram(self._bounds))

    def values(self) -> dict[tuple[str, ...], list[int]]:
        """
        Return the counts by the values of their labels.

        One count for each bound, and one for larger values; they are not cumulative.
        """
        return {values: list(found.counts) for values, found in list(self._histograms.items())}

    @override
    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for values, histogram in list(self._histograms.items()):
            family.add_metric(values, buckets=histogram.buckets(), sum_value=histogram.total)
        yield family


class _MergedFamilies(Collector):
    def __init__(
        self,
        registry: CollectorRegistry,
        others: Iterable[tuple[str, Mapping[str, str], float]],
    ) -> None:
        self._registry = registry
        self._others: dict[str, dict[frozenset[tuple[str, str]], list[float]]] = {}
        for name, labels, value in others:
            values = self._others.setdefault(name, {})
            values.setdefault(frozenset(labels.items()), []).append(value)

    @override
    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            merged = Metric(family.name, family.documentation, family.type)
            left: dict[str, dict[frozenset[tuple[str, str]], list[float]]] = {}
            for sample in family.samples:
                others = left.setdefault(sample.name, dict(self._others.get(sample.name, {})))
                found = others.pop(frozenset(sample.labels.items()), [])
                value = self._merge(family, sample.name, [sample.value, *found])
                merged.add_sample(sample.name, sample.labels, value)
            for name in _SAMPLES.get(family.type, ("",)):
                full = f"{family.name}{name}"
                others = left.get(full, self._others.get(full, {}))
                for labels, values in others.items():
                    merged.add_sample(full, dict(labels), self._merge(family, full, values))
            yield merged

    @staticmethod
    def _merge(family: Metric, name: str, values: Sequence[float]) -> float:
        is_gauge = family.type == "gauge" or name.endswith("_created")
        return max(values) if is_gauge else sum(values)


_SAMPLES: Final = {
    "counter": ("_total", "_created"),
    "histogram": ("_bucket", "_count", "_sum", "_created"),
}
"""The endings of sample names by the type of their family."""

CONNECTIONS: Final = "bridge_mllp_connections"
CONNECTIONS_REFUSED: Final = "bridge_mllp_connections_refused"
HTTP_CLOSED: Final = "bridge_http_connections_closed"
CONNECTIONS_EVICTED: Final = "bridge_mllp_connections_evicted"
HANDSHAKES_FAILED: Final = "bridge_tls_handshakes_failed"
FRAMES: Final = "bridge_mllp_frames"
FRAME_BYTES: Final = "bridge_mllp_frame_bytes"
NOISE_BYTES: Final = "bridge_mllp_noise_bytes"
FRAMES_REFUSED: Final = "bridge_mllp_frames_refused"
ACKS: Final = "bridge_acknowledgments"
DUPLICATES: Final = "bridge_retransmits"
REUSED_IDS: Final = "bridge_reused_control_ids"
CHARSET_SUSPECTS: Final = "bridge_charset_suspects"
VALIDATION_FINDINGS: Final = "bridge_validation_findings"
RECEIVED: Final = "bridge_messages_received"
ACK_SECONDS: Final = "bridge_acknowledgment_seconds"
QUEUE_DEPTH: Final = "bridge_queue_depth"
QUEUE_AGE: Final = "bridge_queue_oldest_seconds"
APPLIED: Final = "bridge_messages_applied"
ENGINE_FAILURES: Final = "bridge_engine_failures"
DELIVERIES: Final = "bridge_deliveries"
DELIVERY_SECONDS: Final = "bridge_sign_to_delivery_seconds"
REPLY_SECONDS: Final = "bridge_reply_seconds"
CIRCUIT_OPEN: Final = "bridge_destination_circuit_open"
PAUSED: Final = "bridge_channel_paused"
ALERTS: Final = "bridge_alerts"
CHANGES: Final = "bridge_report_changes"
DIFFERENCES: Final = "bridge_reconcile_differences"
DICOM_ASSOCIATIONS: Final = "bridge_dicom_associations"
DICOM_ACCEPTED: Final = "bridge_dicom_associations_accepted"
DICOM_REFUSED: Final = "bridge_dicom_refused"
DICOM_REQUESTS: Final = "bridge_dicom_requests"
DICOM_ANSWERS: Final = "bridge_dicom_answers"
DICOM_SECONDS: Final = "bridge_dicom_request_seconds"
DICOM_FIRST: Final = "bridge_dicom_first_answer_seconds"
JOB_RUN: Final = "bridge_job_last_run_timestamp_seconds"
JOB_SECONDS: Final = "bridge_job_last_run_seconds"
JOB_FAILURES: Final = "bridge_job_failures"

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

FAST = (
    *(0.001, 0.0015, 0.002, 0.003, 0.004, 0.006, 0.008, 0.011, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08),
    *(0.11, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.1, 1.5, 2.0, 4.0, 8.0, 15.0, 60.0),
)
"""Seconds to an acknowledgment or reply; so close that a percentile is exact to a fifth or so."""
SLOW = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)


class Metrics:
    """All metrics of a process; `render` returns the Prometheus text format."""

    def __init__(self) -> None:
        """Register all metrics in a new registry."""
        self.registry = CollectorRegistry()
        self._register_intake()
        self._register_delivery()
        self._register_dicom()
        self._register_jobs()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _register_intake(self) -> None:
        registry, counter = self.registry, self._counter
        self.connections = Gauge(CONNECTIONS, "Open connections", ("listener",), registry=registry)
        self.connections_refused = counter(
            CONNECTIONS_REFUSED, "Connections closed at accept", "listener"
        )
        self.connections_evicted = counter(
            CONNECTIONS_EVICTED, "Connections closed to make room for others", "listener"
        )
        self.http_connections_closed = counter(
            HTTP_CLOSED, "HTTP connections refused or closed for a limit", "reason"
        )
        self.handshakes_failed = counter(
            HANDSHAKES_FAILED, "TLS handshakes that failed", "kind", "name"
        )
        self.handshakes = HandshakeCounts(
            lambda kind, name: self.handshakes_failed.labels(kind, name).inc(),
            lambda: time.time_ns() // 1_000_000,
        )
        """Failed handshakes until they are stored."""
        self.frames = FastCounters(FRAMES, "Frames received", ["listener"], registry)
        self.frame_bytes = FastCounters(FRAME_BYTES, "Bytes in frames", ["listener"], registry)
        self.noise_bytes = counter(NOISE_BYTES, "Bytes between frames", "listener")
        self.frames_refused = counter(
            FRAMES_REFUSED, "Frames too large or unfinished", "listener", "reason"
        )
        self.acks = FastCounters(
            ACKS, "Acknowledgments sent", ["listener", "code", "error"], registry
        )
        self.received = FastCounters(
            RECEIVED, "Messages answered", ["listener", "outcome"], registry
        )
        """`outcome`: accepted, refused, or retransmit."""
        self.duplicates = counter(DUPLICATES, "Retransmits recognised", "listener")
        self.reused_ids = counter(REUSED_IDS, "Control ids with other bytes", "listener")
        self.charset_suspects = counter(
            CHARSET_SUSPECTS, "Messages not in the charset they claim", "listener"
        )
        self.validation_findings = counter(
            VALIDATION_FINDINGS, "Differences from the structure", "listener", "error"
        )
        self.ack_seconds = FastHistograms(ACK_SECONDS, "Frame to ACK", ["listener"], registry, FAST)

    def _register_delivery(self) -> None:
        registry, counter = self.registry, self._counter
        self.queue_depth = Gauge(
            QUEUE_DEPTH, "Items by queue and state", ("queue", "state"), registry=registry
        )
        self.queue_age = Gauge(
            QUEUE_AGE, "Age of the oldest unfinished item", ("queue",), registry=registry
        )
        self.applied = counter(APPLIED, "Messages applied", "listener", "outcome", "code")
        self.engine_failures = counter(
            ENGINE_FAILURES, "Calls to the report service that failed", "failure", "code"
        )
        self.deliveries = counter(DELIVERIES, "Results sent", "destination", "reply", "outcome")
        self.circuit_open = Gauge(
            CIRCUIT_OPEN,
            "1 while the circuit of a destination is open",
            ("destination",),
            registry=registry,
        )
        self.delivery_seconds = Histogram(
            DELIVERY_SECONDS,
            "Release to acknowledged result",
            ("destination",),
            registry=registry,
            buckets=SLOW,
        )
        self.reply_seconds = FastHistograms(
            REPLY_SECONDS, "Message to reply", ["destination"], registry, FAST
        )
        self.changes = counter(CHANGES, "Changes of reports seen", "event")
        self.paused = Gauge(
            PAUSED, "1 while a channel is paused", ("kind", "name"), registry=registry
        )
        self.alerts = Gauge(
            ALERTS, "1 while an alert of this kind is active", ("kind",), registry=registry
        )
        self._alert_kinds: set[str] = set()
        self.differences = counter(DIFFERENCES, "Differences that reconciling found", "kind")

    def _register_dicom(self) -> None:
        registry, counter = self.registry, self._counter
        self.dicom_associations = Gauge(
            DICOM_ASSOCIATIONS, "Open DICOM associations", registry=registry
        )
        self.dicom_accepted = counter(DICOM_ACCEPTED, "DICOM associations accepted", "peer")
        self.dicom_refused = counter(
            DICOM_REFUSED, "DICOM connections and associations refused or ended", "peer", "reason"
        )
        self.dicom_requests = counter(
            DICOM_REQUESTS, "DICOM requests answered", "peer", "request", "status"
        )
        self.dicom_answers = counter(DICOM_ANSWERS, "Steps sent to peers", "peer")
        self.dicom_request_seconds = Histogram(
            DICOM_SECONDS,
            "DICOM request to last answer",
            ("request",),
            registry=registry,
            buckets=FAST,
        )
        self.dicom_first_answer = Histogram(
            DICOM_FIRST, "Query to first step", ("peer",), registry=registry, buckets=FAST
        )

    def _register_jobs(self) -> None:
        labels, registry = ("name",), self.registry
        self.job_run = Gauge(
            JOB_RUN, "When a periodic job last ended a run", labels, registry=registry
        )
        self.job_seconds = Gauge(JOB_SECONDS, "Duration of its last run", labels, registry=registry)
        self.job_failures = self._counter(JOB_FAILURES, "Runs that failed", *labels)

    def show_job(self, job: str, at: float, seconds: float) -> None:
        """Set the gauges of a periodic job: end (Unix time) and duration of its last run."""
        self.job_run.labels(job).set(at)
        self.job_seconds.labels(job).set(seconds)

    def show_alerts(self, kinds: AbstractSet[str]) -> None:
        """Set the gauge of alerts to the kinds with an active alert."""
        self._alert_kinds |= kinds
        for kind in self._alert_kinds:
            self.alerts.labels(kind).set(kind in kinds)

    def show_queue(self, queue: str, depths: Mapping[str, int], oldest_seconds: float) -> None:
        """Set the gauges of one queue: items by state, and the age of the oldest."""
        for state, depth in depths.items():
            self.queue_depth.labels(queue, state).set(depth)
        self.queue_age.labels(queue).set(oldest_seconds)

    def hide_queues(self) -> None:
        """Remove the gauges of all queues: they are unknown now, and an old value would mislead."""
        self.queue_depth.clear()
        self.queue_age.clear()

    def samples(self) -> list[tuple[str, Mapping[str, str], float]]:
        """Return name, labels and value of all samples, for `render` of another process."""
        return [
            (sample.name, sample.labels, sample.value)
            for family in self.registry.collect()
            for sample in family.samples
        ]

    def render(self, others: Iterable[tuple[str, Mapping[str, str], float]] = ()) -> bytes:
        """
        Return all metrics in the Prometheus text format, with the samples of other processes.

        Counters and histograms are added. Of gauges the larger value is shown: only one process
        sets it.
        """
        if not others:
            return generate_latest(self.registry)
        merged = CollectorRegistry()
        merged.register(_MergedFamilies(self.registry, others))
        return generate_latest(merged)
