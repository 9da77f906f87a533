"""
Active settings: those of bridge.toml, overridden by what the console saved.

The console can save a whole listener, destination or DICOM peer: a table that replaces the one of
bridge.toml. It can also save the ordered list of a listener's definitions; an empty list restores
the list of bridge.toml. The database stores each as a record among the versions of definitions,
with author, time and reason, and all nodes follow it. This module reads and builds records, and
stores none.

The active definitions are the activated versions in the database, else the files on disk.
`bridge.admin.definitions.activation` activates versions.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, TypeVar, overload

from pydantic import BaseModel, ValidationError

from bridge.errors import BridgeError
from bridge.store.database import Database
from bridge.store.records import mapping_versions
from bridge.store.records.mapping_versions import MappingVersion
from bridge.workers.hooks import install
from config import Settings
from config.dicom import DicomPeer
from config.listeners import ListenerSettings
from config.sections import ChannelKind, ConnectionKind, DestinationSettings, PeerKind
from mappings.compiler import compile_sources, read_folder
from mappings.inbound.definition import InboundMapping
from mappings.language.diagnostics import Sources

install()  # hooks of definitions run in worker processes

Connection = ListenerSettings | DestinationSettings
Table = Mapping[str, Any]
"""A listener, destination or DICOM peer as in bridge.toml: keys with plain values."""

MODELS: Final[Mapping[ChannelKind, type[Connection]]] = {
    ChannelKind.LISTENER: ListenerSettings,
    ChannelKind.DESTINATION: DestinationSettings,
}
SECTIONS: Final[Mapping[ConnectionKind, type[Connection | DicomPeer]]] = {
    ChannelKind.LISTENER: ListenerSettings,
    ChannelKind.DESTINATION: DestinationSettings,
    PeerKind.DICOM: DicomPeer,
}
NAME_KEYS: Final[Mapping[ConnectionKind, str]] = {
    ChannelKind.LISTENER: "name",
    ChannelKind.DESTINATION: "name",
    PeerKind.DICOM: "ae_title",
}
"""The key of a table that names the connection."""
HEADINGS: Final[Mapping[ConnectionKind, str]] = {
    ChannelKind.LISTENER: "listener",
    ChannelKind.DESTINATION: "destination",
    PeerKind.DICOM: "dicom.peer",
}
"""The heading of a table in bridge.toml."""
_KINDS: Final = {str(kind): kind for kind in SECTIONS}
_CONNECTION_PREFIX: Final = "settings of "
_CONNECTION_FILE: Final = "settings.json"
_LIST_PREFIX: Final = "listener "
_LIST_FILE: Final = "mappings.json"
_CACHE_SECONDS: Final = 1.0
Section = TypeVar("Section", ListenerSettings, DestinationSettings, DicomPeer)


class InvalidConnection(BridgeError):
    """A saved listener, destination or DICOM peer has invalid settings."""

    def __init__(self, kind: ConnectionKind, name: str, fields: Sequence[str]) -> None:
        super().__init__(f"{kind} {name} as saved in the console: {', '.join(fields)}")


def connection_record_name(kind: ConnectionKind, name: str) -> str:
    """Return the name of a connection's record; no definition can have this name."""
    return f"{_CONNECTION_PREFIX}{kind} {name}"


def connection_of_record(name: str) -> tuple[ConnectionKind, str] | None:
    """Return kind and name of the connection of a record; None for other names."""
    if not name.startswith(_CONNECTION_PREFIX):
        return None
    kind, _, own = name.removeprefix(_CONNECTION_PREFIX).partition(" ")
    return _KINDS[kind], own


def make_connection_record(kind: ConnectionKind, name: str, table: Table | None) -> MappingVersion:
    """Return the record of a table; None restores the table of bridge.toml."""
    own = None if table is None else {**table, NAME_KEYS[kind]: name}
    text = json.dumps(own, ensure_ascii=False, sort_keys=True)
    digest = sha256(text.encode()).hexdigest()[:16]
    return MappingVersion(connection_record_name(kind, name), digest, {_CONNECTION_FILE: text})


def table_of(record: MappingVersion) -> dict[str, Any] | None:
    """Return the table of a record; None if bridge.toml applies."""
    found: dict[str, Any] | None = json.loads(record.sources[_CONNECTION_FILE])
    return found


