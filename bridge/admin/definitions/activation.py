"""Put versions of definitions into force: from files, from a draft, or an older one again.

Nothing comes into force that does not compile, or that a listener or destination of the
settings could not work with. All nodes of an installation follow what is written here.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sqlalchemy import Connection
from typing_extensions import override

from bridge.admin.checks.connections import names_used, verify, verify_records
from bridge.audit import outbox
from bridge.audit.events import AuditEvent
from bridge.errors import BridgeError
from bridge.monitoring.channels import ChannelKind
from bridge.store.database import Database
from bridge.store.records import mapping_versions as kept
from bridge.store.records.mapping_versions import Activation, ActivationOrigin, MappingVersion
from bridge.wiring import active_settings, saved_connections
from bridge.wiring.active_definitions import Find, files_of, in_force, laid_upon
from config import Settings
from mappings.compiler import compile_with_files
from mappings.language.diagnostics import Sources
from mappings.language.errors import MappingErrors

_SERVICE, _AT_START = "service", "files of HOME at the start"
_ATTEMPTS = 5
_MOST_NAMED = 5
_SHORTEST_VERSION = 4  # hex digits that are enough to name a version, if no other begins so


class NoSuchVersion(BridgeError):  # noqa: N818  # named for what happened
    """A definition has no version of this name, or several begin so."""

    def __init__(self, name: str, version: str) -> None:
        super().__init__(f"mapping {name} has no version {version} (or several that begin so)")


class Overtaken(BridgeError):  # noqa: N818  # named for what happened
    """Another version came into force since somebody began to write theirs."""

    def __init__(self, name: str, version: str) -> None:
        self.name = name
        self.version = version
        super().__init__(f"mapping {name}: version {version} came into force meanwhile")


class NothingBefore(BridgeError):  # noqa: N818  # named for what happened
    """No version was active before the active one, or rollbacks have reached the first one."""

    def __init__(self, name: str, active: str = "", others: Sequence[str] = ()) -> None:
        said = f"no version of mapping {name} was active before {active or 'now'}"
        if others:
            said += f"; name another one with --to: {', '.join(others)}"
        super().__init__(said)


class Busy(BridgeError):  # noqa: N818  # named for what happened
    """Others activate all the time."""

    def __init__(self) -> None:
        super().__init__("others activate at this moment; try again")


@dataclass(frozen=True, slots=True)
class Author:
    """Who activates, when (ms), and why."""

    actor: str
    at: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Activated:
    """What came into force; `before` is the version until then, empty where there was none."""

    name: str
    version: str
    before: str

    @property
    def changed(self) -> bool:
        """Whether it is another version than before."""
        return self.version != self.before

    @override
    def __str__(self) -> str:
        """Tell it to whoever asked for it."""
        if not self.changed:
            return f"{self.name} {self.version} is in force"
        return f"{self.name} {self.version} is in force now, before {self.before or 'nothing'}"


def activate_files(
    settings: Settings, database: Database, names: Sequence[str], who: Author
) -> list[Activated]:
    """Put the files of HOME into force, all of these definitions or none; raises as `verify`."""
    find = files_of(settings)
    return activate(settings, database, [(name, find(name)) for name in names], who)


def activate(
    settings: Settings,
    database: Database,
    chosen: Sequence[tuple[str, Sources]],
    who: Author,
    origin: ActivationOrigin = ActivationOrigin.ACTIVATE,
    begun_on: Mapping[str, str] = MappingProxyType({}),
    records: Sequence[MappingVersion] = (),
) -> list[Activated]:
    """
    Put definitions into force, all or none; what is in force stays without a new entry.

    `begun_on` names the versions that must still be in force (empty: none), else Overtaken is
    raised; `records` are what the console says of listeners and destinations from now on, see
    `bridge.wiring.active_settings`. What these work with and nobody has put into force comes along.
    Where
    somebody else activates while this is checked, it is checked again beside what they changed.
    """
    for _ in range(_ATTEMPTS):
        done = _activate(settings, database, chosen, who, origin, begun_on, records)
        if done is not None:
            return done
    raise Busy


def _activate(
    settings: Settings,
    database: Database,
    chosen: Sequence[tuple[str, Sources]],
    who: Author,
    origin: ActivationOrigin,
    begun_on: Mapping[str, str],
    records: Sequence[MappingVersion],
) -> list[Activated] | None:
    """Check and activate; None where what it was checked beside is no longer in force."""
    with database.read() as connection:
        checked_beside = kept.latest_activation_id(connection)
        active = kept.active_versions(connection)
    settings = active_settings.current(settings, database, records)
    find = in_force(settings, database)
    made = []
    for name, sources in [*chosen, *_along(settings, records, find, {*active, *dict(chosen)})]:
        compiled, needed = compile_with_files(sources, name)
        find = laid_upon(find, name, needed)
        made.append(MappingVersion(name, compiled.version, needed))
    for each in made:
        verify(settings, each.name, find)
    verify_records(settings, records, find)
    made += records
    with database.write() as connection:
        database.serialize(connection, kept.LOCK)
        if kept.latest_activation_id(connection) != checked_beside:
            return None
        done = _store(connection, made, who, origin, begun_on)
    return done[: len(chosen)] or done[-len(records) :]


def _store(
    connection: Connection,
    made: Sequence[MappingVersion],
    who: Author,
    origin: ActivationOrigin,
    begun_on: Mapping[str, str],
) -> list[Activated]:
    """Activate checked versions, with their audit event. Raises Overtaken."""
    before = kept.active_versions(connection)
    done = []
    for each in made:
        now = before[each.name].version if each.name in before else ""
        if begun_on.get(each.name, now) != now:
            raise Overtaken(each.name, now)
        done.append(Activated(each.name, each.version, now))
        if now != each.version or before[each.name].origin is ActivationOrigin.START:
            kept.activate(connection, each, who.at, who.actor, who.reason, origin)
    outbox.describe(
        before={each.name: each.before for each in done},
        after={each.name: each.version for each in done},
    )
    return done


def _along(
    settings: Settings, records: Sequence[MappingVersion], find: Find, known: Collection[str]
) -> list[tuple[str, Sources]]:
    """Give the definitions that nobody has put into force, and that a connection works with."""
    own = {whose for each in records if (whose := saved_connections.about(each.name))}
    chosen = {
        "listener": [
            each for each in settings.listener if (ChannelKind.LISTENER, each.name) in own
        ],
        "destination": [
            e for e in settings.destination if (ChannelKind.DESTINATION, e.name) in own
        ],
    }
    names = names_used(settings.model_copy(update=chosen))
    return [(name, find(name)) for name in names if name not in known]


def rollback(
    settings: Settings,
    database: Database,
    name: str,
    who: Author,
    version: str = "",
    begun_on: Mapping[str, str] = MappingProxyType({}),
) -> Activated:
    """Put an older version into force: this one, or the one before the one in force."""
    with database.read() as connection:
        wanted = resolve(connection, name, version) if version else before(connection, name)
    chosen = [(name, wanted.sources)]
    (done,) = activate(settings, database, chosen, who, ActivationOrigin.ROLLBACK, begun_on)
    return done


def before(connection: Connection, name: str) -> MappingVersion:
    """
    Find what was in force before, whose place no rollback has taken since.

    Rolling back twice goes back two versions, and not to and fro.
    """
    past = kept.history(connection, name)
    trail: list[Activation] = []
    for each in reversed(past):
        earlier = [at for at, one in enumerate(trail) if one.version == each.version]
        if each.origin is ActivationOrigin.ROLLBACK and earlier:
            del trail[earlier[-1] :]
        trail.append(each)
    for each in reversed(trail[:-1]):
        if each.version != trail[-1].version:
            return _found(connection, name, each.version)
    active = trail[-1].version if trail else ""
    others = dict.fromkeys(each.version for each in past if each.version != active)
    raise NothingBefore(name, active, list(others)[:_MOST_NAMED])


def resolve(connection: Connection, name: str, version: str) -> MappingVersion:
    """Find a version by the beginning of its name. Raises NoSuchVersion."""
    known = [each for each in kept.versions(connection, name) if each.startswith(version)]
    if len(known) != 1 or len(version) < _SHORTEST_VERSION:
        raise NoSuchVersion(name, version)
    return _found(connection, name, known[0])


def _found(connection: Connection, name: str, version: str) -> MappingVersion:
    found = kept.find(connection, name, version)
    if found is None:
        raise NoSuchVersion(name, version)
    return found


def note_start(settings: Settings, database: Database, now: int) -> list[str]:
    """
    Let the files of HOME be in force where nobody has activated anything, as the service starts.

    Files with mistakes do not replace what was in force. Gives the names of those; where
    there was nothing, whoever compiles them next says what is wrong.
    """
    made: dict[str, MappingVersion | None] = {}
    for name in names_used(active_settings.current(settings, database)):
        try:
            compiled, needed = compile_with_files(files_of(settings)(name), name)
        except MappingErrors:
            made[name] = None
            continue
        made[name] = MappingVersion(name, compiled.version, needed)
    with database.write() as connection:
        database.serialize(connection, kept.LOCK)
        before = kept.active_versions(connection)
        at_start = {
            name: each for name, each in before.items() if each.origin is ActivationOrigin.START
        }
        for name, version in made.items():
            new = name not in before or name in at_start
            if version is None or not new:
                continue
            if name not in before or before[name].version != version.version:
                kept.activate(connection, version, now, _SERVICE, _AT_START, ActivationOrigin.START)
                event = AuditEvent(
                    "activate",
                    actor=_SERVICE,
                    details={"reason": _AT_START},
                    target=("mapping", name),
                    before={name: before[name].version if name in before else ""},
                    after={name: version.version},
                )
                outbox.add(connection, event, now)
    return [name for name, version in made.items() if version is None and name in at_start]


def differing(settings: Settings, database: Database) -> list[str]:
    """Name the definitions whose files say something else than what is in force."""
    with database.read() as connection:
        active = kept.active_versions(connection)
    found = []
    for name, each in active.items():
        if each.origin is ActivationOrigin.START:  # the next start takes the files
            continue
        sources = files_of(settings)(name)
        if f"{name}.yaml" not in sources:
            continue
        try:
            made, _ = compile_with_files(sources, name)
        except MappingErrors:
            continue
        if made.version != each.version:
            found.append(name)
    return found
