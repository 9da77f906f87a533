"""
File descriptors of a process: the limit, the number that the settings may need, and their shares.

Accepted connections, database connections and files need descriptors. If the limit is too low for
all of them, databases and files come first, then listeners, then HTTP. Each use has a separate
limit, so that a flood of connections of one kind never stops the others.
"""

import resource
from dataclasses import dataclass
from typing import Final

from bridge.errors import BridgeError
from config import Settings
from config.quantities import FolderAddress

MIN_LIMIT: Final = 256
"""The minimum for starting a process."""

_NOFILE: Final = resource.RLIMIT_NOFILE
# The highest soft limit that we set. A child process closes all descriptors up to its limit.
_MAX_SOFT_LIMIT: Final = 65_536
_FILES: Final = 64  # log, libraries, worker processes, reactor, files that are read
_CALLS: Final = 64  # calls to the engine over HTTP
_UNPOOLED: Final = 3  # database connections outside of the pool, for each database
_PER_CONNECTION: Final = {True: 2, False: 1}  # SQLite: the file and its log
_ACCEPTED: Final = 160  # HTTP: accepted in one turn of the loop, and the reserve for probes
_BURST: Final = 64  # listeners: accepted, and closed within the same turn
_MIN_HTTP: Final = 16


class TooFewDescriptors(BridgeError):
    """The limit leaves no room for connections."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the limit of {limit} file descriptors is too low: raise it to {MIN_LIMIT} or more "
            "(ulimit -n, LimitNOFILE of systemd)"
        )


@dataclass(frozen=True, slots=True)
class Descriptors:
    """Shares of the descriptors of a process; `needed` is the maximum that the settings may use."""

    limit: int
    needed: int
    http: int
    """Maximum number of HTTP connections."""
    http_per_source: int
    """Maximum number of HTTP connections from one source."""
    listeners: int
    """Maximum number of connections of all listeners together."""

    @property
    def suffice(self) -> bool:
        """Whether the limit is enough for all connections that the settings permit."""
        return self.needed <= self.limit

    @property
    def shortage(self) -> str:
        """Describe the consequences of a limit that is too low."""
        return (
            f"the settings may need {self.needed}, the limit is {self.limit}: HTTP gets at most "
            f"{self.http} connections, all listeners together {self.listeners}"
        )


def raise_limit() -> int:
    """Raise the soft limit of this process to the hard limit; return it."""
    soft, _ = _limits()
    wanted = reachable_limit()
    if soft < wanted:
        resource.setrlimit(_NOFILE, (wanted, resource.getrlimit(_NOFILE)[1]))
    return wanted


def reachable_limit() -> int:
    """Return the limit of a service that is started with the present limits."""
    soft, hard = _limits()
    return max(soft, min(hard, _MAX_SOFT_LIMIT))


def _limits() -> tuple[int, int]:
    soft, hard = resource.getrlimit(_NOFILE)
    unlimited = resource.RLIM_INFINITY
    return (
        _MAX_SOFT_LIMIT if soft == unlimited else soft,
        _MAX_SOFT_LIMIT if hard == unlimited else hard,
    )


def allocate_descriptors(settings: Settings, limit: int) -> Descriptors:
    """Divide a limit among the uses. Raises TooFewDescriptors."""
    if limit < MIN_LIMIT:
        raise TooFewDescriptors(limit)
    listeners = sum(
        listener.max_connections
        for listener in settings.listener
        if listener.enabled and not isinstance(listener.bind, FolderAddress)
    )
    http = settings.http.max_connections
    fixed = _fixed(settings)
    needed = fixed + listeners + _BURST + http + _ACCEPTED
    # For connections under a limit that is too low: databases and files get at most a third of it.
    left = max(limit - min(fixed, limit // 3) - _ACCEPTED * limit // 1024 - _BURST, 0)
    per_source = settings.http.max_connections_per_source
    if needed <= limit:
        return Descriptors(limit, needed, http, per_source, limit - fixed - http - _ACCEPTED)
    http_limit = max(left - listeners, left // 4, _MIN_HTTP)
    if http_limit < http:  # one source must not use all of them, unless the settings allow it
        http, per_source = (
            http_limit,
            min(per_source, http_limit // 2) if per_source < http else http_limit,
        )
    return Descriptors(limit, needed, http, per_source, max(left - http, _MIN_HTTP))


def _fixed(settings: Settings) -> int:
    """Return the number that databases, files and outgoing connections may need."""
    connections = settings.database.pool_size + settings.database.pool_overflow + _UNPOOLED
    urls = (settings.database_url(), settings.engine_database_url())
    databases = sum(connections * _PER_CONNECTION[url.startswith("sqlite:")] for url in urls)
    return databases + len(settings.destination) + len(settings.listener) + _FILES + _CALLS
