"""
TLS files that are exchanged while connections stand: each new connection gets today's.

Looks at the files' times when a connection begins; those that stand keep what they have. Files
that do not fit together (half of a pair is written), or may not be read yet, change nothing until
they do.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from zope.interface import implementer  # type: ignore[import-untyped]

from mllp.errors import TLSConfigurationError

_Stamp = tuple[int, int, int, int]
Trouble = Callable[[TLSConfigurationError], object]


class Reloading:
    """Options made of files, made anew when the files change and can be used."""

    def __init__(self, make: Callable[[], Any], files: Sequence[Path], trouble: Trouble) -> None:
        """Make them; raises TLSConfigurationError. Later `trouble` is told, once a change."""
        self._make = make
        self._files = tuple(files)
        self._trouble = trouble
        self._seen = self._stamp()
        self._options = make()

    @property
    def options(self) -> Any:
        """Today's options."""
        seen = self._stamp()
        if seen != self._seen:
            self._seen = seen
            try:
                self._options = self._make()
            except TLSConfigurationError as error:
                self._trouble(error)
        return self._options

    def _stamp(self) -> tuple[_Stamp | None, ...]:
        return tuple(map(_stamp, self._files))


class ReloadingServer(Reloading):
    """What a listener needs, from `tls.server_options`."""

    def getContext(self) -> Any:  # noqa: N802  # Twisted's name
        """Give the context of the next connection."""
        return self.options.getContext()


@implementer(IOpenSSLClientConnectionCreator)
class ReloadingClient(Reloading):
    """What a sender needs, from `tls.client_options`."""

    def clientConnectionForTLS(self, protocol: Any) -> Any:  # noqa: N802  # Twisted's name
        """Give the TLS side of the next connection."""
        return self.options.clientConnectionForTLS(protocol)


def _stamp(file: Path) -> _Stamp | None:
    """Give what changes with a file: its bytes, or (`st_ctime`) who may read it."""
    try:
        seen = file.stat()
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino
