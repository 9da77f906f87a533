"""
Activation of an interface package on all nodes, without files in the data directory.

The tables of the package become connections saved in the console, and its definitions become active
versions. The package is planned and checked first, then activated in one transaction.

The console imports and exports packages as ZIP files. A ZIP contains the files of an exported
folder, at its top or in one folder. Anything else (links, other paths, wrong sizes) is refused
before any content is used.
"""

import re
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from bridge import active_settings
from bridge.active_settings import all_sources
from bridge.admin.audit_events import audited
from bridge.admin.checks import connection_checks
from bridge.admin.definitions.activation import Author, activate
from bridge.admin.definitions.drafts import as_operator_errors
from bridge.admin.errors import ChangeConflict, InvalidState, NoSuchItem
from bridge.admin.packages.folder import (
    EXAMPLES,
    FILE,
    MAPPINGS,
    ChangeKind,
    Confirmation,
    Examples,
    FileChange,
    Files,
    NoSuchInterface,
    NotImported,
    PlannedConnection,
    as_toml,
    changed_files,
    contents,
    definitions_of,
    describe_changes,
    mappings_of,
    new_examples,
    packaged_settings,
    plan_connections,
    read_package,
    require_files,
    require_permitted_changes,
    results,
    store_examples,
)
from bridge.audit.events import operator
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from bridge.store.records import mapping_versions
from bridge.store.records.mapping_versions import Activation, MappingVersion
from bridge.workers.pool import DocumentTooCostly, DocumentUnparsable, parse
from config import Settings, SettingsError, load
from config.forms import to_table
from config.sections import ChannelKind
from mappings.compiler import compile_with_files
from mappings.language.diagnostics import Sources
from parsers.limits import PACKAGE


@dataclass(frozen=True, slots=True)
class ActivationPlan:
    """
    The changes that the activation of a package makes.

    `connections` are compared with the active ones. `definitions` maps each definition to
    whether it replaces another version. `files` are those that differ from the active ones. `text`
    is interface.toml, `records` are its connections, and `sources` those of the definitions to
    activate.
    `begun_on` has the versions that were active when the plan was made. `examples` are new.
    """

    connections: tuple[PlannedConnection, ...]
    definitions: Mapping[str, bool]
    files: tuple[FileChange, ...]
    text: str
    records: tuple[MappingVersion, ...]
    sources: Mapping[str, Sources]
    begun_on: Mapping[str, str]
    examples: Examples

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the listeners and destinations of the package."""
        return tuple(connection.name for connection in self.connections if not connection.displaced)

    def changes(self) -> list[str]:
        """Return the lines of the difference."""
        return list(describe_changes(self.connections, self.files, self.examples))

    @property
    def text_before(self) -> str:
        """The connections before the import, as in interface.toml."""
        return "\n".join(
            as_toml(connection.kind, to_table(connection.before))
            for connection in self.connections
            if connection.before is not None
        )

    @property
    def text_after(self) -> str:
        """The connections after the import, as in interface.toml."""
        return "\n".join(
            as_toml(connection.kind, to_table(connection.after)) for connection in self.connections
        )

    @property
    def mark(self) -> str:
        """A hash of the package and the active versions, to detect later changes."""
        parts = [self.text, self.text_after, repr(sorted(self.begun_on.items()))]
        parts += [
            part or "" for file in self.files for part in (file.name, file.before, file.after)
        ]
        parts += [example.model_dump_json() for new in self.examples.values() for example in new]
        return sha256("\0".join(parts).encode()).hexdigest()[:16]


def plan_activation(
    settings: Settings,
    database: Database,
    files: Files,
    keep: Sequence[str] = (),
    *,
    disabled: bool = False,
) -> ActivationPlan:
    """
    Plan the activation of a package, and check its connections as a start of the service does.

    `keep` names settings of which existing connections keep their values; with `disabled`, new
    connections are disabled, so nothing uses the definitions that they name. Raises NotImported,
    SettingsError, MappingErrors, and the error of a listener or destination that cannot work.
    """
    if FILE not in files:
        raise NotImported(f"there is no {FILE}")
    current = active_settings.current(settings, database)
    packaged_connections = packaged_settings(settings, files[FILE])
    connections = plan_connections(current, packaged_connections, keep, disabled=disabled)
    changed = [
        planned_connection
        for planned_connection in connections
        if planned_connection.change is not ChangeKind.UNCHANGED
    ]
    for planned_connection in changed:
        require_files(settings, planned_connection.after)
    with database.read() as connection:
        active = mapping_versions.active_versions(connection)
    records = tuple(_records(changed, active))
    planned = active_settings.current(settings, database, records)
    known, mapping_files = all_sources(settings, database, ""), mappings_of(files)
    sources = {**known, **mapping_files}
    for planned_connection in changed:
        parts = connection_checks.connection_parts(
            planned, planned_connection.kind, planned_connection.name, lambda _: sources
        )
        for part in parts:
            part()
    definitions = definitions_of(planned, [e.name for e in connections if not e.displaced])
    packaged = [name for name in definitions if f"{name}.yaml" in mapping_files]
    changed_sources, begun_on = _changed_definitions(database, packaged, sources)
    begun_on |= {
        record.name: active[record.name].version if record.name in active else ""
        for record in records
    }
    return ActivationPlan(
        tuple(connections),
        {name: bool(begun_on.get(name)) for name in definitions},
        tuple(changed_files(known, mapping_files)),
        files[FILE],
        records,
        changed_sources,
        begun_on,
        new_examples(database, files),
    )


def _records(
    changed: Sequence[PlannedConnection], active: Mapping[str, Activation]
) -> Iterator[MappingVersion]:
    """Yield the records of changed connections; a listener's list of definitions is restored."""
    for connection in changed:
        yield active_settings.make_connection_record(
            connection.kind, connection.name, to_table(connection.after)
        )
        if connection.kind is ChannelKind.LISTENER:
            own = active_settings.make_list_record(connection.name, [])
            if own.name in active and active[own.name].version != own.version:
                yield own


