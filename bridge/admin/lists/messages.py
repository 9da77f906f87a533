"""
The list of messages: its filters, and the indexes that find them.

A number, a name and a sender are found in the message index, missing tags in its entries. Values of
`number` and `name` are patient data: `sealed` replaces them by keyed hashes, to be stored.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

from sqlalchemy import Connection, text
from typing_extensions import override

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import InvalidContent
from bridge.admin.lists.listing import (
    MAX_BRANCHES,
    NOTHING,
    Access,
    Branch,
    Criterion,
    Driver,
    Filters,
    ListDefinition,
    Parameters,
    choices_of,
    exists,
    number_of,
    text_of,
    texts_of,
    words_probe,
)
from bridge.admin.lists.states import found_by_job, states_and_causes
from bridge.admin.messages.message_index import (
    NumberKind,
    name_words,
    number_hash,
    number_hashes,
)
from bridge.index_key import keyed64
from bridge.queue.arrivals import MessageFlag
from bridge.queue.listing_rows import MessageRow
from bridge.queue.queries import listed_message
from bridge.queue.retention.rows import id_at
from bridge.queue.sites import visible_sites_hashes
from bridge.queue.statements import MESSAGE
from mappings.language.rules import TAGS

NUMBER_KINDS: Final = (NumberKind.ORDER, NumberKind.PATIENT, NumberKind.CONTROL)
FLAG_CHOICES: Final = ("retransmitted", "reused id", "charset suspect", "corrected")
_FLAGS: Final = {
    "retransmitted": "m.retransmits > 0",
    "reused id": f"(m.flags & {MessageFlag.REUSED_CONTROL_ID.value}) <> 0",
    "charset suspect": f"(m.flags & {MessageFlag.CHARSET_SUSPECT.value}) <> 0",
    "corrected": f"(m.flags & {MessageFlag.CORRECTED.value}) <> 0",
}
_TEXT_COLUMNS: Final = tuple(
    f"m.{name}" for name in ("detail", "code", "error_code", "error_place", "failure")
)
_DRIVING_SITES: Final = 4
"""With more sites, their number of hashes grows too much for a driver."""


class MessageList(ListDefinition[MessageRow]):
    name = "messages"
    table = "message"
    select = ", ".join(f"m.{name}" for name in MessageRow.__slots__)
    sorts: ClassVar[Mapping[str, str]] = {
        "channel": "m.listener",
        "type": "m.message_type",
        "state": "m.state",
        "cause": "m.code",
        "attempts": "m.attempts",
    }
    filters = frozenset(
        {"channel", "type", "state", "cause", "number", "kind", "name", "sender", "absent"}
        | {"flags", "definition", "version", "text", "job", "edited", "hashes"}
    )
    private = frozenset({"number", "name"})

    @override
    def id_at(self, connection: Connection, moment: int) -> int:
        return id_at(connection, MESSAGE, "received_at", moment)

    @override
    def time_at(self, connection: Connection, row_id: int) -> int | None:
        statement = "SELECT received_at FROM message WHERE id >= :id ORDER BY id LIMIT 1"
        found: int | None = connection.execute(text(statement), {"id": row_id}).scalar()
        return found

    @override
    def convert(self, row: Mapping[Any, Any]) -> MessageRow:
        return listed_message(row)

    @override
    def criteria(
        self, connection: Connection, parameters: Parameters, filters: Filters, access: Access
    ) -> list[Criterion]:
        found = _of_sites(parameters, access.sites)
        found += _of_numbers(parameters, filters, access)
        found += states_and_causes(connection, parameters, filters, self.table, "listener")
        for name, build in _BUILDERS.items():
            if name in filters:
                found += build(parameters, filters)
        return found

    def sealed(self, filters: Filters, access: Access) -> dict[str, Any]:
        """Return filters whose private values are keyed hashes, to be stored."""
        require(filters, access)
        open_ = {name: filters[name] for name in filters.keys() - self.private - {"kind"}}
        hashes = [*filters.get("hashes", ()), *_private_hashes(filters, _kinds(access))]
        return open_ | ({"hashes": hashes} if hashes else {})


def require(filters: Filters, access: Access) -> None:
    """Require the permissions for the values that are searched. Raises PermissionDenied."""
    if "number" in filters:
        access.require(Permission.FIND)
        if filters.get("kind") == NumberKind.PATIENT:
            access.require(Permission.BODIES)
    if "name" in filters:
        access.require(Permission.FIND)
        access.require(Permission.BODIES)


def _of_numbers(parameters: Parameters, filters: Filters, access: Access) -> list[Criterion]:
    require(filters, access)
    sealed = filters.get("hashes", [])
    if not _are_hashes(sealed):
        raise InvalidContent("the filter hashes needs lists of numbers")
    own = _private_hashes(filters, _kinds(access))
    return [_posted(parameters, hashes) for hashes in (*sealed, *own)]


def _kinds(access: Access) -> Sequence[NumberKind]:
    """Return the kinds of numbers that a search without a kind looks for."""
    reads = Permission.BODIES in access.permissions
    return [kind for kind in NUMBER_KINDS if reads or kind is not NumberKind.PATIENT]


def _are_hashes(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(hashes, list | tuple)
        and len(hashes) <= MAX_BRANCHES
        and all(isinstance(number, int) for number in hashes)
        for hashes in value
    )


def _private_hashes(filters: Filters, kinds: Sequence[NumberKind]) -> list[list[int]]:
    """Return the keyed hashes of number and name: a message has one of each list."""
    found: list[list[int]] = []
    if "number" in filters:
        chosen = kinds
        if "kind" in filters:
            chosen = [NumberKind(choices_of(filters, "kind", NUMBER_KINDS)[0])]
        number = text_of(filters, "number")
        hashes = {value for kind in chosen for value in number_hashes(kind, number)}
        found.append(sorted(map(keyed64, hashes)) if number.strip() else [])
    if "name" in filters:
        words = name_words(text_of(filters, "name"))
        found += [[keyed64(number_hash(NumberKind.NAME, word))] for word in words] or [[]]
    return found


def _hashes_of(kind: NumberKind, filters: Filters) -> list[int]:
    return sorted(keyed64(number_hash(kind, value)) for value in texts_of(filters, kind.value))


def _posted(parameters: Parameters, hashes: Sequence[int]) -> Criterion:
    """Return the criterion that the index has one of these hashes for a message."""
    if not hashes:
        return NOTHING
    probe = exists(
        f"SELECT 1 FROM message_number AS n WHERE {parameters.among('n.number', hashes)}"  # noqa: S608  # our own names
        " AND n.message_id = m.id"
    )
    if len(hashes) > MAX_BRANCHES:
        return Criterion(probe)
    # One branch for each hash: each is in the order of the primary key.
    texts = (
        f"SELECT message_id AS id FROM message_number WHERE number = {parameters.add(number)}"  # noqa: S608  # our own names
        for number in hashes
    )
    return Criterion(probe, Driver(tuple(Branch(query, "message_id") for query in texts)))


def _of_sites(parameters: Parameters, sites: Collection[str] | None) -> list[Criterion]:
    if sites is None:
        return []
    hashes = list(map(keyed64, visible_sites_hashes(sites)))
    found = _posted(parameters, hashes)
    return [found if len(sites) <= _DRIVING_SITES else Criterion(found.probe)]


def _equal(parameters: Parameters, column: str, values: Sequence[str]) -> Criterion:
    """Return the criterion of an indexed column: one branch for each value."""
    branches = tuple(
        Branch(f"SELECT id FROM message WHERE {column} = {parameters.add(value)}")  # noqa: S608  # our own names
        for value in values[:MAX_BRANCHES]
    )
    driver = Driver(branches) if len(values) <= MAX_BRANCHES else None
    return Criterion(parameters.among(f"m.{column}", values), driver)


def _absent(tag: str) -> Criterion:
    missing = f"(absent & {1 << TAGS.index(tag)}) <> 0"
    entry = f"SELECT 1 FROM message_entry AS e WHERE e.message_id = m.id AND {missing}"  # noqa: S608  # our own names
    ids = f"SELECT message_id AS id FROM message_entry WHERE {missing}"  # noqa: S608  # our own names
    driver = Driver((Branch(ids, "message_id"),), reads_all=True)
    return Criterion(exists(entry), driver)


_EDITED: Final = Criterion(
    exists("SELECT 1 FROM message_edit AS e WHERE e.message_id = m.id"),
    Driver((Branch("SELECT message_id AS id FROM message_edit WHERE true", "message_id"),)),
)


def _column(column: str) -> "Builder":
    def build(parameters: Parameters, filters: Filters) -> list[Criterion]:
        name = {"mapping": "definition", "mapping_version": "version"}[column]
        return [Criterion(parameters.among(f"m.{column}", texts_of(filters, name)))]

    return build


Builder = Callable[[Parameters, Filters], list[Criterion]]
_BUILDERS: Final[Mapping[str, Builder]] = {
    "channel": lambda parameters, filters: [
        _equal(parameters, "listener", texts_of(filters, "channel"))
    ],
    "type": lambda parameters, filters: [
        _equal(parameters, "message_type", texts_of(filters, "type"))
    ],
    "sender": lambda parameters, filters: [
        _posted(parameters, _hashes_of(NumberKind.SENDER, filters))
    ],
    "absent": lambda _, filters: [_absent(tag) for tag in choices_of(filters, "absent", TAGS)],
    "flags": lambda _, filters: [
        Criterion(_FLAGS[flag]) for flag in choices_of(filters, "flags", FLAG_CHOICES)
    ],
    "definition": _column("mapping"),
    "version": _column("mapping_version"),
    "text": lambda parameters, filters: words_probe(
        parameters, _TEXT_COLUMNS, text_of(filters, "text")
    ),
    "edited": lambda *_: [_EDITED],
    "job": lambda parameters, filters: [found_by_job(parameters, number_of(filters, "job"))],
}
