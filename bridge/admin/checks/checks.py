"""
`bridge check`: check everything of a data directory without changing anything.

A check that builds a connection does not know positions. `SettingsLocator` finds the position by
the name of the connection and the setting that the message mentions. Settings that are not in the
file keep their name as place.

An error prevents the start or the configured work, a warning needs attention, a note informs.
"""

import ipaddress
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel
from sqlalchemy.exc import ArgumentError

from bridge import active_settings, index_key
from bridge.active_settings import InvalidConnection, SourceFinder, active_sources
from bridge.admin.checks import connection_checks
from bridge.admin.checks.descriptors import TooFewDescriptors, allocate_descriptors, reachable_limit
from bridge.admin.definitions.activation import differing_definitions
from bridge.admin.report_engine import internal_engine
from bridge.errors import BridgeError
from bridge.monitoring import channels, tracing
from bridge.network_source import Proxies
from bridge.queue.payload_blobs import count_lost, folder_of
from bridge.store import migration
from bridge.store.database import Database
from bridge.store.databases import ENGINE_PACKAGE, ENGINE_VERSIONS
from bridge.store.errors import NotSynchronous, WrongIndexKey
from bridge.store.migration import current, heads, is_ready, missing_columns
from bridge.store.options import DatabaseOptions
from bridge.store.postgresql.requirements import server_problems
from bridge.store.sqlite import damage, message_log_of
from bridge.workers.confinement import ALL_PROTECTIONS, FILTER, NAMESPACES
from bridge.workers.host import WorkerError
from bridge.workers.pool import HOOKS
from config import Settings, SettingsError, load
from config.dicom import DicomPeer
from config.listeners import ListenerSettings
from config.private_files import Exposure, find_exposures, remove_exposures
from config.secret_files import read_index_key, read_link_keys, read_token
from config.sections import ChannelKind, ConnectionKind, DestinationSettings, PeerKind
from config.settings import FILE_NAME, further_mistakes, valid_settings
from config.toml_text import parse_toml, position
from mappings import compiler
from mappings.language import diagnostics
from mappings.language.diagnostics import MappingErrors
from mllp.errors import TLSConfigurationError

_CONNECTION: Final = re.compile(r"(listener|destination) (.+)")
_SETTING: Final = re.compile(r"[a-z_]+\.[a-z_]+")
_WORD: Final = re.compile(r"[a-z_]+(?:\.[a-z_0-9]+)*")
_MENTIONS: Final = (
    ("no response from", "address"),
    ("mapping", "mappings"),
    ("mapping", "mapping"),
    ("messages", "mapping"),
    ("site", "site"),
)
"""Parts of messages that do not name a key, and the key of the settings that each one means."""


class SettingsLocator:
    """Finds positions in the settings file of a data directory."""

    def __init__(self, home: Path) -> None:
        self._file = home / FILE_NAME
        try:
            self._text = self._file.read_text("utf-8")
            self._values: Mapping[str, Any] = parse_toml(self._text, self._file)
        except (OSError, ValueError, SettingsError):
            self._text, self._values = "", {}

    def place(self, named: str, message: str) -> str:
        """Return file, line, column and name of a setting; only its name if not in the file."""
        if found := _CONNECTION.fullmatch(named):
            location = self._entry(found[1], found[2], message)
        elif _SETTING.fullmatch(named):
            location = self._setting(*named.split("."))
        else:
            return named
        return f"{self._file}{location}: {named}" if location else named

    def _setting(self, section: str, key: str) -> str:
        table = self._values.get(section)
        is_set = isinstance(table, Mapping) and key in table
        return position(self._text, (section, key)) if is_set else ""

    def _entry(self, section: str, name: str, message: str) -> str:
        entries = self._values.get(section)
        for at, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, Mapping) and entry.get("name") == name:
                return position(self._text, (section, at, *_key(entry, message)))
        return ""


