"""
What a client learns about its peer: does it hang up after each reply?

Many do. Its good-bye then travels behind the reply, and a payload sent at once would meet it:
lost, with nobody knowing what became of it. So with such a peer we look for a moment longer.
"""

PATIENCE = 0.05


class Habits:
    """Learns from how connections end; `pause` is the seconds to look before sending."""

    __slots__ = ("pause",)

    def __init__(self) -> None:
        self.pause = 0.0

    def replied(self, exchanges: int) -> None:
        """Take note of the connection's n-th reply: after a second one it is a keeper."""
        if exchanges > 1:
            self.pause = 0.0

    def hung_up(self, exchanges: int, *, in_flight: bool) -> None:
        """Take note of an end that the peer chose after so many replies."""
        if exchanges == 1 or (exchanges and in_flight):
            self.pause = PATIENCE
