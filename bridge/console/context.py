"""
The context of the console's routes: everything that the composition root injects.

The Protocols are implemented in `bridge.admin`. Their methods block, except coroutines, raise only
errors of the console, and return response bodies that are ready for JSON. `actor` is an e-mail
address. `begun_on` is the version on which the user's change is based; if another version is
active, the change is refused.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bridge.console.access import AccessAdministration, ReportEngine
from bridge.console.actions import ConsoleEventQuery
from bridge.console.message_index import SubjectReader
from bridge.engine_client.models import SignedInUser
from bridge.executors import ConcurrencyLimit
from bridge.network_source import Proxies
from bridge.queue.listing_rows import MessageDetail
from bridge.queue.states import QueueState
from bridge.store.database import Database

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ProposedConnection:
    """Settings of a listener or destination to check; `new`: the name must be free."""

    kind: str
    table: JsonObject
    """The table as in bridge.toml."""
    new: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionChange:
    """
    New settings of a listener or destination, with the reason.

    Without a `table`, the settings of bridge.toml apply again, or the connection is removed.
    """

    kind: str
    name: str
    actor: str
    reason: str
    begun_on: str
    table: JsonObject | None = None
    new: bool = False


class Connections(Protocol):
    """Listeners and destinations, configured in the console or in bridge.toml."""

    def form(self) -> JsonObject:
        """Describe the settings of both kinds, and the choices for each."""

    def connection(self, kind: str, name: str) -> JsonObject:
        """Return the active settings of a connection and their history. Raises NoSuchItem."""

    def check(self, plan: ProposedConnection) -> JsonObject:
        """Return errors and warnings by field."""

    async def try_out(self, plan: ProposedConnection) -> Sequence[JsonObject]:
        """Connect with these settings; return the steps of the test. Raises InvalidContent."""

    def save(self, change: ConnectionChange) -> JsonObject:
        """Activate settings on all nodes. Raises InvalidContent, ChangeConflict, InvalidState."""

    def rollback(self, change: ConnectionChange) -> JsonObject:
        """Activate the previous settings."""


@dataclass(frozen=True, slots=True)
class PackageImport:
    """
    An interface package to import, with the reason.

    `mark` identifies the preview that the user saw; `replace`: existing files may be replaced.
    """

    data: bytes
    mark: str
    actor: str
    reason: str
    replace: bool = False


class InterfacePackages(Protocol):
    """Export and import of interface packages."""

    def export_zip(self, names: Sequence[str]) -> bytes:
        """Return listeners and destinations with their definitions. Raises NoSuchItem."""

    def preview(self, data: bytes) -> JsonObject:
        """Return what an import of the ZIP file would change; `mark` identifies this preview."""

    def import_zip(self, package: PackageImport) -> JsonObject:
        """Activate a package on all nodes. Raises ChangeConflict if the preview is outdated."""


@dataclass(frozen=True, slots=True)
class DraftEdit:
    """
    The changed files of a draft, by their names in a mappings folder.

    `revision` is the stored revision that the edit is based on. `code`: the actor has the
    permission `code`, to change Python hooks.
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
    A version to activate, with the reason: a draft, or an older `version` for a rollback.

    `revision` is that of the draft. `listeners` use the definition first from then on. `code`: the
    actor has the permission `code`.
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
    """A new entry of a code table; `back`: the unmapped value is `value`, and `code` is new."""

    name: str
    actor: str
    table: str
    code: str
    value: str
    back: bool = False


@dataclass(frozen=True, slots=True)
class TrialMessage:
    """A message to try; the settings of `listener` supply defaults such as site and charset."""

    payload: bytes
    listener: str = ""
    mapping: str = ""
    """The definition that read a stored message, and its version."""
    version: str = ""


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """Two versions to compare on the `last` stored messages."""

    name: str
    actor: str
    before: str
    after: str
    last: int
    values: bool = field(default=False)
    """Whether the result contains field values; else field names and counts."""
    code: bool = field(default=False)
    """Whether the actor has the permission `code`."""


class DefinitionDrafts(Protocol):
    """Definitions with their drafts, versions and unmapped codes."""

    def overview(self) -> JsonObject:
        """List definitions, and the listeners and destinations that use them."""

    def definition(self, name: str, actor: str) -> JsonObject:
        """Return a definition with its files, and the actor's draft."""

    def save(self, writing: DraftEdit) -> JsonObject:
        """Store a draft, also with errors; return the errors."""

    def discard(self, name: str, actor: str) -> None:
        """Delete a draft."""

    def history(self, name: str) -> Sequence[JsonObject]:
        """List the activations of a definition, newest first."""

    def version(self, name: str, version: str) -> JsonObject:
        """Return the files of a version."""

    def changes_hooks(self, change: DraftEdit | ActivationRequest) -> bool:
        """Tell whether a change contains Python code that the active version does not."""

    def activate(self, decision: ActivationRequest) -> JsonObject:
        """Activate the actor's draft."""

    def rollback(self, decision: ActivationRequest) -> JsonObject:
        """Activate the named older version, or the previous one."""

    def unmapped_codes(self, actor: str) -> Sequence[JsonObject]:
        """List codes of messages that have no entry in a code table."""

    def ignore_code(self, name: str, table: str, code: str, actor: str) -> None:
        """Record that a code stays without an entry. Raises NoSuchItem."""

    def add_code(self, entry: CodeEntry) -> JsonObject:
        """Add an entry to the actor's draft. Raises NoSuchItem."""

    def set_listener_definitions(
        self, decision: ActivationRequest, names: Sequence[str]
    ) -> JsonObject:
        """Set the definitions of listener `decision.name`; an empty list: as in its settings."""


