"""Active settings: those of bridge.toml, and over them what the console saved.

A list that was said in the console is a version like those of definitions, under a name of its
own: so it is kept with who, when and why, and all nodes follow. An empty one gives the settings
their word back.

What the console says are records among the versions of definitions: see
`bridge.wiring.saved_connections` and `bridge.wiring.active_settings`. Reads; changes nothing.
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
_BEGINNING = "listener "


class NoSuchListener(BridgeError):  # noqa: N818  # named for what happened
    """The settings have no listener of a name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no listener {name} in the settings")


def record_name(listener: str) -> str:
    """Name the record of a listener's lists; no definition can be called so."""
    return f"{_BEGINNING}{listener}"


def listener_of_record(name: str) -> str:
    """Say whose a record is, by its name; empty where it is none of a list."""
    return name.removeprefix(_BEGINNING) if name.startswith(_BEGINNING) else ""


def make_record(listener: str, names: Sequence[str]) -> MappingVersion:
    """Make what is kept of a list."""
    text = json.dumps(list(names))
    return MappingVersion(
        record_name(listener), sha256(text.encode()).hexdigest()[:16], {_FILE: text}
    )


def definitions_in(made: MappingVersion) -> tuple[str, ...]:
    """Give the definitions of a list that was kept."""
    found: list[str] = json.loads(made.sources[_FILE])
    return tuple(found)


def with_saved_lists(settings: Settings, said: Mapping[str, MappingVersion]) -> Settings:
    """Give the settings with the lists that were said, by their records."""
    lists = {
        each.name: list(names)
        for each in settings.listener
        if (found := said.get(record_name(each.name))) and (names := definitions_in(found))
    }
    listeners = [
        each.model_copy(update={"mappings": lists[each.name]}) if each.name in lists else each
        for each in settings.listener
    ]
    return settings.model_copy(update={"listener": listeners})


_FRESH = 1.0  # seconds


def is_record(name: str) -> bool:
    """Tell whether a name among the versions is the console's own, and no definition's."""
    return bool(listener_of_record(name)) or saved_connections.parse_record_name(name) is not None


def current(
    settings: Settings, database: Database, records: Sequence[MappingVersion] = ()
) -> Settings:
    """Give the settings in force, or that would be with these records. Raises WrongConnection."""
    with database.read() as connection:
        active = [
            each for name, each in kept.active_versions(connection).items() if is_record(name)
        ]
        found = [kept.find(connection, each.name, each.version) for each in active]
    said = {each.name: each for each in [*filter(None, found), *records]}
    return with_saved_lists(saved_connections.with_saved_connections(settings, said), said)


class ActiveSettings:
    """The settings in force for those who ask often: looked for again after a second."""

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
        """Give them. Blocking; raises StoreError, WrongConnection."""
        now = self._clock()
        if now - self._looked_at >= _FRESH:
            with self._database.read() as connection:
                latest = kept.latest_activation_id(connection)
            if latest != self._known:
                self._found = current(self._settings, self._database)
                self._known = latest
            self._looked_at = now
        return self._found
