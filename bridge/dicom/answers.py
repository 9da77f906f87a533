"""Counts the answers to what modalities send: metrics, and the activity of peers. For threads."""

import time
from collections.abc import Callable
from threading import Lock

from bridge.metrics import Metrics
from bridge.orders.received_objects import DICOM_LISTENER


class AnswerCounter:
    """Counts answers by peer, request and status, and as those of a listener."""

    def __init__(self, metrics: Metrics, on_request: Callable[[str, str, int], object]) -> None:
        """`on_request` gets peer, request and 0; on any thread."""
        self._metrics = metrics
        self._on_request = on_request
        self._lock = Lock()  # the counters of listeners have none

    def count(
        self, peer: str, request: str, status: str, *, is_success: bool, began: float
    ) -> None:
        """Count an answer; `began` is the time of the request by `time.monotonic`."""
        seconds = time.monotonic() - began
        self._metrics.dicom_requests.labels(peer, request, status).inc()
        self._metrics.dicom_request_seconds.labels(request).observe(seconds)
        outcome = "accepted" if is_success else "refused"
        with self._lock:
            self._metrics.received.labels(DICOM_LISTENER, outcome).inc()
        self._on_request(peer, request, 0)
