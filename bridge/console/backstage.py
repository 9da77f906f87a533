"""What the console is joined with: the database, the service, and what wiring does for it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bridge.console.access import Access
from bridge.console.connections import Connections
from bridge.console.desk import Bench, Desk
from bridge.console.ownership import Belonging
from bridge.console.parcels import Parcels
from bridge.console.service import Service
from bridge.console.trail import DeedQuery
from bridge.engine_client.models import Visitor
from bridge.executors import Gate
from bridge.network_source import Proxies
from bridge.queue.rows import MessageDetail
from bridge.queue.states import State
from bridge.store.database import Database

_AT_ONCE, _WAITING = 2, 16


class Rejudging(Protocol):
    """What judges stored messages by the definitions in force. Blocking; raises BridgeError."""

    def replay(self, message_id: int, chosen: State | None = None) -> int:
        """
        Queue a message again; give how many later ones were applied meanwhile.

        `chosen` is the state for which it was chosen, if it was.
        """

    def faults(self, listener: str, payload: bytes) -> Sequence[Mapping[str, Any]]:
        """Say why a message would be refused."""

    def sites(self, listener: str, payload: bytes) -> frozenset[str]:
        """Give the sites that it would be of."""

    def send_again(self, origin_id: int, payload: bytes, email: str, reason: str) -> int:
        """Store an edited copy of a message as a new one, and queue it; give its id."""


class Plant(Protocol):
    """What stands around the queue. Blocking."""

    def channels(self, kind: str) -> Sequence[Mapping[str, Any]]:
        """List listeners or destinations: state, activity, certificate, and which `sites`."""

    def pause(self, kind: str, name: str, by: str) -> None:
        """Stop one until it is resumed. Raises Unknown."""

    def resume(self, kind: str, name: str) -> None:
        """Let one go on. Raises Unknown."""

    def alerts(self) -> Sequence[Mapping[str, Any]]:
        """List the alerts that stand."""

    def rejudging(self) -> Rejudging:
        """Take the definitions in force now, to judge stored messages anew."""

    def charset(self, listener: str) -> str:
        """Give the codec of a listener's messages that declare none."""

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
    """
    Everything the routes need.

    `visitor` says who is signed in at the report service, `service` asks it in our own name;
    `probe` connects to a listener or destination and says what it found. `second_factor`: the
    console opens only to sessions with a second factor. `proxies` are those before the console.
    """

    database: Database
    plant: Plant
    belonging: Belonging
    visitor: Callable[[str, bool], Awaitable[Visitor | None]]
    status: Callable[[Sequence[Mapping[str, Any]]], Awaitable[Mapping[str, str]]]
    service: Service
    probe: Callable[[str, str], Awaitable[Sequence[Mapping[str, Any]]]]
    files: Callable[[], Files]
    clock: Callable[[], int]
    desk: Desk
    bench: Bench
    parcels: Parcels
    connections: Connections
    events: Callable[[DeedQuery], list[dict[str, Any]]]
    """Reads the audit events of the console and of commands, newest first. Blocking."""
    access: Access
    second_factor: bool
    proxies: Proxies
    gate: Gate = field(default_factory=lambda: Gate("definitions", _AT_ONCE, _WAITING))
    """What compiles definitions goes through here, few at a time."""