def _key(entry: Mapping[str, Any], message: str) -> tuple[str, ...]:
    """Return the key of an entry that a message mentions; empty if it mentions none."""
    for word in _WORD.findall(message):
        parts = tuple(word.split("."))
        if parts[0] in entry:
            return parts
    for part, key in _MENTIONS:
        if part in message and key in entry:
            return (key,)
    return ()


class CheckSeverity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    severity: CheckSeverity
    place: str
    message: str


def with_positions(home: Path, found: Sequence[CheckFinding]) -> list[CheckFinding]:
    """Return the findings with their positions in the settings file."""
    locator = SettingsLocator(home)
    return [
        CheckFinding(finding.severity, locator.place(finding.place, text), text)
        for finding in found
        for text in [finding.message.removeprefix(f"{finding.place}: ")]
    ]


_MAX_EXPOSURES: Final = 100
_DATABASE_SUFFIXES: Final = ("", "-wal", "-shm", "-journal", "-large")
_UNKNOWN_MAPPING: Final = "unknown-mapping"


def check_home(home: Path) -> list[CheckFinding]:
    """Run all checks of this machine; return their findings, errors first. No peer is contacted."""
    try:
        settings = load(home)
    except SettingsError as error:
        mistakes = dict.fromkeys([*error.mistakes, *further_mistakes(home)])
        known = [
            CheckFinding(CheckSeverity.ERROR, mistake.place, mistake.message)
            for mistake in mistakes
        ]
        return with_positions(home, [*known, *_mappings(home), *_partial_settings(home)])
    unreadable = unreadable_databases(settings)
    checks: tuple[Callable[[Settings], Iterator[CheckFinding]], ...] = (
        _secrets,
        _exposures,
        _deprecated,
        _descriptors,
        partial(check_databases, unreadable=unreadable),
        *(() if unreadable else (_sites, _activations, _channels_not_loaded, check_sign_in)),
        _listeners,
        _destinations,
        _dicom,
        _worklist,
        _tracing,
    )
    found = [*_mappings(home), *(finding for check in checks for finding in check(settings))]
    return sorted(
        with_positions(home, found), key=lambda finding: finding.severity is not CheckSeverity.ERROR
    )


def active_or_file_settings(settings: Settings) -> Settings:
    """Return the active settings, or those of bridge.toml if the database cannot be read."""
    url = settings.database_url()
    if is_missing(url):
        return settings
    try:
        database = Database(url)
    except (BridgeError, ArgumentError):
        return settings
    try:
        return active_settings.current(settings, database)
    except BridgeError:
        return settings  # `check_home` reports the reason
    finally:
        database.dispose()


def _partial_settings(home: Path) -> Iterator[CheckFinding]:
    """Check the listeners and destinations if other sections of the settings have mistakes."""
    settings = valid_settings(home)
    if settings is not None:
        yield from _listeners(settings)
        yield from _destinations(settings)


def _activations(settings: Settings) -> Iterator[CheckFinding]:
    """Find files that differ from the active versions."""
    url = settings.database_url()
    if is_missing(url):
        return
    database = Database(url)
    try:
        names = differing_definitions(settings, database)
        current = active_settings.current(settings, database)
        find_sources = active_sources(settings, database)
    except InvalidConnection as error:
        yield CheckFinding(CheckSeverity.ERROR, "console", str(error))
        return
    except BridgeError:
        return  # `check_databases` reports the reason
    finally:
        database.dispose()
    yield from _saved_in_console(settings, current, find_sources)
    for name in names:
        place = str(settings.home / "mappings" / f"{name}.yaml")
        message = f"another version is active; `bridge mapping activate {name}` activates the file"
        yield CheckFinding(CheckSeverity.WARNING, place, message)


