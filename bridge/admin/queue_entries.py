"""
Entries of the queues for commands: messages, deliveries and exceptions; and replay.

Replay queues a stored message again, or an edited copy of it. The active definitions map it. An
edited copy is a new message with an identity that no sender's message has. The original is not
changed.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final

from sqlalchemy import text

from bridge.admin import selection
from bridge.admin.audit_events import audited, recorded, relayed
from bridge.admin.channel_operations import charset_of, require_channel, stopped_destinations
from bridge.admin.selection import RequeueResult, RowQuery, Selection
from bridge.audit.events import operator
from bridge.console.message_search import message_text
from bridge.errors import BridgeError
from bridge.intake.receive.acknowledgments import AcknowledgmentBuilder
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.intake.receive.verdict import FrameEvaluator, Verdict
from bridge.metrics import Metrics
from bridge.monitoring.channels import ChannelKind
from bridge.queue import operations, queries
from bridge.queue.ledger.arrivals import signed64
from bridge.queue.ledger.deduplication import LEDGER_DIALECTS
from bridge.queue.ledger.writer import admit
from bridge.queue.listing_rows import MessageDetail
from bridge.queue.states import AcknowledgmentState, QueueState
from bridge.queue.wakeup import CHANNEL
from bridge.store.database import Database
from bridge.store.records import exceptions, reconcile_rounds
from bridge.store.records.exceptions import ExceptionSubject
from bridge.wiring import active_settings
from bridge.wiring.active_settings import active_sources
from bridge.wiring.listeners import ControlIds, make_listeners, validator
from bridge.wiring.stores import bridge_database
from config import Settings, load
from mappings.hl7.message import Message
from mappings.inbound.definition import InboundMapping
from mappings.language.scope import ListenerDefaults
from mllp.framing import Frame


def list_messages(home: Path, query: RowQuery) -> tuple[list[dict[str, Any]], int]:
    """
    List messages, newest first; a search by number is audited.

    Return the rows and, for a search by number, how many new messages are not indexed yet. Raises
    NoSuchChannel if nothing is found and the listener does not exist.
    """
    not_indexed = 0
    with bridge_database(home) as database:
        if query.number is None:
            rows: Sequence[Any] = queries.messages(database, query.filter)
        else:
            target = ("messages", f"by {query.number[0]} number")
            with audited(home, database, "search", target):
                rows = selection.messages_by_number(database, *query.number, query.filter)
            not_indexed = selection.count_not_indexed(database)
    if not rows:
        require_channel(home, ChannelKind.LISTENER, query.source)
    return [asdict(each) for each in rows], not_indexed


def show_message(home: Path, message_id: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a message's row, and the texts of the message and its acknowledgment; audited."""
    with (
        bridge_database(home) as database,
        audited(home, database, "read", ("message", str(message_id))),
    ):
        detail = queries.message(database, message_id)
        charset = charset_of(load(home), database, detail.row.listener)
    texts = {
        "payload": message_text(detail.payload, charset),
        "ack": message_text(detail.ack, charset),
    }
    return {**asdict(detail.row), "notes": detail.notes}, texts


def select_messages(home: Path, ids: Sequence[int] | None, chosen: Selection) -> list[int]:
    """
    Return these ids, or those of the selected messages, oldest first.

    Raises NoSuchChannel if nothing is selected and the listener does not exist.
    """
    if ids:
        return sorted(ids)
    with bridge_database(home) as database:
        found = selection.selected_ids(database, chosen, queries.messages)
    if not found:
        require_channel(home, ChannelKind.LISTENER, chosen.source)
    return found


def replay_messages(
    home: Path, ids: Sequence[int], chosen: Selection, rate: float
) -> Iterator[RequeueResult]:
    """Queue messages again in the order of their ids, `rate` per second; each is audited."""
    with bridge_database(home) as database, relayed(home, database):
        replay = BatchReplay(load(home), database, chosen.chosen_state)

        def replay_one(row_id: int) -> int:
            with recorded(database, "replay", ("message", str(row_id))):
                return replay(row_id)

        yield from selection.requeue_each(ids, replay_one, rate)


