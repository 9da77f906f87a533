"""
DICOM sender: stores the objects of a delivery at a PACS by C-STORE, and requests commitment.

Each delivery has an association of its own. All objects are sent, and the statuses of all are the
reply. Raises `NotConnected` if no association was made, and `ReplyLost` if the state at the PACS is
unknown; then all objects are sent again, with the same UIDs. Repeats nothing by itself.

With storage commitment (PS3.4 annex J) the request is stored before the N-ACTION is sent. The PACS
answers on the same association, which stays open for a moment, or later on one of its own, at the
role `dicom`. What becomes of the request does not change the outcome of the delivery: the objects
are stored, and only the request is repeated.
"""

import asyncio
import logging
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pydicom.dataset import Dataset
from pydicom.multival import MultiValue
from pydicom.tag import Tag
from pydicom.uid import UID, ExplicitVRLittleEndian, ImplicitVRLittleEndian
from pynetdicom import AE, evt
from pynetdicom.association import Association
from pynetdicom.presentation import PresentationContext, build_context
from pynetdicom.sop_class import (  # type: ignore[attr-defined]  # the module makes its names
    StorageCommitmentPushModel,
    StorageCommitmentPushModelInstance,
    Verification,
)
from pynetdicom.status import GENERAL_STATUS, STORAGE_SERVICE_CLASS_STATUS
from twisted.internet.defer import Deferred, succeed

from bridge.delivery.dicom_objects import read_documents
from bridge.delivery.dicom_replies import ObjectStatus, write_reply
from bridge.executors import ThreadLimit, Threads
from bridge.queue.commitments import CommitmentRequest, Commitments
from bridge.queue.deliveries import ClaimedDelivery, current_delivery
from bridge.store.errors import StoreError
from mllp.errors import LossReason, NotConnected, ReplyLost
from mllp.tls import describe_handshake
from parsers.dicom_file import IMPLEMENTATION_CLASS, IMPLEMENTATION_VERSION

PACS: Final = ThreadLimit(Threads.EXTERNAL, "PACS", 4, 100)

ANSWER_SECONDS: Final = 3.0
"""How long an association stays open for the answer to a request for commitment."""
_ALERT_SECONDS: Final = 1.0
MAX_OPEN: Final = 4
"""Associations of a destination that stay open for an answer."""

_SUCCESS: Final = 0x0000
_NOT_SUPPORTED: Final = 0x0122
_SYNTAXES: Final[list[str | UID]] = [ExplicitVRLittleEndian, ImplicitVRLittleEndian]
_REQUEST_COMMITMENT: Final = 1  # PS3.4 J.3.2, action type

# pynetdicom logs values of objects.
logging.getLogger("pynetdicom").setLevel(logging.CRITICAL + 1)


@dataclass(frozen=True, slots=True)
class DicomReceiver:
    """
    The address of a PACS, and how to connect to it; times in seconds.

    `called` and `calling` are AE titles. `tls` returns the context for the next connection, None
    without TLS. `server_name` is the name that the certificate must have.
    """

    host: str
    port: int
    called: str
    calling: str
    connect_timeout: float
    reply_timeout: float
    tls: Callable[[], ssl.SSLContext | None] = lambda: None
    server_name: str = ""


def associate(
    receiver: DicomReceiver,
    contexts: list[PresentationContext],
    handlers: Sequence[tuple[Any, ...]] = (),
) -> Association:
    """Open an association. Blocking. Raises NotConnected."""
    entity = AE(ae_title=receiver.calling)
    entity.implementation_class_uid = IMPLEMENTATION_CLASS
    entity.implementation_version_name = IMPLEMENTATION_VERSION
    entity.connection_timeout = receiver.connect_timeout
    entity.acse_timeout = entity.dimse_timeout = receiver.reply_timeout
    entity.network_timeout = receiver.reply_timeout + ANSWER_SECONDS
    context = receiver.tls()
    tls = None if context is None else (context, receiver.server_name or receiver.host)
    connection = _Connection(receiver.reply_timeout)
    refusals: list[str] = []
    try:
        association = entity.associate(
            receiver.host,
            receiver.port,
            contexts,
            receiver.called,
            tls_args=tls,
            evt_handlers=[
                (evt.EVT_CONN_OPEN, connection.begin),
                (evt.EVT_CONN_CLOSE, connection.end),
                (evt.EVT_REJECTED, lambda event: refusals.append(_rejection(event))),
                *handlers,
            ],
        )
    except (OSError, RuntimeError) as error:  # RuntimeError: no context was made
        raise _not_connected(receiver, error) from None
    if association.is_established:
        return association
    if refusals:
        raise NotConnected(refusals[0])
    raise _not_connected(receiver, None)


