"""The verdict on the messages of a frame before they are stored: definition and lanes, or refusals.

Pure. Fields are checked in the order of the standard: MSH-9, MSH-12, MSH-11 (HL7 v2.5.1 §2.9.2.2),
then MSH-10. Routes are cached by sender and message type. Refusals carry the place of the error. An
unexpected exception becomes a refusal too (AE 207), so that each message gets an answer.

A batch (FHS … BHS …) is one frame with several messages. One that cannot be split, or that
announces messages and has none, stays one message and is refused as such. If the announced count
differs from the messages that are present, or something between them is not a message, all
messages of the batch are refused: some may be missing.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.queue.arrivals import MAX_LANES, lane, part_number
from config.listeners import Acknowledge
from mappings.hl7.batch import find_stray_lines, find_wrong_count, split
from mappings.hl7.header import Header, peek
from mappings.hl7.message import find_nul
from mappings.hl7.refusals import (
    AckCode,
    BatchCountMismatch,
    InternalError,
    MalformedMessage,
    MalformedReason,
    MessageRefusal,
    MissingField,
    TooLargeForPatients,
    UnsupportedProcessingId,
    UnsupportedVersion,
    WrongDataType,
    strictest,
)
from mappings.inbound.definition import InboundMapping, refusal_for
from mappings.inbound.events import OrderEvent
from mappings.language.code_tables import UnmappedCode
from mappings.language.conditions import PatternsTakeLong
from mappings.language.scope import ListenerDefaults
from mllp.framing import START, Frame

MAX_CACHED_ROUTES = 4096
"""Routes in the cache. The cache is cleared when it is full, so that senders cannot fill memory."""

MAX_PART_BYTES = 64 * 2**20
"""Bytes of all parts of the messages in one frame: each part is stored with the whole message."""

Route = InboundMapping | MessageRefusal


class Router:
    """Chooses the definition for each message header of a listener."""

    def __init__(self, policy: ListenerPolicy) -> None:
        """`policy` is the listener's policy."""
        self._policy = policy
        self._routes: dict[tuple[object, ...], Route] = {}

    def route(self, header: Header) -> InboundMapping:
        """Return the definition that accepts a message. Raises MessageRefusal."""
        key = (
            header.message_code,
            header.trigger,
            header.version,
            header.processing_id,
            header.charset,
            header.fields[1:7],
        )
        route = self._routes.get(key)
        if route is None:
            route = self._find(header)
            if len(self._routes) >= MAX_CACHED_ROUTES:
                self._routes.clear()
            self._routes[key] = route
        if isinstance(route, MessageRefusal):
            raise type(route)(route.place)
        return route

    def _find(self, header: Header) -> Route:
        policy = self._policy
        for definition in policy.definitions:
            if definition.accepts(header, policy.charset):
                if refusals := definition.acceptance.refusals(header):
                    return refusals[0]
                break
        else:
            acceptances = [known.acceptance for known in policy.definitions]
            return refusal_for(header, acceptances, policy.charset)
        if policy.versions and header.version not in policy.versions:
            return UnsupportedVersion()
        if policy.processing_ids and header.processing_id not in policy.processing_ids:
            return UnsupportedProcessingId()
        return definition


def require_control_id(header: Header) -> None:
    """Refuse a message without MSH-10: it cannot be acknowledged (§2.14.9.10)."""
    if header.control_id.strip() in {b"", b'""'}:
        raise MissingField("MSH-10")


ErrorReporter = Callable[[Exception], None]
"""Receives an unexpected exception before it becomes a refusal."""


class SequenceCheck(NamedTuple):
    """The result of the sequence number protocol for one message."""

    expected: bytes  # the value of MSA-4
    may_change: bool = False  # the same bytes may get another answer the next time
    is_header_only: bool = False  # the message has a header only: nothing to apply