def _channels_not_loaded(settings: Settings) -> Iterator[CheckFinding]:
    """Find channels that no running node has loaded, because it read bridge.toml before."""
    url = settings.database_url()
    if is_missing(url):
        return
    now = time.time_ns() // 1_000_000
    database = Database(url)
    try:
        current = active_settings.current(settings, database)
        known = {kind: channels.read_channels(database, kind) for kind in ChannelKind}
    except BridgeError:
        return  # `check_databases` reports the reason
    finally:
        database.dispose()
    loaded = {
        (kind, name)
        for kind, found in known.items()
        for name, channel in found.items()
        if channel.is_loaded(now)
    }
    enabled = [
        *(
            (ChannelKind.LISTENER, listener.name)
            for listener in current.listener
            if listener.enabled
        ),
        *(
            (ChannelKind.DESTINATION, destination.name)
            for destination in current.destination
            if destination.enabled
        ),
    ]
    for kind, name in enabled if loaded else ():  # if nothing is loaded, no node runs
        if (kind, name) not in loaded:
            message = "no running node has loaded it: bridge.toml is read when the service starts"
            yield CheckFinding(CheckSeverity.WARNING, f"{kind} {name}", message)


def _saved_in_console(
    settings: Settings, current: Settings, find_sources: SourceFinder
) -> Iterator[CheckFinding]:
    """Check connections saved in the console, and report those that override bridge.toml."""
    in_file = {(section.kind, section.name): section for section in _connections(settings)}
    for connection in _connections(current):
        before, place = (
            in_file.get((connection.kind, connection.name)),
            f"{connection.kind} {connection.name}",
        )
        if before is not None and before.settings == connection.settings:
            if before.mappings != connection.mappings:
                message = f"uses {', '.join(connection.mappings)}, as saved in the console"
                yield CheckFinding(CheckSeverity.WARNING, place, message)
            continue
        if before is not None:
            message = "the console overrides bridge.toml"
            yield CheckFinding(CheckSeverity.WARNING, place, message)
        yield from _build_parts(
            place,
            connection_checks.connection_parts(
                current, connection.kind, connection.name, find_sources
            ),
        )


class _ConnectionEntry(NamedTuple):
    """A connection; `settings` of a listener are without its `mappings`."""

    kind: ConnectionKind
    name: str
    settings: ListenerSettings | DestinationSettings | DicomPeer
    mappings: Sequence[str]


def _connections(settings: Settings) -> Iterator[_ConnectionEntry]:
    for listener in settings.listener:
        section = listener.model_copy(update={"mappings": []})
        yield _ConnectionEntry(ChannelKind.LISTENER, listener.name, section, listener.mappings)
    for destination in settings.destination:
        yield _ConnectionEntry(ChannelKind.DESTINATION, destination.name, destination, ())
    for peer in settings.dicom.peer:
        yield _ConnectionEntry(PeerKind.DICOM, peer.name, peer, ())


def _as_findings(error: SettingsError) -> list[CheckFinding]:
    return [
        CheckFinding(CheckSeverity.ERROR, mistake.place, mistake.message)
        for mistake in error.mistakes
    ]


def _mappings(home: Path) -> Iterator[CheckFinding]:
    folder = home / "mappings"
    for issue in compiler.check(folder):
        is_error = issue.severity is diagnostics.IssueSeverity.ERROR
        place = f"{folder / issue.file}:{issue.line}:{issue.column}"
        message = f"{issue.path}: {issue.message}" if issue.path else issue.message
        yield CheckFinding(
            CheckSeverity.ERROR if is_error else CheckSeverity.WARNING, place, message
        )


def _secrets(settings: Settings) -> Iterator[CheckFinding]:
    engine = settings.engine
    tokens = [settings.path(file) for file in engine.tokens.values()]
    if engine.is_internal or not tokens:
        tokens.append(settings.path(engine.token_file))
    readers: list[tuple[Path, Callable[[Path], object]]] = [(path, read_token) for path in tokens]
    if engine.is_internal:
        readers.append((settings.path(engine.link_keys_file), read_link_keys))
    for path, read in readers:
        try:
            read(path)
        except SettingsError as error:
            yield from _as_findings(error)


