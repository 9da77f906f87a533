"""The verdict on a message, reached before it is stored: mapping, acceptance, refusal.

Pure, and quick for traffic that repeats itself: the answer is remembered by sender and type.
The order of tests is the standard's: MSH-9, MSH-12, MSH-11 (HL7 v2.5.1 §2.9.2.2), then MSH-10.

Pure. Refusals are collected with their places; an exception nobody foresaw is a refusal too
(AE 207), so that there is always an answer and never a positive one by accident.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from bridge.intake.receive.identity import lane
from bridge.intake.receive.listener import Acknowledge, Definition, Listening
from bridge.intake.receive.patient_split import lanes_of, number_of, parts_of
from bridge.queue.ledger.arrivals import MAX_LANES
from mappings.hl7.header import Header, peek
from mappings.hl7.null_characters import null_place
from mappings.hl7.refusals import (
    InternalError,
    MalformedMessage,
    MalformedReason,
    MessageRefusal,
    MissingField,
    UnsupportedProcessingId,
    UnsupportedVersion,
    WrongDataType,
    strictest,
)
from mappings.hl7.tables import AckCode
from mappings.inbound.acceptance import refusal_for
from mappings.inbound.events import OrderEvent
from mappings.language.code_tables import UnmappedCode
from mappings.language.scope import ListenerDefaults
from mllp.framing import START, Frame

MOST_REMEMBERED = 4096
"""Different senders and types; beyond it all are forgotten, so that nobody can fill memory."""

Route = Definition | MessageRefusal


class Router:
    """Routes the headers of one listener."""

    def __init__(self, listening: Listening) -> None:
        """Take the listener's policy."""
        self._listening = listening
        self._known: dict[tuple[object, ...], Route] = {}

    def route(self, header: Header) -> Definition:
        """Give the definition that takes a message. Raises Refusal."""
        key = (
            header.message_code,
            header.trigger,
            header.version,
            header.processing_id,
            header.fields[3:7],
        )
        route = self._known.get(key)
        if route is None:
            route = self._find(header)
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = route
        if isinstance(route, MessageRefusal):
            raise type(route)(route.place)
        return route

    def _find(self, header: Header) -> Route:
        listening = self._listening
        for definition in listening.definitions:
            if definition.accepts(header):
                if refusals := definition.acceptance.refusals(header):
                    return refusals[0]
                break
        else:
            return refusal_for(header, [each.acceptance for each in listening.definitions])
        if listening.versions and header.version not in listening.versions:
            return UnsupportedVersion()
        if listening.processing_ids and header.processing_id not in listening.processing_ids:
            return UnsupportedProcessingId()
        return definition


def require_control_id(header: Header) -> None:
    """Refuse a message that could not be acknowledged: MSH-10 is required (§2.14.9.10)."""
    if header.control_id.strip() in {b"", b'""'}:
        raise MissingField("MSH-10")


Alarm = Callable[[Exception], None]
"""Told of an exception that nobody foresaw, before it becomes a refusal."""


class Turn(NamedTuple):
    """What the sequence number of a message leads to."""

    expected: bytes  # MSA-4
    is_fresh: bool = False  # the same bytes may be answered otherwise the next time
    is_bare: bool = False  # it speaks of the link only: there is nothing to apply


class Verdict(NamedTuple):
    """Accepted for these lanes, or refused. `header` is None when MSH could not be read."""

    header: Header | None
    definition: Definition | None = None
    lanes: tuple[int, ...] = ()
    refusals: tuple[MessageRefusal, ...] = ()
    charset_suspect: bool = False
    turn: Turn | None = None
    parts: tuple[tuple[int, ...], ...] = ()
    """The lanes of each part, where the message has more patients than the queue has lanes."""

    @property
    def code(self) -> AckCode:
        """The application acknowledgment that says so."""
        return strictest(self.refusals) if self.refusals else AckCode.ACCEPT

    def lanes_for(self, flags: int) -> tuple[int, ...]:
        """Give the lanes of a stored row, which may be a part of the message."""
        number = number_of(flags)
        return self.lanes if number is None or not self.parts else self.parts[number]

    @property
    def is_ours(self) -> bool:
        """Whether the refusal is our own fault, so that the same bytes may be taken later."""
        return any(isinstance(each, InternalError) for each in self.refusals)


