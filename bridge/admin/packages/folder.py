"""
Interface packages as folders: export one, and import one into the files of the data directory.

    interface.toml   the [[listener]] and [[destination]] tables, as in bridge.toml
    mappings/…       the active definitions with their included files and code tables
    examples/…       the examples of these definitions, NAME.json: messages without patient data

A package contains no secrets. The settings in it name the files that must exist.

An import is planned and checked first; nothing is written if there is an error. The service uses
the files after its next start. `bridge.admin.packages.activation` activates a package on all nodes.

A connection of the package replaces the one of the same kind and name. A listener of the
installation whose address a listener of the package uses, for example because it was renamed, is
disabled: its stored messages are still processed.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from bridge import active_settings
from bridge.active_settings import (
    MODELS,
    Connection,
    active_sources,
    connections_of,
    find_connection,
    keys,
)
from bridge.admin.audit_events import audited
from bridge.admin.checks.connection_checks import connection_definitions
from bridge.admin.definitions import examples
from bridge.admin.definitions.examples import PackagedExample
from bridge.admin.errors import InvalidContent
from bridge.audit.events import operator
from bridge.audit.outbox import describe
from bridge.delivery import destination_settings
from bridge.errors import BridgeError
from bridge.intake.receive.listener_policy import compile_inbound
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from bridge.transports.connection_paths import require_permitted
from config import Settings
from config.forms import to_table
from config.listeners import ListenerSettings
from config.private_files import replace_all
from config.quantities import FolderAddress
from config.sections import ChannelKind
from config.settings import FILE_NAME, load, parse, paths_in
from config.toml_text import Location, parse_toml, replace_tables, toml_key, toml_value
from mappings.compiler import compile_with_files, read_folder
from mappings.language.diagnostics import Sources


class NotImported(BridgeError):
    """A package cannot be imported; nothing was changed."""

    def __init__(self, why: str) -> None:
        super().__init__(f"not imported: {why}")


class ChangeKind(StrEnum):
    """What an import does to a connection."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting with its values as in bridge.toml; None: the default applies."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class PlannedConnection:
    """A connection before an import, None if it does not exist, and after it."""

    kind: ChannelKind
    name: str
    before: Connection | None
    after: Connection
    displaced: bool = False

    @property
    def change(self) -> ChangeKind:
        """What the import does to it."""
        if self.displaced:
            return ChangeKind.DISABLED
        if self.before is None:
            return ChangeKind.NEW
        return ChangeKind.UNCHANGED if self.before == self.after else ChangeKind.CHANGED

    @property
    def differences(self) -> list[SettingDifference]:
        before = {} if self.before is None else _flat(to_table(self.before))
        after = _flat(to_table(self.after))
        return [
            SettingDifference(key, before.get(key), after.get(key))
            for key in dict.fromkeys([*before, *after])
            if before.get(key) != after.get(key)
        ]


@dataclass(frozen=True, slots=True)
class FileChange:
    """A mapping file before the import, None if it does not exist, and after it."""

    name: str
    before: str | None
    after: str


Examples = Mapping[str, Sequence[PackagedExample]]
"""The examples that an import adds, by definition."""


def plan_connections(
    current: Settings, packaged: Settings, keep: Sequence[str] = (), *, disabled: bool = False
) -> list[PlannedConnection]:
    """
    Compare the connections of a package with the current ones.

    `keep` names settings of which existing connections keep their values, such as `bind`. With
    `disabled`, new connections are disabled. Raises NotImported for an empty package and for
    unknown settings.
    """
    known = {key for model in MODELS.values() for key in keys(model)} - {"name"}
    if unknown := [key for key in keep if key not in known]:
        raise NotImported(f"connections have no setting {unknown[0]}")
    planned = []
    for kind in ChannelKind:
        for section in connections_of(packaged, kind):
            before = find_connection(current, kind, section.name)
            if before is not None:
                after = keeping(kind, before, section, keep)
            else:
                after = section.model_copy(update={"enabled": False}) if disabled else section
            planned.append(PlannedConnection(kind, section.name, before, after))
    if not planned:
        raise NotImported("interface.toml contains no listener and no destination")
    return [*planned, *displaced_by(current, planned)]


def keeping(
    kind: ChannelKind, before: Connection, after: Connection, keep: Sequence[str]
) -> Connection:
    """Return a connection with the previous values of some settings."""
    old, table = to_table(before), to_table(after)
    for key in keep:
        table.pop(key, None)
        if key in old:
            table[key] = old[key]
    return MODELS[kind].model_validate(table) if keep else after


