"""What the console is joined with: the database, the service, and what wiring does for it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bridge.engine_client.visiting import Visitor
from bridge.queue.rows import MessageDetail
from bridge.store.database import Database


class Plant(Protocol):
    """What stands around the queue. Blocking."""

    def channels(self, kind: str) -> Sequence[Mapping[str, Any]]:
        """List listeners or destinations with their state, activity and certificate."""

    def pause(self, kind: str, name: str, by: str) -> None:
        """Stop one until it is resumed. Raises Unknown."""

    def resume(self, kind: str, name: str) -> None:
        """Let one go on. Raises Unknown."""

    def alerts(self) -> Sequence[Mapping[str, Any]]:
        """List the alerts that stand."""

    def replay(self, message_id: int) -> int:
        """Queue a message again, judged anew; give how many later ones were applied meanwhile."""

    def mapped(self, detail: MessageDetail) -> Mapping[str, Any]:
        """Give what its definition makes of a message."""


@dataclass(frozen=True, slots=True)
class Files:
    """What a page of the app loads: addresses."""

    script: str
    preloads: tuple[str, ...]
    styles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Backstage:
    """Everything the routes need; `visitor` says who is signed in at the report service."""

    database: Database
    plant: Plant
    visitor: Callable[[str, bool], Awaitable[Visitor | None]]
    status: Callable[[Sequence[Mapping[str, Any]]], Awaitable[Mapping[str, str]]]
    files: Callable[[], Files]
    clock: Callable[[], int]
