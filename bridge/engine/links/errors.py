"""
Why a sealed link cannot be read.

    LinkError
    ├── UnknownKey     sealed under a key that is no longer in the ring
    └── SealBroken     altered, or sealed for another handle, site or purpose
"""


class LinkError(Exception):
    """A sealed payload that does not open."""


class UnknownKey(LinkError):  # noqa: N818  # named for what happened
    """The key ring lacks the key that sealed this payload."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"no key {key_id!r} in the key ring")


class SealBroken(LinkError):  # noqa: N818  # named for what happened
    """The authentication tag does not match: nothing of the payload can be trusted."""

    def __init__(self) -> None:
        super().__init__("the sealed payload does not belong here or was altered")
