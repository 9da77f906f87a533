"""
Replay of stored messages, which the commands and the console share.

Replay queues a stored message again, or an edited copy of it. The active definitions map it. An
edited copy is a new message with an identity that no sender's message has. The original is not
changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from sqlalchemy import text

from bridge.errors import BridgeError
from bridge.index_key import signed64
from bridge.intake.receive.acknowledgments import AcknowledgmentBuilder, ControlIds
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.intake.receive.verdict import FrameEvaluator, Verdict
from bridge.metrics import Metrics
from bridge.queue import operations, queries
from bridge.queue.ledger.deduplication import LEDGER_DIALECTS
from bridge.queue.ledger.writer import admit
from bridge.queue.listing_rows import MessageDetail
from bridge.queue.states import AcknowledgmentState, QueueState
from bridge.queue.wakeup import CHANNEL
from bridge.store.database import Database
from bridge.wiring import active_settings
from bridge.wiring.active_settings import active_sources
from bridge.wiring.listeners import make_listeners, validator
from config import Settings
from mappings.hl7.message import Message
from mappings.inbound.definition import InboundMapping
from mappings.language.scope import ListenerDefaults
from mllp.framing import Frame

FRESH_SECONDS = 2.0
"""Seconds after which a command reads the definitions again, as a running service does."""

_INSERT_EDIT = text("""
    INSERT INTO message_edit (message_id, origin_id, at, email, reason)
    VALUES (:message_id, :origin_id, :at, :email, :reason)
""")


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
            acknowledgment=AcknowledgmentState.NOT_OWED,  # an edited copy has no sender to answer
            refuse_reuse=None,
        )
        with self._database.write() as connection:
            cursor = self._database.driver_connection(connection).cursor()
            (receipt,) = admit(LEDGER_DIALECTS[self._database.dialect], cursor, [arrival])
            if not receipt.duplicate:
                edit = {
                    "message_id": receipt.message_id,
                    "origin_id": origin_id,
                    "at": int(now.timestamp() * 1000),
                    "email": email,
                    "reason": reason,
                }
                connection.execute(_INSERT_EDIT, edit)
                self._database.notify(connection, CHANNEL)
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
            return operations.Routing(definition.name, definition.version, lanes)
        if refused:
            raise _refused(verdict)
        return None

    def _evaluate(self, listener: str, payload: bytes) -> tuple[ListenerPolicy, Verdict]:
        policy = self._policies.get(listener)
        if policy is None:
            raise StillRefused("its listener is no longer in the settings")
        section = next(each for each in self._settings.listener if each.name == listener)
        checked = policy.with_checks(validator(self._settings, section, Metrics()))
        errors: list[BaseException] = []
        return checked, FrameEvaluator(checked, errors.append).evaluate(
            Frame(payload), datetime.now(UTC)
        )


class BatchReplay:
    """Replays many messages for a command, by definitions that are at most FRESH_SECONDS old."""

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
