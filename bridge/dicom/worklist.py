"""
The modality worklist: the C-FIND SCP of PS3.4 annex K.

A query reads the database each time, so it sees an order as soon as it is applied. While the peer
is slow, the query waits: at most a page of steps is in memory.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from typing import Any, Final

import structlog
from pydicom.dataset import Dataset
from pydicom.tag import Tag
from pydicom.uid import ExplicitVRBigEndian, ExplicitVRLittleEndian, ImplicitVRLittleEndian
from pynetdicom import build_context, evt
from pynetdicom.dsutils import decode
from pynetdicom.events import Event
from pynetdicom.sop_class import ModalityWorklistInformationFind  # type: ignore[attr-defined]

from bridge.dicom import encoding, matching
from bridge.dicom.character_sets import choose
from bridge.dicom.matching import BadKey, Query
from bridge.dicom.search import find_steps
from bridge.dicom.server import Peer
from bridge.dicom.statuses import (
    CANCEL,
    NOT_THE_SOP_CLASS,
    OUT_OF_RESOURCES,
    PENDING,
    PENDING_UNSUPPORTED_KEYS,
    UNABLE_TO_PROCESS,
)
from bridge.metrics import Metrics
from bridge.redaction import describe
from bridge.store.database import Database
from bridge.store.errors import StoreError

Answer = tuple[Dataset | int, Dataset | None]
_BATCH: Final = 20
"""Answers that are sent before the next ones are made, and before C-CANCEL is looked for."""
_POLL_SECONDS: Final = 0.001
_COMMENT: Final = 64


class WorklistService:
    """Answers C-FIND requests of the modality worklist."""

    name: Final = "worklist"
    contexts: Final = (
        build_context(
            ModalityWorklistInformationFind,
            [ExplicitVRLittleEndian, ImplicitVRLittleEndian, ExplicitVRBigEndian],
        ),
    )

    def __init__(
        self,
        database: Database,
        metrics: Metrics,
        on_request: Callable[[str, str, int], object],
    ) -> None:
        """`on_request` gets peer, request and number of answers; on any thread."""
        self._database = database
        self._metrics = metrics
        self._on_request = on_request
        self._log = structlog.get_logger("dicom")
        self.handle: Mapping[Any, Any] = {evt.EVT_C_FIND: self.find}

    def find(self, event: Event, peer: Peer) -> Iterator[Answer]:
        """Yield the answers to a query, and a status if it does not end with success."""
        began, count, status = time.monotonic(), 0, 0
        try:
            for answer in self._answers(event, peer):
                if not count and answer[1] is not None:
                    seconds = time.monotonic() - began
                    self._metrics.dicom_first_answer.labels(peer.title).observe(seconds)
                count += answer[1] is not None
                status = answer[0].Status if isinstance(answer[0], Dataset) else answer[0]
                yield answer
        finally:
            final = status if status not in (PENDING, PENDING_UNSUPPORTED_KEYS) else 0
            self._metrics.dicom_requests.labels(peer.title, "C-FIND", f"{final:04X}").inc()
            self._metrics.dicom_answers.labels(peer.title).inc(count)
            self._on_request(peer.title, "C-FIND", count)
            self._metrics.dicom_request_seconds.labels("C-FIND").observe(time.monotonic() - began)

    def _answers(self, event: Event, peer: Peer) -> Iterator[Answer]:
        try:
            query, charset = encoding.read_query(event.identifier)
            matching.check(query)
        except BadKey as error:
            yield _failure(NOT_THE_SOP_CLASS, str(error), error.tag), None
            return
        except Exception:  # noqa: BLE001  # of pydicom, for any malformed identifier
            yield _failure(NOT_THE_SOP_CLASS, "the identifier is malformed"), None
            return
        try:
            yield from self._send(event, peer, query, charset)
        except StoreError as error:
            self._log.error("worklist query failed", error=describe(error))
            yield _failure(UNABLE_TO_PROCESS, "the database is not available"), None

    def _send(self, event: Event, peer: Peer, query: Query, charset: str) -> Iterator[Answer]:
        limit = peer.settings.max_answers
        found = find_steps(self._database, peer.settings, query)
        if peer.settings.on_limit == "refuse":
            kept = [next_found for next_found, _ in zip(found, range(limit + 1), strict=False)]
            if len(kept) > limit:
                yield _failure(OUT_OF_RESOURCES, f"more than {limit} steps match"), None
                return
            found = iter(kept)
        for count, (_, item) in enumerate(found):
            if count == limit:
                return
            if count % _BATCH == 0 and not self._is_wanted(event):
                yield CANCEL, None
                return
            unknown = matching.has_unknown_keys(query, item)
            status = PENDING_UNSUPPORTED_KEYS if unknown else PENDING
            yield status, _identifier(event, peer, matching.answer(query, item), charset)

    def _is_wanted(self, event: Event) -> bool:
        """Wait until the answers are sent; return False after C-CANCEL or the association's end."""
        dul = event.assoc.dul
        while dul.to_provider_queue.qsize():
            if not dul.is_alive():
                return False
            time.sleep(_POLL_SECONDS)
        return not event.is_cancelled and dul.is_alive()


def _identifier(event: Event, peer: Peer, item: dict[str, Any], requested: str) -> Dataset:
    """Return an answer as pynetdicom sends it, in the transfer syntax of the association."""
    charset = choose("".join(encoding.texts(item)), requested, peer.settings.charset)
    syntax = event.context.transfer_syntax
    implicit, little = syntax.is_implicit_VR, syntax.is_little_endian
    written = encoding.write(item, charset, implicit=implicit, little=little)
    return decode(BytesIO(written), implicit, little)


def _failure(status: int, comment: str, tag: str = "") -> Dataset:
    found = Dataset()
    found.Status = status
    found.ErrorComment = comment[:_COMMENT]
    if tag:
        found.OffendingElement = [Tag(int(tag, 16))]
    return found
