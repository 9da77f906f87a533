"""
The message log for what modalities send: stored before the success status leaves.

The log itself says whether a performed step exists and has ended: the messages that create and end
it have identities of their own. So no status can differ from what is stored. Blocking, from any
thread.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from typing import Any, Final

from pydicom.dataset import Dataset
from sqlalchemy import Connection

from bridge.dicom.statuses import (
    SUCCESS,
)
from bridge.index_key import signed64
from bridge.orders.received_objects import (
    DICOM_LISTENER,
    MessageKind,
    ReceivedObject,
    object_of,
    step_identity,
)
from bridge.queue.arrivals import Arrival, lane
from bridge.queue.digests import digest
from bridge.queue.log_tables import log_tables
from bridge.queue.payload_blobs import PayloadBlobs
from bridge.queue.states import AcknowledgmentState, QueueState
from bridge.store.database import Database
from bridge.store.records import order_index
from bridge.workers.offload import LARGE
from parsers.dicom_file import (
    DicomFault,
    DicomLimits,
    DicomRefused,
    FileMeta,
    read_file,
    write_file,
)

EVERY_SITE: Final = "*"


class Admission(StrEnum):
    """What became of a message."""

    STORED = "stored"
    KNOWN = "known"  # the same object or step is stored
    ENDED = "ended"  # the performed step has ended
    UNKNOWN = "unknown"  # there is no such performed step


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message as it came: its kind, the data set as bytes, and what identifies it."""

    kind: MessageKind
    meta: FileMeta
    body: bytes
    received: ReceivedObject
    sites: Collection[str]
    """The sites of the sender; `*`: all."""


def read_message(
    kind: MessageKind, meta: FileMeta, body: bytes, sites: Collection[str]
) -> tuple[ReceivedMessage, Dataset]:
    """Read a whole data set. Raises DicomRefused, whose text contains no value."""
    try:
        data_set = read_file(write_file(meta, body), DicomLimits(max_bytes=len(body) + _META))
        return ReceivedMessage(kind, meta, body, object_of(meta, data_set), sites), data_set
    except DicomRefused:
        raise
    except Exception:  # noqa: BLE001  # pydicom raises arbitrary exceptions
        raise DicomRefused(DicomFault.MALFORMED) from None


_META: Final = 2**12
"""Bytes that the file meta information has at most."""


class ReceivedLog:
    """Stores messages of modalities. Raises StoreError; then nothing is stored."""

    def __init__(self, database: Database, on_stored: Callable[[], object] | None = None) -> None:
        """`on_stored` is called after a message was stored, on the thread that stored it."""
        self._database, self._on_stored = database, on_stored
        self._tables = log_tables(database)
        self._blobs = PayloadBlobs(database)
        self._lock = Lock()  # log and blobs have one connection each

    def close(self) -> None:
        with self._lock:
            self._tables.close()
            self._blobs.close()

    def create_step(self, message: ReceivedMessage) -> Admission:
        """Store an N-CREATE: STORED, or KNOWN if the step exists."""
        created = step_identity(message.meta.sop_instance)
        arrival = self._arrival(message, created, self._lanes(message))
        with self._lock, self._tables.transaction() as cursor:
            self._tables.serialize(cursor, created)
            if self._tables.known(cursor, [created]):
                return Admission.KNOWN
            self._admit(cursor, arrival)
        self._report_stored()
        return Admission.STORED

    def set_step(self, message: ReceivedMessage, *, is_final: bool) -> Admission:
        """Store an N-SET: STORED or KNOWN, ENDED, or UNKNOWN."""
        uid = message.meta.sop_instance
        created, ended = step_identity(uid), step_identity(uid, is_final=True)
        own = signed64(b"mpps", b"changed", uid.encode(), digest(message.body))
        with self._lock, self._tables.transaction() as cursor:
            self._tables.serialize(cursor, created)
            known = {row.identity: row for row in self._tables.known(cursor, [created, ended, own])}
            if created not in known:
                return Admission.UNKNOWN
            if ended in known:
                return Admission.ENDED
            if own in known:
                return Admission.KNOWN
            lanes = self._tables.lanes_of(cursor, known[created].message_id)
            self._admit(cursor, self._arrival(message, ended if is_final else own, lanes))
        self._report_stored()
        return Admission.STORED

    def store_object(self, message: ReceivedMessage) -> Admission:
        """Store an object: STORED, or KNOWN if the same content is stored."""
        uid = message.meta.sop_instance.encode()
        identity = signed64(b"object", uid, digest(message.body))
        arrival = self._arrival(message, identity, self._lanes(message))
        with self._lock:
            if len(arrival.payload) >= LARGE:
                arrival = self._blobs.store(arrival)
            with self._tables.transaction() as cursor:
                self._tables.serialize(cursor, identity)
                if self._tables.known(cursor, [identity]):
                    return Admission.KNOWN
                self._admit(cursor, arrival)
        self._report_stored()
        return Admission.STORED

    def _report_stored(self) -> None:
        if self._on_stored is not None:
            self._on_stored()

    def _admit(self, cursor: Any, arrival: Arrival) -> None:
        self._tables.admit(cursor, [arrival])
        self._tables.announce(cursor)

    def _arrival(self, message: ReceivedMessage, identity: int, lanes: tuple[int, ...]) -> Arrival:
        payload = write_file(message.meta, message.body)
        return Arrival(
            listener=DICOM_LISTENER,
            identity=identity,
            digest=digest(payload),
            payload=payload,
            lanes=lanes,
            message_type=message.kind.value,
            mapping="",
            mapping_version="",
            ack=b"",
            ack_code=f"{SUCCESS:04X}",
            state=QueueState.QUEUED,
            received_at=time.time_ns() // 1_000_000,
            acknowledgment=AcknowledgmentState.DELIVERED,
        )

    def _lanes(self, message: ReceivedMessage) -> tuple[int, ...]:
        """Return the lane of the patient; that of the object if the patient is not known."""
        received = message.received
        if received.mrn:
            with self._database.read_committed() as connection:
                site = _site(connection, received, message.sites)
            if site:
                return (lane(f"{site}|{received.mrn}"),)
        return (lane(DICOM_LISTENER, message.meta.sop_instance),)


def _site(connection: Connection, received: ReceivedObject, visible: Collection[str]) -> str:
    """Return the site of the sender, of several that of the order; '' if it is not known."""
    sites = order_index.sites(connection) if EVERY_SITE in visible else list(visible)
    if len(sites) == 1:
        return sites[0]
    for reference in received.references:
        named = order_index.find_named(connection, sites, reference.accession, reference.study_uid)
        if named:
            return named[0].key.site
    return ""