def displaced_by(
    current: Settings, planned: Sequence[PlannedConnection]
) -> Iterator[PlannedConnection]:
    """Yield the enabled listeners whose address a listener of the package uses."""
    named = {connection.name for connection in planned if connection.kind is ChannelKind.LISTENER}
    used = {
        key
        for planned_connection in planned
        if (key := _address_key(planned_connection.after)) is not None
    }
    for listener in current.listener:
        if listener.name not in named and _address_key(listener) in used:
            after = listener.model_copy(update={"enabled": False})
            yield PlannedConnection(ChannelKind.LISTENER, listener.name, listener, after, True)


def _address_key(section: Connection) -> str | None:
    """Return what only one enabled listener can use: its folder or its port."""
    if not isinstance(section, ListenerSettings) or not section.enabled or section.share_port:
        return None
    if isinstance(section.bind, FolderAddress):
        return str(section.bind)
    return f"port {section.bind.port}" if section.bind.port else None


def require_permitted_changes(
    planned: Sequence[PlannedConnection], files: Sequence[FileChange], *, replace: bool
) -> None:
    """Raise NotImported if the import replaces connections or files, and must not."""
    if replace:
        return
    existing = [
        f"{connection.kind} {connection.name}"
        for connection in planned
        if connection.before is not None
    ]
    if existing:
        raise NotImported(f"{', '.join(existing)} exists; --replace replaces it")
    replaced = [file.name for file in files if file.before is not None]
    if replaced:
        raise NotImported(f"other files exist: {', '.join(replaced)}; --replace replaces them")


def results(
    planned: Sequence[PlannedConnection], files: Sequence[FileChange], added: Examples
) -> list[str]:
    """Return what an import did, one line each."""
    verbs = {
        ChangeKind.NEW: "added",
        ChangeKind.CHANGED: "replaced",
        ChangeKind.DISABLED: "disabled",
    }
    done = [
        f"{verbs[connection.change]} {connection.name}"
        for connection in planned
        if connection.change in verbs
    ]
    done += [f"{'replaced' if file.before else 'added'} {file.name}" for file in files]
    return done + [f"added {len(new)} examples of {name}" for name, new in added.items()]


def describe_changes(
    planned: Sequence[PlannedConnection], files: Sequence[FileChange], added: Examples
) -> Iterator[str]:
    """Yield the lines of a difference: connections with their settings, files, new examples."""
    for connection in planned:
        yield f"{connection.kind} {connection.name}: {connection.change}"
        for setting in connection.differences if connection.change is not ChangeKind.NEW else ():
            before, after = _shown(setting.before), _shown(setting.after)
            yield f"  {setting.name}: {before} -> {after}"
    for file in files:
        yield f"file {file.name}: {ChangeKind.NEW if file.before is None else ChangeKind.CHANGED}"
        if file.before is not None:
            yield from _file_lines(file)
    for name, new in added.items():
        yield f"examples of {name}: {len(new)} new"
    if (
        not files
        and not added
        and all(planned_connection.change is ChangeKind.UNCHANGED for planned_connection in planned)
    ):
        yield "nothing changes"


def _file_lines(file: FileChange) -> Iterator[str]:
    before, after = (file.before or "").splitlines(), file.after.splitlines()
    for line in list(unified_diff(before, after, lineterm="", n=1))[2:]:
        yield f"  {line}"


def _shown(value: Any) -> str:
    return "default" if value is None else str(value)


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


FILE: Final = "interface.toml"
MAPPINGS: Final = "mappings"
EXAMPLES: Final = "examples"
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
    room = examples.MAX_PACKAGED_BYTES
    for name in definitions_of(current, names):
        _, needed = compile_with_files(find(name), name)
        files |= {f"{MAPPINGS}/{file}": content for file, content in needed.items()}
        if tested := examples.as_packaged(database, name, room):
            files[f"{EXAMPLES}/{name}.json"] = tested
            room -= len(tested.encode())
    return files


def definitions_of(settings: Settings, names: Sequence[str]) -> list[str]:
    """Return the names of the definitions that these listeners and destinations use."""
    chosen = {
        "listener": [listener for listener in settings.listener if listener.name in names],
        "destination": [
            destination for destination in settings.destination if destination.name in names
        ],
    }
    return connection_definitions(settings.model_copy(update=chosen))