def activate_package(
    settings: Settings,
    database: Database,
    plan: ActivationPlan,
    author: Author,
    *,
    replace: bool = False,
) -> None:
    """Activate a package. Raises NotImported if it replaces something and `replace` is not set."""
    require_permitted_changes(plan.connections, plan.files, replace=replace)
    definitions = list(plan.sources.items())
    if definitions or plan.records:
        activate(
            settings, database, definitions, author, begun_on=plan.begun_on, records=plan.records
        )
    store_examples(database, plan.examples, author.actor, author.at)


def activate_folder(
    home: Path,
    folder: Path,
    reason: str,
    *,
    replace: bool = False,
    keep: Sequence[str] = (),
    confirm: Confirmation = lambda _: True,
) -> list[str] | None:
    """
    Activate the package of a folder; audited. Return what was done, one line each.

    Return None if `confirm` refused the difference; then nothing changed.
    """
    settings = load(home)
    author = Author(operator(), time.time_ns() // 1_000_000, reason)
    with bridge_database(home) as database:
        plan = plan_activation(settings, database, read_package(folder), keep)
        if not confirm(plan.changes()):
            return None
        with audited(home, database, "import", ("interface", folder.name)):
            activate_package(settings, database, plan, author, replace=replace)
    return results(plan.connections, plan.files, plan.examples)


def _changed_definitions(
    database: Database, names: list[str], sources: Sources
) -> tuple[dict[str, Sources], dict[str, str]]:
    """Return the definitions that differ from the active versions, and those versions."""
    with database.read() as connection:
        active = mapping_versions.active_versions(connection)
    changed, begun_on = {}, {}
    for name in names:
        compiled, _ = compile_with_files(sources, name)
        active_version = active[name].version if name in active else ""
        if compiled.version != active_version:
            changed[name], begun_on[name] = sources, active_version
    return changed, begun_on


_PACKAGE_FILE: Final = re.compile(
    rf"{re.escape(FILE)}|{MAPPINGS}/([A-Za-z0-9_-]{{1,64}}\.(yaml|py)"
    r"|codes/[A-Za-z0-9_-]{1,64}\.csv|include/[A-Za-z0-9_-]{1,64}\.yaml)"
    rf"|{EXAMPLES}/[A-Za-z0-9_-]{{1,64}}\.json"
)
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)


