"""From a stored message to a job: its events, and when it was sent, as far as that can be trusted.

Reads with the version of the definition that the message was accepted under; the one in force
now, where that was never kept. Blocking only where an older version is looked up.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from bridge.intake.patients.names import Words
from bridge.intake.process.planning import Occasion
from bridge.intake.receive.listener import Definition, Listening, Merged, PatientConflict
from bridge.intake.receive.patient_split import number_of, parts_of
from bridge.queue.claims import ClaimedMessage
from bridge.queue.ledger.arrivals import signed64
from bridge.store.records.merged_patients import Patient
from bridge.store.records.message_time import MessageTime, Resolution, clock
from bridge.store.records.order_index import IndexedOrder
from bridge.store.records.visit_transfers import VisitTransfers
from mappings.hl7 import lines
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.path import Path
from mappings.hl7.refusals import MessageRefusal
from mappings.hl7.times import Precision, parse_timestamp
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.inbound.order_mapping import PatientNames
from mappings.language.code_tables import UnmappedCode
from mappings.language.errors import RuleFailed
from mappings.language.scope import ListenerDefaults

_SENT_AT = Path.parse("MSH-7.1")
CLOCK_TOLERANCE_MS = 5_000
"""A time this much later than the arrival is a wrong clock's."""

_RESOLUTIONS = {
    Precision.MINUTE: Resolution.MINUTE,
    Precision.SECOND: Resolution.SECOND,
    Precision.FRACTION: Resolution.MILLISECOND,
}
_SHORT = 16 * 2**10  # bytes of a message that is read at once
_OF_PATIENTS = frozenset(
    {OrderAction.PATIENT_UPDATE, OrderAction.PATIENT_MERGE, OrderAction.VISIT_MOVE}
)
_DIGITS = re.compile(rb"[0-9]*")


class NoDefinition(Exception):  # noqa: N818  # says what is missing
    """The listener or the mapping of a stored message is no longer configured."""

    def __init__(self, what: str) -> None:
        """Say which of the two."""
        super().__init__(f"no such {what} in the settings")


class ContentUnreadable(Exception):  # noqa: N818  # as above
    """The content of a stored message cannot be read now; `code` is that of the system's error."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(f"its content cannot be read now ({code})")


class ContentGone(Exception):  # noqa: N818  # as above
    """The content of a stored message is not where it is kept, or not all of it."""

    def __init__(self) -> None:
        """Name the place where SQLite has it."""
        super().__init__("its content is missing: see the folder of large messages")


@dataclass(frozen=True, slots=True)
class Job:
    """One message, read."""

    claimed: ClaimedMessage
    occasion: Occasion
    events: Sequence[OrderEvent]
    merged: Merged = Merged.REDIRECT
    patient_conflict: PatientConflict = PatientConflict.PARK
    patient_names: PatientNames = PatientNames.COMPATIBLE
    conflicts: Sequence[IndexedOrder] = ()
    """Orders of other patients that it names."""
    doubt: str = ""
    """The code by which it wants a person: a number of several orders, another accession."""
    words: Words = field(default_factory=dict)
    """What was last said of its patients by messages before it."""
    moves: VisitTransfers = field(default_factory=dict)
    """Which of its patients' visits moved."""
    heard: bool = False
    """Whether orders of its batch were named by a number alone, and not ordered yet."""

    @property
    def patients(self) -> set[Patient]:
        """The patients that the message names, or whose orders or visits it may concern."""
        named = {
            (event.site, mrn)
            for event in self.events
            for mrn in (event.mrn, event.prior_mrn)
            if mrn
        }
        named |= {(order.key.site, order.key.mrn) for order in self.conflicts}
        for visit, move in self.moves.items():
            named |= {(visit.site, visit.mrn), (move.now.site, move.now.mrn)}
        return named


def read(claimed: ClaimedMessage, listeners: Mapping[str, Listening]) -> Job:
    """
    Map a stored message.

    Raises Refusal, NoDefinition, ContentGone, ContentUnreadable, and what hooks raise.
    """
    if claimed.unreadable:
        raise ContentUnreadable(claimed.unreadable)
    if not claimed.payload:
        raise ContentGone
    listening = listeners.get(claimed.listener)
    if listening is None:
        raise NoDefinition("listener")
    definition = _definition(listening, claimed.mapping, claimed.mapping_version)
    missed: list[UnmappedCode] = []
    asked = definition.read(claimed.payload, listening.charset, _given(claimed, listening, missed))
    return _job(claimed, listening, definition, asked, missed)