class Verdict(NamedTuple):
    """A message is accepted into these lanes or refused; `header` is None if MSH is unreadable."""

    header: Header | None
    definition: InboundMapping | None = None
    lanes: tuple[int, ...] = ()
    refusals: tuple[MessageRefusal, ...] = ()
    charset_suspect: bool = False
    sequence: SequenceCheck | None = None
    parts: tuple[tuple[int, ...], ...] = ()
    """The lanes of each part, if the message has more patients than a queue row has lanes."""

    @property
    def code(self) -> AckCode:
        """The application acknowledgment code of the verdict."""
        return strictest(self.refusals) if self.refusals else AckCode.ACCEPT

    def lanes_for(self, flags: int) -> tuple[int, ...]:
        """Return the lanes of a stored row, which may hold one part of the message."""
        number = part_number(flags)
        return self.lanes if number is None or not self.parts else self.parts[number]

    @property
    def is_internal_error(self) -> bool:
        """
        Whether an error of this program is a cause of the refusal: the same bytes may be accepted
        later.
        """
        return any(isinstance(refusal, InternalError) for refusal in self.refusals)


VerdictRule = Callable[[Verdict, bytes], Verdict]
"""Changes the verdict on a payload."""

Evaluate = Callable[[Frame, datetime], Verdict]


def with_rule(evaluate: Evaluate, rule: VerdictRule) -> Evaluate:
    return lambda frame, now: rule(evaluate(frame, now), frame.payload)


class FrameEvaluator:
    """Evaluates the frames of one listener."""

    def __init__(self, policy: ListenerPolicy, report_error: ErrorReporter) -> None:
        """`report_error` receives unexpected exceptions."""
        self._policy = policy
        self._router = Router(policy)
        self._report_error = report_error

    def evaluate(self, frame: Frame, now: datetime) -> Verdict:
        """Return the verdict on one message. Raises only PatternsTakeLong (`bounded_patterns`)."""
        header = None
        try:
            # Only the bytes before a second start block belong to the message.
            header = peek(frame.payload.split(START, 1)[0] if frame.truncated else frame.payload)
            if frame.truncated:
                return Verdict(header, refusals=(MalformedMessage(MalformedReason.INCOMPLETE),))
            return self._evaluate(header, frame.payload, now)
        except MessageRefusal as refusal:
            # The traceback would keep stack frames alive, and with them all messages that were
            # answered before.
            kept = refusal.with_traceback(None)
            kept.__context__ = kept.__cause__ = None
            return Verdict(header, refusals=(kept,))
        except PatternsTakeLong:
            raise
        except Exception as error:  # noqa: BLE001  # every message gets an answer
            self._report_error(error)
            return Verdict(header, refusals=(InternalError(),))

    def _evaluate(self, header: Header, payload: bytes, now: datetime) -> Verdict:
        definition = self._router.route(header)
        require_control_id(header)
        if place := find_nul(payload, header):
            raise WrongDataType(place)
        policy = self._policy
        unmapped: list[UnmappedCode] = []
        defaults = ListenerDefaults(policy.site, policy.time_zone, now, unmapped)
        if policy.acknowledge is Acknowledge.STORED:
            return self._unchecked(header, definition, payload, defaults)
        found = policy.inspect(definition, payload, header, defaults)
        refusals = found.refusals
        if unmapped and refusals:  # an accepted one is read again later and counted then
            policy.on_unmapped_codes(definition.name, definition.version, unmapped)
        lanes = () if refusals else _lanes(found.lanes)
        verdict = Verdict(header, definition, lanes, refusals, found.charset_suspect)
        if len(lanes) <= MAX_LANES:
            return verdict
        return _in_parts(verdict, policy.read(definition, payload, defaults), len(payload))

    def _unchecked(
        self,
        header: Header,
        definition: InboundMapping,
        payload: bytes,
        defaults: ListenerDefaults,
    ) -> Verdict:
        """Accept every message that can be stored; errors show up when it is processed."""
        try:
            found = self._policy.inspect(definition, payload, header, defaults)
            lanes = _lanes(found.lanes)
            several = len(lanes) > MAX_LANES
            events = self._policy.read(definition, payload, defaults) if several else ()
        except MessageRefusal:
            sender = b"|".join(header.fields[3:5]).decode("latin-1")
            return Verdict(header, definition, (lane(self._policy.name, sender),))
        verdict = Verdict(header, definition, lanes, (), found.charset_suspect)
        return _in_parts(verdict, events, len(payload)) if events else verdict


