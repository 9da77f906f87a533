"""
Why a result cannot be composed.

* CompositionError
    * NothingToSay    no definition of the destination has a message for the event
    * NotSigned       the report is not signed (any more)
    * UnknownCode     a code table of the definition lacks a code, and refuses it
    * Unsettled       the report changed each time it was read
    * NothingOwed     there is nothing to tell any more
        * NeverTold   the receiver was never told what would have to be taken back
        * Gone        what was to be told of is not there any more: it was deleted, or recalled
"""

# ruff: noqa: N818  # named for what happened, as the field does

from bridge.errors import BridgeError


class CompositionError(BridgeError):
    """There is no message to send; trying again would not make one."""

    code = "not_composed"


class NothingToSay(CompositionError):
    """No definition of the destination has a message for an event."""

    code = "no_definition"

    def __init__(self, event: str) -> None:
        """Name the event."""
        super().__init__(f"no definition has a message for {event}")


class NotSigned(CompositionError):
    """The report service says that the report is not signed."""

    code = "not_signed"

    def __init__(self) -> None:
        """Say so."""
        super().__init__("the report is not signed any more")


class UnknownCode(CompositionError):
    """A code table lacks a code, and its definition says `unknown: refuse`."""

    code = "unknown_code"


class Unsettled(CompositionError):
    """The report's text and its files never said the same."""

    code = "unsettled"

    def __init__(self) -> None:
        """Say so."""
        super().__init__("the report changed each time it was read")


class NothingOwed(CompositionError):
    """There is nothing to tell any more, and nobody has to look."""


class NeverTold(NothingOwed):
    """There is nothing to take back."""

    code = "never_told"

    def __init__(self) -> None:
        """Say so."""
        super().__init__("the receiver was never told of the report")


class Gone(NothingOwed):
    """A preliminary report or an early addendum is no more before anybody was told of it."""

    code = "gone"

    def __init__(self) -> None:
        """Say so."""
        super().__init__("what was to be told of is not there any more")
