"""Errors of backups."""

from bridge.errors import BridgeError


class BackupFailed(BridgeError):
    """A backup cannot be written, or is not complete."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no backup: {reason}")


class NotRestored(BridgeError):
    """A backup cannot be restored; nothing is left of the attempt."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not restored: {reason}")
