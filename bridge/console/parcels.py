"""What wiring does with interfaces as ZIP files; blocks, raises errors of the console only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Parcel:
    """
    A ZIP that somebody takes in, and why.

    `mark` stands for what was looked at; `replace`: other versions may lose their place.
    """

    data: bytes
    mark: str
    actor: str
    reason: str
    replace: bool = False


class Parcels(Protocol):
    """Interfaces that leave, and that come."""

    def pack(self, names: Sequence[str]) -> bytes:
        """Give the ZIP of listeners and destinations with their definitions. Raises Unknown."""

    def look(self, data: bytes) -> Mapping[str, Any]:
        """Say what a ZIP would change; `mark` stands for what was looked at."""

    def take_in(self, parcel: Parcel) -> Mapping[str, Any]:
        """Put it into force on all nodes. Raises Conflict where something is otherwise by now."""
