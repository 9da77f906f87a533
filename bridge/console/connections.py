"""
What wiring does for those who set up listeners and destinations: forms, checks, history.

Answers are what the endpoints tell, ready for JSON. All but `try_out` blocks; errors are those of
the console only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Told = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a listener or destination would be: its table as in bridge.toml; `new`: a new one."""

    kind: str
    table: Told
    new: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """
    What somebody puts into force, and why; `begun_on` must be in force still (empty: nothing).

    Without a `table` bridge.toml has the word again; what is not in it is gone then.
    """

    kind: str
    name: str
    actor: str
    reason: str
    begun_on: str
    table: Told | None = None
    new: bool = False


class Connections(Protocol):
    """Listeners and destinations, as the console says them or bridge.toml does."""

    def form(self) -> Told:
        """Describe what is asked for, of both kinds, and what may be chosen."""

    def connection(self, kind: str, name: str) -> Told:
        """Give one as it is in force, and what was. Raises Unknown."""

    def check(self, plan: Plan) -> Told:
        """Say what is wrong with it, field by field, and what is worth a look."""

    async def try_out(self, plan: Plan) -> Sequence[Told]:
        """Connect as it would be, and say what was found, step by step. Raises Mistaken."""

    def save(self, change: Change) -> Told:
        """Put it into force on all nodes. Raises Mistaken, Conflict, Impossible."""

    def rollback(self, change: Change) -> Told:
        """Put what was before into force again."""
