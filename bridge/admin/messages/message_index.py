"""
The message index: finds messages by control id, patient id and name, order number, sender, site,
and by the tags that their orders lack.

A background job indexes each message once, shortly after it arrived. Indexing a message twice does
no harm, so several nodes may do it. While many messages arrive, the job takes a small share of the
time, so that it does not delay acknowledgments; later it catches up.

The index stores keyed hashes (`bridge.index_key`). `read_numbers` and `read_number_hashes` have no
key, because they also run in worker processes, which read large messages.

A message belongs to the sites that its definition reads from it. If the definition reads none, it
belongs to the site of its listener. A delivery belongs to the sites of its orders. A user sees
nothing of other sites.

A name is indexed by its words, without marks and letter case. Only whole words are found.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final
from unicodedata import combining, normalize

from sqlalchemy import Connection, Row, Select, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from bridge.admin.messages.dicom_content import read_identity
from bridge.index_key import keyed64, signed64
from bridge.orders.received_objects import ReceivedObject
from bridge.queue import payload_blobs
from bridge.queue.listing_rows import MessageDetail
from bridge.queue.sites import sites_hash
from bridge.queue.statements import (
    MESSAGE,
    MESSAGE_BODY,
    MESSAGE_NUMBER,
    SET_ENTRY,
    entry_row,
)
from bridge.store.database import Database
from bridge.store.tables import MESSAGE_NUMBER_CURSORS
from bridge.workers.host import WorkerError
from bridge.workers.offload import LARGE, Offload
from mappings.hl7.message import Message, Segment
from mappings.hl7.path import EVERY, Path
from mappings.hl7.refusals import MessageRefusal
from mappings.inbound.definition import Subjects
from mappings.inbound.order_mapping import AbsentTags


@dataclass(frozen=True, slots=True)
class MessageOrigin:
    """The arrival of a message, and the definition that read it; `received_at` in ms."""

    listener: str
    mapping: str
    version: str
    received_at: int
    payload: bytes


SubjectReader = Callable[[MessageOrigin], Subjects]
"""
Reads the sites, patient ids and order numbers of a message with the message's definition.

Returns no site if the message belongs to none. May query the database.
"""


AbsenceReader = Callable[[MessageOrigin], AbsentTags]
"""Reads the tags that the orders of a message lack."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """What the index stores of one message."""

    hashes: set[int]
    absent: AbsentTags | None


def origin_of(detail: MessageDetail) -> MessageOrigin:
    row = detail.row
    return MessageOrigin(
        row.listener, row.mapping, row.mapping_version, row.received_at, detail.payload
    )


class NumberKind(StrEnum):
    """What a number identifies."""

    CONTROL = "control"
    PATIENT = "patient"
    ORDER = "order"
    NAME = "name"
    """A word of a patient's name, as `name_words` returns it."""
    SENDER = "sender"
    """`LISTENER|MSH-3.1|MSH-4.1`."""


_PLACES = {
    kind: tuple(map(Path.parse, places))
    for kind, places in {
        NumberKind.CONTROL: ("MSH-10",),
        NumberKind.PATIENT: ("PID-2.1", "PID-3.1", "PID-4.1", "PID-18.1", "MRG-1.1"),
        NumberKind.ORDER: (
            *("ORC[*]-2.1", "ORC[*]-3.1", "ORC[*]-4.1", "OBR[*]-2.1", "OBR[*]-3.1", "OBR[*]-18"),
            *("OBR[*]-19", "OBR[*]-20.1", "IPC[*]-1.1", "ZDS[*]-1.1"),
        ),
        NumberKind.NAME: ("PID-5.1", "PID-5.2", "MRG-7.1", "MRG-7.2"),
    }.items()
}
"""The fields of the HL7 standard that contain each kind of number."""

_PLACES_OF_SEGMENT: dict[str, list[tuple[NumberKind, Path]]] = {}
for _kind, _paths in _PLACES.items():
    for _path in _paths:
        _PLACES_OF_SEGMENT.setdefault(_path.segment, []).append((_kind, _path))
_NO_NUMBER = frozenset({"", '""'})


