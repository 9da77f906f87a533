"""Putting an interface that was exported into force, on all nodes: nothing is written into HOME.

Its tables become what the console says, its definitions versions in force. All is checked and
said first; then all of it comes into force in one transaction, or nothing does.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from bridge.admin.checks import connections
from bridge.admin.definitions.activation import Who, activate
from bridge.admin.packages.folder_import import (
    FILE,
    Changed,
    Files,
    NotImported,
    brought_by,
    channels_only,
    definitions_of,
    there,
)
from bridge.monitoring.channels import Kind
from bridge.store.database import Database
from bridge.store.records import mapping_versions as kept
from bridge.store.records.mapping_versions import MappingVersion
from bridge.wiring import active_settings, saved_connections
from bridge.wiring.active_definitions import whole
from config import Settings
from config.forms import written
from config.settings import parse
from mappings.compiler import compile_with_files
from mappings.language.diagnostics import Sources


@dataclass(frozen=True, slots=True)
class Brought:
    """
    What an interface would put into force.

    `channels` are names of listeners and destinations, `definitions` tell of each whether it takes
    the place of another version; `files` are those that differ from what there is.
    """

    channels: tuple[str, ...]
    definitions: Mapping[str, bool]
    files: tuple[Changed, ...]
    text: str
    records: tuple[MappingVersion, ...]
    sources: Mapping[str, Sources]
    begun_on: Mapping[str, str]

    @property
    def mark(self) -> str:
        """What is the same only as long as the interface and what is in force are (16 digits)."""
        parts = [self.text, repr(sorted(self.begun_on.items()))]
        parts += [
            part or "" for each in self.files for part in (each.name, each.before, each.after)
        ]
        return sha256("\0".join(parts).encode()).hexdigest()[:16]


def brought(settings: Settings, database: Database, files: Files) -> Brought:
    """
    Say what an interface would put into force; it is checked as the service would.

    Raises NotImported, SettingsError, MappingErrors, and what a listener or destination that
    cannot work raises.
    """
    if FILE not in files:
        raise NotImported(f"there is no {FILE}")
    channels_only(files[FILE])
    database_too = f"[database]\nurl = {json.dumps(settings.database.url)}\n"
    arrived = parse(f"{files[FILE]}\n{database_too}", settings.home, Path(FILE))
    own = {
        (kind, each.name): each for kind in Kind for each in saved_connections.every(arrived, kind)
    }
    if not own:
        raise NotImported(f"{FILE} has no listener and no destination")
    current = active_settings.current(settings, database)
    for kind, name in own:
        if any(each.name == name for each in saved_connections.every(current, kind)):
            raise NotImported(f"{kind}.name {name} is used more than once")
    for each in own.values():
        there(settings, each)
    records = tuple(
        saved_connections.version(kind, name, written(each)) for (kind, name), each in own.items()
    )
    planned = active_settings.current(settings, database, records)
    known, comes = whole(settings, database, ""), brought_by(files)
    sources = {**known, **comes}
    for kind, name in own:
        for part in connections.parts(planned, kind, name, lambda _: sources):
            part()
    names = [name for _, name in own]
    definitions = definitions_of(planned, names)
    chosen, begun_on = _exchanged(
        database, [n for n in definitions if f"{n}.yaml" in comes], sources
    )
    return Brought(
        tuple(names),
        {name: bool(begun_on.get(name)) for name in definitions},
        tuple(_changed(known, comes)),
        files[FILE],
        records,
        chosen,
        begun_on,
    )


def put(
    settings: Settings, database: Database, found: Brought, who: Who, *, replace: bool = False
) -> None:
    """Put it into force. Raises NotImported where something would be replaced unasked."""
    other = [each.name for each in found.files if each.before is not None]
    if other and not replace:
        raise NotImported(f"other files are in force: {', '.join(other)}")
    chosen = list(found.sources.items())
    activate(settings, database, chosen, who, begun_on=found.begun_on, records=found.records)


def _exchanged(
    database: Database, names: list[str], sources: Sources
) -> tuple[dict[str, Sources], dict[str, str]]:
    """Give the definitions that are not in force as they come, and what is in their place."""
    with database.read() as connection:
        active = kept.active_versions(connection)
    chosen, begun_on = {}, {}
    for name in names:
        made, _ = compile_with_files(sources, name)
        now = active[name].version if name in active else ""
        if made.version != now:
            chosen[name], begun_on[name] = sources, now
    return chosen, begun_on


def _changed(known: Sources, comes: Sources) -> Iterator[Changed]:
    for name, text in sorted(comes.items()):
        if known.get(name) != text:
            yield Changed(name, known.get(name), text)
