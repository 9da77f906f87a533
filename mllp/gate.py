"""
Whether a connection is read: it is, while nobody has a reason to hold it.

The reasons are independent; the transport is told only when the first comes or the last goes.
"""

from enum import Enum, auto

from mllp.wire import Wire


class Hold(Enum):
    """Why a connection is not read."""

    WINDOW = auto()
    """As many frames are in hand as may be."""
    MEMORY = auto()
    """All memory for unfinished frames is in use."""
    OUTPUT = auto()
    """The peer does not take our replies."""
    OPERATOR = auto()
    """The listener is paused."""
    ENDING = auto()
    """No further frame is wanted."""


class Gate:
    """The reasons to hold one connection."""

    __slots__ = ("_wire", "holds")

    def __init__(self) -> None:
        self.holds: set[Hold] = set()
        """Empty: the connection is read. Look, but change it by the methods only."""
        self._wire: Wire | None = None

    def attach(self, wire: Wire) -> None:
        """Govern this transport from now on."""
        self._wire = wire
        if self.holds:
            wire.pauseProducing()

    def detach(self) -> None:
        """Leave the transport alone: there is nothing more to read, or we no longer decide."""
        self._wire = None

    def hold(self, reason: Hold) -> None:
        """Stop reading, if nobody has already."""
        if not self.holds and self._wire is not None:
            self._wire.pauseProducing()
        self.holds.add(reason)

    def let_go(self, reason: Hold) -> bool:
        """Read again, if this was the last reason; say whether it was."""
        if reason not in self.holds:
            return False
        self.holds.remove(reason)
        if self.holds:
            return False
        if self._wire is not None:
            self._wire.resumeProducing()
        return True
