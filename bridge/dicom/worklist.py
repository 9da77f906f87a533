"""
The modality worklist: the C-FIND SCP of PS3.4 annex K.

A query reads the database each time, so it sees an order as soon as it is applied. While the peer
is slow, the query waits: at most a page of steps is in memory.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import structlog
from pydicom.dataset import Dataset
from pydicom.tag import Tag
from pynetdicom import build_context, evt
from pynetdicom.events import Event
from pynetdicom.pdu_primitives import P_DATA
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
    SUCCESS,
    UNABLE_TO_PROCESS,
)
from bridge.metrics import Metrics
from bridge.redaction import describe
from bridge.store.database import Database
from bridge.store.errors import StoreError
from parsers.dicom_file import check_structure

Answer = tuple[Dataset | int, Dataset | None]
_BATCH: Final = 20
"""Answers that are sent before the next ones are made, and before C-CANCEL is looked for."""
_POLL_SECONDS: Final = 0.001
_COMMENT: Final = 64
_MIN_PDU, _MAX_PDU = 2**10, 2**16
_VALUE_HEAD: Final = 6
_COMMAND, _DATA, _LAST = 1, 0, 2
"""Bits of the message control header (PS3.8 E.2)."""
_C_FIND_RSP: Final = 0x8020
_WITH_DATA_SET: Final = 0x0001


class WorklistService:
    """Answers C-FIND requests of the modality worklist."""

    name: Final = "worklist"
    contexts: Final = (build_context(ModalityWorklistInformationFind, [*encoding.SYNTAXES]),)

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
        """Answer a query; yield the final status."""
        began = time.monotonic()
        sender = AnswerSender(event)
        final: Dataset | int = CANCEL
        try:
            final = self._answer(event, peer, sender)
        finally:
            status = final.Status if isinstance(final, Dataset) else final
            self._metrics.dicom_requests.labels(peer.title, "C-FIND", f"{status:04X}").inc()
            self._metrics.dicom_answers.labels(peer.title).inc(sender.count)
            self._metrics.dicom_request_seconds.labels("C-FIND").observe(time.monotonic() - began)
            if sender.first_at is not None:
                self._metrics.dicom_first_answer.labels(peer.title).observe(sender.first_at - began)
            self._on_request(peer.title, "C-FIND", sender.count)
        yield final, None

    def _answer(self, event: Event, peer: Peer, sender: "AnswerSender") -> Dataset | int:
        """Send the answers; return the final status."""
        try:
            query, charset = encoding.read_query(event.identifier, peer.settings.charset)
            _check_lengths(event)
            matching.check(query)
        except BadKey as error:
            return _failure(NOT_THE_SOP_CLASS, str(error), error.tag)
        except Exception:  # noqa: BLE001  # of pydicom, for any malformed identifier
            return _failure(NOT_THE_SOP_CLASS, "the identifier is malformed")
        if not query:
            return _failure(NOT_THE_SOP_CLASS, "the identifier has no keys")
        try:
            return self._send(event, peer, query, charset, sender)
        except StoreError as error:
            self._log.error("worklist query failed", error=describe(error))
            return _failure(UNABLE_TO_PROCESS, "the database is not available")

    def _send(
        self, event: Event, peer: Peer, query: Query, charset: str, sender: "AnswerSender"
    ) -> Dataset | int:
        limit = peer.settings.max_answers
        found = find_steps(self._database, peer.settings, query)
        if peer.settings.on_limit == "refuse":
            kept = list(itertools.islice(found, limit + 1))
            if len(kept) > limit:
                return _failure(OUT_OF_RESOURCES, f"more than {limit} steps match")
            found = iter(kept)
        for count, (_, item) in enumerate(itertools.islice(found, limit)):
            is_batch = count == 1 or count % _BATCH == 0  # the first answer leaves at once
            if is_batch and (not sender.wait() or event.is_cancelled):
                return CANCEL
            unknown = matching.has_unknown_keys(query, item)
            status = PENDING_UNSUPPORTED_KEYS if unknown else PENDING
            answer = matching.answer(query, item)
            characters = "".join(encoding.texts(answer))
            sender.send(status, answer, choose(characters, charset, peer.settings.charset))
        return SUCCESS


class AnswerSender:
    """
    Sends pending responses to a query.

    pynetdicom would encode their command again for each of them, which takes most of the time of a
    query.
    """

    def __init__(self, event: Event) -> None:
        self.count = 0
        self.first_at: float | None = None
        self._dul = event.assoc.dul
        self._context = event.context.context_id
        syntax = event.context.transfer_syntax
        self._implicit, self._little = syntax.is_implicit_VR, syntax.is_little_endian
        self._message_id = event.message_id
        # PS3.8 D.1: 0 is no limit. A tiny limit would make a thousand PDUs of an answer.
        limit = max(event.assoc.requestor.maximum_length or _MAX_PDU, _MIN_PDU)
        self._room = limit - _VALUE_HEAD
        self._commands: dict[int, bytes] = {}

    def send(self, status: int, item: dict[str, Any], charset: str) -> None:
        """Send one answer, in the transfer syntax of the association."""
        if (command := self._commands.get(status)) is None:
            command = self._commands[status] = self._encode_command(status)
        data = encoding.write(item, charset, implicit=self._implicit, little=self._little)
        self._send_fragments(command, _COMMAND)
        self._send_fragments(data, _DATA)
        self.count += 1
        if self.first_at is None:
            self.first_at = time.monotonic()

    def wait(self) -> bool:
        """Wait until all is sent, and C-CANCEL was read; return False if the association ended."""
        while self._dul.to_provider_queue.qsize():
            if not self._dul.is_alive():
                return False
            time.sleep(_POLL_SECONDS)
        return self._dul.is_alive()

    def _send_fragments(self, data: bytes, kind: int) -> None:
        for at in range(0, len(data), self._room):
            part = data[at : at + self._room]
            control = kind | (_LAST if at + len(part) == len(data) else 0)
            primitive = P_DATA()
            value: Any = [self._context, bytes((control,)) + part]
            primitive.presentation_data_value_list = [value]
            self._dul.send_pdu(primitive)

    def _encode_command(self, status: int) -> bytes:
        """Return the command set of a C-FIND-RSP (PS3.7 table 9.3-4)."""
        command = {
            "00000002": {"vr": "UI", "Value": [ModalityWorklistInformationFind]},
            "00000100": {"vr": "US", "Value": [_C_FIND_RSP]},
            "00000120": {"vr": "US", "Value": [self._message_id]},
            "00000800": {"vr": "US", "Value": [_WITH_DATA_SET]},
            "00000900": {"vr": "US", "Value": [status]},
        }
        members = encoding.write(command, "", implicit=True, little=True)
        length = {"00000000": {"vr": "UL", "Value": [len(members)]}}
        return encoding.write(length, "", implicit=True, little=True) + members


def _check_lengths(event: Event) -> None:
    """Raise DicomRefused if the identifier is cut: pydicom would read the rest of a value."""
    request: Any = event.request
    body = request.Identifier.getvalue()
    check_structure(body, len(body), little=event.context.transfer_syntax.is_little_endian)


def _failure(status: int, comment: str, tag: str = "") -> Dataset:
    found = Dataset()
    found.Status = status
    found.ErrorComment = comment[:_COMMENT]
    if tag:
        found.OffendingElement = [Tag(int(tag, 16))]
    return found