def parts_of(events: Sequence[OrderEvent]) -> list[list[OrderEvent]]:
    """Group events by their patient, a merge by both patients, in the order of the message."""
    parts: dict[tuple[str, str, str], list[OrderEvent]] = {}
    for event in events:
        parts.setdefault((event.site, event.mrn, event.prior_mrn), []).append(event)
    return list(parts.values())


def lanes_of(part: Sequence[OrderEvent]) -> tuple[int, ...]:
    """Return the lanes of a part: one, or two for a merge."""
    event = part[0]
    mrns = [event.mrn, event.prior_mrn] if event.prior_mrn else [event.mrn]
    return tuple(dict.fromkeys(lane(f"{event.site}|{mrn}") for mrn in mrns))


def _in_parts(verdict: Verdict, events: Sequence[OrderEvent], size: int) -> Verdict:
    """Divide a message of `size` bytes by its patients. Raises TooLargeForPatients."""
    parts = tuple(map(lanes_of, parts_of(events)))
    if len(parts) * size > MAX_PART_BYTES:
        raise TooLargeForPatients
    return verdict._replace(lanes=parts[0], parts=parts)


def _lanes(patients: Sequence[str]) -> tuple[int, ...]:
    """Return the lanes of the patients of a message; at least one."""
    if len(patients) == 1:
        return (lane(patients[0]),)
    return tuple(dict.fromkeys(lane(patient) for patient in patients or ("",)))


_BLANK = b" \t\r\n\xef\xbb\xbf"
_MARKS = (b"FHS", b"BHS")


def looks_like_batch(payload: bytes) -> bool:
    """True if a payload begins like a batch. Cheap: called for each frame."""
    return not payload.startswith(b"MSH") and payload.lstrip(_BLANK).startswith(_MARKS)


def split_batch(frame: Frame) -> list[Frame]:
    """
    Return the messages of a batch as frames; each is truncated if the batch is.

    The frame itself represents a batch that is refused as a whole.
    """
    try:
        messages = split(frame.payload)
    except MalformedMessage:
        messages = None
    if messages is None:
        return [frame]
    if not messages and batch_refusal(frame.payload, checked=True):
        return [frame]
    return [Frame(message, frame.truncated) for message in messages]


def batch_refusal(payload: bytes, *, checked: bool) -> MessageRefusal | None:
    """
    Return why a batch is refused: too many messages, or if `checked`, a wrong count or content that
    is no message.
    """
    try:
        split(payload)
        if not checked:
            return None
        if place := find_stray_lines(payload):
            return MalformedMessage(MalformedReason.STRAY_IN_BATCH, place)
        place = find_wrong_count(payload)
    except MalformedMessage as refusal:  # each message is refused for the other reasons
        too_many = refusal.reason is MalformedReason.TOO_MANY_MESSAGES
        return refusal.with_traceback(None) if too_many else None
    return BatchCountMismatch(place) if place else None


def with_refusal(refusal: MessageRefusal | None, verdict: Verdict) -> Verdict:
    """
    Add the refusal of its batch to a message's verdict.

    A batch with too many messages was evaluated as one message: only the number is its reason.
    """
    if refusal is None:
        return verdict
    too_many = isinstance(refusal, MalformedMessage) and (
        refusal.reason is MalformedReason.TOO_MANY_MESSAGES
    )
    own = () if too_many else verdict.refusals
    return verdict._replace(lanes=(), parts=(), refusals=(*own, refusal))
