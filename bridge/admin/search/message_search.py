"""
Message search by number, state, listener, time and error text; orders by one of their numbers.

Numbers use the message index, and states that need attention have a partial index. Times become id
ranges by bisection, because ids ascend with time. A page examines a bounded number of indexed rows,
or a bounded range of ids, so it costs the same on any number of messages. Blocking.

A found message is decoded for display and for editing. `encode_edit` refuses text that it cannot
encode without loss, with its place in the message. These results contain patient data: show them to
users who may read content, and do not log them.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select, text

from bridge.admin.errors import InvalidEdit
from bridge.admin.search import order_tracking
from bridge.admin.search.message_index import (
    NumberKind,
    SubjectReader,
    number_hash,
    origin_of,
    read_numbers,
    visible_sites_hashes,
)
from bridge.index_key import keyed64
from bridge.queue import queries
from bridge.queue.errors import NoSuchRow
from bridge.queue.listing_rows import MessageDetail, MessageRow
from bridge.queue.queries import ATTENTION, in_state, is_sortable, listed_message, listing_key
from bridge.queue.retention.rows import id_at, newest_id
from bridge.queue.statements import MESSAGE, MESSAGE_NUMBER
from bridge.queue.states import QueueState
from bridge.store.database import Database
from mappings.hl7.charset import LAST_RESORT
from mappings.hl7.elements import Component, Field
from mappings.hl7.message import Message, Segment
from mappings.hl7.refusals import MessageRefusal

_HEADERS = frozenset({"MSH", "FHS", "BHS"})
_DELIMITER_FIELDS = 2  # MSH-1 and MSH-2 are delimiters


MAX_PLACES = 50_000
"""Fields and components of a message that are shown individually; each needs 400 bytes."""


def segment_tree(payload: bytes, charset: str = "utf-8") -> list[dict[str, Any]]:
    """
    Return the segments with their non-empty fields; [] if the payload is not HL7.

    Segments beyond MAX_PLACES are replaced by one with the name "…".
    """
    try:
        message = Message.parse(payload, fallback=charset)
    except MessageRefusal:
        return []
    shown = first_segments(message)
    tree = [_segment(segment, number) for segment, number in shown]
    rest = {"name": "…", "place": "…", "fields": list[Any]()}
    return tree if len(shown) == len(message.names) else [*tree, rest]


def first_segments(message: Message) -> list[tuple[Segment, int]]:
    """Return the first segments, up to MAX_PLACES fields and components, with their numbers."""
    used, places = message.delimiters, 0
    separators = (used.field, used.component, used.repetition, used.subcomponent)
    found = []
    for segment, number in zip(message.segments, message.numbers, strict=True):
        places += 1 + sum(segment.text().count(each) for each in separators if each)
        if places > MAX_PLACES:
            break
        found.append((segment, number))
    return found


def message_text(data: bytes | None, charset: str = "utf-8") -> str:
    """
    Return a message as text, one segment per line.

    The character set is that of MSH-18, or `charset` if MSH-18 is empty. Data that is not HL7 is
    decoded as UTF-8; invalid bytes become escapes.
    """
    if data is None:
        return ""
    try:
        message = Message.parse(data, fallback=charset)
    except MessageRefusal:
        pass
    else:
        return "\n".join(segment.text() for segment in message.segments)
    return data.replace(b"\r", b"\n").decode("utf-8", "backslashreplace").strip("\n")


def _segment(segment: Segment, number: int) -> dict[str, Any]:
    name = segment.id if number == 1 else f"{segment.id}[{number}]"
    fields = [
        _field(segment, f"{name}-{index}", index)
        for index in range(1, len(segment) + 1)
        if segment.field_text(index)
    ]
    return {"name": segment.id, "place": name, "fields": fields}


def _field(segment: Segment, place: str, number: int) -> dict[str, Any]:
    raw = segment.field_text(number)
    if segment.id in _HEADERS and number <= _DELIMITER_FIELDS:
        return {"place": place, "text": raw, "parts": []}
    field = segment.field(number)
    parts = [
        {"place": f"{start}.{index}", "text": component.text()}
        for start, components in _repetitions(field, place)
        for index, component in enumerate(components, start=1)
        if component.text()
    ]
    return {"place": place, "text": raw if parts else field.text(), "parts": parts}


def _repetitions(field: Field, place: str) -> Iterator[tuple[str, tuple[Component, ...]]]:
    """Yield place and components of each repetition; nothing if the field is one plain value."""
    repetitions = field.repetitions
    for count, repetition in enumerate(repetitions, start=1):
        components = repetition.components
        if len(repetitions) > 1 or len(components) > 1:
            yield (place if len(repetitions) == 1 else f"{place}({count})"), components


_MAX_HEADER = 8  # MSH, the field separator, and at most four more characters
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_SEGMENT_NAME = re.compile(r"[A-Z][A-Z0-9]{2}")
_MAX_SEGMENTS = 5000


@dataclass(frozen=True, slots=True)
class EditableMessage:
    """The segments of a message as text, and the codec of the message."""

    segments: tuple[str, ...]
    codec: str


def editable_message(payload: bytes, charset: str) -> EditableMessage:
    """Return a message for editing; if it is not HL7, each line is a segment, byte for byte."""
    try:
        message = Message.parse(payload, fallback=charset)
    except MessageRefusal:
        text = payload.decode(LAST_RESORT)
        return EditableMessage(tuple(re.split(r"[\r\n]+", text.strip("\r\n"))), LAST_RESORT)
    return EditableMessage(tuple(each.text() for each in message.segments), message.encoding)


def encode_edit(original: bytes, segments: Sequence[str], charset: str) -> bytes:
    """
    Return the bytes of an edited message, in the character set of the original.

    `charset` applies to messages without MSH-18. Raises InvalidEdit.
    """
    lines = [each.rstrip("\r\n") for each in segments if each.strip()]
    if not lines or len(lines) > _MAX_SEGMENTS:
        raise InvalidEdit("MSH", "a message has 1 to 5000 segments")
    before = editable_message(original, charset)
    _require_same_delimiters(before, lines)
    for number, line in enumerate(lines, start=1):
        _require_valid_segment(line, number, lines[0][3:4])
    payload = _encode(lines, before.codec)
    if payload == _encode(before.segments, before.codec):
        raise InvalidEdit("MSH", "nothing was changed")
    if editable_message(payload, charset).segments != tuple(lines):
        raise InvalidEdit("MSH-18", "the character set of the message lacks a character")
    return payload


def _require_same_delimiters(before: EditableMessage, lines: Sequence[str]) -> None:
    """Refuse changed delimiters: they would change the meaning of every field."""
    first = before.segments[0] if before.segments else ""
    delimiters = _delimiters(first) if first.startswith("MSH") else None
    if not lines[0].startswith("MSH"):
        raise InvalidEdit("MSH", "a message begins with MSH")
    if delimiters is not None and _delimiters(lines[0]) != delimiters:
        raise InvalidEdit("MSH-2", "the delimiters must not change")


def _delimiters(line: str) -> str:
    return line[3:4] + line[4:].split(line[3:4], 1)[0] if len(line) > _MAX_HEADER else line


def _require_valid_segment(line: str, number: int, separator: str) -> None:
    name = line[:3]
    if not _SEGMENT_NAME.fullmatch(name) or line[3:4] not in {"", separator}:
        raise InvalidEdit(f"line {number}", "a segment begins with three letters and a separator")
    if number > 1 and name == "MSH":
        raise InvalidEdit(f"line {number}", "a message has only one MSH")
    if _CONTROL_CHARACTER.search(line):
        raise InvalidEdit(f"line {number}", "a control character: write it as an escape")


def _encode(lines: Sequence[str], codec: str) -> bytes:
    payload = b""
    for number, line in enumerate(lines, start=1):
        try:
            payload += line.encode(codec) + b"\r"
        except UnicodeEncodeError:
            raise InvalidEdit(
                f"line {number}", f"{codec}, the character set in MSH-18, lacks a character"
            ) from None
    return payload


_EDITS_OF_MESSAGE = text("""
    SELECT message_id, origin_id, at, email, reason FROM message_edit
    WHERE message_id = :id OR origin_id = :id ORDER BY message_id
