"""What the console needs of the service around it: database, channels, definitions, connections,
packages.

Answers are what the endpoints tell, ready for JSON. All but `try_out` blocks; errors are those of
the console only.

Answers are what the endpoints tell, ready for JSON; `actor` is an e-mail address. Everything
blocks, and raises errors of the console only.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bridge.console.access import AccessAdministration
from bridge.console.audit_trail import ConsoleEventQuery
from bridge.console.ownership import SubjectReader
from bridge.console.report_engine import ReportEngine
from bridge.engine_client.models import Visitor
from bridge.executors import Gate
from bridge.network_source import Proxies
from bridge.queue.listing_rows import MessageDetail
from bridge.queue.states import QueueState
from bridge.store.database import Database

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ProposedConnection:
    """What a listener or destination would be: its table as in bridge.toml; `new`: a new one."""

    kind: str
    table: JsonObject
    new: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionChange:
    """
    What somebody puts into force, and why; `begun_on` must be in force still (empty: nothing).

    Without a `table` bridge.toml has the word again; what is not in it is gone then.
    """

    kind: str
    name: str
    actor: str
    reason: str
    begun_on: str
    table: JsonObject | None = None
    new: bool = False


class Connections(Protocol):
    """Listeners and destinations, as the console says them or bridge.toml does."""

    def form(self) -> JsonObject:
        """Describe what is asked for, of both kinds, and what may be chosen."""

    def connection(self, kind: str, name: str) -> JsonObject:
        """Give one as it is in force, and what was. Raises Unknown."""

    def check(self, plan: ProposedConnection) -> JsonObject:
        """Say what is wrong with it, field by field, and what is worth a look."""

    async def try_out(self, plan: ProposedConnection) -> Sequence[JsonObject]:
        """Connect as it would be, and say what was found, step by step. Raises Mistaken."""

    def save(self, change: ConnectionChange) -> JsonObject:
        """Put it into force on all nodes. Raises Mistaken, Conflict, Impossible."""

    def rollback(self, change: ConnectionChange) -> JsonObject:
        """Put what was before into force again."""


@dataclass(frozen=True, slots=True)
class PackageImport:
    """
    A ZIP that somebody takes in, and why.

    `mark` stands for what was looked at; `replace`: other versions may lose their place.
    """

    data: bytes
    mark: str
    actor: str
    reason: str
    replace: bool = False


class InterfacePackages(Protocol):
    """Interfaces that leave, and that come."""

    def export_zip(self, names: Sequence[str]) -> bytes:
        """Give the ZIP of listeners and destinations with their definitions. Raises Unknown."""

    def preview(self, data: bytes) -> Mapping[str, Any]:
        """Say what a ZIP would change; `mark` stands for what was looked at."""

    def import_zip(self, parcel: PackageImport) -> Mapping[str, Any]:
        """Put it into force on all nodes. Raises Conflict where something is otherwise by now."""


@dataclass(frozen=True, slots=True)
class DraftEdit:
    """
    What an author has written: the files that differ, by their names in a mappings folder.

    `begun_on` is the version in force then, `revision` that of the draft it was written on.
    `code`: they may change Python.
    """

    name: str
    actor: str
    files: Mapping[str, str]
    begun_on: str
    revision: int
    code: bool = False


@dataclass(frozen=True, slots=True)
class ActivationRequest:
    """
    What somebody puts into force, and why.

    `begun_on` must be in force still; `revision` is the draft's; `listeners` are to read with the
    definition from now on. `code`: they may change Python.
    """

    name: str
    actor: str
    reason: str
    begun_on: str
    revision: int = 0
    version: str = ""
    listeners: Sequence[str] = ()
    code: bool = False


@dataclass(frozen=True, slots=True)
class CodeEntry:
    """What a code table is to say; `back`: `code` is a value, and `value` the code it has."""

    name: str
    actor: str
    table: str
    code: str
    value: str
    back: bool = False


@dataclass(frozen=True, slots=True)
class TrialMessage:
    """A message to try: its bytes, and the listener whose settings hold where it is silent."""

    payload: bytes
    listener: str = ""
    mapping: str = ""
    """The definition that a stored message was read with, and its version."""
    version: str = ""


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """Which two versions to compare, by their words, over so many stored messages."""

    name: str
    actor: str
    before: str
    after: str
    last: int
    values: bool = field(default=False)
    """Whether values are told; else only which fields differ, and how often."""
    code: bool = field(default=False)
    """Whether they may change Python."""


class DefinitionDrafts(Protocol):
    """Definitions, drafts, versions."""

    def overview(self) -> JsonObject:
        """List definitions, and who reads and writes with them."""

    def definition(self, name: str, actor: str) -> JsonObject:
        """Give a definition with its files, and the author's draft."""

    def save(self, writing: DraftEdit) -> JsonObject:
        """Keep a draft, with its mistakes named."""

    def discard(self, name: str, actor: str) -> None:
        """Throw a draft away."""

    def history(self, name: str) -> Sequence[JsonObject]:
        """List what was in force, the newest first."""

    def version(self, name: str, version: str) -> JsonObject:
        """Give the files of a version."""

    def changes_hooks(self, change: DraftEdit | ActivationRequest) -> bool:
        """Tell whether a draft, its activation or a rollback brings code that is not active."""

    def activate(self, decision: ActivationRequest) -> JsonObject:
        """Put the author's draft into force."""

    def rollback(self, decision: ActivationRequest) -> JsonObject:
        """Put an older version into force: the one named, else the one before."""

    def unmapped_codes(self, actor: str) -> Sequence[JsonObject]:
        """List codes that messages had and no table has."""

    def ignore_code(self, name: str, table: str, code: str, actor: str) -> None:
        """Note that a code stays without an entry. Raises Unknown."""

    def add_code(self, entry: CodeEntry) -> JsonObject:
        """Write an entry into the author's draft. Raises Unknown."""

    def set_listener_definitions(
        self, decision: ActivationRequest, names: Sequence[str]
    ) -> JsonObject:
        """Let a listener (`decision.name`) read with these; none: as its settings say."""


