"""
Interface packages as folders: export one, and import one into the files of the data directory.

    interface.toml   the [[listener]] and [[destination]] tables, as in bridge.toml
    mappings/…       the active definitions with their included files and code tables

A package contains no secrets. The settings in it name the files that must exist.

An import is planned and checked first; nothing is written if there is an error. The service uses
the files after its next start. `bridge.admin.packages.activation` activates a package on all nodes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge.admin.audit_events import audited
from bridge.admin.checks.connection_checks import used_definitions
from bridge.audit.outbox import describe
from bridge.errors import BridgeError
from bridge.monitoring.channels import ChannelKind
from bridge.store.database import Database
from bridge.wiring import active_settings, destinations, listeners
from bridge.wiring.active_settings import active_sources
from bridge.wiring.connection_paths import require_permitted
from bridge.wiring.stores import bridge_database
from config import Settings
from config.forms import to_table
from config.listeners import ListenerSettings
from config.private_files import replace_all
from config.settings import FILE_NAME, load, parse, paths_in
from config.toml_text import parse_toml
from mappings.compiler import compile_with_files, read_folder
from mappings.language.diagnostics import Sources

FILE: Final = "interface.toml"
MAPPINGS: Final = "mappings"
KINDS: Final = (ChannelKind.LISTENER, ChannelKind.DESTINATION)

Files = Mapping[str, str]
"""The texts of a package's files, by their relative POSIX paths."""


class NoSuchInterface(BridgeError):
    """The settings have no listener and no destination with this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no listener and no destination {name} in the settings")


def export(home: Path, names: Sequence[str], folder: Path) -> list[Path]:
    """Write an interface to a new or empty folder. Raises NoSuchInterface, OSError."""
    with bridge_database(home) as database:
        files = contents(load(home), database, names)
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    data = {folder / file: content.encode() for file, content in sorted(files.items())}
    replace_all(data)
    return list(data)


def contents(settings: Settings, database: Database, names: Sequence[str]) -> Files:
    """Return the files of an interface package. Raises NoSuchInterface, OSError."""
    text = (settings.home / FILE_NAME).read_text("utf-8")
    current = active_settings.current(settings, database)
    tables = _tables(parse_toml(text, settings.home / FILE_NAME), settings, current, names)
    find = active_sources(current, database)
    files = {FILE: "\n".join(as_toml(kind, table) for kind, table in tables)}
    for name in definitions_of(current, names):
        _, needed = compile_with_files(find(name), name)
        files |= {f"{MAPPINGS}/{file}": content for file, content in needed.items()}
    return files


def definitions_of(settings: Settings, names: Sequence[str]) -> list[str]:
    """Return the names of the definitions that these listeners and destinations use."""
    chosen = {
        "listener": [each for each in settings.listener if each.name in names],
        "destination": [each for each in settings.destination if each.name in names],
    }
    return used_definitions(settings.model_copy(update=chosen))


def as_toml(kind: str, table: Mapping[str, Any]) -> str:
    """Return a table of the settings as TOML."""
    lines = [f"{_key(key)} = {_value(value)}" for key, value in table.items()]
    return "\n".join([f"[[{kind}]]", *lines, ""])


def _tables(
    values: Mapping[str, Any], settings: Settings, current: Settings, names: Sequence[str]
) -> list[tuple[ChannelKind, dict[str, Any]]]:
    """
    Return the tables of these connections: those of bridge.toml, or those saved in the console.

    `values` are the values of bridge.toml. Raises NoSuchInterface.
    """
    found = []
    for kind in KINDS:
        in_file = {table.get("name"): table for table in values.get(kind, [])}
        for each in active_settings.connections_of(current, kind):
            if each.name not in names:
                continue
            from_file = active_settings.origin_of(settings, current, kind, each.name) == "file"
            table = in_file[each.name] if from_file and each.name in in_file else to_table(each)
            if isinstance(each, ListenerSettings) and table.get("mappings") != each.mappings:
                table = {**table, "mappings": each.mappings}
            found.append((kind, table))
    for name in names:
        if name not in [table["name"] for _, table in found]:
            raise NoSuchInterface(name)
    return found


def _value(value: Any) -> str:
    """Return a value as TOML, which is JSON except for tables."""
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _key(key: str) -> str:
    plain = key.replace("-", "").replace("_", "")
    return key if plain.isalnum() and plain.isascii() else json.dumps(key, ensure_ascii=False)


class NotImported(BridgeError):
    """A package cannot be imported; nothing was changed."""

    def __init__(self, why: str) -> None:
        super().__init__(f"not imported: {why}")


@dataclass(frozen=True, slots=True)
class FileChange:
    """A mapping file before the import, None if it does not exist, and after it."""

    name: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The channels that an import adds, the files it changes, and the text of bridge.toml."""

    channels: tuple[str, ...]
    files: tuple[FileChange, ...]
    settings: str

    @property
    def replaced(self) -> tuple[str, ...]:
        """Names of existing files with other content."""
        return tuple(each.name for each in self.files if each.before is not None)


