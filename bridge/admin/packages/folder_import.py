"""Interface packages as folders: write one, and import one into the files of the data directory.

    interface.toml   the [[listener]] and [[destination]] tables, as in bridge.toml
    mappings/…       the definitions in force, with what they include, and their code tables

Secrets stay where they are: settings name files, and those are not taken along.

What it would change is said first, and nothing is written where anything is wrong. What is written
is for the service's next start; `bridge.admin.packages.activation` puts one into force on all
nodes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from bridge.admin.checks.connections import names_used
from bridge.errors import BridgeError
from bridge.monitoring.channels import Kind
from bridge.store.database import Database
from bridge.wiring import active_settings, destinations, listeners, saved_connections
from bridge.wiring.active_definitions import in_force
from config import Settings
from config.forms import written as as_written
from config.listeners import Listener
from config.private_files import replace_all
from config.settings import FILE_NAME, load, parse
from config.toml_text import read
from mappings.compiler import compile_with_files, read_folder
from mappings.language.diagnostics import Sources

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
    current = active_settings.current(settings, database)
    tables = _tables(read(text, settings.home / FILE_NAME), settings, current, names)
    find = in_force(current, database)
    files = {FILE: "\n".join(written(kind, table) for kind, table in tables)}
    for name in definitions_of(current, names):
        _, needed = compile_with_files(find(name), name)
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
        for each in saved_connections.every(current, kind):
            if each.name not in names:
                continue
            as_filed = saved_connections.source(own, current, kind, each.name) == "file"
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


class NotImported(BridgeError):  # noqa: N818  # named for what happened
    """A folder cannot be taken in; nothing was changed."""

    def __init__(self, why: str) -> None:
        super().__init__(f"not imported: {why}")


@dataclass(frozen=True, slots=True)
class Changed:
    """A file of HOME/mappings as it is, None where there is none, and as it would be."""

    name: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class Arrival:
    """
    What an interface would change: names of what it adds, files that differ, and bridge.toml.

    `added` is the text that bridge.toml would have more.
    """

    home: Path
    channels: tuple[str, ...]
    definitions: tuple[str, ...]
    files: tuple[Changed, ...]
    before: str
    added: str

    @property
    def replaces(self) -> tuple[str, ...]:
        """The files that say something else today."""
        return tuple(each.name for each in self.files if each.before is not None)

    @property
    def settings(self) -> str:
        """bridge.toml as it would be."""
        return f"{self.before.rstrip()}\n\n{self.added}".lstrip("\n")

    @property
    def mark(self) -> str:
        """What is the same only as long as the home and the interface are (16 hex digits)."""
        parts = [self.before, self.added]
        parts += [
            part or "" for each in self.files for part in (each.name, each.before, each.after)
        ]
        return sha256("\0".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Imported:
    """What was taken in: names of listeners and destinations, of definitions, and of files."""

    channels: tuple[str, ...]
    definitions: tuple[str, ...]
    files: tuple[str, ...]


def take_in(home: Path, folder: Path, *, replace: bool = False) -> Imported:
    """
    Add the interface of a folder to a home.

    `replace` lets its files take the place of other files of the same name. Raises as `arrival`
    and `carry_out` do.
    """
    found = arrival(home, files_of_folder(folder))
    carry_out(found, replace=replace)
    return Imported(found.channels, found.definitions, tuple(each.name for each in found.files))


def files_of_folder(folder: Path) -> Files:
    """Read an interface's folder. Raises OSError."""
    files = {f"{MAPPINGS}/{name}": each for name, each in read_folder(folder / MAPPINGS).items()}
    return {**files, FILE: (folder / FILE).read_text("utf-8")}


def arrival(home: Path, files: Files) -> Arrival:
    """
    Say what an interface would change; it is checked as the service would.

    Raises NotImported, SettingsError, MappingErrors, and what a listener or destination that
    cannot work raises.
    """
    if FILE not in files:
        raise NotImported(f"there is no {FILE}")
    before = (home / FILE_NAME).read_text("utf-8")
    known = load(home)
    found = Arrival(home, (), (), (), before, files[FILE])
    channels_only(files[FILE])
    settings = parse(found.settings, home, Path(FILE))
    names = tuple(name for name in _names(settings) if name not in set(_names(known)))
    if not names:
        raise NotImported(f"{FILE} has no listener and no destination")
    own = read_folder(home / MAPPINGS)
    brought = brought_by(files)
    _check(settings, names, {**own, **brought})
    changed = [
        Changed(name, own.get(name), text)
        for name, text in sorted(brought.items())
        if own.get(name) != text
    ]
    definitions = tuple(definitions_of(settings, names))
    return Arrival(home, names, definitions, tuple(changed), before, files[FILE])


def carry_out(found: Arrival, *, replace: bool = False) -> None:
    """Write what was said. Raises NotImported where a file would be replaced unasked, OSError."""
    if found.replaces and not replace:
        raise NotImported(f"other files are in HOME/mappings: {', '.join(found.replaces)}")
    files = {found.home / MAPPINGS / each.name: each.after.encode() for each in found.files}
    replace_all({**files, found.home / FILE_NAME: found.settings.encode()})


def brought_by(files: Files) -> Sources:
    """Give the mappings of an interface, by their names in a mappings folder."""
    return {name.removeprefix(f"{MAPPINGS}/"): text for name, text in files.items() if name != FILE}


def channels_only(text: str) -> None:
    """
    Refuse what is more than an interface: nobody looks for a sign-in's settings in one.

    Raises NotImported, SettingsError.
    """
    further = sorted(read(text, Path(FILE)).keys() - set(KINDS))
    if further:
        raise NotImported(f"{FILE} says more than listeners and destinations: {further[0]}")


def _names(settings: Settings) -> list[str]:
    names = [each.name for each in settings.listener]
    return names + [each.name for each in settings.destination]


def _check(settings: Settings, names: Sequence[str], sources: Sources) -> None:
    """Make everything as the service would make it at its next start."""
    for listener in settings.listener:
        if listener.name in names:
            there(settings, listener)
            listeners.compiled(settings, listener, lambda _: sources)
    for destination in settings.destination:
        if destination.name in names:
            there(settings, destination)
            destinations.destination(settings, destination, lambda _: sources)


def there(settings: Settings, chosen: BaseModel) -> None:
    """See that the files are there that settings name and no folder brings: keys, secrets."""
    absent = [str(path) for path in _paths(chosen) if not settings.path(path).is_file()]
    if absent:
        raise NotImported(f"put these files into HOME first: {', '.join(absent)}")


def _paths(chosen: BaseModel) -> Iterator[Path]:
    for name in type(chosen).model_fields:
        value = getattr(chosen, name)
        if isinstance(value, Path):
            yield value
        elif isinstance(value, BaseModel):
            yield from _paths(value)
