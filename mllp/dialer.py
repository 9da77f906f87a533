"""
Get a usable connection, or say why there is none.

One attempt; when to try again is not decided here.
"""

from typing import Any, Protocol, cast

from OpenSSL import SSL
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from mllp.client_connection import Link, Owner
from mllp.contract import Clock


class Endpoint(Protocol):
    """Where to connect to: any `IStreamClientEndpoint`."""

    def connect(self, factory: Any, /) -> Deferred[Any]:
        """Connect, and fire with the protocol that the factory made."""


def dial(
    endpoint: Endpoint, owner: Owner, *, clock: Clock, timeout: float, max_frame: int
) -> Deferred[Link]:
    """
    Connect, TLS handshake included, within `timeout` seconds.

    Cancelling gives the attempt up, and closes what stood already.
    """
    attempt = endpoint.connect(Factory.forProtocol(lambda: Link(owner, max_frame)))
    usable: Deferred[Link] = attempt.addCallback(_until_ready)
    return usable.addTimeout(timeout, cast(IReactorTime, clock))


def _until_ready(link: Link) -> Deferred[Link]:
    return link.ready


def cause_of(failure: Failure) -> str:
    """Say in one word, or the TLS library's own, why there is no connection."""
    error = failure.value
    if isinstance(error, SSL.Error) and error.args and error.args[0]:
        return f"TLS: {error.args[0][0][-1]}"
    return type(error).__name__
