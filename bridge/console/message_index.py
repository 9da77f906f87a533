"""The message index: control ids, patient ids and order numbers, kept up in the background.

Pure. The index stores them keyed (`bridge.index_key`); here they are not, for a worker process
that reads a large message has no key. `numbers` reads the places of the standard; what the
message's own definition reads elsewhere is added to them (`Numbers.joined`).

Pure. While messages rush in it takes a small share of the time, and little at a time, for senders
have time-outs and who searches can wait; when it is quiet it catches up.

Reads each message once, soon after it came; what one node did, another does again without harm.
Ids are given before they are committed: one that is missing is looked for again for a while.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Any

from sqlalchemy import Row, Select, func, select, text

from bridge.console.ownership import MessageOrigin, SubjectReader
from bridge.index_key import keyed64
from bridge.queue import payload_blobs
from bridge.queue.ledger.arrivals import signed64
from bridge.queue.statements import MESSAGE, MESSAGE_BODY
from bridge.store.database import Database
from bridge.store.statements import BulkStatement, execute_rows, unnest
from mappings.hl7.message import Message, Segment
from mappings.hl7.path import EVERY, Path
from mappings.hl7.refusals import MessageRefusal
from mappings.inbound.definition import Subjects


class NumberKind(StrEnum):
    """What a number is the number of."""

    CONTROL = "control"
    PATIENT = "patient"
    ORDER = "order"


_PLACES = {
    kind: tuple(map(Path.parse, places))
    for kind, places in {
        NumberKind.CONTROL: ("MSH-10",),
        NumberKind.PATIENT: ("PID-2.1", "PID-3.1", "PID-4.1", "PID-18.1", "MRG-1.1"),
        NumberKind.ORDER: (
            *("ORC[*]-2.1", "ORC[*]-3.1", "ORC[*]-4.1", "OBR[*]-2.1", "OBR[*]-3.1", "OBR[*]-18"),
            *("OBR[*]-19", "IPC[*]-1.1", "ZDS[*]-1.1"),
        ),
    }.items()
}

_OF_SEGMENT: dict[str, list[tuple[NumberKind, Path]]] = {}
for _kind, _paths in _PLACES.items():
    for _path in _paths:
        _OF_SEGMENT.setdefault(_path.segment, []).append((_kind, _path))
_NO_NUMBER = frozenset({"", '""'})


@dataclass(frozen=True, slots=True)
class MessageNumbers:
    """A message's numbers as texts, by what they number."""

    control: frozenset[str]
    patient: frozenset[str]
    order: frozenset[str]

    def joined(self, about: Subjects) -> "MessageNumbers":
        """Add the numbers that a definition has read, from whatever field."""
        return MessageNumbers(
            self.control, self.patient | about.patients, self.order | about.orders
        )

    def hashes(self) -> Iterator[int]:
        """Give what the index keeps."""
        for kind, values in zip(NumberKind, (self.control, self.patient, self.order), strict=True):
            for value in values:
                yield number_hash(kind, value)


def number_hash(kind: NumberKind, value: str) -> int:
    """Give the 64 bits under which a number stands in the index; blanks around it do not count."""
    return signed64(kind.value.encode(), value.strip().encode())


def sites_hash(sites: Collection[str]) -> int:
    """Give the 64 bits of the sites that one message speaks of."""
    return signed64(b"site", *(each.encode() for each in sorted(sites)))


def visible_sites_hashes(reach: Collection[str]) -> list[int]:
    """
    Give what the messages are indexed under that somebody limited to these sites may list.

    Those that speak of three sites and more are none of a site's own.
    """
    pairs = combinations(sorted(reach), 2)
    return [sites_hash(each) for each in (*((one,) for one in sorted(reach)), *pairs)]


