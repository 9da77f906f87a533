"""
Activation of an interface package on all nodes, without files in the data directory.

The tables of the package become connections saved in the console, and its definitions become active
versions. The package is planned and checked first, then activated in one transaction.

The console imports and exports packages as ZIP files. A ZIP contains the files of an exported
folder, at its top or in one folder. Anything else (links, other paths, wrong sizes) is refused
before any content is used.
"""

import json
import re
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from bridge.admin.audit_events import audited
from bridge.admin.checks import connection_checks
from bridge.admin.definitions.activation import Author, activate
from bridge.admin.definitions.definition_checks import as_operator_errors
from bridge.admin.errors import ChangeConflict, InvalidState, NoSuchItem
from bridge.admin.packages.folder import (
    FILE,
    MAPPINGS,
    FileChange,
    Files,
    NoSuchInterface,
    NotImported,
    changed_files,
    contents,
    definitions_of,
    mappings_of,
    read_package,
    require_connections_only,
    require_files,
)
from bridge.audit.events import operator
from bridge.monitoring.channels import ChannelKind
from bridge.store.database import Database
from bridge.store.records import mapping_versions
from bridge.store.records.mapping_versions import MappingVersion
from bridge.wiring import active_settings
from bridge.wiring.active_settings import Connection, all_sources
from bridge.wiring.stores import bridge_database
from bridge.workers.pool import DocumentTooCostly, DocumentUnparsable, parse
from config import Settings, SettingsError, load
from config.forms import to_table
from config.settings import parse as parse_settings
from mappings.compiler import compile_with_files
from mappings.language.diagnostics import Sources
from parsers.limits import PACKAGE


@dataclass(frozen=True, slots=True)
class ActivationPlan:
    """
    The changes that the activation of a package makes.

    `channels` are names of listeners and destinations. `definitions` maps each definition to
    whether it replaces another version. `files` are those that differ from the active ones. `text`
    is interface.toml, `records` are its connections, and `sources` those of the definitions to
    activate.
    `begun_on` has the versions that were active when the plan was made.
    """

    channels: tuple[str, ...]
    definitions: Mapping[str, bool]
    files: tuple[FileChange, ...]
    text: str
    records: tuple[MappingVersion, ...]
    sources: Mapping[str, Sources]
    begun_on: Mapping[str, str]

    @property
    def mark(self) -> str:
        """A hash of the package and the active versions, to detect later changes."""
        parts = [self.text, repr(sorted(self.begun_on.items()))]
        parts += [
            part or "" for each in self.files for part in (each.name, each.before, each.after)
        ]
        return sha256("\0".join(parts).encode()).hexdigest()[:16]


def plan_activation(settings: Settings, database: Database, files: Files) -> ActivationPlan:
    """
    Plan the activation of a package, and check its connections as a start of the service does.

    Raises NotImported, SettingsError, MappingErrors, and the error of a listener or destination
    that cannot work.
    """
    if FILE not in files:
        raise NotImported(f"there is no {FILE}")
    require_connections_only(files[FILE])
    connections = _new_connections(settings, database, files[FILE])
    records = tuple(
        active_settings.make_connection_record(kind, name, to_table(each))
        for (kind, name), each in connections.items()
    )
    planned = active_settings.current(settings, database, records)
    known, mapping_files = all_sources(settings, database, ""), mappings_of(files)
    sources = {**known, **mapping_files}
    for kind, name in connections:
        for part in connection_checks.connection_parts(planned, kind, name, lambda _: sources):
            part()
    names = [name for _, name in connections]
    definitions = definitions_of(planned, names)
    packaged = [name for name in definitions if f"{name}.yaml" in mapping_files]
    changed, begun_on = _changed_definitions(database, packaged, sources)
    return ActivationPlan(
        tuple(names),
        {name: bool(begun_on.get(name)) for name in definitions},
        tuple(changed_files(known, mapping_files)),
        files[FILE],
        records,
        changed,
        begun_on,
    )


