"""
Codes of messages that their code table does not contain: how often, and since when.

One row for each code of a table. The list for operators contains the codes that have no entry in
the table of the active version, whichever version has met them: an activation removes the codes
that have an entry now, a rollback returns them. Codes are counted in memory, and the counts are
stored periodically: processing a message never waits for a database. If a node is killed, the
counts since the last write are lost; messages are not.

Codes that may identify a person are counted without their text, and whether they have an entry is
not known: they are listed until the table changes.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, bindparam, delete, select, update
from sqlalchemy.dialects.postgresql import insert

from bridge.store.database import Database
from bridge.store.errors import VersionDamaged
from bridge.store.records import mapping_versions
from bridge.store.tables import UNKNOWN_CODES
from mappings.language.code_tables import CodeTable, UnmappedCode, read_table, table_file
from mappings.language.diagnostics import Diagnostics, Sources

MAX_NAMED_CODES = 200
"""Number of codes of a table that are stored by name; others are counted together."""
UNNAMED = ""
"""Stored in place of codes that must not be named."""
_RETENTION_MS = 90 * 86_400_000  # ms


OnUnmappedCodes = Callable[[str, str, Collection[UnmappedCode]], None]
"""Called with the name and version of a definition and the codes its tables do not contain."""


def ignore_unmapped_codes(_name: str, _version: str, _unmapped: Collection[UnmappedCode]) -> None:
    """Ignore unmapped codes."""


class CodeKey(NamedTuple):
    """A code of a table; `code` is empty if it must not be named."""

    mapping: str
    code_table: str
    code: str


@dataclass(frozen=True, slots=True)
class CodeUse:
    """The number of times that a version met a code since it was recorded last."""

    version: str
    place: str
    policy: str
    count: int = 1
    back: bool = False


@dataclass(frozen=True, slots=True)
class UnmappedCodeRecord:
    """
    A code without an entry; times in ms. `policy` is `keep`, `empty` or `refuse`.

    `back`: the code was looked up among the values of the table.
    """

    mapping: str
    code_table: str
    code: str
    place: str
    policy: str
    back: bool
    version: str
    count: int
    first_at: int
    last_at: int
    seen_at: int | None
    seen_by: str


_CODE = UNKNOWN_CODES.c

# Constants, because making a statement costs more than executing it.
_CODES_OF_TABLE: Final = select(_CODE.code).where(
    _CODE.mapping == bindparam("of_mapping"), _CODE.code_table == bindparam("of_table")
)
_NEW: Final = insert(UNKNOWN_CODES)
_LATEST: Final = ("place", "policy", "back", "version", "last_at")
_COUNT: Final = _NEW.on_conflict_do_update(
    index_elements=[*UNKNOWN_CODES.primary_key],
    set_={name: _NEW.excluded[name] for name in _LATEST}
    | {"count": _CODE["count"] + _NEW.excluded["count"]},
)


def add(database: Database, found: Mapping[CodeKey, CodeUse], now: int) -> None:
    """Count codes that were met. Codes that were not met for ninety days are deleted."""
    with database.write() as connection:
        database.serialize(connection, "unknown codes")
        for key in sorted(found):
            use = found[key]
            row = {
                **_limit_names(connection, key)._asdict(),
                "place": use.place,
                "policy": use.policy,
                "back": int(use.back),
                "version": use.version,
                "count": use.count,
                "first_at": now,
                "last_at": now,
            }
            connection.execute(_COUNT, row)
        connection.execute(delete(UNKNOWN_CODES).where(_CODE.last_at < now - _RETENTION_MS))


def _limit_names(connection: Connection, key: CodeKey) -> CodeKey:
    of_table = {"of_mapping": key.mapping, "of_table": key.code_table}
    known = set(connection.scalars(_CODES_OF_TABLE, of_table))
    full = len(known - {UNNAMED}) >= MAX_NAMED_CODES and key.code not in known
    return key._replace(code=UNNAMED) if full else key


def still_unmapped(
    connection: Connection, *conditions: ColumnElement[bool]
) -> list[UnmappedCodeRecord]:
    """List the codes that the active version of their definition lacks, last met first."""
    latest = select(UNKNOWN_CODES).where(*conditions)
    rows = connection.execute(
        latest.order_by(_CODE.last_at.desc(), _CODE.mapping, _CODE.code_table, _CODE.code)
    ).mappings()
    records = [UnmappedCodeRecord(**{**row, "back": bool(row["back"])}) for row in rows]
    tables = _CodeTables(connection)
    return [record for record in records if tables.lack(record)]


class _CodeTables:
    """The code tables of versions, read while codes are compared with them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._active = mapping_versions.active_versions(connection)
        self._sources: dict[tuple[str, str], Sources] = {}
        self._tables: dict[tuple[str, str], CodeTable] = {}

    def lack(self, record: UnmappedCodeRecord) -> bool:
        """True if the active version of the definition uses the table and has no entry."""
        activation = self._active.get(record.mapping)
        if activation is None:
            return False
        if record.version == activation.version:
            return True
        file = table_file(record.code_table)
        sources = self._sources_of(record.mapping, activation.version)
        if file not in sources:
            return False
        if record.code == UNNAMED:
            return sources[file] == self._sources_of(record.mapping, record.version).get(file)
        table = self._table_of(record, sources)
        found = table.code(record.code) if record.back else table.value(record.code)
        return found is None

    def _sources_of(self, name: str, version: str) -> Sources:
        """Return the files of a version; none of one that is damaged or gone."""
        if (name, version) not in self._sources:
            try:
                stored = mapping_versions.find(self._connection, name, version)
            except VersionDamaged:
                stored = None
            self._sources[name, version] = stored.sources if stored else {}
        return self._sources[name, version]

    def _table_of(self, record: UnmappedCodeRecord, sources: Sources) -> CodeTable:
        key = record.mapping, record.code_table
        if key not in self._tables:
            self._tables[key] = read_table(sources, record.code_table, Diagnostics())
        return self._tables[key]


