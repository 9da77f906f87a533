"""
What can be wrong with a message profile.

* ProfileUnusable   the file cannot be read, or is no HL7 v2 conformance profile
"""

from bridge.errors import BridgeError


class ProfileUnusable(BridgeError):  # noqa: N818  # named for what happened
    """A message profile cannot be used; `reason` never quotes the file."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"profile {file}: {reason}")
