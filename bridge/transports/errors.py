"""
What can go wrong with folders and HL7 over HTTP, beyond what `mllp.errors` names.

* TransportError
    * NoAcknowledgment      an HTTP answer came, and no HL7 acknowledgment in it
    * FolderUnusable        a folder cannot be made, read or written
    * AuthorizationUnusable the file of an Authorization header cannot be read
"""

# ruff: noqa: N818  # named for what happened, as the field does

from bridge.errors import BridgeError


class TransportError(BridgeError):
    """A transport of ours cannot do its work."""


class NoAcknowledgment(TransportError):
    """The receiver answered with an HTTP status and nothing that HL7 would call an answer."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"HTTP status {status} and no acknowledgment")


class FolderUnusable(TransportError):
    """A folder of the settings cannot be used; `reason` is the operating system's."""

    def __init__(self, owner: str, reason: str) -> None:
        super().__init__(f"{owner}: the folder cannot be used: {reason}")


class AuthorizationUnusable(TransportError):
    """The file that holds an Authorization header cannot be read, or is no single line."""

    def __init__(self, owner: str, reason: str) -> None:
        super().__init__(f"{owner}: authorization_file {reason}")
