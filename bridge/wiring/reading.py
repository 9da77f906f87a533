"""
What listeners read with: the definitions of the settings, or those that the console says.

A list that was said in the console is a version like those of definitions, under a name of its
own: so it is kept with who, when and why, and all nodes follow. An empty one gives the settings
their word back.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType

from bridge.errors import BridgeError
from bridge.store import mapping_versions as kept
from bridge.store.database import Database
from bridge.store.mapping_versions import Version
from config import Settings

_FILE = "mappings.json"


class NoListener(BridgeError):  # noqa: N818  # named for what happened
    """The settings have no listener of a name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no listener {name} in the settings")


def record(listener: str) -> str:
    """Name the record of a listener's lists; no definition can be called so."""
    return f"listener {listener}"


def version(listener: str, names: Sequence[str]) -> Version:
    """Make what is kept of a list."""
    text = json.dumps(list(names))
    return Version(record(listener), sha256(text.encode()).hexdigest()[:16], {_FILE: text})


def names_in(made: Version) -> tuple[str, ...]:
    """Give the definitions of a list that was kept."""
    found: list[str] = json.loads(made.sources[_FILE])
    return tuple(found)


def current(
    settings: Settings,
    database: Database,
    lists: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Settings:
    """Give the settings with the lists that are in force, or would be with these."""
    with database.read() as connection:
        active = kept.in_force(connection)
        said: dict[str, Sequence[str]] = {}
        for listener in settings.listener:
            chosen = active.get(record(listener.name))
            found = chosen and kept.find(connection, chosen.name, chosen.version)
            if found:
                said[listener.name] = names_in(found)
    said |= lists
    listeners = [
        each.model_copy(update={"mappings": list(names)})
        if (names := said.get(each.name))
        else each
        for each in settings.listener
    ]
    return settings.model_copy(update={"listener": listeners})