Rule = Callable[[Verdict, bytes], Verdict]
"""Gives what a verdict about a payload comes to in the end."""

Judges = Callable[[Frame, datetime], Verdict]


def ruled(judge: Judges, rule: Rule) -> Judges:
    """Let a rule have the last word of each verdict."""
    return lambda frame, now: rule(judge(frame, now), frame.payload)


class Judge:
    """Judges the frames of one listener."""

    def __init__(self, listening: Listening, alarm: Alarm) -> None:
        """Take the listener's policy."""
        self._listening = listening
        self._router = Router(listening)
        self._alarm = alarm

    def judge(self, frame: Frame, now: datetime) -> Verdict:
        """Decide about one message; never raises."""
        header = None
        try:
            # Of a truncated frame only what stands before the second start is the message's own.
            header = peek(frame.payload.split(START, 1)[0] if frame.truncated else frame.payload)
            if frame.truncated:
                return Verdict(header, refusals=(MalformedMessage(MalformedReason.INCOMPLETE),))
            return self._judge(header, frame.payload, now)
        except MessageRefusal as refusal:
            # Its traceback would keep the frames of the stack alive, and with them, batch after
            # batch, all messages that were answered before.
            kept = refusal.with_traceback(None)
            kept.__context__ = kept.__cause__ = None
            return Verdict(header, refusals=(kept,))
        except Exception as error:  # noqa: BLE001  # whatever it was: no positive answer, no silence
            self._alarm(error)
            return Verdict(header, refusals=(InternalError(),))

    def _judge(self, header: Header, payload: bytes, now: datetime) -> Verdict:
        definition = self._router.route(header)
        require_control_id(header)
        if place := null_place(payload, header):
            raise WrongDataType(place)
        listening = self._listening
        missed: list[UnmappedCode] = []
        defaults = ListenerDefaults(listening.site, listening.time_zone, now, missed)
        if listening.acknowledge is Acknowledge.STORED:
            return self._unchecked(header, definition, payload, defaults)
        found, suspect = definition.inspect(payload, listening.charset, header, defaults)
        refusals = found.refusals
        if missed and refusals:  # what is taken is read again, and counted then
            listening.missing(definition.name, definition.version, missed)
        lanes = () if refusals else _numbers(found.lanes)
        verdict = Verdict(header, definition, lanes, refusals, suspect)
        if len(lanes) <= MAX_LANES:  # nearly always
            return verdict
        return _in_parts(verdict, definition.read(payload, listening.charset, defaults))

    def _unchecked(
        self, header: Header, definition: Definition, payload: bytes, defaults: ListenerDefaults
    ) -> Verdict:
        """Accept whatever can be stored; what is wrong with it, a person will see."""
        try:
            charset = self._listening.charset
            found, suspect = definition.inspect(payload, charset, header, defaults)
            lanes = _numbers(found.lanes)
            several = len(lanes) > MAX_LANES
            events = definition.read(payload, charset, defaults) if several else ()
        except MessageRefusal:
            sender = b"|".join(header.fields[3:5]).decode("latin-1")
            return Verdict(header, definition, (lane(self._listening.name, sender),))
        verdict = Verdict(header, definition, lanes, (), suspect)
        return _in_parts(verdict, events) if events else verdict


def _in_parts(verdict: Verdict, events: Sequence[OrderEvent]) -> Verdict:
    parts = tuple(map(lanes_of, parts_of(events)))
    return verdict._replace(lanes=parts[0], parts=parts)


def _numbers(patients: Sequence[str]) -> tuple[int, ...]:
    """Give the lanes of the patients that a message speaks of; never none."""
    if len(patients) == 1:  # nearly always
        return (lane(patients[0]),)
    return tuple(dict.fromkeys(lane(each) for each in patients or ("",)))