def exposures(settings: Settings) -> Iterator[Exposure]:
    """Find files of the installation that other accounts can access."""
    urls = dict.fromkeys([settings.database_url(), settings.engine_database_url()])
    databases = [sqlite_file(url) for url in urls if url.startswith("sqlite:///")]
    databases += [message_log_of(file) for file in databases]
    others = [Path(f"{file}{end}") for file in databases for end in _DATABASE_SUFFIXES]
    others += [settings.path(file) for file in settings.engine.tokens.values()]
    others += [settings.path(settings.engine.token_file)]
    others += [settings.path(settings.engine.link_keys_file)]
    others += [settings.path(peer.token_file) for peer in settings.dicom.peer if peer.token_file]
    if settings.retention.archive is not None:
        others.append(settings.path(settings.retention.archive))
    return find_exposures(settings.home, others)


def fix_home(home: Path) -> list[Exposure]:
    """Correct file modes; return the files that other accounts can still access."""
    try:
        found = exposures(load(home))
    except SettingsError:
        found = find_exposures(home)
    return remove_exposures(list(found))


def _deprecated(settings: Settings) -> Iterator[CheckFinding]:
    """Find settings that are accepted and have no effect."""
    for name in Settings.model_fields.keys() - {"listener", "destination"}:
        section = getattr(settings, name)
        if not isinstance(section, BaseModel):
            continue
        for key in sorted(section.model_fields_set):
            reason = type(section).model_fields[key].deprecated
            if reason:
                yield CheckFinding(CheckSeverity.WARNING, f"{name}.{key}", str(reason))


def _descriptors(settings: Settings) -> Iterator[CheckFinding]:
    """Compare the limit of file descriptors of this account with the settings."""
    place = "file descriptors"
    try:
        found = allocate_descriptors(settings, reachable_limit())
    except TooFewDescriptors as error:
        yield CheckFinding(CheckSeverity.ERROR, place, str(error))
        return
    if not found.suffice:
        yield CheckFinding(CheckSeverity.WARNING, place, found.shortage)


def _exposures(settings: Settings) -> Iterator[CheckFinding]:
    found = list(exposures(settings))
    for exposure in found[:_MAX_EXPOSURES]:
        advice = "; `bridge check --fix` corrects it" if exposure.fixable else ""
        yield CheckFinding(CheckSeverity.WARNING, str(exposure.path), f"{exposure.problem}{advice}")
    if len(found) > _MAX_EXPOSURES:
        rest = f"{len(found) - _MAX_EXPOSURES} more files are open to other users"
        yield CheckFinding(CheckSeverity.WARNING, str(settings.home), rest)


def _sites(settings: Settings) -> Iterator[CheckFinding]:
    url = settings.engine_database_url()
    if not settings.engine.is_internal or is_missing(url):
        return
    try:
        with internal_engine(settings, migrate=False) as engine:
            known = {site["SiteID"] for site in engine.call("GET", "sites")}
    except (BridgeError, SettingsError):
        return  # `check_databases` reports the reason
    for listener in settings.listener:
        if listener.site and listener.site not in known:
            message = f"there is no site {listener.site}; `bridge site add` creates it"
            yield CheckFinding(CheckSeverity.WARNING, f"listener {listener.name}", message)
    for peer in active_or_file_settings(settings).dicom.peer:
        for site in peer.sites if settings.dicom.bind is not None else ():
            if site not in {*known, "*"}:
                message = f"{peer.ae_title}: there is no site {site}"
                yield CheckFinding(CheckSeverity.WARNING, "dicom.peer", message)


def _listeners(settings: Settings) -> Iterator[CheckFinding]:
    for listener in settings.listener:
        yield from _build_parts(
            f"listener {listener.name}", connection_checks.listener_parts(settings, listener)
        )


def _destinations(settings: Settings) -> Iterator[CheckFinding]:
    for destination in settings.destination:
        place = f"destination {destination.name}"
        yield from _build_parts(place, connection_checks.destination_parts(settings, destination))


