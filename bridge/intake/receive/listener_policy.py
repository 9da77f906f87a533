"""The policy of one listener, made from its settings: how its messages are checked and read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from bridge.active_settings import SourceFinder, file_sources
from bridge.errors import BridgeError
from bridge.intake.receive import definition_offload
from bridge.store.records.unmapped_codes import OnUnmappedCodes, ignore_unmapped_codes
from bridge.workers.offload import LARGE, Offload
from config import Settings
from config.listeners import (
    Acknowledge,
    ListenerSettings,
    MergedPatients,
    PatientConflict,
    Replies,
    ReusedControlId,
)
from mappings.compiler import compile_sources
from mappings.hl7.charset import is_codec
from mappings.hl7.header import Header
from mappings.hl7.message import Message
from mappings.inbound.definition import InboundMapping, PreCheck
from mappings.inbound.events import OrderEvent
from mappings.language.diagnostics import Issue
from mappings.language.scope import ListenerDefaults

VersionFinder = Callable[[str, str], InboundMapping | None]
"""Finds a definition by name and version, as stored messages refer to it. Blocking."""


def no_earlier_version(_name: str, _version: str) -> InboundMapping | None:
    """Find no version: only the active ones are known."""
    return None


class MessageCheck(Protocol):
    """A check in addition to the definition's own inspection."""

    def applies_to(self, payload: bytes) -> bool:
        """True if there is anything to check. Must be fast."""

    def issues(self, payload: bytes) -> tuple[Issue, ...]:
        """Return the issues that the check adds."""


@dataclass(frozen=True, slots=True)
class ListenerPolicy:
    """
    The policy of one listener. `definitions` are tried in order.

    `versions` empty: every HL7 version is accepted, because senders often declare a wrong one.
    `applied_timeout` is the number of seconds for which an acknowledgment waits for the report
    engine with `acknowledge = "applied"`.
    """

    name: str
    definitions: tuple[InboundMapping, ...]
    site: str = ""
    time_zone: str = "UTC"
    acknowledge: Acknowledge = Acknowledge.CHECKED
    reuse: ReusedControlId = ReusedControlId.ACCEPT
    processing_ids: frozenset[str] = frozenset({"P"})
    versions: frozenset[str] = frozenset()
    charset: str = "utf-8"
    applied_timeout: float = 20.0
    replies: Replies = Replies.ACK
    merged: MergedPatients = MergedPatients.REDIRECT
    patient_conflict: PatientConflict = PatientConflict.PARK
    commit_blocks: bool = False
    """Whether a commit block of MLLP release 2 precedes each reply."""
    find_version: VersionFinder = no_earlier_version
    """Finds the definition version that a stored message was accepted under."""
    on_unmapped_codes: OnUnmappedCodes = ignore_unmapped_codes
    """Receives unmapped codes."""
    checks: tuple[MessageCheck, ...] = field(default=(), repr=False)
    offload: Offload | None = field(default=None, repr=False, compare=False)
    """The worker process in which definitions map large messages; None: this process."""

    def with_checks(self, *checks: MessageCheck | None) -> "ListenerPolicy":
        """Add checks to the inspection of each message; None adds nothing."""
        return replace(self, checks=(*self.checks, *filter(None, checks)))

    def inspect(
        self, definition: InboundMapping, raw: bytes, header: Header, defaults: ListenerDefaults
    ) -> PreCheck:
        """
        Return the pre-check of a message with the issues of the checks.

        Raises MalformedMessage, WorkerError.
        """
        if self.offload is None or len(raw) < LARGE:
            message = Message.parse(raw, fallback=self.charset, head=header)
            found = definition.pre_check(message, defaults)
        else:
            found = definition_offload.inspect(
                self.offload, definition, raw, self.charset, defaults
            )
        issues = [issue for check in self.checks for issue in check.issues(raw)]
        return replace(found, issues=(*found.issues, *issues)) if issues else found

    def read(
        self, definition: InboundMapping, raw: bytes, defaults: ListenerDefaults
    ) -> Sequence[OrderEvent]:
        """
        Map a message to order events.

        Raises the errors of `inspect` and of the definition's `apply`.
        """
        if self.offload is None or len(raw) < LARGE:
            return definition.apply(Message.parse(raw, fallback=self.charset), defaults)
        return definition_offload.read(self.offload, definition, raw, self.charset, defaults)


class NotInbound(BridgeError):
    """A listener uses a definition that does not read messages."""

    def __init__(self, listener: str, mapping: str) -> None:
        super().__init__(f"listener {listener}: {mapping} is not a mapping of incoming messages")


class UnknownCharset(BridgeError):
    def __init__(self, listener: str) -> None:
        super().__init__(f"listener {listener}: charset is not supported")


def make_listeners(
    settings: Settings,
    find: SourceFinder | None = None,
    find_version: VersionFinder = no_earlier_version,
    on_unmapped_codes: OnUnmappedCodes = ignore_unmapped_codes,
) -> dict[str, ListenerPolicy]:
    """
    Compile the listeners' definitions from the sources of `find`, by default the files on disk.

    `find_version` returns the versions of stored messages; `on_unmapped_codes` is called with
    unmapped codes. Raises MappingErrors, NotInbound, UnknownCharset.
    """
    compiled = [_make_policy(settings, listener, find) for listener in settings.listener]
    return {
        policy.name: replace(policy, find_version=find_version, on_unmapped_codes=on_unmapped_codes)
        for policy in compiled
    }


def _make_policy(
    settings: Settings, listener: ListenerSettings, find: SourceFinder | None
) -> ListenerPolicy:
    return ListenerPolicy(
        name=listener.name,
        definitions=compile_inbound(settings, listener, find),
        site=listener.site,
        time_zone=listener.time_zone,
        acknowledge=listener.acknowledge,
        reuse=listener.reused_control_id,
        processing_ids=frozenset(listener.processing_ids),
        charset=listener.charset,
        replies=listener.replies,
        merged=listener.merged_patients,
        patient_conflict=listener.patient_conflict,
        commit_blocks=listener.commit_blocks,
    )


def compile_inbound(
    settings: Settings, listener: ListenerSettings, find: SourceFinder | None = None
) -> tuple[InboundMapping, ...]:
    """Compile a listener's definitions. Raises MappingErrors, NotInbound, UnknownCharset."""
    find = find or file_sources(settings)
    compiled = [compile_sources(find(name), name) for name in listener.mappings]
    for name, definition in zip(listener.mappings, compiled, strict=True):
        if not isinstance(definition, InboundMapping):
            raise NotInbound(listener.name, name)
    if not is_codec(listener.charset):
        raise UnknownCharset(listener.name)
    return tuple(definition for definition in compiled if isinstance(definition, InboundMapping))