def readily(claimed: ClaimedMessage, listeners: Mapping[str, Listening]) -> Job | None:
    """Map a short message as `read` does; None where that blocks or fails."""
    listening = listeners.get(claimed.listener)
    if listening is None or not 0 < len(claimed.payload) <= _SHORT:
        return None
    definition = _in_force(listening, claimed.mapping, claimed.mapping_version)
    if definition is None or definition.takes_long:
        return None
    missed: list[UnmappedCode] = []
    given = _given(claimed, listening, missed)
    try:
        asked = definition.read(claimed.payload, listening.charset, given)
    except (MessageRefusal, RuleFailed):  # `read` meets it again, and says it
        return None
    if missed or number_of(claimed.flags) is not None:
        return None  # what is missed is told once, and a batch may still be read anew as a whole
    if not _OF_PATIENTS.isdisjoint([each.action for each in asked]):
        return None  # a patient may have thousands of orders
    return _job(claimed, listening, definition, asked, missed)


def _given(
    claimed: ClaimedMessage, listening: Listening, missed: list[UnmappedCode]
) -> ListenerDefaults:
    received = datetime.fromtimestamp(claimed.received_at / 1000, UTC)
    return ListenerDefaults(listening.site, listening.time_zone, received, missed)


def _job(
    claimed: ClaimedMessage,
    listening: Listening,
    definition: Definition,
    asked: Sequence[OrderEvent],
    missed: Sequence[UnmappedCode],
) -> Job:
    events = _part(asked, claimed.flags)
    if missed:
        listening.missing(definition.name, definition.version, missed)
    occasion = Occasion(
        claimed.message_id, sent_at(claimed.payload, listening, claimed.received_at)
    )
    return Job(
        claimed,
        occasion,
        events,
        listening.merged,
        listening.patient_conflict,
        definition.patient_names,
    )


def _part(events: Sequence[OrderEvent], flags: int) -> Sequence[OrderEvent]:
    """Give the events that a row is for, where it is one part of its message."""
    number = number_of(flags)
    if number is None:
        return events
    parts = parts_of(events)
    if number >= len(parts):  # a definition of today cuts it otherwise
        raise NoDefinition("part of the message")
    return parts[number]


def sent_at(payload: bytes, listening: Listening, received_at: int) -> MessageTime | None:
    """
    Give MSH-7 with the clock that it was read from; None where it proves nothing.

    That is: missing, no finer than an hour, of no named sender, within an hour that local time
    repeats or skips, or more than `CLOCK_TOLERANCE_MS` later than the arrival (`received_at`, ms).
    """
    header = peek(payload)
    sender = (header.sending_application.strip(), header.sending_facility.strip())
    if not any(sender):
        return None
    field = header.fields[_SENT_AT.field]
    if _DIGITS.fullmatch(field):  # nearly always: nothing in it can part it
        said = field.decode("ascii")
    else:
        head = lines.first_line(lines.untrailed(payload)[0])  # what follows may be long
        said = Message.parse(head, fallback=listening.charset).value(_SENT_AT)
    found = _moment(said, listening.time_zone)
    if found is None or found[0] > received_at + CLOCK_TOLERANCE_MS:
        return None
    at, resolution, zone = found
    return MessageTime(at, clock(_sender(*sender, zone), resolution))


@lru_cache(maxsize=1024)
def _sender(application: bytes, facility: bytes, zone: str) -> int:
    """Give the number of a sender whose times are of a zone: others may be hours apart."""
    return signed64(b"clock", application, facility, zone.encode())


@lru_cache(maxsize=1024)
def _moment(said: str, time_zone: str) -> tuple[int, Resolution, str] | None:
    """Read a time in milliseconds, with its resolution and zone; many are sent within a second."""
    stamp = parse_timestamp(said)
    if stamp is None or stamp.precision < Precision.MINUTE:
        return None
    moment = stamp.moment(ZoneInfo(time_zone))
    if moment.utcoffset() != moment.replace(fold=1).utcoffset():
        return None
    zone = time_zone if stamp.offset is None else ""
    return round(moment.timestamp() * 1000), _RESOLUTIONS[stamp.precision], zone


def _definition(listening: Listening, name: str, version: str) -> Definition:
    if found := _in_force(listening, name, version):
        return found
    earlier = listening.recall(name, version) if version else None
    if earlier is not None:
        return earlier
    for definition in listening.definitions:
        if definition.name == name:
            return definition
    raise NoDefinition("mapping")


def _in_force(listening: Listening, name: str, version: str) -> Definition | None:
    for definition in listening.definitions:
        if definition.name == name and definition.version == version:
            return definition
    return None
