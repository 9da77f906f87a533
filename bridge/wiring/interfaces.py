"""
One whole interface as a folder: settings of a listener or destination, its mappings and codes.

    interface.toml   the [[listener]] and [[destination]] tables, as in bridge.toml
    mappings/…       the definitions in force, with what they include, and their code tables

Secrets stay where they are: settings name files, and those are not taken along.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge.errors import BridgeError
from bridge.store.database import Database
from bridge.wiring import delivery, intake, reading
from bridge.wiring.activating import names_used
from bridge.wiring.shelf import in_force
from config import Settings
from config.settings import FILE_NAME, load, parse
from mappings.compiler import bundle, read_folder
from mappings.nodes import Sources

FILE: Final = "interface.toml"
_MAPPINGS: Final = "mappings"
_KINDS: Final = ("listener", "destination")


class NoSuchInterface(BridgeError):  # noqa: N818  # named for what happened
    """The settings have no listener and no destination of a name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no listener and no destination {name} in the settings")


class NotImported(BridgeError):  # noqa: N818  # named for what happened
    """A folder cannot be taken in; nothing was changed."""

    def __init__(self, why: str) -> None:
        super().__init__(f"not imported: {why}")


@dataclass(frozen=True, slots=True)
class Imported:
    """What was taken in: names of listeners and destinations, of definitions, and of files."""

    channels: tuple[str, ...]
    definitions: tuple[str, ...]
    files: tuple[str, ...]


def export(
    settings: Settings, database: Database, names: Sequence[str], folder: Path
) -> list[Path]:
    """Write an interface to a folder that is new or empty. Raises NoSuchInterface, OSError."""
    text = (settings.home / FILE_NAME).read_text("utf-8")
    settings = reading.current(settings, database)
    tables = _tables(tomllib.loads(text), names)
    lists = {each.name: each.mappings for each in settings.listener}
    for kind, table in tables:
        if kind == "listener":  # what was said in the console, where it was
            table["mappings"] = lists[table["name"]]
    find = in_force(settings, database)
    files = {FILE: "\n".join(_written(kind, table) for kind, table in tables)}
    for name in _definitions(settings, names):
        _, needed = bundle(find(name), name)
        files |= {f"{_MAPPINGS}/{file}": content for file, content in needed.items()}
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    return [_write(folder / file, content) for file, content in sorted(files.items())]


def _tables(values: Mapping[str, Any], names: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    found = [
        (kind, table)
        for kind in _KINDS
        for table in values.get(kind, [])
        if table.get("name") in names
    ]
    for name in names:
        if name not in [table["name"] for _, table in found]:
            raise NoSuchInterface(name)
    return found


def _definitions(settings: Settings, names: Sequence[str]) -> list[str]:
    """Name the definitions that these listeners and destinations work with."""
    chosen = {
        "listener": [each for each in settings.listener if each.name in names],
        "destination": [each for each in settings.destination if each.name in names],
    }
    return names_used(settings.model_copy(update=chosen))


def take_in(home: Path, folder: Path, *, replace: bool = False) -> Imported:
    """
    Add an interface to a home: its tables to bridge.toml, its files to HOME/mappings.

    All is checked first, and nothing written where anything is wrong. `replace` lets files of
    the folder take the place of other files of the same name. Raises NotImported, SettingsError,
    MappingErrors, and what a listener or destination that cannot work raises.
    """
    added = (folder / FILE).read_text("utf-8")
    before = load(home)
    text = f"{(home / FILE_NAME).read_text('utf-8').rstrip()}\n\n{added}"
    settings = parse(text, home, folder / FILE)
    names = _new_names(before, settings)
    files = read_folder(folder / _MAPPINGS)
    own = read_folder(home / _MAPPINGS)
    changed = {name: content for name, content in files.items() if own.get(name) != content}
    clashes = sorted(changed.keys() & own.keys())
    if clashes and not replace:
        raise NotImported(f"other files are in HOME/mappings: {', '.join(clashes)}")
    _check(settings, names, {**own, **files})
    for name, content in changed.items():
        _write(home / _MAPPINGS / name, content)
    _write(home / FILE_NAME, text)
    return Imported(names, tuple(_definitions(settings, names)), tuple(sorted(changed)))


def _new_names(before: Settings, after: Settings) -> tuple[str, ...]:
    known = set(_names(before))
    return tuple(name for name in _names(after) if name not in known)


def _names(settings: Settings) -> list[str]:
    names = [each.name for each in settings.listener]
    return names + [each.name for each in settings.destination]


def _check(settings: Settings, names: Sequence[str], sources: Sources) -> None:
    for listener in settings.listener:
        if listener.name in names:
            intake.compiled(settings, listener, lambda _: sources)
    for destination in settings.destination:
        if destination.name in names:
            delivery.destination(settings, destination, lambda _: sources)


def _write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, "utf-8")
    return path


def _written(kind: str, table: Mapping[str, Any]) -> str:
    lines = [f"{_key(key)} = {_value(value)}" for key, value in table.items()]
    return "\n".join([f"[[{kind}]]", *lines, ""])


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