def keys(model: type[BaseModel]) -> list[str]:
    """Return the keys of a section as they are written."""
    return [field.alias or name for name, field in model.model_fields.items()]


def with_saved_connections(settings: Settings, saved: Mapping[str, MappingVersion]) -> Settings:
    """
    Return the settings with the saved connections.

    Raises InvalidConnection if a table does not fit this release.
    """
    tables = {
        owner: table_of(record)
        for name, record in saved.items()
        if (owner := connection_of_record(name))
    }
    if not any(tables.values()):
        return settings
    update = {
        "listener": _joined(settings.listener, _saved_entries(ChannelKind.LISTENER, tables)),
        "destination": _joined(
            settings.destination, _saved_entries(ChannelKind.DESTINATION, tables)
        ),
        "dicom": settings.dicom.model_copy(
            update={
                "peer": _joined(settings.dicom.peer, _saved_entries(PeerKind.DICOM, tables)),
            }
        ),
    }
    return settings.with_saved(update)


def _saved_entries(
    kind: ConnectionKind, tables: Mapping[tuple[ConnectionKind, str], Table | None]
) -> dict[str, Any]:
    return {
        name: build_section(kind, name, table)
        for (of, name), table in tables.items()
        if of is kind and table is not None
    }


@overload
def build_section(kind: ChannelKind, name: str, table: Table) -> Connection: ...
@overload
def build_section(kind: ConnectionKind, name: str, table: Table) -> Connection | DicomPeer: ...
def build_section(kind: ConnectionKind, name: str, table: Table) -> Connection | DicomPeer:
    """Build a section from a table. Raises InvalidConnection."""
    try:
        return SECTIONS[kind].model_validate(dict(table))
    except ValidationError as error:
        fields = sorted({".".join(map(str, mistake["loc"])) for mistake in error.errors()})
        raise InvalidConnection(kind, name, fields) from None


def _joined(own: Sequence[Section], saved: Mapping[str, Section]) -> list[Section]:
    """Replace connections of the file with saved ones, and append new ones."""
    known = {section.name for section in own}
    kept = [saved.get(section.name, section) for section in own]
    return kept + [section for name, section in sorted(saved.items()) if name not in known]


def origin_of(own: Settings, active: Settings, kind: ConnectionKind, name: str) -> str:
    """Return where a connection is defined: `file`, `console`, or `both`, which then differ."""
    before, now = (find_connection(settings, kind, name) for settings in (own, active))
    if before is None:
        return "console"
    return (
        "file"
        if now is not None and _without_definitions(before) == _without_definitions(now)
        else "both"
    )


@overload
def connections_of(settings: Settings, kind: ChannelKind) -> Sequence[Connection]: ...
@overload
def connections_of(
    settings: Settings, kind: ConnectionKind
) -> Sequence[Connection | DicomPeer]: ...
def connections_of(settings: Settings, kind: ConnectionKind) -> Sequence[Connection | DicomPeer]:
    """Return the connections of one kind."""
    if kind is PeerKind.DICOM:
        return settings.dicom.peer
    return settings.listener if kind is ChannelKind.LISTENER else settings.destination


@overload
def find_connection(settings: Settings, kind: ChannelKind, name: str) -> Connection | None: ...
@overload
def find_connection(
    settings: Settings, kind: ConnectionKind, name: str
) -> Connection | DicomPeer | None: ...
def find_connection(
    settings: Settings, kind: ConnectionKind, name: str
) -> Connection | DicomPeer | None:
    """Return a connection by its kind and name; None if there is none."""
    return next(
        (connection for connection in connections_of(settings, kind) if connection.name == name),
        None,
    )


def _without_definitions(section: Connection | DicomPeer) -> Connection | DicomPeer:
    """Return a section without the definitions of a listener, which have a separate record."""
    if isinstance(section, ListenerSettings):
        return section.model_copy(update={"mappings": []})
    return section


class NoSuchListener(BridgeError):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no listener {name} in the settings")


def list_record_name(listener: str) -> str:
    """Return the name of a listener's record; no definition can have this name."""
    return f"{_LIST_PREFIX}{listener}"


def listener_of_record(name: str) -> str:
    """Return the listener of a record by the record's name; empty for other names."""
    return name.removeprefix(_LIST_PREFIX) if name.startswith(_LIST_PREFIX) else ""