def _new_connections(
    settings: Settings, database: Database, text: str
) -> dict[tuple[ChannelKind, str], Connection]:
    """Return the connections of `interface.toml`, which must not exist yet. Raises NotImported."""
    database_section = f"[database]\nurl = {json.dumps(settings.database.url)}\n"
    packaged = parse_settings(f"{text}\n{database_section}", settings.home, Path(FILE))
    found = {
        (kind, each.name): each
        for kind in ChannelKind
        for each in active_settings.connections_of(packaged, kind)
    }
    if not found:
        raise NotImported(f"{FILE} contains no listener and no destination")
    current = active_settings.current(settings, database)
    for kind, name in found:
        if active_settings.find_connection(current, kind, name) is not None:
            raise NotImported(f"{kind}.name {name} is used more than once")
    for each in found.values():
        require_files(settings, each)
    return found


def activate_package(
    settings: Settings,
    database: Database,
    plan: ActivationPlan,
    author: Author,
    *,
    replace: bool = False,
) -> None:
    """Activate a package. Raises NotImported if it replaces files and `replace` is not set."""
    others = [each.name for each in plan.files if each.before is not None]
    if others and not replace:
        raise NotImported(f"other files are active: {', '.join(others)}")
    definitions = list(plan.sources.items())
    activate(settings, database, definitions, author, begun_on=plan.begun_on, records=plan.records)


def activate_folder(home: Path, folder: Path, reason: str, *, replace: bool = False) -> list[str]:
    """Activate the package of a folder; audited. Return the names of its channels and files."""
    settings = load(home)
    author = Author(operator(), time.time_ns() // 1_000_000, reason)
    with (
        bridge_database(home) as database,
        audited(home, database, "import", ("interface", folder.name)),
    ):
        plan = plan_activation(settings, database, read_package(folder))
        activate_package(settings, database, plan, author, replace=replace)
    return [*plan.channels, *(each.name for each in plan.files)]


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
    folder = f"{first}/" if first != MAPPINGS and f"{first}/{FILE}" in names else ""
    unknown = [each for each in names if not _PACKAGE_FILE.fullmatch(each.removeprefix(folder))]
    if unknown:
        raise NotImported(f"{len(unknown)} files of the ZIP do not belong to an interface package")
    return folder


@dataclass(frozen=True, slots=True)
class PackageImport:
    """
    An interface package to import, with the reason.

    `mark` identifies the preview that the user saw; `replace`: existing files may be replaced.
    """

    data: bytes
    mark: str
    actor: str
    reason: str
    replace: bool = False


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

    def preview(self, data: bytes) -> Mapping[str, Any]:
        """Return what an import of the ZIP file would change; `mark` identifies this preview."""
        plan = self._plan(data)
        return {
            "mark": plan.mark,
            "channels": list(plan.channels),
            "definitions": [
                {"name": name, "replaces": replaces} for name, replaces in plan.definitions.items()
            ],
            "settings": plan.text,
            "files": [
                {"name": each.name, "before": each.before, "after": each.after}
                for each in plan.files
            ],
        }

    def import_zip(self, package: PackageImport) -> Mapping[str, Any]:
        """Activate a package on all nodes. Raises ChangeConflict if the preview is outdated."""
        plan = self._plan(package.data)
        if plan.mark != package.mark:
            raise ChangeConflict(
                "overtaken", "the package or the active versions changed since the preview"
            )
        author = Author(package.actor, self._clock(), package.reason)
        with as_operator_errors():
            activate_package(self._settings, self._database, plan, author, replace=package.replace)
        return {"channels": list(plan.channels), "files": [each.name for each in plan.files]}

    def _plan(self, data: bytes) -> ActivationPlan:
        try:
            with as_operator_errors():
                return plan_activation(self._settings, self._database, unpack_zip(data))
        except SettingsError as error:
            text = "; ".join(f"{each.place}: {each.message}" for each in error.mistakes)
            raise InvalidState(f"not imported: {text}") from None
        except OSError:
            raise InvalidState("HOME cannot be read") from None
