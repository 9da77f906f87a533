"""
Transports besides MLLP: folders, and HL7 over HTTP, for listeners and destinations.

They have the same delivery guarantees as MLLP. Errors, in addition to `mllp.errors`:

* TransportError
    * NoAcknowledgment      an HTTP response without an HL7 acknowledgment
    * AuthorizationUnusable the file of an Authorization header cannot be read
"""

from typing import Protocol

from twisted.internet.defer import Deferred

from bridge.errors import BridgeError


class MessageSender(Protocol):
    """The connection of a destination: an MLLP client, a folder, or an HTTP client."""

    def send(self, payload: bytes) -> Deferred[bytes]:
        """
        Send one message; the result is its reply.

        Fails with `mllp.errors.NotConnected` or `ReplyLost`, or with NoAcknowledgment.
        """

    def close(self) -> Deferred[None]:
        """Close the connection for good."""


class TransportError(BridgeError):
    """A transport failed."""


class NoAcknowledgment(TransportError):
    """The receiver sent an HTTP response without an HL7 acknowledgment."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"HTTP status {status} and no acknowledgment")


class AuthorizationUnusable(TransportError):
    """The file with an Authorization header cannot be read, or is not a single line."""

    def __init__(self, owner: str, reason: str) -> None:
        super().__init__(f"{owner}: authorization_file {reason}")
