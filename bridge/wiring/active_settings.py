"""
Active settings: those of bridge.toml, overridden by what the console saved.

The console can save the definitions of a listener, in order. Such a list is stored as a record
among the versions of definitions, with author, time and reason, and all nodes follow it. An empty
list restores the list of bridge.toml. `bridge.wiring.saved_connections` does the same for whole
connections. Read only.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from bridge.errors import BridgeError
from bridge.store.database import Database
from bridge.store.records import mapping_versions as kept
from bridge.store.records.mapping_versions import MappingVersion
from bridge.wiring import saved_connections
from config import Settings

_FILE = "mappings.json"
_PREFIX = "listener "


class NoSuchListener(BridgeError):  # noqa: N818  # named for what happened
    """The settings have no listener with this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no listener {name} in the settings")


def record_name(listener: str) -> str:
    """Return the name of a listener's record; no definition can have this name."""
    return f"{_PREFIX}{listener}"


def listener_of_record(name: str) -> str:
    """Return the listener of a record by the record's name; empty for other names."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else ""


def make_record(listener: str, names: Sequence[str]) -> MappingVersion:
    """Return the record of a list."""
    text = json.dumps(list(names))
    return MappingVersion(
        record_name(listener), sha256(text.encode()).hexdigest()[:16], {_FILE: text}
    )


def definitions_in(made: MappingVersion) -> tuple[str, ...]:
    """Return the definitions of a record."""
    found: list[str] = json.loads(made.sources[_FILE])
    return tuple(found)


def with_saved_lists(settings: Settings, saved: Mapping[str, MappingVersion]) -> Settings:
    """Return the settings with the saved lists of definitions."""
    lists = {
        each.name: list(names)
        for each in settings.listener
        if (found := saved.get(record_name(each.name))) and (names := definitions_in(found))
    }
    listeners = [
        each.model_copy(update={"mappings": lists[each.name]}) if each.name in lists else each
        for each in settings.listener
    ]
    return settings.model_copy(update={"listener": listeners})


_CACHE_SECONDS = 1.0


def is_record(name: str) -> bool:
    """Tell whether a name among the versions is a record and not a definition."""
    return bool(listener_of_record(name)) or saved_connections.parse_record_name(name) is not None


def current(
    settings: Settings, database: Database, records: Sequence[MappingVersion] = ()
) -> Settings:
    """Return the active settings, or those with further records. Raises InvalidConnection."""
    with database.read() as connection:
        active = [
            each for name, each in kept.active_versions(connection).items() if is_record(name)
        ]
        found = [kept.find(connection, each.name, each.version) for each in active]
    saved = {each.name: each for each in [*filter(None, found), *records]}
    return with_saved_lists(saved_connections.with_saved_connections(settings, saved), saved)


class ActiveSettings:
    """The active settings, read from the database at most once per second."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` is in seconds."""
        self._settings = settings
        self._database = database
        self._clock = clock
        self._known = -1
        self._found = settings
        self._looked_at = float("-inf")

    def __call__(self) -> Settings:
        """Return the active settings. Blocking; raises StoreError, InvalidConnection."""
        now = self._clock()
        if now - self._looked_at >= _CACHE_SECONDS:
            with self._database.read() as connection:
                latest = kept.latest_activation_id(connection)
            if latest != self._known:
                self._found = current(self._settings, self._database)
                self._known = latest
            self._looked_at = now
        return self._found
