"""
Replay of stored messages, which the commands and the console share.

Replay queues a stored message again, or an edited copy of it. The active definitions map it. An
edited copy is a new message with an identity that no sender's message has. The original is not
changed.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from sqlalchemy import func, select

from bridge import active_settings
from bridge.active_settings import ActiveSettings, active_sources, version_finder
from bridge.admin.messages import dicom_content
from bridge.admin.messages.message_index import INDEXED_TO, MessageOrigin
from bridge.errors import BridgeError
from bridge.index_key import signed64
from bridge.intake.receive import definition_offload
from bridge.intake.receive.acknowledgments import AcknowledgmentBuilder, ControlIds
from bridge.intake.receive.listener_policy import ListenerPolicy, make_listeners
from bridge.intake.receive.verdict import FrameEvaluator, Verdict
from bridge.intake.validation.structure import make_validator
from bridge.metrics import Metrics
from bridge.queue import operations, queries
from bridge.queue.listing_rows import MessageDetail
from bridge.queue.log_tables import MessageEdit, store
from bridge.queue.statements import MESSAGE
from bridge.queue.states import AcknowledgmentState, QueueState
from bridge.store.database import Database
from bridge.workers.host import WorkerError
from bridge.workers.offload import LARGE, Offload
from config import Settings
from config.listeners import ListenerSettings
from mappings.compiler import compile_sources
from mappings.hl7.message import Message
from mappings.hl7.refusals import MessageRefusal
from mappings.inbound.definition import InboundMapping, Subjects
from mappings.inbound.events import OrderEvent
from mappings.inbound.order_mapping import AbsentTags
from mappings.language.diagnostics import MappingError, RuleFailed
from mappings.language.scope import ListenerDefaults
from mllp.framing import Frame
from parsers.dicom_file import is_dicom


def count_not_indexed(database: Database) -> int:
    """Count the newest messages that the service has not indexed yet."""
    with database.read() as connection:
        newest = connection.scalar(select(func.max(MESSAGE.c.id))) or 0
        indexed = connection.scalar(INDEXED_TO) or 0
    return max(0, newest - indexed)


class MessageSubjects:
    """A `SubjectReader` of the message index; keeps the definitions that it has compiled."""

    def __init__(
        self, settings: Settings, database: Database, offload: Offload | None = None
    ) -> None:
        """`offload` reads large messages in a worker process."""
        self._offload = offload
        self._settings = settings
        self._database = database
        self._active_settings = ActiveSettings(settings, database)
        self._find_version = version_finder(database)
        self._active: dict[tuple[str, str], InboundMapping | None] = {}

    def __call__(self, origin: MessageOrigin) -> Subjects:
        """Return the subjects of a message; none if its listener was removed."""
        if is_dicom(origin.payload):
            peers = self._active_settings().dicom.peer
            with self._database.read_committed() as connection:
                return dicom_content.subjects_of(connection, origin.payload, peers)
        listener = self._listener(origin)
        if listener is None:
            return Subjects()
        of_listener = Subjects(frozenset({listener.site}) - {""})
        mapping = self.definition(origin.mapping, origin.version)
        # A message that no definition takes is refused; its numbers are those that any would read.
        names = [] if mapping else listener.mappings
        mappings = [mapping, *(self.definition(name, "") for name in names)]
        found = Subjects()
        for definition in mappings:
            if definition is not None:
                with suppress(MessageRefusal, WorkerError):
                    read = self._read(definition, origin, listener)
                    found = Subjects(*(known | new for known, new in zip(found, read, strict=True)))
        return found if found.sites else found._replace(sites=of_listener.sites)

    def absent_tags(self, origin: MessageOrigin) -> AbsentTags:
        """Return the tags that the orders of a message lack, by the definition that read it."""
        listener = self._listener(origin)
        mapping = self.definition(origin.mapping, origin.version)
        if listener is None or mapping is None:
            return AbsentTags()
        with suppress(MessageRefusal, WorkerError):
            defaults = _defaults_of(listener, origin)
            if self._offload is None or len(origin.payload) < LARGE:
                message = Message.parse(origin.payload, fallback=listener.charset)
                return mapping.absent_tags(message, defaults)
            return definition_offload.absent_tags(
                self._offload, mapping, origin.payload, listener.charset, defaults
            )
        return AbsentTags()

    def read(self, origin: MessageOrigin) -> tuple[Message | None, Sequence[OrderEvent]]:
        """Return a message, None if it cannot be parsed, and the events of its definition."""
        listener = self._listener(origin)
        charset = "utf-8" if listener is None else listener.charset
        try:
            message = Message.parse(origin.payload, fallback=charset)
        except MessageRefusal:
            return None, ()
        mapping = self.definition(origin.mapping, origin.version)
        if listener is None or mapping is None:
            return message, ()
        defaults = _defaults_of(listener, origin)
        with suppress(MessageRefusal, RuleFailed, WorkerError):
            if self._offload is None or len(origin.payload) < LARGE:
                return message, mapping.apply(message, defaults)
            return message, definition_offload.read(
                self._offload, mapping, origin.payload, charset, defaults
            )
        return message, ()

    def _listener(self, origin: MessageOrigin) -> ListenerSettings | None:
        known = self._active_settings().listener
        return next((entry for entry in known if entry.name == origin.listener), None)

    def _read(
        self, mapping: InboundMapping, origin: MessageOrigin, listener: ListenerSettings
    ) -> Subjects:
        defaults = _defaults_of(listener, origin)
        if self._offload is None or len(origin.payload) < LARGE:
            message = Message.parse(origin.payload, fallback=listener.charset)
            return mapping.subjects(message, defaults)
        return definition_offload.subjects(
            self._offload, mapping, origin.payload, listener.charset, defaults
        )

    def definition(self, name: str, version: str) -> InboundMapping | None:
        """Return the version that read a message, or the active version if it is not kept."""
        if not name:
            return None
        return self._find_version(name, version) or self._active_version(name, version)

    def _active_version(self, name: str, version: str) -> InboundMapping | None:
        """Return the active version in place of one that is not kept; cached."""
        key = (name, version)
        if key not in self._active:
            try:
                compiled = compile_sources(
                    active_sources(self._settings, self._database)(name), name
                )
            except MappingError:
                return None
            self._active[key] = compiled if isinstance(compiled, InboundMapping) else None
        return self._active[key]


def _defaults_of(listener: ListenerSettings, origin: MessageOrigin) -> ListenerDefaults:
    received = datetime.fromtimestamp(origin.received_at / 1000, UTC)
    return ListenerDefaults(listener.site, listener.time_zone, received)


FRESH_SECONDS = 2.0
"""Seconds after which a bulk replay reads the definitions again."""


class StillRefused(BridgeError):
    """The active definitions refuse the message too."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"still refused: {reason}")


