"""
The steps of an order: one list by time, with the time since the step before. Pure.

Steps come from messages, changes of the report, deliveries with their attempts, and what people
did. Texts contain names of connections, codes and the e-mail addresses of users; `detail` may have
the text of a receiver, for users who may read content.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from bridge.admin.causes import cause_of
from bridge.admin.orders.sentence import SentenceLink
from bridge.queue.attempts import AttemptKind
from bridge.queue.commitments import COMMITTED, NOT_COMMITTED, REFUSED
from bridge.queue.deliveries import NOT_CONNECTED
from bridge.queue.listing_rows import DeliveryRow, MessageRow
from bridge.queue.states import QueueState
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.records.report_events import STATUS_SEEN, ReportEventRow
from bridge.store.records.scheduled_steps import ScheduledStep
from mappings.hl7.refusals import AckCode


@dataclass(frozen=True, slots=True)
class Step:
    """
    One step; times in ms.

    `lane` is message, order, report, delivery or person. `since_previous` is the time after the
    step before, None for the first; `took` the duration of the step itself, None if it has none.
    `count` is the number of equal attempts that are folded into one step.
    """

    at: int
    lane: str
    kind: str
    text: str
    detail: str = ""
    took: int | None = None
    since_previous: int | None = None
    count: int = 1
    link: SentenceLink | None = None
    tone: str = ""


@dataclass(frozen=True, slots=True)
class AttentionNote:
    """An attention item about the order or one of its messages; times in ms."""

    subject: ExceptionSubject
    row_id: int
    code: str
    noted_at: int
    seen_at: int | None
    seen_by: str


OUTSIDE_TYPES: Final = frozenset({"ORU", "MDM"})
"""Types of the messages that become outside reports."""

Attempts = Mapping[int, Sequence[Mapping[str, Any]]]
"""The attempts of deliveries, as `message_content.attempt_view` returns them."""


def in_order(steps: Iterable[Step]) -> list[Step]:
    """Sort steps by time, and add the time since the step before."""
    found = sorted(steps, key=lambda step: step.at)
    previous: list[int | None] = [None, *(step.at for step in found)]
    return [
        replace(step, since_previous=None if before is None else step.at - before)
        for step, before in zip(found, previous, strict=False)
    ]


def _folded(attempts: Iterable[Step]) -> Iterator[Step]:
    """Fold attempts of one delivery that follow each other with the same result."""
    for _, equal in groupby(attempts, key=lambda step: (step.kind, step.text, step.detail)):
        rows = list(equal)
        if len(rows) == 1:
            yield rows[0]
        else:
            yield replace(rows[0], count=len(rows), took=rows[-1].at - rows[0].at)


def message_steps(
    rows: Iterable[MessageRow], edits: Mapping[int, Sequence[Mapping[str, Any]]]
) -> Iterator[Step]:
    """Yield how messages arrived and ended; `edits` are those of each message."""
    for row in rows:
        link = SentenceLink("message", row.id)
        kind = row.message_type or "Message"
        outside = "Outside report, " if kind[:3] in OUTSIDE_TYPES else ""
        text = f"{outside}{kind} from {row.listener}"
        acknowledged = f", acknowledged {row.ack_code}" if row.ack_code else ""
        yield Step(row.received_at, "message", "received", text + acknowledged, link=link)
        for edit in edits.get(row.id, ()):
            if edit["message_id"] == row.id:
                text = f"Edited and resent from message {edit['origin_id']} by {edit['email']}"
                origin = SentenceLink("message", edit["origin_id"])
                yield Step(edit["at"], "person", "edited", text, edit["reason"], link=origin)
        yield from _message_end(row, link)


def scheduled_steps(rows: Iterable[ScheduledStep]) -> Iterator[Step]:
    """Yield the scheduled procedure steps of the order, since they have their status."""
    for row in rows:
        named = f"Step {row.step_id} ({row.modality or 'no modality'}) {row.status.lower()}"
        stations = f" at {', '.join(row.stations)}" if row.stations else ""
        day, time = str(row.day or ""), row.time
        start = f"{day[:4]}-{day[4:6]}-{day[6:]} {time[:2]}:{time[2:4]}" if day else ""
        yield Step(row.changed_at, "order", "scheduled_step", named + stations, start)


def copy_steps(kind: str, row_id: int, edits: Iterable[Mapping[str, Any]]) -> Iterator[Step]:
    """
    Yield which edited copies of a row were sent again, and of which row it is a copy.

    `kind` is `message` or `delivery`.
    """
    for edit in edits:
        copy, origin, email = edit[f"{kind}_id"], edit["origin_id"], edit["email"]
        if origin == row_id:
            text = f"Edited and resent as {kind} {copy} by {email}"
            link = SentenceLink(kind, copy)
            yield Step(edit["at"], "person", "resent", text, edit["reason"], link=link)
        elif kind == "delivery":  # `message_steps` has those of messages
            text = f"Edited and resent from {kind} {origin} by {email}"
            link = SentenceLink(kind, origin)
            yield Step(edit["at"], "person", "edited", text, edit["reason"], link=link)


_ENDS: Final = {
    QueueState.DONE: ("applied", "Applied", "ok"),
    QueueState.IGNORED: ("ignored", "Accepted, no action needed", ""),
    QueueState.CANCELLED: ("skipped", "Skipped by an operator", ""),
    QueueState.PARKED: ("parked", "Parked", "red"),
    QueueState.REFUSED: ("refused", "Refused", "red"),
}


def _message_end(row: MessageRow, link: SentenceLink) -> Iterator[Step]:
    cause = cause_of(
        *(ExceptionSubject.MESSAGE, row.state, row.code or row.error_code),
        *(row.detail, row.error_place),
    )
    if row.state in _ENDS:
        kind, text, tone = _ENDS[row.state]
        at = row.settled_at or row.received_at
        tone = "amber" if row.code and tone != "red" and cause.action else tone
        yield Step(
            at, "message", kind, text, cause.words, at - row.received_at, link=link, tone=tone
        )
        return
    text = "Waits to be applied" if row.state is QueueState.QUEUED else "Being applied"
    at = max(row.settled_at or 0, row.received_at)
    tone = "amber" if row.code else "info"
    yield Step(at, "message", "waits", text, cause.words, link=link, tone=tone)


_CHANGES: Final = {
    "report_created": "Report created",
    "report_opened": "Report opened{by}",
    "report_transferred": "Report given to {actor}",
    "report_prelimed": "Preliminary read{by}",
    "report_prelim_withdrawn": "Preliminary read withdrawn",
    "report_signed": "Signed{by}",
    "report_unsigned": "Signature taken back within the sign delay",
    "report_finalized": "Released",
    "report_reset": "Report reset",
    "report_unassigned": "Report returned to the worklist",
    "report_discarded": "Report discarded",
    "report_deleted": "Report deleted",
    "addendum_created": "Addendum begun{by}",
    "addendum_signed": "Addendum signed{by}",
    "addendum_unsigned": "Signature of the addendum taken back",
    "addendum_finalized": "Addendum released",
    "addendum_retracted": "Addendum withdrawn",
    "order_returned": "Returned to the unread orders by a reader",
    "orders_linked": "Linked with other orders of the report",
    "orders_unlinked": "Unlinked from the report",
    "patient_updated": "Patient data changed",
    "patient_merged": "Patient merged",
}
_NO_ACTOR: Final = frozenset({"report_created", "report_finalized", "addendum_finalized"})
_STATUS_WORDS: Final = {
    "Ordered": "On the worklist",
    "Draft": "Report opened{by}",
    "Preliminary": "Preliminary read{by}",
    "Final": "Signed{by}",
    "Addendum": "Addendum signed{by}",
}


def report_steps(events: Iterable[ReportEventRow]) -> Iterator[Step]:
    """Yield the changes of the report; an unknown event is shown by its name."""
    for event in events:
        words = _CHANGES.get(event.event, event.event.replace("_", " "))
        if event.event == STATUS_SEEN:
            words = _STATUS_WORDS.get(event.status, event.status)
        by = f" by {event.actor}" if event.actor and event.event not in _NO_ACTOR else ""
        text = words.format(by=by, actor=event.actor or "another reader")
        yield Step(event.at, "report", event.event, text)


def delivery_steps(rows: Iterable[DeliveryRow], attempts: Attempts) -> Iterator[Step]:
    """Yield for each delivery when it was queued, each failed attempt, and how it ended."""
    for row in rows:
        link = SentenceLink("delivery", row.id)
        text = f"{row.event} queued for {row.destination}"
        yield Step(row.created_at, "delivery", "queued", _upper(text), link=link)
        yield from _folded(_attempt(row, stored, link) for stored in attempts.get(row.id, ()))
        yield from _delivery_end(row, link)


_POSITIVE: Final = frozenset({AckCode.ACCEPT.value, AckCode.COMMIT_ACCEPT.value, COMMITTED})
_COMMITMENTS: Final = {
    COMMITTED: "confirmed that it keeps the objects",
    NOT_COMMITTED: "does not keep all objects that it stored",
    REFUSED: "refused the request for storage commitment",
}


def _attempt(row: DeliveryRow, attempt: Mapping[str, Any], link: SentenceLink) -> Step:
    reason, code = attempt["reason"], attempt["code"]
    if attempt["kind"] == AttemptKind.ATTEMPT.value:
        text = f"{row.destination} did not accept it: {code}"
        return Step(attempt["at"], "delivery", "attempt", text, reason, link=link, tone="red")
    if code in _POSITIVE:
        words = _COMMITMENTS.get(code, f"replied again: {code}")
        text = f"{row.destination} {words}"
        return Step(attempt["at"], "delivery", "replied", text, reason, link=link)
    words = _COMMITMENTS.get(code, f"refused it after accepting it: {code}")
    text = f"{row.destination} {words}"
    return Step(attempt["at"], "delivery", "refused later", text, reason, link=link, tone="red")


def _delivery_end(row: DeliveryRow, link: SentenceLink) -> Iterator[Step]:
    if row.acknowledged_at is not None:
        took = None
        if row.sent_at is not None:
            took = max(0, row.acknowledged_at - row.sent_at)
            yield Step(row.sent_at, "delivery", "sent", f"Sent to {row.destination}", link=link)
        text = f"Accepted by {row.destination}"
        yield Step(
            row.acknowledged_at, "delivery", "accepted", text, "", took, link=link, tone="ok"
        )
        return
    cause = cause_of(ExceptionSubject.DELIVERY, row.state, row.code, row.detail)
    words, at = cause.words, row.settled_at or row.created_at
    match row.state:
        case QueueState.PARKED:
            text, tone = f"Parked for {row.destination}", "red"
        case QueueState.CANCELLED:
            text, tone = f"Skipped for {row.destination}", ""
        case QueueState.IGNORED:
            text, tone = f"Nothing to send to {row.destination}", ""
        case QueueState.QUEUED if row.code == NOT_CONNECTED:
            text, tone = f"No connection to {row.destination}", "red"
        case _:
            return
    yield Step(at, "delivery", row.state.value, text, words, link=link, tone=tone)


def attention_steps(notes: Iterable[AttentionNote]) -> Iterator[Step]:
    """Yield when something needed attention, and who has reviewed it."""
    for note in notes:
        words = cause_of(note.subject, "", note.code).words
        link = None
        if note.subject in {ExceptionSubject.MESSAGE, ExceptionSubject.DELIVERY}:
            link = SentenceLink(note.subject.value, note.row_id)
        yield Step(note.noted_at, "order", "attention", words, link=link, tone="amber")
        if note.seen_at is not None:
            by = f" by {note.seen_by}" if note.seen_by else ""
            yield Step(note.seen_at, "person", "reviewed", f"Reviewed{by}", words, link=link)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
