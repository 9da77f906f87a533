"""
Activation of an interface package on all nodes, without files in the data directory.

The tables of the package become connections saved in the console, and its definitions become active
versions. The package is planned and checked first, then activated in one transaction.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from bridge.admin.audit_events import audited
from bridge.admin.checks import connections
from bridge.admin.definitions.activation import Author, activate
from bridge.admin.packages.folder_import import (
    FILE,
    FileChange,
    Files,
    NotImported,
    changed_files,
    definitions_of,
    mappings_of,
    read_package,
    require_connections_only,
    require_files,
)
from bridge.audit.events import operator
from bridge.monitoring.channels import ChannelKind
from bridge.store.database import Database
from bridge.store.records import mapping_versions as kept
from bridge.store.records.mapping_versions import MappingVersion
from bridge.wiring import active_settings
from bridge.wiring.active_definitions import all_sources
from bridge.wiring.active_settings import Connection
from bridge.wiring.stores import bridge_database
from config import Settings, load
from config.forms import written
from config.settings import parse
from mappings.compiler import compile_with_files
from mappings.language.diagnostics import Sources


@dataclass(frozen=True, slots=True)
class ActivationPlan:
    """
    The changes that the activation of a package makes.

    `channels` are names of listeners and destinations. `definitions` maps each definition to
    whether it replaces another version. `files` are those that differ from the active ones.
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
    own = _new_connections(settings, database, files[FILE])
    records = tuple(
        active_settings.make_connection_record(kind, name, written(each))
        for (kind, name), each in own.items()
    )
    planned = active_settings.current(settings, database, records)
    known, mapping_files = all_sources(settings, database, ""), mappings_of(files)
    sources = {**known, **mapping_files}
    for kind, name in own:
        for part in connections.checks_of(planned, kind, name, lambda _: sources):
            part()
    names = [name for _, name in own]
    definitions = definitions_of(planned, names)
    chosen, begun_on = _changed_definitions(
        database, [n for n in definitions if f"{n}.yaml" in mapping_files], sources
    )
    return ActivationPlan(
        tuple(names),
        {name: bool(begun_on.get(name)) for name in definitions},
        tuple(changed_files(known, mapping_files)),
        files[FILE],
        records,
        chosen,
        begun_on,
    )


def _new_connections(
    settings: Settings, database: Database, text: str
) -> dict[tuple[ChannelKind, str], Connection]:
    """Return the connections of `interface.toml`, which must not exist yet. Raises NotImported."""
    database_section = f"[database]\nurl = {json.dumps(settings.database.url)}\n"
    packaged = parse(f"{text}\n{database_section}", settings.home, Path(FILE))
    found = {
        (kind, each.name): each
        for kind in ChannelKind
        for each in active_settings.connections_of(packaged, kind)
    }
    if not found:
        raise NotImported(f"{FILE} has no listener and no destination")
    current = active_settings.current(settings, database)
    for kind, name in found:
        if any(each.name == name for each in active_settings.connections_of(current, kind)):
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
    chosen = list(plan.sources.items())
    activate(settings, database, chosen, author, begun_on=plan.begun_on, records=plan.records)


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
        active = kept.active_versions(connection)
    chosen, begun_on = {}, {}
    for name in names:
        made, _ = compile_with_files(sources, name)
        now = active[name].version if name in active else ""
        if made.version != now:
            chosen[name], begun_on[name] = sources, now
    return chosen, begun_on