""")


def edits_of(database: Database, message_id: int) -> list[dict[str, Any]]:
    """Return the edits that created a message or were made from it; times in ms."""
    with database.read() as connection:
        return [
            dict(row)
            for row in connection.execute(_EDITS_OF_MESSAGE, {"id": message_id}).mappings()
        ]


ID_WINDOW = 20_000
"""The number of ids that one page examines without an index."""
MAX_INDEXED_ROWS = 5000
"""The number of rows that one page examines with an index."""
_TEXT_COLUMNS = ("detail", "code", "error_code", "error_place", "failure")


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """Criteria for messages; None matches all. Times in ms; `before` is an id, exclusive."""

    kind: NumberKind | None = None
    number: str = ""
    state: QueueState | None = None
    listener: str | None = None
    text: str = ""
    since: int | None = None
    until: int | None = None
    before: int | None = None
    limit: int = 50
    sites: frozenset[str] | None = None
    """Only messages that belong to these sites and to no other."""


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Rows, newest first; `further` is the `before` of the next page, None after the last one."""

    rows: Sequence[MessageRow]
    further: int | None


def search_messages(database: Database, query: MessageQuery) -> MessagePage:
    """Find messages."""
    with database.read() as connection:
        newest = newest_id(connection, MESSAGE)
        low = 0 if query.since is None else id_at(connection, MESSAGE, "received_at", query.since)
        high = newest + 1 if query.before is None else query.before
        if query.until is not None:
            high = min(high, id_at(connection, MESSAGE, "received_at", query.until))
        sortable = is_sortable(connection, MESSAGE, query.state)
        floor = low if sortable else max(low, _floor(connection, query, high))
        key = listing_key(MESSAGE, by_state=sortable)
        statement = (
            select(*(MESSAGE.c[name] for name in MessageRow.__slots__))
            .where(key >= floor, key < high, *_conditions(query))
            .order_by(key.desc())
            .limit(query.limit)
        )
        found = [listed_message(row) for row in connection.execute(statement).mappings()]
    if len(found) == query.limit:
        return MessagePage(found, found[-1].id)
    return MessagePage(found, floor if floor > max(low, 1) else None)


