"""Counts the answers to what modalities send: metrics, and the activity of peers. For threads."""

import time
from collections.abc import Callable
from threading import Lock
from typing import Final

from bridge.dicom.statuses import DUPLICATE_INSTANCE, MAY_NOT_BE_UPDATED
from bridge.metrics import Metrics
from bridge.orders.received_objects import DICOM_LISTENER

REPETITIONS: Final = frozenset({f"{DUPLICATE_INSTANCE:04X}", f"{MAY_NOT_BE_UPDATED:04X}"})
"""Answers to a message that was sent again because its first answer was lost."""


class AnswerCounter:
    """Counts answers by peer, request and status, and as those of a listener."""

    def __init__(
        self,
        metrics: Metrics,
        on_request: Callable[[str, str, int], object],
        on_refusal: Callable[[str, str, str], object],
    ) -> None:
        """
        `on_request` gets peer, request and 0, `on_refusal` request with status, address and peer.

        Both are called on any thread.
        """
        self._metrics = metrics
        self._on_request, self._on_refusal = on_request, on_refusal
        self._lock = Lock()  # the counters of listeners have none

    def count(
        self,
        peer: str,
        request: str,
        status: str,
        *,
        is_success: bool,
        began: float,
        address: str,
    ) -> None:
        """
        Count an answer; `began` is the time of the request by `time.monotonic`.

        `peer` is empty if the sender is none: who authenticated it has noted the refusal.
        """
        seconds = time.monotonic() - began
        self._metrics.dicom_requests.labels(peer, request, status).inc()
        self._metrics.dicom_request_seconds.labels(request).observe(seconds)
        outcome = "accepted" if is_success else "refused"
        with self._lock:
            self._metrics.received.labels(DICOM_LISTENER, outcome).inc()
        if not peer:
            return
        self._on_request(peer, request, 0)
        if not is_success and status not in REPETITIONS:
            self._on_refusal(f"{request} {status}", address, peer)