class _Connection:
    """Limits how long a send may wait for a peer that does not read, and closes the socket."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._socket: socket.socket | None = None

    def begin(self, event: evt.Event) -> None:
        connection = event.assoc.dul.socket
        if connection is not None and connection.socket is not None:
            self._socket = connection.socket
            limit = struct.pack("ll", int(self._seconds), int(self._seconds % 1 * 1_000_000))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def end(self, _: evt.Event) -> None:
        """Close the socket: pynetdicom does not if the peer has reset it."""
        if self._socket is not None:
            self._socket.close()


def _rejection(event: evt.Event) -> str:
    answer = event.assoc.acceptor.primitive
    reason = "" if answer is None else f": {answer.reason_str}"
    return f"association rejected{reason}"


def _not_connected(receiver: DicomReceiver, error: Exception | None) -> NotConnected:
    """Return why there is no association; pynetdicom does not say it, so connect once more."""
    address = (receiver.host, receiver.port)
    try:
        if isinstance(error, OSError):
            raise error
        with socket.create_connection(address, receiver.connect_timeout) as plain:
            context = receiver.tls()
            if context is not None:
                name = receiver.server_name or receiver.host
                with context.wrap_socket(plain, server_hostname=name) as secured:
                    # In TLS 1.3 a peer refuses our certificate after our side of the handshake.
                    secured.settimeout(_ALERT_SECONDS)
                    with suppress(TimeoutError):
                        secured.recv(1)
    except socket.gaierror:
        return NotConnected("DNSLookupError")
    except OSError as failure:
        if (handshake := describe_handshake(failure)) is not None:
            return NotConnected(handshake.reason, is_tls=True)
        return NotConnected(type(failure).__name__)
    return NotConnected("no association: it gave no answer, or aborted")


def echo(receiver: DicomReceiver) -> int:
    """Send a C-ECHO; return its status. Blocking. Raises NotConnected, ReplyLost."""
    association = associate(receiver, [build_context(Verification)])
    try:
        if not association.accepted_contexts:
            return _NOT_SUPPORTED
        return _status(association.send_c_echo(), time.monotonic(), receiver)
    finally:
        _end(association)


class DicomSender:
    """Stores deliveries at one PACS, one at a time."""

    def __init__(self, receiver: DicomReceiver, commitments: Commitments | None = None) -> None:
        """`commitments` stores requests for commitment; None: none are made."""
        self._receiver = receiver
        self._commitments = commitments
        self._open: set[Association] = set()  # for the answers to requests
        self._lock = threading.Lock()

    def send(self, payload: bytes) -> Deferred[bytes]:
        """Store the objects of one delivery; return their statuses."""
        return Deferred.fromFuture(asyncio.ensure_future(self._send(payload)))

    def close(self) -> Deferred[None]:
        """Abort the associations that wait for answers."""
        with self._lock:
            waiting = list(self._open)
        for association in waiting:
            association.abort()
        return succeed(None)

    async def _send(self, payload: bytes) -> bytes:
        return await PACS.run(self._store, payload, current_delivery.get())

    def _store(self, payload: bytes, delivery: ClaimedDelivery | None) -> bytes:
        """Send all objects, then request commitment for them. Blocking."""
        documents = self._to_send(payload, delivery)
        classes = list(dict.fromkeys(document.SOPClassUID for document in documents))
        contexts = [build_context(sop_class, _SYNTAXES) for sop_class in classes]
        listener = None if self._commitments is None else _AnswerListener(self._commitments)
        handlers: list[tuple[Any, ...]] = []
        if listener is not None:
            contexts.append(build_context(StorageCommitmentPushModel, _SYNTAXES))
            handlers = [(evt.EVT_N_EVENT_REPORT, listener.take)]
        association = associate(self._receiver, contexts, handlers)
        is_waiting = False
        try:
            statuses = [
                self._store_one(association, document, number)
                for number, document in enumerate(documents, start=1)
            ]
            if listener is not None and delivery is not None and _all_stored(statuses):
                requested = self._request_commitment(association, delivery, documents)
                if requested is not None:
                    statuses.append(requested)
                    is_taken = requested.status == _SUCCESS
                    is_waiting = is_taken and self._wait(association, listener)
        finally:
            if not is_waiting:
                _end(association)
        return write_reply(statuses)

    def _to_send(self, payload: bytes, delivery: ClaimedDelivery | None) -> list[Dataset]:
        """Return the objects of a delivery, or those of them that the PACS does not keep."""
        documents = read_documents(payload)
        if self._commitments is None or delivery is None:
            return documents
        try:
            not_kept = self._commitments.not_kept(delivery.delivery_id)
        except StoreError:
            raise ReplyLost(LossReason.CLOSED, "the requests could not be read") from None
        return [one for one in documents if one.SOPInstanceUID in not_kept] or documents

    def _store_one(self, association: Association, document: Dataset, number: int) -> ObjectStatus:
        began = time.monotonic()
        elements = ""
        try:
            answer = association.send_c_store(document, msg_id=number)
        except ValueError:  # no context of the class was accepted
            status = _NOT_SUPPORTED
        except RuntimeError:  # the association has ended
            raise ReplyLost(LossReason.CLOSED) from None
        else:
            status = _status(answer, began, self._receiver)
            elements = _offending(answer)
        return ObjectStatus(
            "C-STORE",
            status,
            describe_status(status) + elements,
            str(document.SOPClassUID),
            str(document.SOPInstanceUID),
        )

    def _request_commitment(
        self, association: Association, delivery: ClaimedDelivery, documents: Sequence[Dataset]
    ) -> ObjectStatus | None:
        """Return the status of a request; None if the PACS did not reply to it."""
        commitments = self._commitments
        if commitments is None:
            raise TypeError("no commitment is requested")
        instances = [str(document.SOPInstanceUID) for document in documents]
        try:
            transaction = commitments.begin(delivery.delivery_id, delivery.destination, instances)
        except StoreError:
            raise ReplyLost(LossReason.CLOSED, "the request could not be stored") from None
        number = len(documents) + 1
        try:
            requested = _request(association, self._receiver, transaction, documents, number)
        except ReplyLost:
            return None
        if requested.status != _SUCCESS:
            with suppress(StoreError):
                commitments.refuse(transaction)
        return requested

    def _wait(self, association: Association, listener: "_AnswerListener") -> bool:
        """Keep an association open for its answer; False if too many are open."""
        with self._lock:
            if len(self._open) >= MAX_OPEN:
                return False
            self._open.add(association)
        threading.Thread(
            target=self._end_after_answer,
            args=(association, listener),
            name="answer of a PACS",
            daemon=True,
        ).start()
        return True

    def _end_after_answer(self, association: Association, listener: "_AnswerListener") -> None:
        listener.answered.wait(ANSWER_SECONDS)
        _end(association)
        with self._lock:
            self._open.discard(association)


def request_again(
    receiver: DicomReceiver, commitments: Commitments, requests: Sequence[CommitmentRequest]
) -> None:
    """
    Make stored requests for commitment on one association, without the objects. Blocking.

    A request that cannot be made stays without an answer, and follows again. Raises NotConnected,
    StoreError.
    """
    listener = _AnswerListener(commitments)
    classes = (StorageCommitmentPushModel, Verification)  # one of them is always accepted
    association = associate(
        receiver,
        [build_context(sop_class, _SYNTAXES) for sop_class in classes],
        [(evt.EVT_N_EVENT_REPORT, listener.take)],
    )
    try:
        is_taken = False
        for number, request in enumerate(requests, start=1):
            documents = [
                document
                for document in read_documents(commitments.payload(request.delivery_id))
                if document.SOPInstanceUID in request.instances
            ]
            if documents:
                message_id = (number - 1) % _MAX_MESSAGE_ID + 1
                status = _request(association, receiver, request.transaction, documents, message_id)
                if status.status == _SUCCESS:
                    is_taken = True
                else:
                    commitments.refuse(request.transaction, status.status, write_reply([status]))
        if is_taken:
            listener.answered.wait(ANSWER_SECONDS)
    except ReplyLost:
        return
    finally:
        _end(association)


_MAX_MESSAGE_ID: Final = 0xFFFF


def _request(
    association: Association,
    receiver: DicomReceiver,
    transaction: str,
    documents: Sequence[Dataset],
    message_id: int,
) -> ObjectStatus:
    """Request commitment for objects; return the status. Raises ReplyLost."""
    request = Dataset()
    request.TransactionUID = transaction
    request.ReferencedSOPSequence = [_reference(document) for document in documents]
    began = time.monotonic()
    try:
        answer, _ = association.send_n_action(
            request,
            _REQUEST_COMMITMENT,
            StorageCommitmentPushModel,
            StorageCommitmentPushModelInstance,
            msg_id=message_id,
        )
    except ValueError:
        status = _NOT_SUPPORTED
    except RuntimeError:
        raise ReplyLost(LossReason.CLOSED) from None
    else:
        status = _status(answer, began, receiver)
    return ObjectStatus(
        "N-ACTION", status, describe_status(status), StorageCommitmentPushModel, transaction
    )


class _AnswerListener:
    """Takes answers to requests for commitment on the association of the requests."""

    def __init__(self, commitments: Commitments) -> None:
        self._commitments = commitments
        self.answered = threading.Event()
        """Set by the first answer."""

    def take(self, event: evt.Event) -> tuple[int, None]:
        status = self._commitments.take(event.event_information)
        self.answered.set()
        return status, None


def _reference(document: Dataset) -> Dataset:
    item = Dataset()
    item.ReferencedSOPClassUID = document.SOPClassUID
    item.ReferencedSOPInstanceUID = document.SOPInstanceUID
    return item


def _all_stored(statuses: Sequence[ObjectStatus]) -> bool:
    return all(one.status in _STORED or one.status >> 12 == _WARNING for one in statuses)


_STORED: Final = frozenset({0x0000, 0x0001, 0x0107, 0x0111, 0x0116})
_WARNING: Final = 0xB


def describe_status(status: int) -> str:
    """Return the meaning of a DIMSE status in the standard."""
    known = STORAGE_SERVICE_CLASS_STATUS.get(status) or GENERAL_STATUS.get(status)
    return (known[1] or known[0]) if known else "unknown status"


def _status(answer: Dataset, began: float, receiver: DicomReceiver) -> int:
    """Return the status of a response. Raises ReplyLost if there is none."""
    status = answer.get("Status")
    if status is not None:
        return int(status)
    is_late = time.monotonic() - began >= receiver.reply_timeout
    raise ReplyLost(LossReason.TIMEOUT if is_late else LossReason.CLOSED)


def _offending(answer: Dataset) -> str:
    """Return the tags of Offending Element (0000,0901) for a text, of several the first ones."""
    found = answer.get("OffendingElement")
    tags = found if isinstance(found, MultiValue) else [] if found is None else [found]
    named = ", ".join(str(Tag(tag)) for tag in tags[:_MAX_ELEMENTS])
    return f", element {named}" if named else ""


_MAX_ELEMENTS: Final = 5


def _end(association: Association) -> None:
    if association.is_established:
        association.release()