def as_toml(kind: str, table: Mapping[str, Any]) -> str:
    lines = [f"{toml_key(key)} = {toml_value(value)}" for key, value in table.items()]
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
        for connection in active_settings.connections_of(current, kind):
            if connection.name not in names:
                continue
            from_file = (
                active_settings.origin_of(settings, current, kind, connection.name) == "file"
            )
            table = (
                in_file[connection.name]
                if from_file and connection.name in in_file
                else to_table(connection)
            )
            if (
                isinstance(connection, ListenerSettings)
                and table.get("mappings") != connection.mappings
            ):
                table = {**table, "mappings": connection.mappings}
            found.append((kind, table))
    for name in names:
        if name not in [table["name"] for _, table in found]:
            raise NoSuchInterface(name)
    return found


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import changes: connections, files, examples, and the text of bridge.toml."""

    connections: tuple[PlannedConnection, ...]
    files: tuple[FileChange, ...]
    settings: str
    examples: Examples

    def changes(self) -> list[str]:
        """Return the lines of the difference."""
        return list(describe_changes(self.connections, self.files, self.examples))


Confirmation = Callable[[list[str]], bool]
"""Is shown the lines of the difference; returns whether the import may go on."""


def import_folder(
    home: Path,
    folder: Path,
    *,
    replace: bool = False,
    keep: Sequence[str] = (),
    confirm: Confirmation = lambda _: True,
) -> list[str] | None:
    """
    Import the interface of a folder into the files of a data directory; audited.

    `replace` permits replacing existing connections and files, `keep` names settings of which they
    keep their values. Return what was done, one line each; None if `confirm` refused, and then
    nothing changed. Raises NotImported, SettingsError, MappingErrors, OSError,
    and the error of a listener or destination that cannot work.
    """
    with bridge_database(home) as database:
        plan = _plan(home, database, read_package(folder), keep)
        if not confirm(plan.changes()):
            return None
        with audited(home, database, "import", ("interface", folder.name)):
            require_permitted_changes(plan.connections, plan.files, replace=replace)
            before = (home / FILE_NAME).read_text("utf-8")
            again = _plan(home, database, read_package(folder), keep)
            if again != plan:
                raise NotImported("the package or the settings changed since the difference")
            files = {home / MAPPINGS / file.name: file.after.encode() for file in plan.files}
            if plan.settings != before:
                files[home / FILE_NAME] = plan.settings.encode()
            replace_all(files)
            done = results(plan.connections, plan.files, plan.examples)
            describe(before={}, after={"changes": done})
            store_examples(database, plan.examples, operator(), time.time_ns() // 1_000_000)
    return done


def read_package(folder: Path) -> Files:
    """Read the files of an interface package. Raises NotImported for links, OSError."""
    parts = (folder / MAPPINGS, folder / EXAMPLES)
    for path in (folder / FILE, *parts, *(inner for part in parts for inner in part.rglob("*"))):
        if path.is_symlink():
            raise NotImported(f"{path.relative_to(folder)} is a symbolic link")
    files = {
        f"{MAPPINGS}/{name}": sources for name, sources in read_folder(folder / MAPPINGS).items()
    }
    for path in sorted((folder / EXAMPLES).glob("*.json")):
        files[f"{EXAMPLES}/{path.name}"] = path.read_text("utf-8")
    return {**files, FILE: (folder / FILE).read_text("utf-8")}


def _plan(home: Path, database: Database, files: Files, keep: Sequence[str]) -> ImportPlan:
    """Plan an import and check its listeners and destinations as a start of the service does."""
    if FILE not in files:
        raise NotImported(f"there is no {FILE}")
    known = load(home)
    planned = plan_connections(known, packaged_settings(known, files[FILE]), keep)
    current = active_settings.current(known, database)
    for connection in (*planned, *displaced_by(current, planned)):
        _require_of_file(known, current, connection)
    for connection in planned:
        if connection.change is not ChangeKind.UNCHANGED:
            require_files(known, connection.after)
    text = _settings_text(home, files[FILE], planned, keep)
    settings = parse(text, home, home / FILE_NAME)
    existing, sources = read_folder(home / MAPPINGS), mappings_of(files)
    _check(
        settings,
        [planned_connection.name for planned_connection in planned],
        {**existing, **sources},
    )
    changed = tuple(changed_files(existing, sources))
    return ImportPlan(tuple(planned), changed, text, new_examples(database, files))


def packaged_settings(settings: Settings, text: str) -> Settings:
    """Return the settings that `interface.toml` contains. Raises NotImported, SettingsError."""
    require_connections_only(text)
    database = f"[database]\nurl = {json.dumps(settings.database.url)}\n"
    return parse(f"{text}\n{database}", settings.home, Path(FILE))


def _require_of_file(own: Settings, current: Settings, planned: PlannedConnection) -> None:
    """Require that bridge.toml defines an existing connection: the console would override it."""
    kind, name = planned.kind, planned.name
    if active_settings.find_connection(own, kind, name) == active_settings.find_connection(
        current, kind, name
    ):
        return
    raise NotImported(
        f"{kind} {name} is saved in the console, which overrides bridge.toml; use --activate"
    )


def _settings_text(
    home: Path, packaged: str, planned: Sequence[PlannedConnection], keep: Sequence[str]
) -> str:
    """Return bridge.toml with the tables of the package; other lines stay as they are."""
    file = home / FILE_NAME
    text = file.read_text("utf-8")
    values, new = parse_toml(text, file), parse_toml(packaged, Path(FILE))
    tables = {kind.value: list(values.get(kind, [])) for kind in KINDS}
    expected: dict[str, Any] = {**values, **tables}
    replaced: dict[Location, str] = {}
    added = []
    for connection in planned:
        if connection.change is ChangeKind.UNCHANGED:
            continue
        own = {table.get("name"): at for at, table in enumerate(expected[connection.kind])}
        if connection.change is ChangeKind.NEW:
            table = _table_of(new, connection)
            added.append(as_toml(connection.kind, table))
            expected[connection.kind].append(table)
            continue
        if connection.name not in own:
            raise NotImported(
                f"{connection.kind} {connection.name} is set by an environment variable"
            )
        old = expected[connection.kind][own[connection.name]]
        if connection.displaced:
            table = {**old, "enabled": False}
        else:
            table = {k: v for k, v in _table_of(new, connection).items() if k not in keep}
            table |= {key: old[key] for key in keep if key in old}
        expected[connection.kind][own[connection.name]] = table
        replaced[(connection.kind.value, own[connection.name])] = as_toml(connection.kind, table)
    changed = replace_tables(text, replaced)
    changed = "\n\n".join(filter(None, [changed.rstrip("\n"), *added])) + "\n"
    expected = {key: value for key, value in expected.items() if value or key in values}
    if parse_toml(changed, file) != expected:
        raise NotImported(f"write each connection in {file} as a [[listener]] or [[destination]]")
    return text if not replaced and not added else changed


def _table_of(values: Mapping[str, Any], planned: PlannedConnection) -> dict[str, Any]:
    tables = values.get(planned.kind, [])
    return dict(next(table for table in tables if table.get("name") == planned.name))


def changed_files(before: Sources, after: Sources) -> Iterator[FileChange]:
    """Compare the files of a package with the existing ones."""
    for name, text in sorted(after.items()):
        if before.get(name) != text:
            yield FileChange(name, before.get(name), text)


def mappings_of(files: Files) -> Sources:
    folder = f"{MAPPINGS}/"
    return {
        name.removeprefix(folder): text for name, text in files.items() if name.startswith(folder)
    }


def new_examples(database: Database, files: Files) -> Examples:
    """Return the examples of a package that do not exist yet. Raises NotImported."""
    found = {}
    for file, text in files.items():
        if not file.startswith(f"{EXAMPLES}/"):
            continue
        name = file.removeprefix(f"{EXAMPLES}/").removesuffix(".json")
        if f"{MAPPINGS}/{name}.yaml" not in files:
            raise NotImported(f"{file} has no definition in the package")
        try:
            new = examples.missing(database, name, examples.read_packaged(text))
        except InvalidContent as error:
            raise NotImported(f"{file}: {error}") from error
        if new:
            found[name] = new
    return found


def store_examples(database: Database, added: Examples, actor: str, now: int) -> None:
    with database.write() as connection:
        for name, new in added.items():
            examples.add_packaged(connection, name, new, actor, now)


def require_connections_only(text: str) -> None:
    """
    Require that a package contains listeners and destinations only.

    Other settings, such as those of sign-in, are refused because nobody expects them in a package.
    Raises NotImported, SettingsError.
    """
    others = sorted(parse_toml(text, Path(FILE)).keys() - set(KINDS))
    if others:
        raise NotImported(f"{FILE} contains more than listeners and destinations: {others[0]}")


def _check(settings: Settings, names: Sequence[str], sources: Sources) -> None:
    """Build the new listeners and destinations as a start of the service does."""
    for listener in settings.listener:
        if listener.name in names:
            compile_inbound(settings, listener, lambda _: sources)
    for destination in settings.destination:
        if destination.name in names:
            destination_settings.make_destination(settings, destination, lambda _: sources)


def require_files(settings: Settings, section: active_settings.Connection) -> None:
    """
    Require the files that a section names and a package does not contain: keys, secrets.

    `settings` are those of bridge.toml.
    """
    require_permitted(settings, section)
    missing = [str(path) for path in paths_in(section) if not settings.path(path).is_file()]
    if missing:
        raise NotImported(f"create these files in HOME first: {', '.join(missing)}")
