"""Listeners and destinations that the console says: tables of bridge.toml, kept as versions.

A version has a name of its own, as lists of definitions have (`bridge.wiring.active_settings`); so
it is
kept with who, when and why, and all nodes follow. An empty one gives bridge.toml its word back.
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
"""A listener or destination as bridge.toml writes it: keys with plain values."""

MODELS: Final[Mapping[ChannelKind, type[Connection]]] = {
    ChannelKind.LISTENER: ListenerSettings,
    ChannelKind.DESTINATION: DestinationSettings,
}
_BEGINNING: Final = "settings of "
_FILE: Final = "settings.json"
Section = TypeVar("Section", ListenerSettings, DestinationSettings)


class InvalidConnection(BridgeError):  # noqa: N818  # named for what happened
    """A listener or destination of the console cannot be what its settings say."""

    def __init__(self, kind: ChannelKind, name: str, fields: Sequence[str]) -> None:
        super().__init__(f"{kind} {name} as the console says it: {', '.join(fields)}")


class FieldMistake(NamedTuple):
    """What is wrong with a field of a table; without a field: with the table."""

    field: str
    text: str


def record_name(kind: ChannelKind, name: str) -> str:
    """Name the record of a connection; no definition can be called so."""
    return f"{_BEGINNING}{kind} {name}"


def parse_record_name(name: str) -> tuple[ChannelKind, str] | None:
    """Say whose a record is, by its name; None where it is none of a connection."""
    if not name.startswith(_BEGINNING):
        return None
    kind, _, own = name.removeprefix(_BEGINNING).partition(" ")
    return ChannelKind(kind), own


def make_record(kind: ChannelKind, name: str, table: Table | None) -> MappingVersion:
    """Make what is kept of a table; None: bridge.toml has the word again."""
    own = None if table is None else {**table, "name": name}
    text = json.dumps(own, ensure_ascii=False, sort_keys=True)
    digest = sha256(text.encode()).hexdigest()[:16]
    return MappingVersion(record_name(kind, name), digest, {_FILE: text})


def table_of(build_section: MappingVersion) -> dict[str, Any] | None:
    """Give the table that was kept; None where bridge.toml has the word."""
    found: dict[str, Any] | None = json.loads(build_section.sources[_FILE])
    return found


def find_mistakes(kind: ChannelKind, table: Table) -> list[FieldMistake]:
    """Say what is wrong with a table by itself, as the settings' own check does."""
    try:
        MODELS[kind].model_validate(dict(table))
    except ValidationError as error:
        return [_mistake(each) for each in describe_problems(error, MODELS[kind], kind.value)]
    return []


def _mistake(refusal: SettingProblem) -> FieldMistake:
    field = ".".join(part for part in refusal.location if isinstance(part, str))
    return FieldMistake(field, refusal.message)


def keys(model: type[BaseModel]) -> list[str]:
    """Name the keys of a section as they are written."""
    return [field.alias or name for name, field in model.model_fields.items()]


def with_saved_connections(settings: Settings, said: Mapping[str, MappingVersion]) -> Settings:
    """
    Give the settings with the connections that were said, by their records.

    Raises WrongConnection where a table does not fit this release.
    """
    tables = {
        whose: table_of(each) for name, each in said.items() if (whose := parse_record_name(name))
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
    """Make a section of a table. Raises WrongConnection."""
    try:
        return MODELS[kind].model_validate(dict(table))
    except ValidationError as error:
        fields = sorted({".".join(map(str, each["loc"])) for each in error.errors()})
        raise InvalidConnection(kind, name, fields) from None


def _joined(own: Sequence[Section], said: Mapping[str, Section]) -> list[Section]:
    """Put what was said in the place of what the file says, or behind it."""
    known = {each.name for each in own}
    kept = [said.get(each.name, each) for each in own]
    return kept + [each for name, each in sorted(said.items()) if name not in known]


def origin_of(own: Settings, current: Settings, kind: ChannelKind, name: str) -> str:
    """Say whose word a connection is: `file`, `console`, or `both` where they differ."""
    before, now = (
        next((_bare(each) for each in connections_of(settings, kind) if each.name == name), None)
        for settings in (own, current)
    )
    if before is None:
        return "console"
    return "file" if before == now else "both"


def connections_of(settings: Settings, kind: ChannelKind) -> Sequence[Connection]:
    """Give the listeners, or the destinations."""
    return settings.listener if kind is ChannelKind.LISTENER else settings.destination


def _bare(
    section: Connection,
) -> Connection:
    """Give a section without what a listener reads with, which is said apart."""
    if isinstance(section, ListenerSettings):
        return section.model_copy(update={"mappings": []})
    return section
