"""
Columns of the message list whose values come from the content of the messages.

Values are computed for the rows that are shown, by the definition that read each message, and are
not stored. A message that its definition cannot read has the values of the standard's fields.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import select

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import InvalidContent
from bridge.admin.lists.columns import MAX_COLUMNS, MAX_IDS, ColumnValues, shown_name
from bridge.admin.lists.listing import Access
from bridge.admin.messages.dicom_content import read_whole
from bridge.admin.messages.message_index import MessageOrigin
from bridge.admin.messages.message_replay import MessageSubjects
from bridge.orders.received_objects import ReceivedObject
from bridge.queue import payload_blobs
from bridge.queue.statements import MESSAGE, MESSAGE_BODY
from bridge.store.database import Database
from mappings.hl7.message import Message
from mappings.hl7.path import InvalidPath, Path
from mappings.inbound.events import OrderEvent
from mappings.language.rules import TAGS
from parsers.dicom_file import is_dicom

DEADLINE: Final = 0.15
"""Seconds after which further messages are left for the next call."""
_MAX_VALUE: Final = 200
_MAX_METADATA: Final = 100

_FOUND: Final = ("control_id", "accession", "placer", "filler", "sender")
"""Columns that need FIND; all others need BODIES."""
_READ: Final = ("patient", "name", "birth_date")
_PLACES: Final = {
    "control_id": ("MSH-10",),
    "accession": ("OBR-18", "OBR-3.1", "ORC-3.1"),
    "placer": ("ORC-2.1", "OBR-2.1"),
    "filler": ("ORC-3.1", "OBR-3.1"),
    "patient": ("PID-3.1",),
    "birth_date": ("PID-7",),
}


Reader = Callable[[Message, Sequence[OrderEvent]], str]


def permission_of(column: str) -> Permission:
    """Return the permission that a column needs. Raises InvalidContent for an unknown one."""
    _reader(column)
    return Permission.FIND if column in _FOUND else Permission.BODIES


def require(columns: Iterable[str], access: Access) -> None:
    """Require the permissions for columns. Raises PermissionDenied, InvalidContent."""
    for column in columns:
        access.require(permission_of(column))


def values(
    database: Database,
    subjects_of: MessageSubjects,
    ids: Sequence[int],
    columns: Sequence[str],
    access: Access,
    deadline: float = DEADLINE,
) -> ColumnValues:
    """
    Return the values of columns for messages on visible sites; other messages have none.

    At least one message is read. Raises PermissionDenied, InvalidContent.
    """
    if len(ids) > MAX_IDS or not 0 < len(columns) <= MAX_COLUMNS:
        raise InvalidContent(f"at most {MAX_IDS} rows and {MAX_COLUMNS} columns")
    require(columns, access)
    readers = {column: _reader(column) for column in columns}
    found = ColumnValues()
    until = time.monotonic() + deadline
    origins = _origins(database, ids)
    for message_id in sorted(origins, reverse=True):
        if found.values and time.monotonic() > until:
            found.left.append(message_id)
            continue
        row = _values(database, subjects_of, origins[message_id], readers, access)
        if row is not None:
            found.values[message_id] = row
    return found


def _origins(database: Database, ids: Sequence[int]) -> dict[int, MessageOrigin]:
    columns = [MESSAGE.c[name] for name in ("id", "listener", "mapping", "mapping_version")]
    statement = (
        select(*columns, MESSAGE.c.received_at, MESSAGE_BODY.c.payload)
        .join_from(MESSAGE, MESSAGE_BODY, MESSAGE_BODY.c.message_id == MESSAGE.c.id)
        .where(MESSAGE.c.id.in_(ids))
    )
    found: dict[int, MessageOrigin] = {}
    with database.read() as connection:
        for row in connection.execute(statement).all():
            payload = bytes(row.payload) or payload_blobs.content(connection, row.id, b"")
            found[row.id] = MessageOrigin(
                row.listener, row.mapping, row.mapping_version, row.received_at, payload
            )
    return found


def _values(
    database: Database,
    subjects_of: MessageSubjects,
    origin: MessageOrigin,
    readers: Mapping[str, Reader],
    access: Access,
) -> dict[str, str] | None:
    """Return the values of one message; None if its sites are not visible."""
    if access.sites is not None:
        sites = subjects_of(origin).sites
        if not sites or not sites <= access.sites:
            return None
    if is_dicom(origin.payload):
        with database.read() as connection:
            received = read_whole(connection, origin.payload)
        found = {} if received is None else _of_object(received)
        return {column: found.get(column, "")[:_MAX_VALUE] for column in readers}
    message, events = subjects_of.read(origin)
    if message is None:
        return dict.fromkeys(readers, "")
    return {column: read(message, events)[:_MAX_VALUE] for column, read in readers.items()}


def _of_object(received: ReceivedObject) -> Mapping[str, str]:
    """Return the columns of a performed step or an object that a modality sent."""
    return {
        "control_id": received.meta.sop_instance,
        "accession": _joined(reference.accession for reference in received.references),
        "sender": received.meta.sender,
        "patient": received.mrn,
        "name": shown_name(received.name.partition("=")[0]),
    }


def _reader(column: str) -> Reader:
    """Return the function that reads a column. Raises InvalidContent for an unknown one."""
    kind, mark, name = column.partition(":")
    if mark and kind == "tag" and name in TAGS:
        return lambda _, events: _joined(_tag(event, name) for event in events)
    if mark and kind == "meta" and 0 < len(name) <= _MAX_METADATA:
        return lambda _, events: _joined(_metadata(event, name) for event in events)
    if mark and kind == "path":
        return _path_reader(name)
    if column in _FOUND or column in _READ:
        return _NAMED[column]
    raise InvalidContent(f"there is no column {column[:40]!r}")


def _path_reader(text: str) -> Reader:
    path = _path(text)
    return lambda message, _: _joined(message.values(path))


def _path(text: str) -> Path:
    try:
        return Path.parse(text)
    except InvalidPath as error:
        raise InvalidContent(str(error)) from None


ValuesReader = Callable[[Message, Sequence[OrderEvent]], Sequence[str]]


def values_reader(name: str) -> ValuesReader:
    """
    Return a function that reads the values of a tag, one for each order, or of a field.

    A field that the message does not have has the empty text. Raises InvalidContent.
    """
    if name in TAGS:
        return lambda _, events: [_tag(event, name) for event in events]
    path = _path(name)
    return lambda message, _: message.values(path) or [""]


def _joined(found: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, found)))


def _tag(event: OrderEvent, name: str) -> str:
    return str(event.clinical_info.get(name, ""))


def _metadata(event: OrderEvent, name: str) -> str:
    found: Any = event.clinical_info.get("Metadata", {})
    return str(found.get(name, "")) if isinstance(found, Mapping) else ""


def _sent(column: str, message: Message) -> str:
    """Return the value of the standard's fields: the first that has one."""
    found = (_joined(message.values(place)) for place in _PLACES[column])
    return next(filter(None, found), "")


def _mapped(column: str, read: Callable[[OrderEvent], str]) -> Reader:
    return lambda message, events: _joined(map(read, events)) or _sent(column, message)


def _name(message: Message, events: Sequence[OrderEvent]) -> str:
    mapped = _joined(shown_name(_tag(event, "PatientName")) for event in events)
    if mapped:
        return mapped
    family, given = message.value("PID-5.1"), message.value("PID-5.2")
    return shown_name(f"{family}^{given}")


_NAMED: Final[Mapping[str, Reader]] = {
    "control_id": lambda message, _: _sent("control_id", message),
    "sender": lambda message, _: "|".join(message.value(place) for place in ("MSH-3.1", "MSH-4.1")),
    "accession": _mapped("accession", lambda event: event.accession),
    "placer": _mapped("placer", lambda event: event.placer.partition("^")[0]),
    "filler": _mapped("filler", lambda event: event.filler.partition("^")[0]),
    "patient": _mapped("patient", lambda event: event.mrn),
    "birth_date": _mapped("birth_date", lambda event: _tag(event, "PatientBirthDate")),
    "name": _name,
}
