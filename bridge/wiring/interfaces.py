"""
One whole interface as a folder: settings of a listener or destination, its mappings and codes.

    interface.toml   the [[listener]] and [[destination]] tables, as in bridge.toml
    mappings/…       the definitions in force, with what they include, and their code tables

Secrets stay where they are: settings name files, and those are not taken along.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bridge.errors import BridgeError
from bridge.operations.channels import Kind
from bridge.store.database import Database
from bridge.wiring import connections, present
from bridge.wiring.shelf import in_force
from bridge.wiring.verifying import names_used
from config import Settings
from config.forms import written as as_written
from config.listeners import Listener
from config.reading import read
from config.settings import FILE_NAME
from config.writing import replace_all
from mappings.compiler import bundle

FILE: Final = "interface.toml"
MAPPINGS: Final = "mappings"
KINDS: Final = (Kind.LISTENER, Kind.DESTINATION)

Files = Mapping[str, str]
"""The texts of a folder's files, by their relative POSIX paths."""


class NoSuchInterface(BridgeError):  # noqa: N818  # named for what happened
    """The settings have no listener and no destination of a name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no listener and no destination {name} in the settings")


def export(
    settings: Settings, database: Database, names: Sequence[str], folder: Path
) -> list[Path]:
    """Write an interface to a folder that is new or empty. Raises NoSuchInterface, OSError."""
    files = contents(settings, database, names)
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    written_to = {folder / file: content.encode() for file, content in sorted(files.items())}
    replace_all(written_to)
    return list(written_to)


def contents(settings: Settings, database: Database, names: Sequence[str]) -> Files:
    """Give the files of an interface's folder. Raises NoSuchInterface, OSError."""
    text = (settings.home / FILE_NAME).read_text("utf-8")
    current = present.current(settings, database)
    tables = _tables(read(text, settings.home / FILE_NAME), settings, current, names)
    find = in_force(current, database)
    files = {FILE: "\n".join(written(kind, table) for kind, table in tables)}
    for name in definitions_of(current, names):
        _, needed = bundle(find(name), name)
        files |= {f"{MAPPINGS}/{file}": content for file, content in needed.items()}
    return files


def definitions_of(settings: Settings, names: Sequence[str]) -> list[str]:
    """Name the definitions that these listeners and destinations work with."""
    chosen = {
        "listener": [each for each in settings.listener if each.name in names],
        "destination": [each for each in settings.destination if each.name in names],
    }
    return names_used(settings.model_copy(update=chosen))


def written(kind: str, table: Mapping[str, Any]) -> str:
    """Write a table of the settings as TOML."""
    lines = [f"{_key(key)} = {_value(value)}" for key, value in table.items()]
    return "\n".join([f"[[{kind}]]", *lines, ""])


def _tables(
    values: Mapping[str, Any], own: Settings, current: Settings, names: Sequence[str]
) -> list[tuple[Kind, dict[str, Any]]]:
    """Give the tables as bridge.toml writes them, or as the console says them."""
    found = []
    for kind in KINDS:
        file = {table.get("name"): table for table in values.get(kind, [])}
        for each in connections.every(current, kind):
            if each.name not in names:
                continue
            as_filed = connections.source(own, current, kind, each.name) == "file"
            table = file[each.name] if as_filed and each.name in file else as_written(each)
            if isinstance(each, Listener) and table.get("mappings") != each.mappings:
                table = {**table, "mappings": each.mappings}
            found.append((kind, table))
    for name in names:
        if name not in [table["name"] for _, table in found]:
            raise NoSuchInterface(name)
    return found


def _value(value: Any) -> str:
    """Write a value as TOML: as JSON but for tables, which are `{key = value}`."""
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _key(key: str) -> str:
    plain = key.replace("-", "").replace("_", "")
    return key if plain.isalnum() and plain.isascii() else json.dumps(key, ensure_ascii=False)