def make_list_record(listener: str, names: Sequence[str]) -> MappingVersion:
    text = json.dumps(list(names))
    return MappingVersion(
        list_record_name(listener), sha256(text.encode()).hexdigest()[:16], {_LIST_FILE: text}
    )


def definitions_in(record: MappingVersion) -> tuple[str, ...]:
    found: list[str] = json.loads(record.sources[_LIST_FILE])
    return tuple(found)


def with_saved_lists(settings: Settings, saved: Mapping[str, MappingVersion]) -> Settings:
    lists = {
        listener.name: list(names)
        for listener in settings.listener
        if (found := saved.get(list_record_name(listener.name)))
        and (names := definitions_in(found))
    }
    listeners = [
        listener.model_copy(update={"mappings": lists[listener.name]})
        if listener.name in lists
        else listener
        for listener in settings.listener
    ]
    return settings.model_copy(update={"listener": listeners})


def is_record(name: str) -> bool:
    """True if a name among the versions is a record and not a definition."""
    return bool(listener_of_record(name)) or connection_of_record(name) is not None


def current(
    settings: Settings, database: Database, records: Sequence[MappingVersion] = ()
) -> Settings:
    """Return the active settings, or those with further records. Raises InvalidConnection."""
    with database.read() as connection:
        active = [
            record
            for name, record in mapping_versions.active_versions(connection).items()
            if is_record(name)
        ]
        found = [
            mapping_versions.find(connection, record.name, record.version) for record in active
        ]
    saved = {record.name: record for record in [*filter(None, found), *records]}
    return with_saved_lists(with_saved_connections(settings, saved), saved)


class ActiveSettings:
    """The active settings, read from the database at most once per second."""

    def __init__(
        self, settings: Settings, database: Database, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` is in seconds."""
        self._settings = settings
        self._database = database
        self._clock = clock
        self._known = -1
        self._found = settings
        self._read_at = float("-inf")

    def __call__(self) -> Settings:
        """Return the active settings. Blocking; raises StoreError, InvalidConnection."""
        now = self._clock()
        if now - self._read_at >= _CACHE_SECONDS:
            with self._database.read() as connection:
                latest = mapping_versions.latest_activation_id(connection)
            if latest != self._known:
                self._found = current(self._settings, self._database)
                self._known = latest
            self._read_at = now
        return self._found


SourceFinder = Callable[[str], Sources]
"""Returns the sources of a definition by its name."""

_MAX_CACHED = 64  # versions that messages in progress may need


def file_sources(settings: Settings) -> SourceFinder:
    """Return a finder for the files of the data directory."""
    folder = settings.home / "mappings"
    return lambda name: read_folder(folder)


def active_sources(settings: Settings, database: Database) -> SourceFinder:
    """Return a finder for the active versions, and for files that were never activated."""
    with database.read() as connection:
        active = mapping_versions.active_versions(connection)
        found = {
            name: version.sources
            for name, activation in active.items()
            if not is_record(name)
            and (version := mapping_versions.find(connection, name, activation.version)) is not None
        }
    files = file_sources(settings)
    # The options of a destination may need a code table that the version does not contain.
    return lambda name: {**files(name), **found[name]} if name in found else files(name)


def all_sources(
    settings: Settings, database: Database, name: str, draft: Sources | None = None
) -> Sources:
    """
    Return all files that a definition may refer to: on disk, in active versions, and in a draft.

    If several versions contain a file, the one of the definition itself takes precedence, then the
    most recently activated one.
    """
    with database.read() as connection:
        every = mapping_versions.active_versions(connection).values()
        active = sorted(
            (record for record in every if not is_record(record.name)), key=lambda record: record.id
        )
        by_precedence = sorted(active, key=lambda record: record.name == name)
        versions = [
            mapping_versions.find(connection, record.name, record.version)
            for record in by_precedence
        ]
    found = dict(file_sources(settings)(name))
    for version in filter(None, versions):
        found |= version.sources
    return {**found, **(draft or {})}


def version_finder(database: Database) -> Callable[[str, str], InboundMapping | None]:
    """Return a finder for stored versions by name and version; the finder raises StoreError."""

    @lru_cache(maxsize=_MAX_CACHED)
    def find_version(name: str, version: str) -> InboundMapping | None:
        with database.read() as connection:
            found = mapping_versions.find(connection, name, version)
        compiled = None if found is None else compile_sources(found.sources, name)
        return compiled if isinstance(compiled, InboundMapping) else None

    return find_version
