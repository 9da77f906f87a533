"""Checks of the databases: reachable, migrated, and configured for durable storage."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from sqlalchemy.exc import ArgumentError

from bridge import index_key
from bridge.admin.checks.findings import CheckFinding, CheckSeverity
from bridge.errors import BridgeError
from bridge.queue.payload_blobs import count_lost, folder_of
from bridge.store import migration
from bridge.store.database import Database
from bridge.store.errors import NotSynchronous, WrongIndexKey
from bridge.store.migration import current, heads, is_ready
from bridge.store.options import DatabaseOptions
from bridge.store.postgresql.requirements import server_problems
from bridge.store.sqlite import damage
from bridge.wiring import stores
from bridge.wiring.secrets import read_index_key
from config import Settings, SettingsError

_LOST = "the content of {} large messages is missing; restore {} from the same backup"

_DAMAGED = "the file is damaged ({}); restore it from a backup"


def unreadable_databases(settings: Settings) -> dict[str, str]:
    """Return the URLs of the databases that cannot be read, with the reasons."""
    urls = [settings.database_url()]
    if settings.engine.is_internal:
        urls.append(settings.engine_database_url())
    unreadable = {}
    for url in dict.fromkeys(each for each in urls if not is_missing(each)):
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
        yield from _index_key(settings, bridge_url, migration.BRIDGE_TABLE)
    url = settings.engine_database_url()
    if not settings.engine.is_internal:
        return
    place, package, versions = "database.engine_url", stores.ENGINE_PACKAGE, stores.ENGINE_VERSIONS
    if url not in unreadable:
        yield from _migrations(place, url, package, versions)
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

    yield from _checked(place, url, check)


def _durability(settings: Settings, place: str, url: str) -> Iterator[CheckFinding]:
    """Check that the server and the bridge's role on it store messages durably."""
    required = settings.database.require_synchronous

    def check(database: Database) -> Iterator[CheckFinding]:
        if required:
            yield from _synchronous(place, database)
        for each in server_problems(database):
            severity = CheckSeverity.ERROR if each.is_fatal else CheckSeverity.WARNING
            yield CheckFinding(severity, place, each.text)

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


def _pages(place: str, url: str) -> Iterator[CheckFinding]:
    """Check that the pages of a SQLite file are intact. Reads the whole file."""

    def check(database: Database) -> Iterator[CheckFinding]:
        with database.read() as connection:
            problem = damage(connection) if database.dialect == "sqlite" else ""
        if problem:
            yield CheckFinding(CheckSeverity.ERROR, place, _DAMAGED.format(problem))

    yield from _checked(place, url, check)


def is_missing(url: str) -> bool:
    """True if a database is a SQLite file that does not exist."""
    return url.startswith("sqlite:///") and not sqlite_file(url).exists()


def sqlite_file(url: str) -> Path:
    """Return the file of a SQLite database."""
    return Path(url.removeprefix("sqlite:///"))