@dataclass(frozen=True, slots=True)
class MessageNumbers:
    control: frozenset[str] = frozenset()
    patient: frozenset[str] = frozenset()
    order: frozenset[str] = frozenset()
    name: frozenset[str] = frozenset()
    sender: frozenset[str] = frozenset()

    def with_subjects(self, subjects: Subjects) -> "MessageNumbers":
        """Add the numbers that the message's definition reads, from any field."""
        patients, orders = self.patient | subjects.patients, self.order | subjects.orders
        return replace(self, patient=patients, order=orders)

    def hashes(self) -> Iterator[int]:
        for kind in NumberKind:
            for value in getattr(self, kind.value):
                yield number_hash(kind, value)


_SHORTEST_WORD = 2
_MAX_WORDS = 20


def name_words(text: str) -> list[str]:
    """Return the words of a name in lower case and without marks: `Müller-Löhr` has two."""
    plain = "".join(sign for sign in normalize("NFKD", text) if not combining(sign)).casefold()
    words = "".join(sign if sign.isalnum() else " " for sign in plain).split()
    return [word for word in dict.fromkeys(words) if len(word) >= _SHORTEST_WORD][:_MAX_WORDS]


def number_hash(kind: NumberKind, value: str) -> int:
    """Return the 64-bit hash of a number; surrounding blanks and letter case make no difference."""
    return _hash_of_text(kind, value.strip().casefold())


def _hash_of_text(kind: NumberKind, text: str) -> int:
    return signed64(kind.value.encode(), text.encode())


def number_hashes(kind: NumberKind, value: str) -> frozenset[int]:
    """
    Return the hashes by which a number is found.

    Releases before 0.2.0 indexed numbers as they were written, so those forms are looked up too.
    """
    written = {_hash_of_text(kind, spelling) for spelling in spellings(value)}
    return frozenset({number_hash(kind, value), *written})


def spellings(number: str) -> list[str]:
    """Return a number as it was typed and in upper and lower case, without blanks around it."""
    typed = number.strip()
    return list(dict.fromkeys((typed, typed.upper(), typed.lower())))


def read_numbers(payload: bytes, charset: str = "utf-8", listener: str = "") -> MessageNumbers:
    """Read the numbers and names in a message; none if it cannot be parsed."""
    if (received := read_identity(payload)) is not None:
        return _numbers_of_object(received, listener)
    try:
        message = Message.parse(payload, fallback=charset)
    except MessageRefusal:
        return MessageNumbers()
    found: dict[NumberKind, set[str]] = {kind: set() for kind in _PLACES}
    seen: set[str] = set()
    for index, name in enumerate(message.names):
        if name in _PLACES_OF_SEGMENT:
            _add_numbers(found, message.segment(index), first=name not in seen)
            seen.add(name)
    numbers = {kind.value: frozenset(values - _NO_NUMBER) for kind, values in found.items()}
    words = {word for name in numbers.pop(NumberKind.NAME) for word in name_words(name)}
    sender = sender_of(listener, *(message.value(place) for place in ("MSH-3.1", "MSH-4.1")))
    return MessageNumbers(**numbers, name=frozenset(words), sender=frozenset({sender}))


def _numbers_of_object(received: ReceivedObject, listener: str) -> MessageNumbers:
    """Return the numbers of what a modality sent; the instance is its control id."""
    return MessageNumbers(
        control=frozenset({received.meta.sop_instance}),
        patient=frozenset({received.mrn} - {""}),
        order=frozenset({reference.accession for reference in received.references} - {""}),
        name=frozenset(name_words(received.name)),
        sender=frozenset({sender_of(listener, received.meta.sender, "")}),
    )


def sender_of(listener: str, application: str, facility: str) -> str:
    """Return the value by which messages of a sender are indexed."""
    return f"{listener}|{application.strip()}|{facility.strip()}"


def read_number_hashes(payload: bytes, listener: str = "") -> list[int]:
    return list(read_numbers(payload, listener=listener).hashes())


def _add_numbers(found: Mapping[NumberKind, set[str]], segment: Segment, *, first: bool) -> None:
    """Add the numbers of a segment; `first`: it is the first segment with its name."""
    for kind, place in _PLACES_OF_SEGMENT[segment.id]:
        if (first or place.occurrence == EVERY) and segment.field_text(place.field):
            found[kind].update(map(str.strip, segment.values(place)))