def pack_zip(files: Files) -> bytes:
    """Return a ZIP file; equal files give equal bytes."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _TIMESTAMP), files[name], zipfile.ZIP_DEFLATED)
    return out.getvalue()


def unpack_zip(data: bytes) -> Files:
    """
    Return the files of a ZIP, which a worker process reads. Raises NotImported, WorkerBusy.

    A ZIP that is no interface package, or exceeds a limit of size, number, depth or time, is
    refused.
    """
    try:
        answer = parse("package", data, limits=PACKAGE)
    except DocumentTooCostly:
        raise NotImported("the ZIP takes too long to read") from None
    except DocumentUnparsable:
        raise NotImported("this is not a ZIP file that can be read") from None
    if "fault" in answer:
        raise NotImported(answer["fault"])
    found: dict[str, str] = answer["files"]
    folder = _common_folder(list(found))
    return {name.removeprefix(folder): text for name, text in found.items()}


def _common_folder(names: Sequence[str]) -> str:
    """Return the folder that contains all files, empty if there is none; check all names."""
    first = names[0].partition("/")[0] if names else ""
    folder = f"{first}/" if first not in {MAPPINGS, EXAMPLES} and f"{first}/{FILE}" in names else ""
    unknown = [name for name in names if not _PACKAGE_FILE.fullmatch(name.removeprefix(folder))]
    if unknown:
        raise NotImported(f"{len(unknown)} files of the ZIP do not belong to an interface package")
    return folder


def _connection_json(planned: PlannedConnection) -> Mapping[str, Any]:
    return {
        "kind": planned.kind,
        "name": planned.name,
        "change": planned.change,
        "differences": [asdict(difference) for difference in planned.differences],
    }


@dataclass(frozen=True, slots=True)
class PackageImport:
    """
    An interface package to import, with the reason.

    `mark` identifies the preview that the user saw; `replace`: existing files may be replaced;
    `disabled`: new connections are disabled.
    """

    data: bytes
    mark: str
    actor: str
    reason: str
    replace: bool = False
    disabled: bool = False


class InterfacePackages:
    """Export and import of interface packages as ZIP files. Blocking."""

    def __init__(self, settings: Settings, database: Database, clock: Callable[[], int]) -> None:
        """`clock` is in milliseconds."""
        self._settings = settings
        self._database = database
        self._clock = clock

    def export_zip(self, names: Sequence[str]) -> bytes:
        """Return listeners and destinations with their definitions. Raises NoSuchItem."""
        try:
            return pack_zip(contents(self._settings, self._database, names))
        except NoSuchInterface as error:
            raise NoSuchItem(str(error)) from None
        except OSError:
            raise InvalidState("bridge.toml cannot be read") from None

    def preview(self, data: bytes, *, disabled: bool = False) -> Mapping[str, Any]:
        """Return what an import of the ZIP file would change; `mark` identifies this preview."""
        plan = self._plan(data, disabled=disabled)
        return {
            "mark": plan.mark,
            "channels": list(plan.channels),
            "connections": [_connection_json(connection) for connection in plan.connections],
            "definitions": [
                {"name": name, "replaces": replaces} for name, replaces in plan.definitions.items()
            ],
            "settings_before": plan.text_before,
            "settings": plan.text_after,
            "files": [
                {"name": file.name, "before": file.before, "after": file.after}
                for file in plan.files
            ],
            "examples": {name: len(new) for name, new in plan.examples.items()},
        }

    def import_zip(self, package: PackageImport) -> Mapping[str, Any]:
        """Activate a package on all nodes. Raises ChangeConflict if the preview is outdated."""
        plan = self._plan(package.data, disabled=package.disabled)
        if plan.mark != package.mark:
            raise ChangeConflict(
                "overtaken", "the package or the active versions changed since the preview"
            )
        author = Author(package.actor, self._clock(), package.reason)
        with as_operator_errors():
            activate_package(self._settings, self._database, plan, author, replace=package.replace)
        return {"channels": list(plan.channels), "files": [file.name for file in plan.files]}

    def _plan(self, data: bytes, *, disabled: bool) -> ActivationPlan:
        try:
            with as_operator_errors():
                files = unpack_zip(data)
                return plan_activation(self._settings, self._database, files, disabled=disabled)
        except SettingsError as error:
            text = "; ".join(f"{mistake.place}: {mistake.message}" for mistake in error.mistakes)
            raise InvalidState(f"not imported: {text}") from None
        except OSError:
            raise InvalidState("HOME cannot be read") from None
