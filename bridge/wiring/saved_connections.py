"""
Listeners and destinations that were saved in the console: tables of bridge.toml, kept as records.

Each record has a separate name among the versions of definitions, with author, time and reason, and
all nodes follow it. An empty record restores the table of bridge.toml.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from bridge.errors import BridgeError
from bridge.monitoring.channels import ChannelKind
from bridge.store.records.mapping_versions import MappingVersion
from config import Settings
from config.listeners import ListenerSettings
from config.problems import SettingProblem, describe_problems
from config.sections import DestinationSettings

Connection = ListenerSettings | DestinationSettings
Table = Mapping[str, Any]
"""A listener or destination as in bridge.toml: keys with plain values."""

MODELS: Final[Mapping[ChannelKind, type[Connection]]] = {
    ChannelKind.LISTENER: ListenerSettings,
    ChannelKind.DESTINATION: DestinationSettings,
}
_PREFIX: Final = "settings of "
_FILE: Final = "settings.json"
Section = TypeVar("Section", ListenerSettings, DestinationSettings)


class InvalidConnection(BridgeError):  # noqa: N818  # named for what happened
    """A saved listener or destination has invalid settings."""

    def __init__(self, kind: ChannelKind, name: str, fields: Sequence[str]) -> None:
        super().__init__(f"{kind} {name} as saved in the console: {', '.join(fields)}")


class FieldMistake(NamedTuple):
    """A mistake in a field of a table; an empty field means the table itself."""

    field: str
    text: str


def record_name(kind: ChannelKind, name: str) -> str:
    """Return the name of a connection's record; no definition can have this name."""
    return f"{_PREFIX}{kind} {name}"


def parse_record_name(name: str) -> tuple[ChannelKind, str] | None:
    """Return kind and name of the connection of a record; None for other names."""
    if not name.startswith(_PREFIX):
        return None
    kind, _, own = name.removeprefix(_PREFIX).partition(" ")
    return ChannelKind(kind), own


def make_record(kind: ChannelKind, name: str, table: Table | None) -> MappingVersion:
    """Return the record of a table; None restores the table of bridge.toml."""
    own = None if table is None else {**table, "name": name}
    text = json.dumps(own, ensure_ascii=False, sort_keys=True)
    digest = sha256(text.encode()).hexdigest()[:16]
    return MappingVersion(record_name(kind, name), digest, {_FILE: text})


def table_of(build_section: MappingVersion) -> dict[str, Any] | None:
    """Return the table of a record; None if bridge.toml applies."""
    found: dict[str, Any] | None = json.loads(build_section.sources[_FILE])
    return found


def find_mistakes(kind: ChannelKind, table: Table) -> list[FieldMistake]:
    """Return the mistakes of a table, as a check of the settings reports them."""
    try:
        MODELS[kind].model_validate(dict(table))
    except ValidationError as error:
        return [_mistake(each) for each in describe_problems(error, MODELS[kind], kind.value)]
    return []


def _mistake(refusal: SettingProblem) -> FieldMistake:
    field = ".".join(part for part in refusal.location if isinstance(part, str))
    return FieldMistake(field, refusal.message)


def keys(model: type[BaseModel]) -> list[str]:
    """Return the keys of a section as they are written."""
    return [field.alias or name for name, field in model.model_fields.items()]


def with_saved_connections(settings: Settings, saved: Mapping[str, MappingVersion]) -> Settings:
    """
    Return the settings with the saved connections.

    Raises InvalidConnection if a table does not fit this release.
    """
    tables = {
        owner: table_of(each) for name, each in saved.items() if (owner := parse_record_name(name))
    }
    if not any(tables.values()):
        return settings
    update = {
        "listener": _joined(settings.listener, _made(ChannelKind.LISTENER, tables)),
        "destination": _joined(settings.destination, _made(ChannelKind.DESTINATION, tables)),
    }
    return settings.model_copy(update=update)


def _made(
    kind: ChannelKind, tables: Mapping[tuple[ChannelKind, str], Table | None]
) -> dict[str, Any]:
    return {
        name: build_section(kind, name, table)
        for (of, name), table in tables.items()
        if of is kind and table is not None
    }


def build_section(kind: ChannelKind, name: str, table: Table) -> Connection:
    """Build a section from a table. Raises InvalidConnection."""
    try:
        return MODELS[kind].model_validate(dict(table))
    except ValidationError as error:
        fields = sorted({".".join(map(str, each["loc"])) for each in error.errors()})
        raise InvalidConnection(kind, name, fields) from None


def _joined(own: Sequence[Section], saved: Mapping[str, Section]) -> list[Section]:
    """Replace connections of the file with saved ones, and append new ones."""
    known = {each.name for each in own}
    kept = [saved.get(each.name, each) for each in own]
    return kept + [each for name, each in sorted(saved.items()) if name not in known]


def origin_of(own: Settings, current: Settings, kind: ChannelKind, name: str) -> str:
    """Return the origin of a connection: `file`, `console`, or `both` if they differ."""
    before, now = (
        next((_bare(each) for each in connections_of(settings, kind) if each.name == name), None)
        for settings in (own, current)
    )
    if before is None:
        return "console"
    return "file" if before == now else "both"


def connections_of(settings: Settings, kind: ChannelKind) -> Sequence[Connection]:
    """Return the listeners or the destinations."""
    return settings.listener if kind is ChannelKind.LISTENER else settings.destination


def _bare(
    section: Connection,
) -> Connection:
    """Return a section without the definitions of a listener, which have a separate record."""
    if isinstance(section, ListenerSettings):
        return section.model_copy(update={"mappings": []})
    return section
