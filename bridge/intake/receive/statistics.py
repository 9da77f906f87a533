"""Metrics of a listener: connections, frames, acknowledgments. No payload is read."""

from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from time import monotonic, perf_counter

import structlog
from twisted.python.failure import Failure
from typing_extensions import override

from bridge.intake.receive.verdict import Verdict
from bridge.metrics import Metrics
from bridge.queue.arrivals import Receipt
from mappings.hl7.refusals import AckCode, MessageRefusal
from mllp.contract import Handler, Peer, ReplyCallback, ServerObserver
from mllp.errors import FrameMemoryExhausted, FramingError
from mllp.framing import Frame
from mllp.limits import AdmissionRefusal
from mllp.tls import HandshakeFailure

_REPORT_EVERY = 60.0  # seconds


class AckCounter:
    """Counts acknowledgments of one listener by code and error condition."""

    def __init__(self, metrics: Metrics, listener: str) -> None:
        # Both labels come from HL7 tables: the cache stays small.
        self._acks = cache(partial(metrics.acks.labels, listener))
        self._acks(AckCode.ACCEPT.value, "")  # exported from the start, as 0
        received = metrics.received.labels
        self._accepted = received(listener, "accepted")
        self._negative = received(listener, "refused")
        self._retransmits = received(listener, "retransmit")
        self._duplicates = metrics.duplicates.labels(listener)
        self._reused = metrics.reused_ids.labels(listener)
        self._suspects = metrics.charset_suspects.labels(listener)

    def stored(self, receipt: Receipt, verdict: Verdict) -> None:
        """Count a stored message with its acknowledgment code."""
        error = verdict.refusals[0].error_code.value if verdict.refusals else ""
        self._acks(receipt.ack_code, error).inc()
        if receipt.duplicate:
            self._duplicates.inc()
            self._retransmits.inc()
        else:
            (self._negative if verdict.refusals else self._accepted).inc()
        if receipt.reused:
            self._reused.inc()
        if verdict.charset_suspect:
            self._suspects.inc()

    def refused(self, refusal: MessageRefusal) -> None:
        self._negative.inc()
        self._acks(refusal.ack_code.value, refusal.error_code.value).inc()


class WireCounter(ServerObserver):
    """Counts the events of one listener's transport."""

    def __init__(
        self, metrics: Metrics, listener: str, frame_counts: Counter[str] | None = None
    ) -> None:
        """`frame_counts` counts the frames of each listener for the console."""
        self._frame_counts = Counter[str]() if frame_counts is None else frame_counts
        self._refusals = metrics.frames_refused
        self._listener = listener
        self._open = metrics.connections.labels(listener)
        self._refused = metrics.connections_refused.labels(listener)
        self._evicted = metrics.connections_evicted.labels(listener)
        self._reports = _RateLimitedLog(listener)
        self._frames = metrics.frames.labels(listener)
        self._bytes = metrics.frame_bytes.labels(listener)
        self._noise = metrics.noise_bytes.labels(listener)
        self._handshakes = metrics.handshakes

    @override
    def connection_opened(self, peer: Peer) -> None:
        self._open.inc()

    @override
    def connection_closed(self, peer: Peer) -> None:
        self._open.dec()

    @override
    def refused(self, reason: AdmissionRefusal, host: str) -> None:
        self._refused.inc()
        if reason is not AdmissionRefusal.DRAINING:
            self._reports.add(f"connection refused: {reason}", host)

    @override
    def evicted(self, host: str) -> None:
        self._evicted.inc()
        self._reports.add("connection closed: its slot was needed for another", host)

    @override
    def handshake_failed(self, host: str, why: HandshakeFailure) -> None:
        self._handshakes.note("listener", self._listener, host, why)

    @override
    def frame_received(self, size: int) -> None:
        self._frames.inc()
        self._frame_counts[self._listener] += 1
        self._bytes.inc(size)

    @override
    def noise(self, length: int) -> None:
        self._noise.inc(length)

    @override
    def frame_refused(self, reason: FramingError) -> None:
        self._refusals.labels(self._listener, type(reason).__name__).inc()
        if isinstance(reason, FrameMemoryExhausted):
            self._reports.add("frame refused: all memory for frames is in use", "")


class _RateLimitedLog:
    """Logs events that any client can cause: each kind once a minute, with its count."""

    def __init__(self, listener: str) -> None:
        self._log = structlog.get_logger("intake").bind(listener=listener)
        self._counts = Counter[str]()
        self._next: dict[str, float] = {}

    def add(self, event: str, host: str) -> None:
        """Count an event; log it unless its kind was logged in the last minute."""
        self._counts[event] += 1
        now = monotonic()
        if now >= self._next.get(event, 0.0):
            self._next[event] = now + _REPORT_EVERY
            self._log.warning(event, count=self._counts.pop(event), address=host)


def timed(handle: Handler, metrics: Metrics, listener: str) -> Handler:
    """Return a handler that measures how long each reply takes."""
    observe = metrics.ack_seconds.labels(listener).observe

    def handle_timed(frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        began = perf_counter()

        def observe_reply(replies: Sequence[bytes] | Failure) -> None:
            observe(perf_counter() - began)
            reply(replies)

        handle(frame, peer, observe_reply)

    return handle_timed