class StoredMessageReplay:
    """Replays stored messages by the definitions that are active when it is created."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = active_settings.current(settings, database)
        self._database = database
        self._policies = make_listeners(self._settings, active_sources(settings, database))

    def replay(self, message_id: int, chosen: QueueState | None = None) -> int:
        """
        Queue a message again; return how many later messages of its patient are already applied.

        `chosen` is the state for which the message was selected, if any. Raises StillRefused.
        """
        detail = self._intact(message_id)
        routing = self._routing(detail)
        return operations.replay_message(self._database, message_id, routing, expected_state=chosen)

    def faults(self, listener: str, payload: bytes) -> list[Mapping[str, Any]]:
        """Return why the active definitions refuse a message; empty if they accept it."""
        return _refusals_json(self._evaluate(listener, payload)[1])

    def sites(self, listener: str, payload: bytes) -> frozenset[str]:
        """Return the sites of a message, by the definition that accepts it."""
        policy, verdict = self._evaluate(listener, payload)
        if not isinstance(verdict.definition, InboundMapping):
            return frozenset()
        message = Message.parse(payload, fallback=policy.charset)
        defaults = ListenerDefaults(policy.site, policy.time_zone, datetime.now(UTC))
        return verdict.definition.subjects(message, defaults).sites

    def resend(self, origin_id: int, payload: bytes, email: str, reason: str) -> int:
        """
        Store and queue an edited copy as a new message; return its id.

        An identical copy is stored only once. Raises StillRefused.
        """
        origin = self._intact(origin_id).row
        policy, verdict = self._evaluate(origin.listener, payload)
        if verdict.refusals:
            raise _refused(verdict)
        now = datetime.now(UTC)
        arrival = replace(
            AcknowledgmentBuilder(policy, ControlIds()).arrival(verdict, payload, now),
            identity=signed64(b"edited", str(origin_id).encode()),
            acknowledgment=AcknowledgmentState.NOT_REQUIRED,  # an edited copy has no sender
            refuse_reuse=None,
        )
        edit = MessageEdit(origin_id, int(now.timestamp() * 1000), email, reason)
        (receipt,) = store(self._database, [arrival], edit)
        return receipt.message_id

    def _intact(self, message_id: int) -> MessageDetail:
        """Return a stored message. Raises StillRefused if its content has changed."""
        detail = queries.message(self._database, message_id)
        if detail.is_damaged:
            raise StillRefused("its stored content has changed since it was acknowledged")
        return detail

    def _routing(self, detail: MessageDetail) -> operations.Routing | None:
        """Return the definition and lanes by the active definitions; None keeps the stored ones."""
        refused = detail.row.state is QueueState.REFUSED
        if detail.row.listener not in self._policies and not refused:
            return None
        verdict = self._evaluate(detail.row.listener, detail.payload)[1]
        if verdict.definition is not None and not verdict.refusals:
            definition = verdict.definition
            lanes = verdict.lanes_for(detail.row.flags)
            entry = self._absent_tags(definition, detail)
            return operations.Routing(definition.name, definition.version, lanes, entry)
        if refused:
            raise _refused(verdict)
        return None

    def _absent_tags(self, definition: Any, detail: MessageDetail) -> tuple[int, int] | None:
        """Return bits and orders of `message_entry`, so that lists know a repaired message."""
        policy = self._policies[detail.row.listener]
        if not isinstance(definition, InboundMapping):
            return None
        received = datetime.fromtimestamp(detail.row.received_at / 1000, UTC)
        defaults = ListenerDefaults(policy.site, policy.time_zone, received)
        message = Message.parse(detail.payload, fallback=policy.charset)
        return definition.absent_tags(message, defaults)

    def _evaluate(self, listener: str, payload: bytes) -> tuple[ListenerPolicy, Verdict]:
        policy = self._policies.get(listener)
        if policy is None:
            raise StillRefused("its listener is no longer in the settings")
        section = next(entry for entry in self._settings.listener if entry.name == listener)
        checked = policy.with_checks(make_validator(self._settings, section, Metrics()))
        errors: list[BaseException] = []
        return checked, FrameEvaluator(checked, errors.append).evaluate(
            Frame(payload), datetime.now(UTC)
        )


class BatchReplay:
    """Replays many messages, by definitions that are at most FRESH_SECONDS old."""

    def __init__(self, settings: Settings, database: Database, chosen: QueueState | None) -> None:
        """`chosen` is the state for which the messages were selected, if any."""
        self._settings = settings
        self._database = database
        self._chosen = chosen
        self._stale_at = 0.0

    def __call__(self, message_id: int) -> int:
        """Queue a message again, as `StoredMessageReplay.replay`."""
        if monotonic() >= self._stale_at:  # a slow replay may take hours
            self._replay = StoredMessageReplay(self._settings, self._database)
            self._stale_at = monotonic() + FRESH_SECONDS
        return self._replay.replay(message_id, self._chosen)


def _refused(verdict: Verdict) -> StillRefused:
    texts = (
        refusal.text if refusal.place in refusal.text else f"{refusal.text} {refusal.place}"
        for refusal in verdict.refusals
    )
    return StillRefused("; ".join(texts))


def _refusals_json(verdict: Verdict) -> list[Mapping[str, Any]]:
    refusals: Sequence[Any] = verdict.refusals
    return [
        {"code": refusal.error_code.value, "place": refusal.place, "text": refusal.text}
        for refusal in refusals
    ]
