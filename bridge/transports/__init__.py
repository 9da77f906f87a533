"""
Transports besides MLLP: folders, and HL7 over HTTP, for listeners and destinations.

They have the same delivery guarantees as MLLP.
"""

from typing import Protocol

from twisted.internet.defer import Deferred


class MessageSender(Protocol):
    """The connection of a destination: an MLLP client, a folder, or an HTTP client."""

    def send(self, payload: bytes) -> Deferred[bytes]:
        """
        Send one message; the result is its reply.

        Fails with `mllp.errors.NotConnected` or `ReplyLost`, or with NoAcknowledgment.
        """

    def close(self) -> Deferred[None]:
        """Close the connection for good."""