def read_numbers(payload: bytes, charset: str = "utf-8") -> MessageNumbers:
    """Read a message's numbers; none where it cannot be read."""
    try:
        message = Message.parse(payload, fallback=charset)
    except MessageRefusal:
        return MessageNumbers(frozenset(), frozenset(), frozenset())
    found: dict[NumberKind, set[str]] = {kind: set() for kind in NumberKind}
    seen: set[str] = set()
    for index, name in enumerate(message.names):
        if name in _OF_SEGMENT:
            _add(found, message.segment(index), first=name not in seen)
            seen.add(name)
    return MessageNumbers(*(frozenset(found[kind] - _NO_NUMBER) for kind in NumberKind))


def subject_hashes(about: Subjects) -> Iterator[int]:
    """Give what the index keeps of the numbers that a definition has read."""
    return MessageNumbers(frozenset(), about.patients, about.orders).hashes()


def read_number_hashes(payload: bytes) -> list[int]:
    """Read what the index keeps of a message."""
    return list(read_numbers(payload).hashes())


def _add(found: Mapping[NumberKind, set[str]], segment: Segment, *, first: bool) -> None:
    """Add the numbers of a segment; places without `[*]` count in the first of its name."""
    for kind, place in _OF_SEGMENT[segment.id]:
        if (first or place.occurrence == EVERY) and segment.field_text(place.field):
            found[kind].update(map(str.strip, segment.values(place)))


BUSY_RATE = 50.0  # messages a second that came
BUSY_PAUSE_FACTOR = 40.0  # times of what a batch took
PAUSE_FACTOR = 1.0
BUSY_BATCH, FULL_BATCH = 20, 50  # messages of a batch: in a rush, and when it is quiet
MIN_PAUSE = 0.1  # seconds until the next few
MAX_PAUSE = 30.0  # seconds of a pause, so that a rush without end is indexed too
IDLE_PAUSE = 1.0  # seconds between looks when everything was read


@dataclass(frozen=True, slots=True)
class ArrivalSample:
    """What there was at one moment: seconds of a clock that only goes on, the newest id."""

    at: float
    newest: int


def arrival_rate(before: ArrivalSample, now: ArrivalSample) -> float:
    """Give the messages a second that came between two looks."""
    return max(0, now.newest - before.newest) / max(now.at - before.at, 0.001)


def batch_size(arrival_rate: float) -> int:
    """Give how many messages to read at a time: who is to be acknowledged waits for as many."""
    return BUSY_BATCH if arrival_rate >= BUSY_RATE else FULL_BATCH


def pause_seconds(arrival_rate: float, took: float, *, full: bool) -> float:
    """Give the seconds to wait after a batch that took so long; `full`: there is more."""
    if arrival_rate >= BUSY_RATE:
        return min(MAX_PAUSE, max(MIN_PAUSE, took * BUSY_PAUSE_FACTOR))
    return min(IDLE_PAUSE, took * PAUSE_FACTOR) if full else IDLE_PAUSE


MISSING_ID_MS = 10_000  # ms that a missing id is looked for
_GAP = 1000  # ids: a longer gap was not left by those who write just now
_MOST_MISSING = 5000
_AT_ONCE = 20  # messages in memory
_NAME = "console"
_KINDS = ("bigint", "bigint")
_INSERT = BulkStatement(
    _KINDS,
    "INSERT INTO message_number (number, message_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
    f"""
    INSERT INTO message_number (number, message_id) SELECT * FROM {unnest(_KINDS)}
    ON CONFLICT DO NOTHING
    """,  # noqa: S608  # our own names
)
_CURSOR = text("SELECT message_id FROM message_number_cursor WHERE name = :name")
_MOVE = text("""
    INSERT INTO message_number_cursor (name, message_id) VALUES (:name, :to)
    ON CONFLICT (name) DO UPDATE SET message_id = :to WHERE message_number_cursor.message_id < :to
""")
_ROWS = select(
    *(MESSAGE.c[name] for name in ("id", "listener", "mapping", "mapping_version", "received_at")),
    MESSAGE_BODY.c.payload,
).join_from(MESSAGE, MESSAGE_BODY, MESSAGE_BODY.c.message_id == MESSAGE.c.id)