def list_active(database: Database, limit: int) -> list[UnmappedCodeRecord]:
    """List the codes that the active versions lack, last met first."""
    with database.read() as connection:
        return still_unmapped(connection)[:limit]


def mark_seen(database: Database, key: CodeKey, by: str, now: int) -> bool:
    """Mark a code as seen; True if it existed and was unseen."""
    own = (_CODE.mapping == key.mapping, _CODE.code_table == key.code_table, _CODE.code == key.code)
    with database.write() as connection:
        unseen = update(UNKNOWN_CODES).where(*own, _CODE.seen_at.is_(None))
        return connection.execute(unseen.values(seen_at=now, seen_by=by)).rowcount > 0


MAX_COUNTED_CODES = 1000
"""Codes that are counted by name between two writes."""
_MAX_CODE_LENGTH = 40
_PERSONAL_SEGMENTS = frozenset(
    {"PID", "PD1", "NK1", "GT1", "IN1", "IN2", "IN3", "MRG", "OBX", "NTE"}
)
_CODED_FIELDS = frozenset({"PID-8", "PID-10", "PID-15", "PID-16", "PID-17", "PID-22"})
_IMPERSONAL_VARIABLES = frozenset(
    {"$site", "$report_status", "$result_status", "$observation_status", "$order_status"}
    | {"$order_control", "$section", "$section.code", "$section.system", "$order.SiteID"}
    | {"$order.SiteLocation", "$order.PatientSex", "$order.Modality", "$order.BodyPartExamined"}
    | {"$order.ProcedureCode"}
)
"""Variables of outgoing messages that contain no personal data."""
_ORDER_NUMBER_FIELDS = frozenset(
    {"ORC-2", "ORC-3", "ORC-4", "OBR-2", "OBR-3", "OBR-18", "OBR-19", "PV1-19"}
)


class UnmappedCodeCounter:
    """The unmapped codes of one process. Thread-safe."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._counts: Counter[CodeKey] = Counter()
        self._latest_uses: dict[CodeKey, CodeUse] = {}

    def note(self, mapping: str, version: str, unmapped: Collection[UnmappedCode]) -> None:
        """Count the unmapped codes of one message, each code once."""
        found = {CodeKey(mapping, code.table, storable_code(code)): code for code in unmapped}
        with self._guard:
            for key, code in found.items():
                full = len(self._counts) >= MAX_COUNTED_CODES and key not in self._counts
                kept = key._replace(code=UNNAMED) if full else key
                self._counts[kept] += 1
                self._latest_uses[kept] = CodeUse(version, code.place, code.policy, back=code.back)

    def take(self) -> Mapping[CodeKey, CodeUse]:
        """Return the counts since the last call, and reset them."""
        with self._guard:
            counts, uses = self._counts, self._latest_uses
            self._counts, self._latest_uses = Counter(), {}
        return {key: replace(use, count=counts[key]) for key, use in uses.items()}


def storable_code(unmapped: UnmappedCode) -> str:
    """Return a code as it may be stored; empty if it may contain personal data."""
    segment, _, rest = unmapped.place.partition("-")
    field = f"{segment}-{rest.partition('.')[0].partition('(')[0]}"
    personal = segment in _PERSONAL_SEGMENTS and field not in _CODED_FIELDS
    personal |= unmapped.place.startswith("$") and unmapped.place not in _IMPERSONAL_VARIABLES
    code = unmapped.code.strip()
    return (
        UNNAMED
        if personal or field in _ORDER_NUMBER_FIELDS or len(code) > _MAX_CODE_LENGTH
        else code
    )
