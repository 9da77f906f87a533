"""
What listeners read with: the definitions of the settings, or those that the console says.

A list that was said in the console is a version like those of definitions, under a name of its
own: so it is kept with who, when and why, and all nodes follow. An empty one gives the settings
their word back.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256

from bridge.errors import BridgeError
from bridge.store.mapping_versions import Version
from config import Settings

_FILE = "mappings.json"
_BEGINNING = "listener "


class NoListener(BridgeError):  # noqa: N818  # named for what happened
    """The settings have no listener of a name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no listener {name} in the settings")


def record(listener: str) -> str:
    """Name the record of a listener's lists; no definition can be called so."""
    return f"{_BEGINNING}{listener}"


def about(name: str) -> str:
    """Say whose a record is, by its name; empty where it is none of a list."""
    return name.removeprefix(_BEGINNING) if name.startswith(_BEGINNING) else ""


def version(listener: str, names: Sequence[str]) -> Version:
    """Make what is kept of a list."""
    text = json.dumps(list(names))
    return Version(record(listener), sha256(text.encode()).hexdigest()[:16], {_FILE: text})


def names_in(made: Version) -> tuple[str, ...]:
    """Give the definitions of a list that was kept."""
    found: list[str] = json.loads(made.sources[_FILE])
    return tuple(found)


def laid_over(settings: Settings, said: Mapping[str, Version]) -> Settings:
    """Give the settings with the lists that were said, by their records."""
    lists = {
        each.name: list(names)
        for each in settings.listener
        if (found := said.get(record(each.name))) and (names := names_in(found))
    }
    listeners = [
        each.model_copy(update={"mappings": lists[each.name]}) if each.name in lists else each
        for each in settings.listener
    ]
    return settings.model_copy(update={"listener": listeners})
