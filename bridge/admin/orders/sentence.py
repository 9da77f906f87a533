"""
The sentence about an order: what its state is, and what it waits for. Pure.

Parts of the sentence are ordered by importance: a message that was not applied, then the order and
its report, then each destination of its results.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bridge.admin.causes import cause_of
from bridge.contract import SIGNED, ReportStatus
from bridge.monitoring.conditions import format_duration
from bridge.orders.order import OrderState
from bridge.queue.deliveries import NOT_CONNECTED
from bridge.queue.states import QueueState
from bridge.store.records.exceptions import ExceptionSubject
from mappings.outbound.results import ResultEvent


class WaitsFor(StrEnum):
    SENDER = "sender"
    READER = "reader"
    REVIEWER = "reviewer"
    SIGN_DELAY = "sign delay"
    RECEIVER = "receiver"
    BRIDGE = "bridge"
    PERSON = "person"
    NOBODY = "nobody"


class Tone(StrEnum):
    OK = "ok"
    INFO = "info"
    AMBER = "amber"
    RED = "red"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class MessageFacts:
    """A message about the order. `code` is its cause, or the error code of its refusal."""

    id: int
    state: QueueState
    code: str
    place: str = ""
    detail: str = ""
    not_before: int = 0


@dataclass(frozen=True, slots=True)
class DeliveryFacts:
    """
    A result of the order's report; times in ms.

    `waits_for` is an earlier delivery that must be finished first. `error` says what the receiver
    wrote about it: a code, its meaning and the place.
    """

    id: int
    destination: str
    event: str
    state: QueueState
    code: str
    detail: str
    attempts: int
    created_at: int
    not_before: int
    waits_for: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """
    The order's report; times in ms, None if unknown.

    `released_at` is the end of the sign delay, if that is still to come.
    """

    status: str
    reader: str = ""
    changed_at: int | None = None
    released_at: int | None = None


@dataclass(frozen=True, slots=True)
class OrderFacts:
    """All that the sentence needs. `notes`: codes of open attention items about the order."""

    state: str
    first_at: int | None
    report: ReportFacts | None
    messages: Sequence[MessageFacts] = ()
    deliveries: Sequence[DeliveryFacts] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SentenceLink:
    """The row that a person must look at; `page` is `message` or `delivery`."""

    page: str
    id: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """The state of an order in words, who or what it waits for, and the row to look at."""

    text: str
    waits_for: WaitsFor
    tone: Tone
    action: str = ""
    link: SentenceLink | None = None


_FAILED: Final = frozenset({QueueState.PARKED, QueueState.REFUSED})
_OPEN: Final = frozenset({QueueState.QUEUED, QueueState.CLAIMED})
_URGENT: Final = (
    *(WaitsFor.PERSON, WaitsFor.RECEIVER, WaitsFor.SIGN_DELAY, WaitsFor.BRIDGE),
    *(WaitsFor.REVIEWER, WaitsFor.READER, WaitsFor.SENDER, WaitsFor.NOBODY),
)
"""Of several parts, that of the first kind gives the sentence its colour and link."""


def sentence(facts: OrderFacts, now: int) -> Sentence:
    """Return the sentence about an order; `now` in ms."""
    parts = [*_messages(facts, now), _report(facts, now), *_deliveries(facts, now), *_notes(facts)]
    text = ". ".join(part.text for part in parts) + "."
    first = min(parts, key=lambda part: _URGENT.index(part.waits_for))
    return Sentence(text, first.waits_for, first.tone, first.action, first.link)


def _messages(facts: OrderFacts, now: int) -> Iterator[Sentence]:
    """Yield the newest message that was not applied, and the oldest that waits."""
    failed = [message for message in facts.messages if message.state in _FAILED]
    if failed:
        message = max(failed, key=lambda row: row.id)
        cause = cause_of(
            ExceptionSubject.MESSAGE, message.state, message.code, message.detail, message.place
        )
        verb = "refused" if message.state is QueueState.REFUSED else "parked"
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        text = f"Message {message.id}{more} of this order was {verb}: {_lower(cause.words)}"
        link = SentenceLink("message", message.id)
        yield Sentence(text, WaitsFor.PERSON, Tone.RED, cause.action, link)
    waiting = [message for message in facts.messages if message.state in _OPEN]
    if waiting:
        message = min(waiting, key=lambda row: row.id)
        text = f"Message {message.id} waits to be applied"
        if message.code:
            cause = cause_of(ExceptionSubject.MESSAGE, message.state, message.code)
            text += f": {_lower(cause.words)}"
        if message.not_before > now:
            text += f"; next attempt in {format_duration(message.not_before - now)}"
        tone = Tone.AMBER if message.code else Tone.INFO
        yield Sentence(text, WaitsFor.BRIDGE, tone, "", SentenceLink("message", message.id))


def _report(facts: OrderFacts, now: int) -> Sentence:
    """Return the part about the order and its report."""
    report = facts.report
    if report is not None and report.status in SIGNED:
        return _signed(report, now)
    if (stopped := _stopped(facts.state, report)) is not None:
        return stopped
    if report is None:
        text = "The order is known, and the report engine has no report yet"
        return Sentence(text, WaitsFor.BRIDGE, Tone.AMBER)
    return _unsigned(facts, report, now)


def _stopped(state: str, report: ReportFacts | None) -> Sentence | None:
    """Return the part about an order that no reader is expected to read, None for others."""
    match state:
        case OrderState.CANCELLED:
            return Sentence("The order is cancelled", WaitsFor.NOBODY, Tone.NEUTRAL)
        case OrderState.HELD:
            text = "The order is on hold until its sender releases it"
            return Sentence(text, WaitsFor.SENDER, Tone.AMBER)
        case OrderState.REPORTED if report is None or report.status == ReportStatus.ORDERED:
            text = "The order is reported elsewhere and is not on the list of unread orders"
            return Sentence(text, WaitsFor.NOBODY, Tone.OK)
        case OrderState.AWAITED:
            text = "The order waits for its sender to report the examination"
            return Sentence(text, WaitsFor.SENDER, Tone.INFO)
    return None


def _signed(report: ReportFacts, now: int) -> Sentence:
    what = "addendum" if report.status == ReportStatus.ADDENDUM else "report"
    if report.released_at is not None and report.released_at > now:
        left = format_duration(max(1000, report.released_at - now))
        text = f"The {what} is signed{_by(report)} and is released in {left}, after the sign delay"
        return Sentence(text, WaitsFor.SIGN_DELAY, Tone.INFO)
    text = f"The {what} was signed{_by(report)}{_ago(report.changed_at, now)}"
    return Sentence(text, WaitsFor.NOBODY, Tone.OK)


def _unsigned(facts: OrderFacts, report: ReportFacts, now: int) -> Sentence:
    match report.status:
        case ReportStatus.DRAFT:
            who = report.reader or "a reader"
            text = f"{who} has the report open{_for(report.changed_at, now)} and has not signed it"
            return Sentence(text, WaitsFor.READER, Tone.INFO)
        case ReportStatus.PRELIMINARY:
            waited = _waited(report.changed_at, now)
            text = f"The preliminary read{_by(report)} {waited} for its review"
            return Sentence(text, WaitsFor.REVIEWER, Tone.INFO)
    whom = f"{report.reader} to open it" if report.reader else "a reader"
    text = f"The order is on the worklist and {_waited(facts.first_at, now)} for {whom}"
    return Sentence(text, WaitsFor.READER, Tone.INFO)


def _deliveries(facts: OrderFacts, now: int) -> Iterator[Sentence]:
    """Yield what each destination has or waits for; those that have the result are one part."""
    own: dict[str, list[DeliveryFacts]] = {}
    for delivery in sorted(facts.deliveries, key=lambda row: row.id):
        own.setdefault(delivery.destination, []).append(delivery)
    # The oldest unfinished delivery blocks those after it.
    blocking = {name: _unfinished_of(rows) for name, rows in own.items()}
    has_it = [
        name
        for name, rows in own.items()
        if blocking[name] is None and any(_is_delivered(row) for row in rows)
    ]
    if has_it and _is_released(facts, now):
        verb = "has" if len(has_it) == 1 else "have"
        yield Sentence(f"{_listed(has_it)} {verb} it", WaitsFor.NOBODY, Tone.OK)
    for name, rows in own.items():
        waiting = blocking[name]
        if waiting is not None:
            yield _unfinished(waiting, now)
        elif rows[-1].state is QueueState.CANCELLED:
            link = SentenceLink("delivery", rows[-1].id)
            text = f"The result for {name} was skipped"
            yield Sentence(text, WaitsFor.NOBODY, Tone.NEUTRAL, "", link)
    if not own and _is_released(facts, now):
        text = "No destination receives results of this order"
        yield Sentence(text, WaitsFor.NOBODY, Tone.AMBER)


_RESULTS: Final = frozenset(
    {ResultEvent.FINAL, ResultEvent.ADDENDUM, ResultEvent.CORRECTION, ResultEvent.RETRACTION}
)


def _is_delivered(delivery: DeliveryFacts) -> bool:
    return delivery.state is QueueState.DONE and delivery.event in _RESULTS


def _unfinished_of(rows: Sequence[DeliveryFacts]) -> DeliveryFacts | None:
    return next((row for row in rows if row.state in _FAILED | _OPEN), None)


def _unfinished(delivery: DeliveryFacts, now: int) -> Sentence:
    """Return the part about a delivery that the receiver has not accepted."""
    name, link = delivery.destination, SentenceLink("delivery", delivery.id)
    cause = cause_of(ExceptionSubject.DELIVERY, delivery.state, delivery.code, delivery.detail)
    why = f": {delivery.error or _lower(cause.words)}" if delivery.error or cause.words else ""
    if delivery.state is QueueState.PARKED:
        tries = f" after {delivery.attempts} attempts" if delivery.attempts > 1 else ""
        text = f"The result for {name} is parked{tries}{why}"
        return Sentence(text, WaitsFor.PERSON, Tone.RED, cause.action or "retry", link)
    if delivery.waits_for is not None:
        waited = _waited(delivery.created_at, now)
        text = f"The result for {name} {waited} behind delivery {delivery.waits_for}"
        before = SentenceLink("delivery", delivery.waits_for)
        return Sentence(text, WaitsFor.RECEIVER, Tone.AMBER, "", before)
    next_attempt = ""
    if delivery.not_before > now:
        next_attempt = f"; next attempt in {format_duration(delivery.not_before - now)}"
    if delivery.code == NOT_CONNECTED:
        reason = delivery.detail or "no connection"
        text = f"{name} cannot be reached{_for(delivery.created_at, now)}: {reason}{next_attempt}"
        return Sentence(text, WaitsFor.RECEIVER, Tone.RED, cause.action, link)
    if delivery.code and delivery.attempts:
        tries = "1 attempt" if delivery.attempts == 1 else f"{delivery.attempts} attempts"
        since = f" in {format_duration(max(0, now - delivery.created_at))}"
        text = f"{name} has not accepted the result after {tries}{since}{why}{next_attempt}"
        return Sentence(text, WaitsFor.RECEIVER, Tone.RED, cause.action, link)
    return Sentence(f"The result is being sent to {name}", WaitsFor.RECEIVER, Tone.INFO, "", link)


def _notes(facts: OrderFacts) -> Iterator[Sentence]:
    for code in facts.notes:
        cause = cause_of(ExceptionSubject.ORDER, "", code)
        yield Sentence(cause.words, WaitsFor.PERSON, Tone.AMBER, cause.action)


def _is_released(facts: OrderFacts, now: int) -> bool:
    report = facts.report
    if report is None or report.status not in SIGNED:
        return False
    return report.released_at is None or report.released_at <= now


def _by(report: ReportFacts) -> str:
    return f" by {report.reader}" if report.reader else ""


def _ago(at: int | None, now: int) -> str:
    return f" {format_duration(max(0, now - at))} ago" if at else ""


def _for(at: int | None, now: int) -> str:
    return f" for {format_duration(max(0, now - at))}" if at else ""


def _waited(at: int | None, now: int) -> str:
    return f"has waited {format_duration(max(0, now - at))}" if at else "waits"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _lower(words: str) -> str:
    """Begin a statement inside a sentence; abbreviations stay as they are."""
    return words if words[1:2].isupper() else words[:1].lower() + words[1:]
