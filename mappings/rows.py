"""
Places: which segments of a message belong together, by their position and by their name.

Positions alone: the texts are the message's, and are split when a rule first asks for a field.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

Positions = Sequence[int]


class Places:
    """Which segments of a message belong together: their positions in order, and by their name."""

    __slots__ = ("filed", "order")

    def __init__(self, order: Positions, filed: Mapping[str, Positions]) -> None:
        """Take positions in the message, and the same by name."""
        self.order = order
        self.filed = filed

    @classmethod
    def of(cls, order: Positions, names: Sequence[str]) -> "Places":
        """File positions in the message; `names` are those of all its segments."""
        filed: dict[str, list[int]] = {}
        for place in order:
            filed.setdefault(names[place], []).append(place)
        return cls(order, filed)


class Filed(Protocol):
    """Positions of segments by their name: a dict, or several in turn."""

    def get(self, name: str, /) -> Positions | None:
        """Return the positions of a name's segments; None or nothing where there is none."""


class InTurn:
    """Positions by name: the first of two that has any."""

    __slots__ = ("_far", "_near")

    def __init__(self, near: Filed, far: Filed) -> None:
        self._near = near
        self._far = far

    def get(self, name: str, /) -> Positions | None:
        """Return the positions of a name's segments."""
        return self._near.get(name) or self._far.get(name)


def behind(places: Positions, anchor: str, names: Sequence[str]) -> Iterator[int]:
    """Choose those that follow a segment of another name, alone or after others of their own."""
    before, followed = -1, ""
    for place in places:
        if place - 1 != before or before < 0:
            back = place - 1
            while back >= 0 and names[back] == names[place]:
                back -= 1
            followed = names[back] if back >= 0 else ""
        before = place
        if followed == anchor:
            yield place