def list_deliveries(home: Path, query: RowQuery) -> list[dict[str, Any]]:
    """
    List deliveries, newest first; a search by number is audited.

    Raises NoSuchChannel if nothing is found and the destination does not exist.
    """
    with bridge_database(home) as database:
        if query.number is None:
            rows: Sequence[Any] = queries.deliveries(database, query.filter)
        else:
            target = ("deliveries", f"by {query.number[0]} number")
            with audited(home, database, "search", target):
                rows = selection.deliveries_by_number(
                    load(home), database, *query.number, query.filter
                )
    if not rows:
        require_channel(home, ChannelKind.DESTINATION, query.source)
    return [asdict(each) for each in rows]


def show_delivery(home: Path, delivery_id: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a delivery's row, and the texts of its message and of the last reply; audited."""
    with (
        bridge_database(home) as database,
        audited(home, database, "read", ("delivery", str(delivery_id))),
    ):
        detail = queries.delivery(database, delivery_id)
    return asdict(detail.row), {
        "payload": message_text(detail.payload),
        "reply": message_text(detail.reply),
    }


def select_deliveries(
    home: Path, ids: Sequence[int] | None, chosen: Selection
) -> tuple[list[int], list[str]]:
    """
    Return these ids, or those of the selected deliveries, oldest first; and notes.

    A note names a destination that sends nothing at present. Raises NoSuchChannel if nothing is
    selected and the destination does not exist.
    """
    with bridge_database(home) as database:
        found = sorted(ids) if ids else selection.selected_ids(database, chosen, queries.deliveries)
        if not found:
            require_channel(home, ChannelKind.DESTINATION, chosen.source)
        return found, stopped_destinations(home, database, found)


def retry_deliveries(
    home: Path, ids: Sequence[int], chosen: Selection, rate: float
) -> Iterator[RequeueResult]:
    """Queue deliveries again in the order of their ids, `rate` per second; each is audited."""
    with bridge_database(home) as database, relayed(home, database):

        def retry_one(row_id: int) -> None:
            with recorded(database, "retry", ("delivery", str(row_id))):
                operations.retry_delivery(database, row_id, expected_state=chosen.chosen_state)

        yield from selection.requeue_each(ids, retry_one, rate)


def skip_delivery(home: Path, delivery_id: int) -> None:
    """Cancel one delivery; audited."""
    with (
        bridge_database(home) as database,
        audited(home, database, "skip", ("delivery", str(delivery_id))),
    ):
        operations.skip_delivery(database, delivery_id)


_POLL_SECONDS: Final = 0.5
NEVER_COMPARED: Final = reconcile_rounds.NEVER_COMPARED
"""What the reconcile job does not compare."""


def list_exceptions(home: Path, limit: int) -> list[dict[str, Any]]:
    """List the exceptions that are not marked as seen, newest first."""
    with bridge_database(home) as database:
        return [asdict(each) for each in exceptions.list_unseen(database, limit)]


def mark_as_seen(
    home: Path, messages: Sequence[int], orders: Sequence[int], feeds: Sequence[int]
) -> int:
    """
    Mark the exceptions of these rows as seen, all of them if no row is given; audited.

    Return how many were marked.
    """
    chosen = [
        *((ExceptionSubject.MESSAGE, each) for each in messages),
        *((ExceptionSubject.ORDER, each) for each in orders),
        *((ExceptionSubject.FEED, each) for each in feeds),
    ]
    target = ("exceptions", str(len(chosen) or "all"))
    with bridge_database(home) as database, audited(home, database, "mark as seen", target):
        return exceptions.mark_seen(database, chosen or None, _now_ms(), operator())


def reconcile_report(home: Path) -> dict[str, Any]:
    """Return what the last complete round (`last`) and the current one (`running`) compared."""
    with bridge_database(home) as database, database.read() as connection:
        last = reconcile_rounds.last_round(connection)
        running = reconcile_rounds.current_round(connection, 0)
    return {
        "last": None if last is None else reconcile_rounds.round_summary(last),
        "running": reconcile_rounds.round_summary(running),
    }


def reconcile_now(home: Path, timeout: float) -> bool:
    """
    Request a complete round from the running service and wait for it, `timeout` seconds at most.

    Return whether it ended in time. It continues if not.
    """
    with bridge_database(home) as database:
        with database.write() as connection:
            reconcile_rounds.request_round(connection, _now_ms())
        until, waiting = time.monotonic() + timeout, True
        while waiting and time.monotonic() < until:
            time.sleep(min(_POLL_SECONDS, timeout))
            with database.read() as connection:
                waiting = bool(reconcile_rounds.requested_since(connection))
    return not waiting


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


FRESH_SECONDS = 2.0
"""Seconds after which a command reads the definitions again, as a running service does."""

_LINK = text("""
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
        self._listenings = make_listeners(self._settings, active_sources(settings, database))

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
        return _told(self._evaluate(listener, payload)[1])

    def sites(self, listener: str, payload: bytes) -> frozenset[str]:
        """Return the sites of a message, by the definition that accepts it."""
        listening, verdict = self._evaluate(listener, payload)
        if not isinstance(verdict.definition, InboundMapping):
            return frozenset()
        message = Message.parse(payload, fallback=listening.charset)
        defaults = ListenerDefaults(listening.site, listening.time_zone, datetime.now(UTC))
        return verdict.definition.subjects(message, defaults).sites

    def resend(self, origin_id: int, payload: bytes, email: str, reason: str) -> int:
        """
        Store and queue an edited copy as a new message; return its id.

        An identical copy is stored only once. Raises StillRefused.
        """
        origin = self._intact(origin_id).row
        listening, verdict = self._evaluate(origin.listener, payload)
        if verdict.refusals:
            raise _refused(verdict)
        now = datetime.now(UTC)
        arrival = replace(
            AcknowledgmentBuilder(listening, ControlIds()).arrival(verdict, payload, now),
            identity=signed64(b"edited", str(origin_id).encode()),
            acknowledgment=AcknowledgmentState.NOT_OWED,  # an edited copy has no sender to answer
            refuse_reuse=None,
        )
        with self._database.write() as connection:
            cursor = self._database.driver_connection(connection).cursor()
            (receipt,) = admit(LEDGER_DIALECTS[self._database.dialect], cursor, [arrival])
            if not receipt.duplicate:
                link = {"message_id": receipt.message_id, "at": int(now.timestamp() * 1000)}
                about = {"origin_id": origin_id, "email": email, "reason": reason}
                connection.execute(_LINK, {**link, **about})
                self._database.notify(connection, CHANNEL)
        return receipt.message_id

    def _intact(self, message_id: int) -> MessageDetail:
        detail = queries.message(self._database, message_id)
        if detail.is_damaged:
            raise StillRefused("its stored content has changed since it was acknowledged")
        return detail

    def _routing(self, detail: MessageDetail) -> operations.Routing | None:
        refused = detail.row.state is QueueState.REFUSED
        if detail.row.listener not in self._listenings and not refused:
            return None
        verdict = self._evaluate(detail.row.listener, detail.payload)[1]
        if verdict.definition is not None and not verdict.refusals:
            definition = verdict.definition
            lanes = verdict.lanes_for(detail.row.flags)
            return operations.Routing(definition.name, definition.version, lanes)
        if refused:
            raise _refused(verdict)
        return None  # the routing of its arrival stays

    def _evaluate(self, listener: str, payload: bytes) -> tuple[ListenerPolicy, Verdict]:
        listening = self._listenings.get(listener)
        if listening is None:
            raise StillRefused("its listener is no longer in the settings")
        section = next(each for each in self._settings.listener if each.name == listener)
        checked = listening.with_checks(validator(self._settings, section, Metrics()))
        troubles: list[BaseException] = []
        return checked, FrameEvaluator(checked, troubles.append).evaluate(
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
        each.text if each.place in each.text else f"{each.text} {each.place}"
        for each in verdict.refusals
    )
    return StillRefused("; ".join(texts))


def _told(verdict: Verdict) -> list[Mapping[str, Any]]:
    refusals: Sequence[Any] = verdict.refusals
    return [
        {"code": each.error_code.value, "place": each.place, "text": each.text} for each in refusals
    ]