class DefinitionTrials(Protocol):
    """Trying, comparing, learning."""

    def messages_in_text(self, text: str) -> Sequence[bytes]:
        """Find the messages of a text, as they were on the wire."""

    def messages_in_file(self, data: bytes) -> Sequence[bytes]:
        """Find the messages of a file."""

    def stored_messages(self, name: str, last: int, control: str) -> Sequence[JsonObject]:
        """Give the last stored messages that a definition concerns, or those of a control id."""

    def try_out(
        self,
        name: str,
        actor: str,
        version: str,
        specimens: Sequence[TrialMessage],
        *,
        code: bool = False,
    ) -> JsonObject:
        """Give what a version makes of messages; `code`: the actor may change Python."""

    def compare(self, question: ComparisonRequest) -> JsonObject:
        """Say which stored messages come out differently."""

    def learn(self, payloads: Sequence[bytes]) -> JsonObject:
        """Propose a definition."""


_AT_ONCE, _WAITING = 2, 16


class MessageReplay(Protocol):
    """What judges stored messages by the definitions in force. Blocking; raises BridgeError."""

    def replay(self, message_id: int, chosen: QueueState | None = None) -> int:
        """
        Queue a message again; give how many later ones were applied meanwhile.

        `chosen` is the state for which it was chosen, if it was.
        """

    def faults(self, listener: str, payload: bytes) -> Sequence[Mapping[str, Any]]:
        """Say why a message would be refused."""

    def sites(self, listener: str, payload: bytes) -> frozenset[str]:
        """Give the sites that it would be of."""

    def resend(self, origin_id: int, payload: bytes, email: str, reason: str) -> int:
        """Store an edited copy of a message as a new one, and queue it; give its id."""


class Installation(Protocol):
    """What stands around the queue. Blocking."""

    def channels(self, kind: str) -> Sequence[Mapping[str, Any]]:
        """List listeners or destinations: state, activity, certificate, and which `sites`."""

    def pause(self, kind: str, name: str, by: str) -> None:
        """Stop one until it is resumed. Raises Unknown."""

    def resume(self, kind: str, name: str) -> None:
        """Let one go on. Raises Unknown."""

    def alerts(self) -> Sequence[Mapping[str, Any]]:
        """List the alerts that stand."""

    def message_replay(self) -> MessageReplay:
        """Take the definitions in force now, to judge stored messages anew."""

    def charset(self, listener: str) -> str:
        """Give the codec of a listener's messages that declare none."""

    def mapped(self, detail: MessageDetail) -> Mapping[str, Any]:
        """Give what its definition makes of a message."""


@dataclass(frozen=True, slots=True)
class PageAssets:
    """What a page of the app loads: addresses."""

    script: str
    preloads: tuple[str, ...]
    styles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConsoleContext:
    """
    Everything the routes need.

    `visitor` says who is signed in at the report service, `service` asks it in our own name;
    `probe` connects to a listener or destination and says what it found. `second_factor`: the
    console opens only to sessions with a second factor. `proxies` are those before the console.
    """

    database: Database
    installation: Installation
    subjects_of: SubjectReader
    signed_in_user: Callable[[str, bool], Awaitable[Visitor | None]]
    status: Callable[[Sequence[Mapping[str, Any]]], Awaitable[Mapping[str, str]]]
    service: ReportEngine
    probe: Callable[[str, str], Awaitable[Sequence[Mapping[str, Any]]]]
    files: Callable[[], PageAssets]
    clock: Callable[[], int]
    drafts: DefinitionDrafts
    trials: DefinitionTrials
    packages: InterfacePackages
    connections: Connections
    events: Callable[[ConsoleEventQuery], list[dict[str, Any]]]
    """Reads the audit events of the console and of commands, newest first. Blocking."""
    access: AccessAdministration
    second_factor: bool
    proxies: Proxies
    gate: Gate = field(default_factory=lambda: Gate("definitions", _AT_ONCE, _WAITING))
    """What compiles definitions goes through here, few at a time."""
