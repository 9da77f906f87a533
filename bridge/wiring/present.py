"""
The settings as they are in force: those of bridge.toml, and over them what the console says.

What the console says are records among the versions of definitions: see
`bridge.wiring.connections` and `bridge.wiring.reading`. Reads; changes nothing.
"""

import time
from collections.abc import Callable, Sequence

from bridge.store import mapping_versions as kept
from bridge.store.database import Database
from bridge.store.mapping_versions import Version
from bridge.wiring import connections, reading
from config import Settings

_FRESH = 1.0  # seconds


def is_record(name: str) -> bool:
    """Tell whether a name among the versions is the console's own, and no definition's."""
    return bool(reading.about(name)) or connections.about(name) is not None


def current(settings: Settings, database: Database, records: Sequence[Version] = ()) -> Settings:
    """Give the settings in force, or that would be with these records. Raises WrongConnection."""
    with database.read() as connection:
        active = [each for name, each in kept.in_force(connection).items() if is_record(name)]
        found = [kept.find(connection, each.name, each.version) for each in active]
    said = {each.name: each for each in [*filter(None, found), *records]}
    return reading.laid_over(connections.laid_over(settings, said), said)


class Present:
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
                latest = kept.latest(connection)
            if latest != self._known:
                self._found = current(self._settings, self._database)
                self._known = latest
            self._looked_at = now
        return self._found
