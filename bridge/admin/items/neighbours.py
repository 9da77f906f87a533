"""
Neighbours of a message: the message before and after it of the same patient, order and sender; and
the differences of two messages.

Patient and order are found by the message index, which has a new message within half a minute. A
message of the same sender is one of the same listener, among the `ID_WINDOW` ids on each side.

Differences contain patient data: show them to users who may read content only.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Select, select

from bridge.admin.lists.listing import ID_WINDOW
from bridge.admin.messages.message_index import (
    NumberKind,
    SubjectReader,
    number_hashes,
    origin_of,
    read_numbers,
)
from bridge.index_key import keyed64
from bridge.queue import queries
from bridge.queue.listing_rows import MessageDetail
from bridge.queue.sites import visible_sites_hashes
from bridge.queue.statements import MESSAGE, MESSAGE_NUMBER
from bridge.store.database import Database
from mappings.hl7.differences import PlaceDifference, differences
from mappings.hl7.message import Message
from mappings.hl7.refusals import MessageRefusal

_MAX_NUMBERS: Final = 20
"""Numbers of a message that are looked up, for each kind."""
_MAX_EXAMINED: Final = 200
"""Messages with a number that are examined for their sites."""

VisibleSites = Collection[str] | None
"""The sites whose messages a user may see; None: all."""


@dataclass(frozen=True, slots=True)
class Adjacent:
    """The ids of the nearest messages on both sides, None if there is none."""

    previous: int | None
    next: int | None


@dataclass(frozen=True, slots=True)
class Neighbours:
    patient: Adjacent
    order: Adjacent
    sender: Adjacent


def neighbours(
    database: Database, subjects_of: SubjectReader, message_id: int, visible_sites: VisibleSites
) -> Neighbours:
    """
    Return the neighbours that a user may see. Raises NoSuchRow.

    The caller has checked that the user may see the message itself.
    """
    detail = queries.message(database, message_id)
    patients, orders = _numbers(detail, subjects_of)
    with database.read() as connection:
        search = _Search(connection, message_id, visible_sites)
        return Neighbours(
            search.with_number(NumberKind.PATIENT, patients),
            search.with_number(NumberKind.ORDER, orders),
            search.of_listener(detail.row.listener),
        )


def previous_of_order(
    database: Database, subjects_of: SubjectReader, message_id: int, visible_sites: VisibleSites
) -> int | None:
    """Return the message before one of the same order, None if there is none. Raises NoSuchRow."""
    _, orders = _numbers(queries.message(database, message_id), subjects_of)
    with database.read() as connection:
        search = _Search(connection, message_id, visible_sites)
        return search.with_number(NumberKind.ORDER, orders).previous


def differences_of(
    database: Database, earlier: int, detail: MessageDetail, charset_of: Callable[[str], str]
) -> Iterable[PlaceDifference]:
    """
    Return the differences of two messages; none if one is not HL7. Raises NoSuchRow.

    `charset_of` returns the codec of a listener.
    """
    before = queries.message(database, earlier)
    return differences_of_payloads(
        before.payload,
        detail.payload,
        charset_of(before.row.listener),
        charset_of(detail.row.listener),
    )


def differences_of_payloads(
    before: bytes, after: bytes, charset_before: str = "utf-8", charset_after: str = "utf-8"
) -> Iterable[PlaceDifference]:
    """Return the differences of two messages; none if one is not HL7."""
    try:
        return differences(
            Message.parse(before, fallback=charset_before),
            Message.parse(after, fallback=charset_after),
        )
    except MessageRefusal:
        return ()


def _numbers(
    detail: MessageDetail, subjects_of: SubjectReader
) -> tuple[Collection[str], Collection[str]]:
    """
    Return the patient ids and the order numbers of a message.

    They are those that its definition reads. The fields of the standard apply if it reads none:
    they also have account numbers and numbers of groups.
    """
    subjects = subjects_of(origin_of(detail))
    if subjects.patients and subjects.orders:
        return subjects.patients, subjects.orders
    numbers = read_numbers(detail.payload)
    return subjects.patients or numbers.patient, subjects.orders or numbers.order


class _Search:
    """Searches the messages on both sides of one message."""

    def __init__(
        self, connection: Connection, message_id: int, visible_sites: VisibleSites
    ) -> None:
        self._connection = connection
        self._id = message_id
        self._sites = (
            None
            if visible_sites is None
            else list(map(keyed64, visible_sites_hashes(visible_sites)))
        )

    def with_number(self, kind: NumberKind, numbers: Collection[str]) -> Adjacent:
        hashes = {
            keyed64(hashed)
            for number in sorted(numbers)[:_MAX_NUMBERS]
            for hashed in number_hashes(kind, number)
        }
        before = [self._nearest_with(hashed, newer=False) for hashed in sorted(hashes)]
        after = [self._nearest_with(hashed, newer=True) for hashed in sorted(hashes)]
        return Adjacent(
            max((found for found in before if found is not None), default=None),
            min((found for found in after if found is not None), default=None),
        )

    def of_listener(self, listener: str) -> Adjacent:
        key = MESSAGE.c.id
        same = select(key.label("id")).where(MESSAGE.c.listener == listener)
        before = same.where(key < self._id, key >= self._id - ID_WINDOW).order_by(key.desc())
        after = same.where(key > self._id, key <= self._id + ID_WINDOW).order_by(key)
        return Adjacent(
            self._first_visible(before, newer=False), self._first_visible(after, newer=True)
        )

    def _nearest_with(self, hashed: int, *, newer: bool) -> int | None:
        key = MESSAGE_NUMBER.c.message_id
        found = select(key.label("id")).where(MESSAGE_NUMBER.c.number == hashed)
        if newer:
            return self._first_visible(found.where(key > self._id).order_by(key), newer=True)
        return self._first_visible(found.where(key < self._id).order_by(key.desc()), newer=False)

    def _first_visible(self, ordered: Select[Any], *, newer: bool) -> int | None:
        found: int | None
        if self._sites is None:
            found = self._connection.scalar(ordered.limit(1))
            return found
        examined = ordered.limit(_MAX_EXAMINED).subquery()
        visible = select(MESSAGE_NUMBER.c.message_id).where(
            MESSAGE_NUMBER.c.number.in_(self._sites), MESSAGE_NUMBER.c.message_id == examined.c.id
        )
        order = examined.c.id if newer else examined.c.id.desc()
        statement = select(examined.c.id).where(visible.exists()).order_by(order).limit(1)
        found = self._connection.scalar(statement)
        return found
