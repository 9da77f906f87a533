"""
Activation of versions of definitions: from files, from a draft, or an older version again.

A definition is activated only if it compiles and every listener and destination that uses it works
with it. All nodes of an installation follow the activations in the database.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlalchemy import Connection
from typing_extensions import override

from bridge import active_settings
from bridge.active_settings import SourceFinder, active_sources, file_sources
from bridge.admin.checks.connection_checks import (
    connection_definitions,
    used_definitions,
    verify_definition,
    verify_records,
)
from bridge.audit import outbox
from bridge.audit.events import AuditEvent
from bridge.errors import BridgeError
from bridge.store.database import Database
from bridge.store.records import mapping_versions
from bridge.store.records.mapping_versions import Activation, ActivationOrigin, MappingVersion
from config import Settings
from config.sections import ChannelKind
from mappings.compiler import compile_with_files
from mappings.language.diagnostics import MappingErrors, Sources

_SERVICE, _AT_START = "service", "files of HOME at the start"
_ATTEMPTS = 5
_MAX_NAMED = 5
_SHORTEST_VERSION = 4  # hex digits that identify a version if no other begins with them


class NoSuchVersion(BridgeError):
    """A definition has no version with this name, or several that begin with it."""

    def __init__(self, name: str, version: str) -> None:
        super().__init__(f"mapping {name} has no version {version} (or several that begin with it)")


class VersionConflict(BridgeError):
    """Another version was activated since the author began to edit."""

    def __init__(self, name: str, version: str) -> None:
        self.name = name
        self.version = version
        super().__init__(
            f"mapping {name}: version {version} has been activated since you loaded it"
        )


class NoPreviousVersion(BridgeError):
    """No version was active before the active one, or rollbacks have reached the first version."""

    def __init__(self, name: str, active: str = "", others: Sequence[str] = ()) -> None:
        text = f"no version of mapping {name} was active before {active or 'now'}"
        if others:
            text += f"; name another one with --to: {', '.join(others)}"
        super().__init__(text)


class ActivationBusy(BridgeError):
    """Other activations interfered with each attempt."""

    def __init__(self) -> None:
        super().__init__("other activations are in progress; try again")


@dataclass(frozen=True, slots=True)
class Author:
    """
    The author of an activation, its time (ms), and its reason.

    `evidence` has, by definition, what a shadow run has proved for the version, as JSON.
    """

    actor: str
    at: int
    reason: str = ""
    evidence: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ActivationResult:
    """An activated version; `before` is the previously active version, empty if there was none."""

    name: str
    version: str
    before: str

    @property
    def changed(self) -> bool:
        """Whether another version was active before."""
        return self.version != self.before

    @override
    def __str__(self) -> str:
        """Describe the result for the output of a command."""
        if not self.changed:
            return f"{self.name}: version {self.version} is active"
        previous = f"previous version {self.before}" if self.before else "no previous version"
        return f"{self.name}: version {self.version} is active ({previous})"


def activate_files(
    settings: Settings, database: Database, names: Sequence[str], author: Author
) -> list[ActivationResult]:
    """Activate the files of these definitions, all or none. Raises as `verify_definition`."""
    find = file_sources(settings)
    return activate(settings, database, [(name, find(name)) for name in names], author)


def activate(
    settings: Settings,
    database: Database,
    chosen: Sequence[tuple[str, Sources]],
    author: Author,
    origin: ActivationOrigin = ActivationOrigin.ACTIVATE,
    begun_on: Mapping[str, str] = MappingProxyType({}),
    records: Sequence[MappingVersion] = (),
) -> list[ActivationResult]:
    """
    Activate definitions, all or none. A version that is active already gets no new entry.

    `begun_on` has the versions that must still be active (empty: none), otherwise VersionConflict
    is raised. `records` are listeners and destinations saved in the console
    (`bridge.active_settings`); definitions that they use are activated too if they never
    were. If another activation is committed during the check, the check is repeated.
    """
    for _ in range(_ATTEMPTS):
        done = _activate(settings, database, chosen, author, origin, begun_on, records)
        if done is not None:
            return done
    raise ActivationBusy


def _activate(
    settings: Settings,
    database: Database,
    chosen: Sequence[tuple[str, Sources]],
    author: Author,
    origin: ActivationOrigin,
    begun_on: Mapping[str, str],
    records: Sequence[MappingVersion],
) -> list[ActivationResult] | None:
    """Check and activate; return None if another activation was committed first."""
    with database.read() as connection:
        checked_against = mapping_versions.latest_activation_id(connection)
        active = mapping_versions.active_versions(connection)
    settings = active_settings.current(settings, database, records)
    find = active_sources(settings, database)
    records_to_store = []
    for name, sources in [
        *chosen,
        *_missing_definitions(settings, records, find, {*active, *dict(chosen)}),
    ]:
        compiled, needed = compile_with_files(sources, name)
        find = _with_sources(find, name, needed)
        records_to_store.append(MappingVersion(name, compiled.version, needed))
    for record in records_to_store:
        verify_definition(settings, record.name, find)
    verify_records(settings, records, find)
    records_to_store += records
    with database.write() as connection:
        database.serialize(connection, mapping_versions.LOCK)
        if mapping_versions.latest_activation_id(connection) != checked_against:
            return None
        done = _store(connection, records_to_store, author, origin, begun_on)
    # The results of the chosen definitions; without any, those of the connections.
    return done[: len(chosen)] or done[-len(records) :]


def _with_sources(find: SourceFinder, name: str, sources: Sources) -> SourceFinder:
    """Return a finder that returns `sources` for one definition."""
    return lambda wanted: sources if wanted == name else find(wanted)


def _store(
    connection: Connection,
    versions: Sequence[MappingVersion],
    author: Author,
    origin: ActivationOrigin,
    begun_on: Mapping[str, str],
) -> list[ActivationResult]:
    """Store checked versions as active, with an audit event. Raises VersionConflict."""
    before = mapping_versions.active_versions(connection)
    done = []
    for version in versions:
        active = before[version.name].version if version.name in before else ""
        if begun_on.get(version.name, active) != active:
            raise VersionConflict(version.name, active)
        done.append(ActivationResult(version.name, version.version, active))
        if active != version.version or before[version.name].origin is ActivationOrigin.START:
            mapping_versions.activate(
                *(connection, version, author.at, author.actor, author.reason, origin),
                evidence=author.evidence.get(version.name),
            )
    outbox.describe(
        before={change.name: change.before for change in done},
        after={change.name: change.version for change in done},
    )
    return done


def _missing_definitions(
    settings: Settings,
    records: Sequence[MappingVersion],
    find: SourceFinder,
    known: Collection[str],
) -> list[tuple[str, Sources]]:
    """Return the definitions that these connections use and that were never activated."""
    saved = {
        key for record in records if (key := active_settings.connection_of_record(record.name))
    }
    connections = {
        "listener": [
            listener
            for listener in settings.listener
            if (ChannelKind.LISTENER, listener.name) in saved
        ],
        "destination": [
            destination
            for destination in settings.destination
            if (ChannelKind.DESTINATION, destination.name) in saved
        ],
    }
    names = connection_definitions(settings.model_copy(update=connections))
    return [(name, find(name)) for name in names if name not in known]


def rollback(
    settings: Settings,
    database: Database,
    name: str,
    author: Author,
    version: str = "",
    begun_on: Mapping[str, str] = MappingProxyType({}),
) -> ActivationResult:
    """Activate an older version, by default the previously active one."""
    with database.read() as connection:
        wanted = (
            find_version(connection, name, version)
            if version
            else previous_version(connection, name)
        )
    chosen = [(name, wanted.sources)]
    (done,) = activate(settings, database, chosen, author, ActivationOrigin.ROLLBACK, begun_on)
    return done


def previous_version(connection: Connection, name: str) -> MappingVersion:
    """
    Return the version that was active before the active one.

    A rollback takes back the activations since the restored version. So two rollbacks go back two
    versions, not back and forth. Raises NoPreviousVersion.
    """
    past = mapping_versions.history(connection, name)
    trail: list[Activation] = []
    for activation in reversed(past):
        earlier = [at for at, one in enumerate(trail) if one.version == activation.version]
        if activation.origin is ActivationOrigin.ROLLBACK and earlier:
            del trail[earlier[-1] :]
        trail.append(activation)
    for activation in reversed(trail[:-1]):
        if activation.version != trail[-1].version:
            return _require_version(connection, name, activation.version)
    active = trail[-1].version if trail else ""
    others = dict.fromkeys(entry.version for entry in past if entry.version != active)
    raise NoPreviousVersion(name, active, list(others)[:_MAX_NAMED])


def find_version(connection: Connection, name: str, version: str) -> MappingVersion:
    """Return a version by the beginning of its name. Raises NoSuchVersion."""
    known = [
        candidate
        for candidate in mapping_versions.versions(connection, name)
        if candidate.startswith(version)
    ]
    if len(known) != 1 or len(version) < _SHORTEST_VERSION:
        raise NoSuchVersion(name, version)
    return _require_version(connection, name, known[0])


def _require_version(connection: Connection, name: str, version: str) -> MappingVersion:
    found = mapping_versions.find(connection, name, version)
    if found is None:
        raise NoSuchVersion(name, version)
    return found


def activate_at_start(settings: Settings, database: Database, now: int) -> list[str]:
    """
    Activate the files of definitions that nobody has activated, when the service starts.

    Files with mistakes do not replace the active version; their names are returned. Without an
    active version, the next compilation reports the mistakes.
    """
    versions_by_name: dict[str, MappingVersion | None] = {}
    for name in used_definitions(active_settings.current(settings, database)):
        try:
            compiled, needed = compile_with_files(file_sources(settings)(name), name)
        except MappingErrors:
            versions_by_name[name] = None
            continue
        versions_by_name[name] = MappingVersion(name, compiled.version, needed)
    with database.write() as connection:
        database.serialize(connection, mapping_versions.LOCK)
        before = mapping_versions.active_versions(connection)
        at_start = {
            name: entry for name, entry in before.items() if entry.origin is ActivationOrigin.START
        }
        for name, version in versions_by_name.items():
            new = name not in before or name in at_start
            if version is None or not new:
                continue
            if name not in before or before[name].version != version.version:
                mapping_versions.activate(
                    connection, version, now, _SERVICE, _AT_START, ActivationOrigin.START
                )
                event = AuditEvent(
                    "activate",
                    actor=_SERVICE,
                    details={"reason": _AT_START},
                    target=("mapping", name),
                    before={name: before[name].version if name in before else ""},
                    after={name: version.version},
                )
                outbox.add(connection, event, now)
    return [
        name for name, version in versions_by_name.items() if version is None and name in at_start
    ]


def differing_definitions(settings: Settings, database: Database) -> list[str]:
    """Return the names of the definitions whose files differ from the active version."""
    with database.read() as connection:
        active = mapping_versions.active_versions(connection)
    found = []
    for name, activation in active.items():
        if activation.origin is ActivationOrigin.START:  # the next start activates the files
            continue
        sources = file_sources(settings)(name)
        if f"{name}.yaml" not in sources:
            continue
        try:
            compiled, _ = compile_with_files(sources, name)
        except MappingErrors:
            continue
        if compiled.version != activation.version:
            found.append(name)
    return found