def _dicom(settings: Settings) -> Iterator[CheckFinding]:
    """Check the files and the port of DICOM, and whether anybody may use it."""
    dicom = settings.dicom
    for part in connection_checks.dicom_parts(settings):
        try:
            yield from _build_parts("dicom", [part])
        except SettingsError as error:
            yield from _as_findings(error)
    if dicom.bind is None:
        return
    peers = [peer for peer in active_or_file_settings(settings).dicom.peer if peer.enabled]
    if not peers:
        message = "there is no enabled DICOM peer: nobody may open an association"
        yield CheckFinding(CheckSeverity.WARNING, "dicom.bind", message)
    open_to_all = [peer.ae_title for peer in peers if not _ALL.isdisjoint(peer.addresses)]
    if open_to_all and dicom.tls is None:
        message = f"{', '.join(open_to_all)}: any address may use it, and the port has no TLS"
        yield CheckFinding(CheckSeverity.WARNING, "dicom.peer", message)


_ALL: Final = frozenset({"0.0.0.0/0", "::/0"})


def _worklist(settings: Settings) -> Iterator[CheckFinding]:
    parts = connection_checks.worklist_parts(settings)
    yield from _build_parts("dicom.worklist", parts)


def _tracing(settings: Settings) -> Iterator[CheckFinding]:
    if settings.tracing.endpoint:
        yield from _build_parts("tracing.endpoint", [tracing.require_sdk])


def _build_parts(place: str, parts: Sequence[Callable[[], object]]) -> Iterator[CheckFinding]:
    """Build each part as the service does; yield one finding for each distinct error."""
    messages = set()
    for part in parts:
        try:
            part()
        except MappingErrors as error:  # `_mappings` reports the mistakes of existing files
            messages |= {issue.message for issue in error.issues if issue.code == _UNKNOWN_MAPPING}
        except (BridgeError, TLSConfigurationError) as error:
            messages.add(str(error))
    for message in sorted(messages):
        yield CheckFinding(CheckSeverity.ERROR, place, message)


_LOST = "the content of {} large messages is missing; restore {} from the same backup"

_DAMAGED = "the file is damaged ({}); restore it from a backup"
_DAMAGED_LOG = "the message log is damaged ({}): see docs/reference/alerts.md"


def unreadable_databases(settings: Settings) -> dict[str, str]:
    """Return the URLs of the databases that cannot be read, with the reasons."""
    urls = [settings.database_url()]
    if settings.engine.is_internal:
        urls.append(settings.engine_database_url())
    unreadable = {}
    for url in dict.fromkeys(candidate for candidate in urls if not is_missing(candidate)):
        try:
            database = Database(url)
        except (BridgeError, ArgumentError) as error:
            unreadable[url] = str(error)
            continue
        try:
            with database.read():
                pass
        except BridgeError as error:
            unreadable[url] = str(error)
        finally:
            database.dispose()
    return unreadable


def check_databases(settings: Settings, unreadable: Mapping[str, str]) -> Iterator[CheckFinding]:
    """
    Check the bridge's database, and that of the internal engine.

    `unreadable` has the result of `unreadable_databases`.
    """
    bridge_url, place = settings.database_url(), "database.url"
    if bridge_url in unreadable:
        yield CheckFinding(CheckSeverity.ERROR, place, unreadable[bridge_url])
    else:
        yield from _migrations(place, bridge_url, "bridge.store", "alembic_version")
        yield from _durability(settings, place, bridge_url)
        yield from _large_messages(place, bridge_url)
        yield from _pages(place, bridge_url)
        if bridge_url.startswith("sqlite:///"):
            log = message_log_of(sqlite_file(bridge_url))
            if log.exists():
                yield from _pages(log.name, f"sqlite:///{log}", _DAMAGED_LOG)
        yield from _index_key(settings, bridge_url, migration.BRIDGE_TABLE)
    url = settings.engine_database_url()
    if not settings.engine.is_internal:
        return
    place = "database.engine_url"
    if url not in unreadable:
        yield from _migrations(place, url, ENGINE_PACKAGE, ENGINE_VERSIONS)
    elif url != bridge_url:
        yield CheckFinding(CheckSeverity.ERROR, place, unreadable[url])
    if url not in {*unreadable, bridge_url}:
        yield from _durability(settings, place, url)
        yield from _pages(place, url)
    if url not in unreadable:
        yield from _index_key(settings, url, migration.ENGINE_TABLE)