BATCH = 20
"""Messages of one batch: acknowledgments and orders may wait for it."""
MISSING_ID_MS = 10_000  # how long the indexer looks for a missing id
_MAX_GAP = 1000  # ids; concurrent transactions do not leave longer gaps
_MAX_MISSING = 5000
_CURSOR_NAME = "console"
_OLDER = "older"
INDEXED_TO: Final = select(MESSAGE_NUMBER_CURSORS.c.message_id).where(
    MESSAGE_NUMBER_CURSORS.c.name == _CURSOR_NAME
)
"""Selects the id of the last message that is indexed."""
_CURSOR = MESSAGE_NUMBER_CURSORS.c
_OLDER_UP_TO: Final = select(_CURSOR.message_id).where(_CURSOR.name == _OLDER)
_ROWS = select(
    *(MESSAGE.c[name] for name in ("id", "listener", "mapping", "mapping_version", "received_at")),
    MESSAGE_BODY.c.payload,
).join_from(MESSAGE, MESSAGE_BODY, MESSAGE_BODY.c.message_id == MESSAGE.c.id)


class MessageIndexer:
    """
    Indexes messages in the order of their ids, from the stored cursor on.

    A transaction takes its ids before it commits, so rows may appear after rows with greater ids.
    The indexer looks for a missing id again for `MISSING_ID_MS`. Blocking; one thread at a time.
    """

    def __init__(
        self,
        database: Database,
        subjects_of: SubjectReader,
        clock: Callable[[], int],
        offload: Offload | None = None,
        absent_of: AbsenceReader | None = None,
    ) -> None:
        """
        `clock` is in ms; `offload` reads large messages in a worker process.

        `absent_of` reads the tags that orders lack; None: no entries are written.
        """
        self._offload = offload
        self._absent_of = absent_of
        self._database = database
        self._subjects_of = subjects_of
        self._clock = clock
        self._position: int | None = None
        self._missing: dict[int, int] = {}
        """Missing ids, and since when (ms)."""
        self._older_done = False
        self.newest = 0
        """The id of the newest message at the last batch; 0 if there was none."""

    def _read_newest(self) -> int:
        with self._database.read_committed() as connection:
            return connection.execute(select(func.max(MESSAGE.c.id))).scalar() or 0

    def index_batch(self, limit: int = BATCH) -> int:
        """Index at most `limit` new messages and the missing ones; return how many."""
        now, position, self.newest = self._clock(), self._load_position(), self._read_newest()
        if self.newest <= position and not self._missing:
            return 0
        new = _ROWS.where(MESSAGE.c.id > position).order_by(MESSAGE.c.id).limit(limit)
        late = _ROWS.where(MESSAGE.c.id.in_(list(self._missing)))
        found = self._read(new) | (self._read(late) if self._missing else {})
        last, missing = self._progress(sorted(found), now)
        if found:
            self._write(found, min(last, *(number - 1 for number in missing)) if missing else last)
        self._position, self._missing = last, missing
        return len(found)

    def index_older_batch(self, limit: int = BATCH) -> int:
        """
        Index at most `limit` messages again that an earlier release has indexed; return how many.

        The newest first. New messages go before: call it when there are none.
        """
        if self._older_done:
            return 0
        with self._database.read() as connection:
            last = connection.scalar(_OLDER_UP_TO)
        if last is None:  # a migration sets it, before the service starts
            self._older_done = True
            return 0
        older = _ROWS.where(MESSAGE.c.id <= last).order_by(MESSAGE.c.id.desc()).limit(limit)
        found = self._read(older)
        with self._database.write_without_sync() as connection:
            _store(connection, found)
            own = _CURSOR.name == _OLDER
            if found:
                rest = update(MESSAGE_NUMBER_CURSORS).where(own, _CURSOR.message_id >= min(found))
                connection.execute(rest.values(message_id=min(found) - 1))
            else:
                connection.execute(delete(MESSAGE_NUMBER_CURSORS).where(own))
        return len(found)

    def _load_position(self) -> int:
        """Return the last indexed id; read the stored cursor the first time."""
        if self._position is None:
            with self._database.read() as connection:
                self._position = connection.scalar(INDEXED_TO) or 0
        return self._position

    def _read(self, statement: Select[Any]) -> dict[int, _Entry]:
        """Return the entries of messages by id. Few payloads are in memory at a time."""
        with self._database.read() as connection:
            rows = connection.execution_options(yield_per=BATCH).execute(statement)
            found: dict[int, _Entry] = {}
            large = []
            for row in rows:
                if row.payload:
                    found[row.id] = self._entry(row, bytes(row.payload))
                else:
                    large.append(row)
            for row in large:
                payload = payload_blobs.content(connection, row.id, b"")
                found[row.id] = self._entry(row, payload)
            return found

    def _progress(self, ids: Sequence[int], now: int) -> tuple[int, dict[int, int]]:
        """Return the last id read, and the missing ids that the next batch looks for."""
        last, missing = self._load_position(), dict(self._missing)
        for identifier in ids:
            missing.pop(identifier, None)
            if identifier > last:
                gap = range(max(last + 1, identifier - _MAX_GAP), identifier)
                missing.update((passed, now) for passed in gap)
                last = identifier
        recent = [
            (number, since) for number, since in missing.items() if now - since < MISSING_ID_MS
        ]
        return last, dict(recent[-_MAX_MISSING:])

    def _write(self, found: Mapping[int, _Entry], cursor: int) -> None:
        """
        Store the entries and move the cursor in one transaction.

        A crash may lose the transaction, because it is not synced. Then the messages are indexed
        again.
        """
        with self._database.write_without_sync() as connection:
            _store(connection, found)
            connection.execute(
                insert(MESSAGE_NUMBER_CURSORS)
                .values(name=_CURSOR_NAME, message_id=cursor)
                .on_conflict_do_update(
                    index_elements=[MESSAGE_NUMBER_CURSORS.c.name],
                    set_={"message_id": cursor},
                    where=MESSAGE_NUMBER_CURSORS.c.message_id < cursor,
                )
            )

    def _entry(self, row: Row[Any], payload: bytes) -> _Entry:
        origin = MessageOrigin(
            row.listener, row.mapping, row.mapping_version, row.received_at, payload
        )
        subjects = self._subjects_of(origin)
        hashes = {sites_hash(subjects.sites)} if subjects.sites else set()
        by_definition = MessageNumbers(patient=subjects.patients, order=subjects.orders)
        hashes.update(by_definition.hashes(), self._number_hashes(payload, row.listener))
        absent = None if self._absent_of is None else self._absent_of(origin)
        return _Entry(set(map(keyed64, hashes)), absent)

    def _number_hashes(self, payload: bytes, listener: str) -> list[int]:
        """Return the hashes of a message's numbers; none if it cannot be parsed."""
        if self._offload is None or len(payload) < LARGE:
            return read_number_hashes(payload, listener)
        try:
            found: list[int] = self._offload.run(read_number_hashes, payload, listener)
        except WorkerError:
            return []
        return found


