"""
`bridge check`: everything of a home that can be wrong, looked at without changing anything.

An error keeps the service from starting or from doing what is set; a warning is worth a look.
"""

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from sqlalchemy.exc import ArgumentError

from bridge.engine.service.sites import list_sites
from bridge.errors import BridgeError
from bridge.observability.metrics import Metrics
from bridge.store.database import Database
from bridge.store.migrate import current, heads, is_ready
from bridge.wiring import delivery, intake, senders, stores
from bridge.wiring.secret_files import read_link_keys, read_token
from bridge.wiring.validation import validator
from config import Settings, SettingsError, load
from config.addresses import FolderAddress, Where
from mappings import compiler
from mappings import events as mapping_events
from mappings.errors import MappingErrors
from mllp.errors import TLSConfigurationError

_CONNECT_SECONDS: Final = 2.0
_READABLE_BY_OTHERS: Final = 0o077


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing, and where it stands."""

    severity: Severity
    place: str
    message: str


def check_home(home: Path) -> list[Finding]:
    """Look at everything; return what was found, errors first."""
    try:
        settings = load(home)
    except SettingsError as error:
        return _errors(error)
    looks: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
        _mappings,
        _secrets,
        _databases,
        _listeners,
        _destinations,
    )
    found = [finding for look in looks for finding in look(settings)]
    return sorted(found, key=lambda each: each.severity is not Severity.ERROR)


def _errors(error: SettingsError) -> list[Finding]:
    return [Finding(Severity.ERROR, each.place, each.message) for each in error.mistakes]


def _mappings(settings: Settings) -> Iterator[Finding]:
    folder = settings.home / "mappings"
    for issue in compiler.check(folder):
        wrong = issue.severity is mapping_events.Severity.ERROR
        place = f"{folder / issue.file}:{issue.line}:{issue.column}"
        message = f"{issue.path}: {issue.message}" if issue.path else issue.message
        yield Finding(Severity.ERROR if wrong else Severity.WARNING, place, message)


def _secrets(settings: Settings) -> Iterator[Finding]:
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
            yield from _errors(error)
            continue
        if path.stat().st_mode & _READABLE_BY_OTHERS:
            yield Finding(Severity.WARNING, str(path), "others can read it: chmod 600")


def _databases(settings: Settings) -> Iterator[Finding]:
    yield from _database("database.url", settings.database_url(), "bridge.store", "alembic_version")
    if not settings.engine.is_internal:
        return
    url = settings.engine_database_url()
    package, versions = stores.ENGINE_PACKAGE, stores.ENGINE_VERSIONS
    yield from _database("database.engine_url", url, package, versions)
    yield from _sites(settings)


def _database(place: str, url: str, package: str, versions: str) -> Iterator[Finding]:
    if _missing(url):
        yield Finding(Severity.WARNING, place, "does not exist yet; `bridge serve` makes it")
        return
    try:
        database = Database(url)
    except (BridgeError, ArgumentError) as error:
        yield Finding(Severity.ERROR, place, str(error))
        return
    try:
        if not is_ready(database, package, versions):
            at, needs = (
                ", ".join(current(database, versions)) or "nothing",
                ", ".join(heads(package)),
            )
            message = f"is at {at} and needs {needs}; `bridge migrate` or `bridge serve` does it"
            yield Finding(Severity.WARNING, place, message)
    except BridgeError as error:
        yield Finding(Severity.ERROR, place, str(error))
    finally:
        database.dispose()


def _missing(url: str) -> bool:
    return url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists()


def _sites(settings: Settings) -> Iterator[Finding]:
    url = settings.engine_database_url()
    if _missing(url):
        return
    database = Database(url)
    try:
        with database.read() as connection:
            known = {site.site_id for site in list_sites(connection, None)}
    except BridgeError:
        return  # `_database` has said why
    finally:
        database.dispose()
    for listener in settings.listener:
        if listener.site and listener.site not in known:
            message = f"there is no site {listener.site}; `bridge site add` makes it"
            yield Finding(Severity.WARNING, f"listener {listener.name}", message)


def _listeners(settings: Settings) -> Iterator[Finding]:
    for listener in settings.listener:
        place = f"listener {listener.name}"
        try:
            intake.compiled(settings, listener)
            validator(settings, listener, Metrics())
            if listener.tls is not None:
                intake.tls_options(settings, listener.tls)
        except MappingErrors:
            continue  # `_mappings` has named every mistake
        except (BridgeError, TLSConfigurationError) as error:
            yield Finding(Severity.ERROR, place, str(error))


def _destinations(settings: Settings) -> Iterator[Finding]:
    for chosen in settings.destination:
        place = f"destination {chosen.name}"
        try:
            delivery.destination(settings, chosen)
            senders.tls_options(settings, chosen)
        except MappingErrors:
            continue
        except (BridgeError, TLSConfigurationError) as error:
            yield Finding(Severity.ERROR, place, str(error))
            continue
        yield from _reachable(place, chosen.address)


def _reachable(place: str, address: Where) -> Iterator[Finding]:
    if isinstance(address, FolderAddress):
        return
    try:
        socket.create_connection((address.host, address.port), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        reason = error.strerror or "no answer"
        where = f"{address.host}:{address.port}"
        yield Finding(Severity.WARNING, place, f"nobody answers at {where}: {reason}")
