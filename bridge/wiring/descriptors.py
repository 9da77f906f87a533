"""
File descriptors of a process: the limit, what the settings may need, and how they are shared.

A connection that is accepted needs one, and so do database connections and files. Where the limit
cannot cover everything, databases and files are covered first, then the listeners, then HTTP: each
gets a ceiling of its own, so that a flood of one never stops the others.
"""

import resource
from dataclasses import dataclass
from typing import Final

from bridge.errors import BridgeError
from config import Settings
from config.addresses import FolderAddress

LEAST: Final = 256
"""Descriptors without which no process is started."""

_NOFILE: Final = resource.RLIMIT_NOFILE
_ENOUGH: Final = 65_536  # the soft limit is raised no further: closing them all takes time
_FILES: Final = 64  # log, libraries, worker processes, reactor, files that are read
_CALLS: Final = 64  # of the engine over HTTP
_UNPOOLED: Final = 3  # database connections outside of the pool, for each database
_PER_CONNECTION: Final = {True: 2, False: 1}  # SQLite: the file and its log
_ACCEPTED: Final = 160  # HTTP: accepted in one turn of the loop, and the reserve for probes
_BURST: Final = 64  # listeners: accepted, and closed within the same turn
_LEAST_HTTP: Final = 16


class TooFewDescriptors(BridgeError):  # noqa: N818  # named for what happened
    """The limit leaves no room for connections."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the limit of {limit} file descriptors is too low: raise it to {LEAST} or more "
            "(ulimit -n, LimitNOFILE of systemd)"
        )


@dataclass(frozen=True, slots=True)
class Descriptors:
    """How the descriptors of a process are shared; `needed` is what the settings may use."""

    limit: int
    needed: int
    http: int
    """Connections of the HTTP side at a time."""
    listeners: int
    """Connections of all listeners together at a time."""

    @property
    def suffice(self) -> bool:
        """Whether no ceiling is below what the settings say."""
        return self.needed <= self.limit

    @property
    def shortage(self) -> str:
        """Say what the limit leads to where it does not suffice."""
        return (
            f"the settings may need {self.needed}, the limit is {self.limit}: HTTP gets at most "
            f"{self.http} connections, all listeners together {self.listeners}"
        )


def raise_limit() -> int:
    """Raise the soft limit of this process to the hard one; give it."""
    soft, _ = _limits()
    wanted = reachable_limit()
    if soft < wanted:
        resource.setrlimit(_NOFILE, (wanted, resource.getrlimit(_NOFILE)[1]))
    return wanted


def reachable_limit() -> int:
    """Give the limit that a process started from here would have."""
    soft, hard = _limits()
    return max(soft, min(hard, _ENOUGH))


def _limits() -> tuple[int, int]:
    soft, hard = resource.getrlimit(_NOFILE)
    unlimited = resource.RLIM_INFINITY
    return _ENOUGH if soft == unlimited else soft, _ENOUGH if hard == unlimited else hard


def share(settings: Settings, limit: int) -> Descriptors:
    """Divide a limit. Raises TooFewDescriptors."""
    if limit < LEAST:
        raise TooFewDescriptors(limit)
    listeners = sum(
        each.max_connections
        for each in settings.listener
        if each.enabled and not isinstance(each.bind, FolderAddress)
    )
    http = settings.http.max_connections
    fixed = _fixed(settings)
    needed = fixed + listeners + _BURST + http + _ACCEPTED
    left = max(limit - min(fixed, limit // 3) - _ACCEPTED * limit // 1024 - _BURST, 0)
    if needed <= limit:
        return Descriptors(limit, needed, http, limit - fixed - http - _ACCEPTED)
    most = max(left - listeners, left // 4, _LEAST_HTTP)
    http = min(http, most)
    return Descriptors(limit, needed, http, max(left - http, _LEAST_HTTP))


def _fixed(settings: Settings) -> int:
    """Count what databases, files and outgoing connections may need."""
    pool = settings.database.pool_size + settings.database.pool_overflow + _UNPOOLED
    urls = (settings.database_url(), settings.engine_database_url())
    databases = sum(pool * _PER_CONNECTION[each.startswith("sqlite:")] for each in urls)
    return databases + len(settings.destination) + len(settings.listener) + _FILES + _CALLS
