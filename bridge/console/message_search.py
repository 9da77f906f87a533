"""Find messages and orders by number, state, listener, time and error text.

Numbers go by the index of hashes, states that want a person by theirs, time by bisection of ids,
which are by age. Of what an index gives some thousand rows are looked through at once, else a
window of ids, so that a page costs the same on ten messages and on ten million. Blocking.

An accession is looked up in the order index; other numbers of an order in the messages that have
them; a patient in the order index, survivors of merges included. Blocking.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select

from bridge.console import order_tracking
from bridge.console.message_index import NumberKind, number_hash, read_numbers, visible_sites_hashes
from bridge.console.ownership import SubjectReader, origin_of
from bridge.index_key import keyed64
from bridge.queue import queries
from bridge.queue.errors import NoSuchRow
from bridge.queue.listing_rows import MessageDetail, MessageRow
from bridge.queue.queries import ATTENTION, are_few, in_state, list_id, listed_message
from bridge.queue.retention.rows import id_at, newest_id
from bridge.queue.statements import MESSAGE, MESSAGE_NUMBER
from bridge.queue.states import QueueState
from bridge.store.database import Database

ID_WINDOW = 20_000
"""So many ids are looked through at once."""
MAX_INDEXED_ROWS = 5000
"""So many rows are, that an index gives."""
_TEXTS = ("detail", "code", "error_code", "error_place", "failure")


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """What is looked for; None leaves it open. Times in ms, `before` an id."""

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
    """Only what speaks of these and no other; None: of any, or none."""


@dataclass(frozen=True, slots=True)
class MessagePage:
    """What was found, newest first; `further` is the id to go on before, None: that was all."""

    rows: Sequence[MessageRow]
    further: int | None


def search_messages(database: Database, wanted: MessageQuery) -> MessagePage:
    """Find messages."""
    with database.read() as connection:
        newest = newest_id(connection, MESSAGE)
        low = 0 if wanted.since is None else id_at(connection, MESSAGE, "received_at", wanted.since)
        high = newest + 1 if wanted.before is None else wanted.before
        if wanted.until is not None:
            high = min(high, id_at(connection, MESSAGE, "received_at", wanted.until))
        few = are_few(connection, MESSAGE, wanted.state)
        floor = low if few else max(low, _floor(connection, wanted, high))
        key = list_id(MESSAGE, alone=few)
        statement = (
            select(*(MESSAGE.c[name] for name in MessageRow.__slots__))
            .where(key >= floor, key < high, *_conditions(wanted))
            .order_by(key.desc())
            .limit(wanted.limit)
        )
        found = [listed_message(row) for row in connection.execute(statement).mappings()]
    if len(found) == wanted.limit:
        return MessagePage(found, found[-1].id)
    return MessagePage(found, floor if floor > max(low, 1) else None)


def _floor(connection: Connection, wanted: MessageQuery, high: int) -> int:
    """Give the id down to which to look at once: so many rows, or ids where there is no index."""
    if wanted.kind is not None:
        ids = _numbered(wanted.kind, wanted.number)
        place = MESSAGE_NUMBER.c.message_id
    elif wanted.state in ATTENTION:
        place = MESSAGE.c.id
        ids = select(place).where(*in_state(MESSAGE, wanted.state))
    else:
        return high - ID_WINDOW
    last = ids.where(place < high).order_by(place.desc()).offset(MAX_INDEXED_ROWS - 1).limit(1)
    found: int | None = connection.execute(last).scalar()
    return found or 0


def _numbered(kind: NumberKind, number: str) -> Select[Any]:
    wanted = MESSAGE_NUMBER.c.number == keyed64(number_hash(kind, number))
    return select(MESSAGE_NUMBER.c.message_id).where(wanted)


def _conditions(wanted: MessageQuery) -> list[ColumnElement[bool]]:
    made: list[ColumnElement[bool]] = []
    if wanted.kind is not None:
        made.append(MESSAGE.c.id.in_(_numbered(wanted.kind, wanted.number)))
    if wanted.state is not None:
        made += in_state(MESSAGE, wanted.state)
    if wanted.listener is not None:
        made.append(MESSAGE.c.listener == wanted.listener)
    if wanted.sites is not None:
        own = select(MESSAGE_NUMBER.c.message_id).where(
            MESSAGE_NUMBER.c.number.in_(map(keyed64, visible_sites_hashes(wanted.sites))),
            MESSAGE_NUMBER.c.message_id == MESSAGE.c.id,
        )
        made.append(own.exists())
    made += [_says(word) for word in wanted.text.split()]
    return made


def _says(word: str) -> ColumnElement[bool]:
    places = (
        func.lower(MESSAGE.c[name]).contains(word.lower(), autoescape=True) for name in _TEXTS
    )
    return and_(or_(*places))


MOST_MESSAGES = 20

Reach = frozenset[str] | None
Orders = list[dict[str, Any]]


def find_orders_and_messages(
    database: Database, subjects_of: SubjectReader, kind: NumberKind, number: str, reach: Reach
) -> tuple[Orders, Sequence[MessageRow]]:
    """
    Return the orders that a number leads to, and their messages, newest first.

    The messages are the last ones that have the number, and the first and the last one that
    changed each order, under whatever number.
    """
    wanted = MessageQuery(kind=kind, number=number, limit=MOST_MESSAGES, sites=reach)
    rows = search_messages(database, wanted).rows
    if kind is NumberKind.PATIENT:
        orders = order_tracking.find_orders_of_patient(database, number, reach)
    else:
        orders = order_tracking.find_orders(database, {number}, reach)
        orders = orders or _numbered_orders(database, subjects_of, number, rows, reach)
    return orders, _with_messages_of(database, subjects_of, orders, rows, reach)


def _with_messages_of(
    database: Database,
    subjects_of: SubjectReader,
    orders: Orders,
    rows: Sequence[MessageRow],
    reach: Reach,
) -> Sequence[MessageRow]:
    """Add the first and the last message of each order, where the reader may see them."""
    found = {row.id: row for row in rows}
    ids = {each[name] for each in orders for name in ("first_message", "last_message")}
    for detail in _messages(database, sorted(ids - found.keys(), reverse=True)[:MOST_MESSAGES]):
        sites = subjects_of(origin_of(detail)).sites
        if reach is None or (sites and sites <= reach):
            found[detail.row.id] = detail.row
    return [found[each] for each in sorted(found, reverse=True)]


def _numbered_orders(
    database: Database,
    subjects_of: SubjectReader,
    number: str,
    rows: Sequence[MessageRow],
    reach: Reach,
) -> Orders:
    """Return the orders of messages that have a number: those called by it, else all."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for detail in _messages(database, [row.id for row in rows]):
        own = read_numbers(detail.payload).joined(subjects_of(origin_of(detail)))
        for each in order_tracking.find_orders(database, own.order, reach):
            if each["mrn"] in own.patient:
                found[each["site"], each["mrn"], each["accession"]] = each
    called = [each for each in found.values() if _is_called(each, number)]
    return called or list(found.values())


def _messages(database: Database, ids: Collection[int]) -> Iterator[MessageDetail]:
    for each in ids:
        try:
            yield queries.message(database, each)
        except NoSuchRow:  # retention has removed it
            continue


def _is_called(order: Mapping[str, Any], number: str) -> bool:
    """Whether the placer's or filler's number is this, whatever namespace stands behind it."""
    return number in {order[each].partition("^")[0].strip() for each in ("placer", "filler")}