class DefinitionTrials(Protocol):
    """Trials and comparisons of definitions on sample messages; inference from samples."""

    def messages_in_text(self, text: str) -> Sequence[bytes]:
        """Return the messages in a pasted text, as they were on the wire."""

    def messages_in_file(self, data: bytes) -> Sequence[bytes]:
        """Return the messages in an uploaded file."""

    def stored_messages(self, name: str, last: int, control: str) -> Sequence[JsonObject]:
        """Return the last stored messages of a definition, or those with a control id."""

    def try_out(
        self,
        name: str,
        actor: str,
        version: str,
        specimens: Sequence[TrialMessage],
        *,
        code: bool = False,
    ) -> JsonObject:
        """Map messages with a version; `code`: the actor has the permission `code`."""

    def compare(self, question: ComparisonRequest) -> JsonObject:
        """Return the stored messages whose results differ between two versions."""

    def learn(self, payloads: Sequence[bytes]) -> JsonObject:
        """Infer a definition from sample messages."""


_CONCURRENT, _WAITING = 2, 16


class MessageReplay(Protocol):
    """Replays stored messages with the active definitions. Raises BridgeError."""

    def replay(self, message_id: int, chosen: QueueState | None = None) -> int:
        """
        Queue a message again; return how many later messages of its lanes were applied already.

        If `chosen` is given, the message must still be in this state.
        """

    def faults(self, listener: str, payload: bytes) -> Sequence[JsonObject]:
        """Return the reasons for which a message would be refused."""

    def sites(self, listener: str, payload: bytes) -> frozenset[str]:
        """Return the sites that a message would belong to."""

    def resend(self, origin_id: int, payload: bytes, email: str, reason: str) -> int:
        """Store an edited message as a new one, and queue it; return its id."""


class Installation(Protocol):
    """The running installation: channels, alerts and stored messages."""

    def channels(self, kind: str) -> Sequence[JsonObject]:
        """List listeners or destinations with state, activity, certificate and `sites`."""

    def pause(self, kind: str, name: str, by: str) -> None:
        """Pause a listener or destination. Raises NoSuchItem."""

    def resume(self, kind: str, name: str) -> None:
        """Resume a listener or destination. Raises NoSuchItem."""

    def alerts(self) -> Sequence[JsonObject]:
        """List the active alerts."""

    def message_replay(self) -> MessageReplay:
        """Load the active definitions for replays."""

    def charset(self, listener: str) -> str:
        """Return the codec of a listener's messages without MSH-18."""

    def mapped(self, detail: MessageDetail) -> JsonObject:
        """Return the result of mapping a stored message with its definition."""


@dataclass(frozen=True, slots=True)
class PageAssets:
    """The URLs of the files that the page loads."""

    script: str
    preloads: tuple[str, ...]
    styles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConsoleContext:
    """The dependencies of the console's routes."""

    database: Database
    installation: Installation
    subjects_of: SubjectReader
    signed_in_user: Callable[[str, bool], Awaitable[SignedInUser | None]]
    """Returns the user of a cookie header; True: an automatic refresh, which extends no session."""
    report_status: Callable[[Sequence[JsonObject]], Awaitable[Mapping[str, str]]]
    """Returns the report status of orders by report id."""
    engine: ReportEngine
    probe: Callable[[str, str], Awaitable[Sequence[JsonObject]]]
    """Tests the connection to a listener or destination; returns the steps."""
    assets: Callable[[], PageAssets]
    clock: Callable[[], int]
    """Returns ms since the epoch."""
    drafts: DefinitionDrafts
    trials: DefinitionTrials
    packages: InterfacePackages
    connections: Connections
    events: Callable[[ConsoleEventQuery], list[dict[str, Any]]]
    """Reads audit events of console and command line, newest first. Blocking."""
    access: AccessAdministration
    second_factor: bool
    """Whether a session needs a second factor to open the console."""
    proxies: Proxies
    """The trusted proxies in front of the console."""
    gate: ConcurrencyLimit = field(
        default_factory=lambda: ConcurrencyLimit("definitions", _CONCURRENT, _WAITING)
    )
    """Limits how many requests compile definitions at a time."""