def _checked(
    place: str,
    url: str,
    check: Callable[[Database], Iterator[CheckFinding]],
    options: DatabaseOptions | None = None,
) -> Iterator[CheckFinding]:
    """Run a check of a database, unless its file is missing; an error is a finding."""
    if is_missing(url):
        return
    database = Database(url, options or DatabaseOptions())
    try:
        yield from check(database)
    except BridgeError as error:
        yield CheckFinding(CheckSeverity.ERROR, place, str(error))
    finally:
        database.dispose()


def _migrations(place: str, url: str, package: str, versions: str) -> Iterator[CheckFinding]:
    """Check that a database exists or can be created, and has the newest schema."""
    if is_missing(url):
        folder = sqlite_file(url).parent
        if os.access(folder, os.W_OK | os.X_OK):
            yield CheckFinding(
                CheckSeverity.WARNING, place, "does not exist yet; `bridge serve` creates it"
            )
        else:
            yield CheckFinding(CheckSeverity.ERROR, place, f"no file can be created in {folder}")

    def check(database: Database) -> Iterator[CheckFinding]:
        if not is_ready(database, package, versions):
            at = ", ".join(current(database, versions)) or "nothing"
            needs = ", ".join(heads(package))
            message = (
                f"is at {at} and needs {needs}; `bridge migrate` or `bridge serve` migrates it"
            )
            yield CheckFinding(CheckSeverity.WARNING, place, message)
        elif missing := missing_columns(database, package):
            problem = _DAMAGED.format(f"there is no column {missing[0]}")
            yield CheckFinding(CheckSeverity.ERROR, place, problem)

    yield from _checked(place, url, check)


def _durability(settings: Settings, place: str, url: str) -> Iterator[CheckFinding]:
    """Check that the server and the bridge's role on it store messages durably."""
    required = settings.database.require_synchronous

    def check(database: Database) -> Iterator[CheckFinding]:
        if required:
            yield from _synchronous(place, database)
        for problem in server_problems(database):
            severity = CheckSeverity.ERROR if problem.is_fatal else CheckSeverity.WARNING
            yield CheckFinding(severity, place, problem.text)

    yield from _checked(place, url, check, DatabaseOptions(require_synchronous=required))


def _synchronous(place: str, database: Database) -> Iterator[CheckFinding]:
    if database.dialect != "postgresql":
        message = "require_synchronous has no effect on SQLite, which has no standbys"
        yield CheckFinding(CheckSeverity.WARNING, place, message)
        return
    try:
        database.synchronous_commit.require()
    except NotSynchronous as error:
        yield CheckFinding(CheckSeverity.ERROR, place, str(error))


def _index_key(settings: Settings, url: str, table: str) -> Iterator[CheckFinding]:
    path = settings.path(settings.database.index_key_file)

    def check(database: Database) -> Iterator[CheckFinding]:
        stored = migration.fingerprint_of(database, table)
        if stored is None:
            return  # `bridge migrate` or `bridge serve` creates the key and keys the rows
        try:
            if index_key.fingerprint(read_index_key(path)) != stored:
                yield CheckFinding(CheckSeverity.ERROR, str(path), str(WrongIndexKey()))
        except SettingsError:
            yield CheckFinding(CheckSeverity.ERROR, str(path), f"cannot be read: {WrongIndexKey()}")

    yield from _checked(str(path), url, check)


