"""What wiring does with interfaces as ZIP files; blocks, raises errors of the console only."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Parcels(Protocol):
    """Interfaces that leave, and that come."""

    def pack(self, names: Sequence[str]) -> bytes:
        """Give the ZIP of listeners and destinations with their definitions. Raises Unknown."""

    def look(self, data: bytes) -> Mapping[str, Any]:
        """Say what a ZIP would change; `mark` stands for what was looked at."""

    def take_in(self, data: bytes, mark: str, *, replace: bool) -> Mapping[str, Any]:
        """Write what was said. Raises Conflict where something is otherwise by now."""