def import_folder(home: Path, folder: Path, *, replace: bool = False) -> list[str]:
    """
    Add the interface of a folder to the files of a data directory; audited.

    `replace` permits replacing existing files. Return the names of the added channels and files.
    Raises NotImported, SettingsError, MappingErrors, OSError, and the error of a listener or
    destination that cannot work.
    """
    with (
        bridge_database(home) as database,
        audited(home, database, "import", ("interface", folder.name)),
    ):
        plan = _plan(home, read_package(folder))
        if plan.replaced and not replace:
            raise NotImported(f"other files are in HOME/mappings: {', '.join(plan.replaced)}")
        files = {home / MAPPINGS / each.name: each.after.encode() for each in plan.files}
        replace_all({**files, home / FILE_NAME: plan.settings.encode()})
        added = [*plan.channels, *(each.name for each in plan.files)]
        describe(before={"replaced": list(plan.replaced)}, after={"added": added})
    return added


def read_package(folder: Path) -> Files:
    """Read the files of an interface package. Raises NotImported for links, OSError."""
    for each in (folder / FILE, folder / MAPPINGS, *(folder / MAPPINGS).rglob("*")):
        if each.is_symlink():
            raise NotImported(f"{each.relative_to(folder)} is a symbolic link")
    files = {f"{MAPPINGS}/{name}": each for name, each in read_folder(folder / MAPPINGS).items()}
    return {**files, FILE: (folder / FILE).read_text("utf-8")}


def _plan(home: Path, files: Files) -> ImportPlan:
    """Plan an import and check its listeners and destinations as a start of the service does."""
    if FILE not in files:
        raise NotImported(f"there is no {FILE}")
    before = (home / FILE_NAME).read_text("utf-8")
    known = load(home)
    text = f"{before.rstrip()}\n\n{files[FILE]}".lstrip("\n")
    require_connections_only(files[FILE])
    settings = parse(text, home, Path(FILE))
    names = tuple(name for name in _names(settings) if name not in set(_names(known)))
    if not names:
        raise NotImported(f"{FILE} contains no listener and no destination")
    existing = read_folder(home / MAPPINGS)
    sources = mappings_of(files)
    for kind in KINDS:
        for each in active_settings.connections_of(settings, kind):
            if each.name in names:
                require_files(known, each)
    _check(settings, names, {**existing, **sources})
    return ImportPlan(names, tuple(changed_files(existing, sources)), text)


def changed_files(before: Sources, after: Sources) -> Iterator[FileChange]:
    """Compare the files of a package with the existing ones."""
    for name, text in sorted(after.items()):
        if before.get(name) != text:
            yield FileChange(name, before.get(name), text)


def mappings_of(files: Files) -> Sources:
    """Return the mapping files of a package, by their names in a mappings folder."""
    return {name.removeprefix(f"{MAPPINGS}/"): text for name, text in files.items() if name != FILE}


def require_connections_only(text: str) -> None:
    """
    Require that a package contains listeners and destinations only.

    Other settings, such as those of sign-in, are refused because nobody expects them in a package.
    Raises NotImported, SettingsError.
    """
    others = sorted(parse_toml(text, Path(FILE)).keys() - set(KINDS))
    if others:
        raise NotImported(f"{FILE} contains more than listeners and destinations: {others[0]}")


def _names(settings: Settings) -> list[str]:
    names = [each.name for each in settings.listener]
    return names + [each.name for each in settings.destination]


def _check(settings: Settings, names: Sequence[str], sources: Sources) -> None:
    """Build the new listeners and destinations as a start of the service does."""
    for listener in settings.listener:
        if listener.name in names:
            listeners.compile_inbound(settings, listener, lambda _: sources)
    for destination in settings.destination:
        if destination.name in names:
            destinations.make_destination(settings, destination, lambda _: sources)


def require_files(settings: Settings, section: active_settings.Connection) -> None:
    """
    Require the files that a section names and a package does not contain: keys, secrets.

    `settings` are those of bridge.toml.
    """
    require_permitted(settings, section)
    missing = [str(path) for path in paths_in(section) if not settings.path(path).is_file()]
    if missing:
        raise NotImported(f"create these files in HOME first: {', '.join(missing)}")