def _large_messages(place: str, url: str) -> Iterator[CheckFinding]:
    """Check that the files exist in which earlier releases stored large messages."""

    def check(database: Database) -> Iterator[CheckFinding]:
        if is_ready(database, "bridge.store", "alembic_version") and (lost := count_lost(database)):
            text = _LOST.format(lost, folder_of(sqlite_file(url)))
            yield CheckFinding(CheckSeverity.ERROR, place, text)

    yield from _checked(place, url, check)


def _pages(place: str, url: str, text: str = _DAMAGED) -> Iterator[CheckFinding]:
    """Check that the pages of a SQLite file are intact. Reads the whole file."""

    def check(database: Database) -> Iterator[CheckFinding]:
        with database.read() as connection:
            problem = damage(connection) if database.dialect == "sqlite" else ""
        if problem:
            yield CheckFinding(CheckSeverity.ERROR, place, text.format(problem))

    yield from _checked(place, url, check)


def is_missing(url: str) -> bool:
    """True if a database is a SQLite file that does not exist."""
    return url.startswith("sqlite:///") and not sqlite_file(url).exists()


def sqlite_file(url: str) -> Path:
    """Return the file of a SQLite database."""
    return Path(url.removeprefix("sqlite:///"))


PLACE = "worker processes"


def check_protections() -> list[CheckFinding]:
    """Report active and missing protections of worker processes."""
    try:
        return protection_findings(HOOKS.protections())
    except WorkerError as error:
        return [CheckFinding(CheckSeverity.WARNING, PLACE, f"cannot be started: {error}")]


def protection_findings(active: Sequence[str]) -> list[CheckFinding]:
    """Report active and missing protections. With the filter, namespaces are not needed."""
    found = []
    if active:
        found.append(
            CheckFinding(CheckSeverity.NOTE, PLACE, f"active protections: {'; '.join(active)}")
        )
    else:
        text = "no protection is active: hooks run with the rights of the service"
        found.append(CheckFinding(CheckSeverity.WARNING, PLACE, text))
    missing = [protection for protection in ALL_PROTECTIONS if protection not in active]
    if FILTER in active and NAMESPACES in missing:
        missing.remove(NAMESPACES)
    if active and missing:
        text = f"not supported by this kernel or container: {'; '.join(missing)}"
        found.append(CheckFinding(CheckSeverity.WARNING, PLACE, text))
    return found


_SHARED: Final = (
    "sign-in attempts of all addresses count together, so failed attempts of a third party block "
    "browsers that are not remembered; add the proxy to http.trusted_proxies"
)


def check_sign_in(settings: Settings) -> Iterator[CheckFinding]:
    """Check the sign-in settings of the internal engine."""
    if not settings.engine.is_internal:
        return
    options = settings.sign_in
    if options.second_factor == "optional" and options.oidc is None and options.passwords:
        message = "accounts with a console role may sign in with a password alone"
        yield CheckFinding(CheckSeverity.WARNING, "sign_in.second_factor", message)
    declared = settings.http.trusted_proxies
    public = urlsplit(settings.http.public_url).hostname or ""
    trusted = Proxies(declared)
    if undeclared := [
        proxy for proxy in _undeclared_proxies(settings) if not trusted.is_trusted(proxy)
    ]:
        message = f"requests came through the undeclared proxy {', '.join(undeclared)}; {_SHARED}"
        yield CheckFinding(CheckSeverity.WARNING, "http.trusted_proxies", message)
    elif not declared and _is_loopback(settings.http.bind.host) and not _is_loopback(public):
        yield CheckFinding(
            CheckSeverity.WARNING, "http.trusted_proxies", f"behind a proxy {_SHARED}"
        )


def _undeclared_proxies(settings: Settings) -> list[str]:
    try:
        with internal_engine(settings, migrate=False) as engine:
            found: list[str] = engine.call("GET", "operator", "undeclared-proxies")
    except (BridgeError, SettingsError):
        return []  # `check_databases` reports the reason
    return found


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