def _floor(connection: Connection, query: MessageQuery, high: int) -> int:
    """Return the least id that this page examines."""
    if query.kind is not None:
        ids = _ids_with_number(query.kind, query.number)
        column = MESSAGE_NUMBER.c.message_id
    elif query.state in ATTENTION:
        column = MESSAGE.c.id
        ids = select(column).where(*in_state(MESSAGE, query.state))
    else:
        return high - ID_WINDOW
    last = ids.where(column < high).order_by(column.desc()).offset(MAX_INDEXED_ROWS - 1).limit(1)
    found: int | None = connection.execute(last).scalar()
    return found or 0


def _ids_with_number(kind: NumberKind, number: str) -> Select[Any]:
    matches = MESSAGE_NUMBER.c.number == keyed64(number_hash(kind, number))
    return select(MESSAGE_NUMBER.c.message_id).where(matches)


def _conditions(query: MessageQuery) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if query.kind is not None:
        conditions.append(MESSAGE.c.id.in_(_ids_with_number(query.kind, query.number)))
    if query.state is not None:
        conditions += in_state(MESSAGE, query.state)
    if query.listener is not None:
        conditions.append(MESSAGE.c.listener == query.listener)
    if query.sites is not None:
        visible = select(MESSAGE_NUMBER.c.message_id).where(
            MESSAGE_NUMBER.c.number.in_(map(keyed64, visible_sites_hashes(query.sites))),
            MESSAGE_NUMBER.c.message_id == MESSAGE.c.id,
        )
        conditions.append(visible.exists())
    conditions += [_contains(word) for word in query.text.split()]
    return conditions


def _contains(word: str) -> ColumnElement[bool]:
    columns = (func.lower(MESSAGE.c[name]) for name in _TEXT_COLUMNS)
    return and_(or_(*(each.contains(word.lower(), autoescape=True) for each in columns)))


MAX_MESSAGES = 20

Reach = frozenset[str] | None
Orders = list[dict[str, Any]]


def find_orders_and_messages(
    database: Database, subjects_of: SubjectReader, kind: NumberKind, number: str, reach: Reach
) -> tuple[Orders, Sequence[MessageRow]]:
    """
    Return the orders with a number, and their messages, newest first.

    The order index finds orders by accession and by patient; a merged patient's number finds the
    orders of the surviving patient. Placer and filler numbers are found in messages. The messages
    are the newest that contain the number, and the first and last message of each order.
    """
    query = MessageQuery(kind=kind, number=number, limit=MAX_MESSAGES, sites=reach)
    rows = search_messages(database, query).rows
    if kind is NumberKind.PATIENT:
        orders = order_tracking.find_orders_of_patient(database, number, reach)
    else:
        orders = order_tracking.find_orders(database, {number}, reach)
        orders = orders or _orders_of_messages(database, subjects_of, number, rows, reach)
    return orders, _with_messages_of(database, subjects_of, orders, rows, reach)


def _with_messages_of(
    database: Database,
    subjects_of: SubjectReader,
    orders: Orders,
    rows: Sequence[MessageRow],
    reach: Reach,
) -> Sequence[MessageRow]:
    """Add the first and last message of each order, if the user may see them."""
    found = {row.id: row for row in rows}
    ids = {each[name] for each in orders for name in ("first_message", "last_message")}
    for detail in _stored_messages(
        database, sorted(ids - found.keys(), reverse=True)[:MAX_MESSAGES]
    ):
        sites = subjects_of(origin_of(detail)).sites
        if reach is None or (sites and sites <= reach):
            found[detail.row.id] = detail.row
    return [found[each] for each in sorted(found, reverse=True)]


def _orders_of_messages(
    database: Database,
    subjects_of: SubjectReader,
    number: str,
    rows: Sequence[MessageRow],
    reach: Reach,
) -> Orders:
    """Return the orders in messages that have the number as placer or filler number, else all."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for detail in _stored_messages(database, [row.id for row in rows]):
        numbers = read_numbers(detail.payload).with_subjects(subjects_of(origin_of(detail)))
        for each in order_tracking.find_orders(database, numbers.order, reach):
            if each["mrn"] in numbers.patient:
                found[each["site"], each["mrn"], each["accession"]] = each
    matching = [each for each in found.values() if _has_number(each, number)]
    return matching or list(found.values())


def _stored_messages(database: Database, ids: Collection[int]) -> Iterator[MessageDetail]:
    for each in ids:
        try:
            yield queries.message(database, each)
        except NoSuchRow:  # retention has removed it
            continue


def _has_number(order: Mapping[str, Any], number: str) -> bool:
    """Tell whether a number is the placer or filler number, in any namespace."""
    return number in {order[each].partition("^")[0].strip() for each in ("placer", "filler")}
