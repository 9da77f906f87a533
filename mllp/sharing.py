"""
A port that several processes of one machine listen on: the kernel deals the connections out.

SO_REUSEPORT. All of them must ask for it, and run as one user. Linux and BSDs.
"""

import socket
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IStreamServerEndpoint
from twisted.protocols.tls import TLSMemoryBIOFactory
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types


@implementer(IStreamServerEndpoint)
class SharedPort:
    """Where to listen, beside others; with TLS where `tls` is given (its context factory)."""

    def __init__(
        self, reactor: Any, host: str, port: int, *, backlog: int, tls: Any = None
    ) -> None:
        self._reactor = reactor
        self._host, self._port = host, port
        self._backlog = backlog
        self._tls = tls

    def listen(self, protocolFactory: Any) -> Deferred[Any]:  # noqa: N803  # Twisted's name
        """Listen; fires with the port, or fails with CannotListenError."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        factory = protocolFactory
        if self._tls is not None:
            factory = TLSMemoryBIOFactory(self._tls, False, factory)
        with socket.socket(family, socket.SOCK_STREAM) as made:
            made.setblocking(False)
            try:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                made.bind((self._host, self._port))
                made.listen(self._backlog)
            except OSError as error:
                return fail(CannotListenError(self._host, self._port, error))  # type: ignore[no-untyped-call]
            # It keeps a duplicate of the descriptor.
            return succeed(self._reactor.adoptStreamPort(made.fileno(), family, factory))