class MessageIndexer:
    """Reads on from where it, or another node, was; blocking, one thread at a time."""

    def __init__(
        self,
        database: Database,
        subjects_of: SubjectReader,
        clock: Callable[[], int],
        numbered: Callable[[bytes], Iterable[int]] = read_number_hashes,
    ) -> None:
        """`numbered` gives the numbers in the places of the standard; the index has them keyed."""
        self._numbered = numbered
        self._database = database
        self._belonging = subjects_of
        self._clock = clock
        self._read_to: int | None = None
        self._missing: dict[int, int] = {}
        """Ids that were passed over, and since when (ms)."""

    def newest(self) -> int:
        """Give the id of the newest message, 0 for none: how far there is to go."""
        with self._database.read() as connection:
            return connection.execute(select(func.max(MESSAGE.c.id))).scalar() or 0

    def step(self, most: int = FULL_BATCH) -> int:
        """Read the next messages, so many at most; give how many were read."""
        now, begin = self._clock(), self._begin()
        fresh = _ROWS.where(MESSAGE.c.id > begin).order_by(MESSAGE.c.id).limit(most)
        late = _ROWS.where(MESSAGE.c.id.in_(list(self._missing)))
        found = self._read(fresh) | (self._read(late) if self._missing else {})
        last, missing = self._outlook(sorted(found), now)
        if found:
            self._write(found, min(last, *(each - 1 for each in missing)) if missing else last)
        self._read_to, self._missing = last, missing
        return len(found)

    def catch_up(self) -> int:
        """Read everything that came; give how many messages were read."""
        total = 0
        while read := self.step():
            total += read
        return total

    def _begin(self) -> int:
        if self._read_to is None:
            with self._database.read() as connection:
                self._read_to = connection.execute(_CURSOR, {"name": _NAME}).scalar() or 0
        return self._read_to

    def _read(self, statement: Select[Any]) -> dict[int, set[int]]:
        """Give the numbers of messages by id; holds few of them at a time, for some are long."""
        with self._database.read() as connection:
            rows = connection.execution_options(yield_per=_AT_ONCE).execute(statement)
            found, large = {}, []
            for row in rows:
                if row.payload:
                    found[row.id] = self._numbers(row, bytes(row.payload))
                else:
                    large.append(row)
            for row in large:
                found[row.id] = self._numbers(row, payload_blobs.content(connection, row.id, b""))
            return found

    def _outlook(self, ids: Sequence[int], now: int) -> tuple[int, dict[int, int]]:
        """Say how far was read, and which ids are missing: for a while, for most never come."""
        last, missing = self._begin(), dict(self._missing)
        for each in ids:
            missing.pop(each, None)
            if each > last:
                gap = range(max(last + 1, each - _GAP), each)
                missing.update((passed, now) for passed in gap)
                last = each
        young = [(each, since) for each, since in missing.items() if now - since < MISSING_ID_MS]
        return last, dict(young[-_MOST_MISSING:])

    def _write(self, found: Mapping[int, set[int]], to: int) -> None:
        """Write numbers, and how far another may take for read."""
        rows = sorted(  # as every node has them: nobody waits for another in a circle
            (number, message_id) for message_id, numbered in found.items() for number in numbered
        )
        with self._database.write_without_sync() as connection:  # what is forgotten is read again
            execute_rows(connection, _INSERT, rows)
            connection.execute(_MOVE, {"name": _NAME, "to": to})

    def _numbers(self, row: Row[Any], payload: bytes) -> set[int]:
        origin = MessageOrigin(
            row.listener, row.mapping, row.mapping_version, row.received_at, payload
        )
        about = self._belonging(origin)
        own = {sites_hash(about.sites)} if about.sites else set()
        own.update(subject_hashes(about), self._numbered(payload))
        return set(map(keyed64, own))