def _store(connection: Connection, found: Mapping[int, _Entry]) -> None:
    """Store the entries of messages by id."""
    rows = sorted(  # all nodes write in the same order, which prevents deadlocks
        (number, message_id) for message_id, entry in found.items() for number in entry.hashes
    )
    absent = [
        entry_row(message_id, entry.absent)
        for message_id, entry in sorted(found.items())
        if entry.absent is not None
    ]
    if rows:
        connection.execute(
            insert(MESSAGE_NUMBER).on_conflict_do_nothing(),
            [{"number": number, "message_id": message_id} for number, message_id in rows],
        )
    if absent:
        connection.execute(SET_ENTRY, absent)


def indexed_from(connection: Connection) -> int | None:
    """
    Return the time (ms) from which on messages are found by names, senders and missing tags.

    None if all are. After an upgrade, older messages are indexed in the background.
    """
    last = connection.scalar(_OLDER_UP_TO)
    if last is None:
        return None
    first = select(MESSAGE.c.received_at).where(MESSAGE.c.id > last).order_by(MESSAGE.c.id).limit(1)
    newest = select(MESSAGE.c.received_at).where(MESSAGE.c.id <= last).order_by(MESSAGE.c.id.desc())
    found: int | None = connection.scalar(first) or connection.scalar(newest.limit(1))
    return found
