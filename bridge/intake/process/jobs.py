"""Jobs: a stored message with its order events and the time at which it was sent.

A message is read with the definition version that it was accepted under, or with the active
version if that one is unknown. Blocks only while an earlier version is looked up.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from bridge.index_key import signed64
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.intake.receive.verdict import parts_of
from bridge.orders.order import Order, Patient
from bridge.orders.patients import KnownDemographics, MergePointer, Separation
from bridge.orders.received_objects import Match, MatchFault, MessageKind, ReceivedObject
from bridge.orders.rules import SourceMessage
from bridge.orders.times import MessageTime, Resolution, clock
from bridge.orders.undone_merges import ReturningOrder
from bridge.orders.visits import VisitTransfers
from bridge.queue.arrivals import part_number
from bridge.queue.claims import ClaimedMessage
from config.listeners import MergedPatients, PatientConflict
from mappings.hl7 import lines
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.path import Path
from mappings.hl7.times import Precision, parse_timestamp
from mappings.inbound.definition import InboundMapping
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.inbound.order_mapping import PatientNames
from mappings.language.code_tables import UnmappedCode
from mappings.language.scope import ListenerDefaults

_SENT_AT = Path.parse("MSH-7.1")
MAX_SENT_AHEAD_MS = 5_000
"""A sending time that is later than the arrival by more than this comes from a wrong clock."""

_RESOLUTIONS = {
    Precision.MINUTE: Resolution.MINUTE,
    Precision.SECOND: Resolution.SECOND,
    Precision.FRACTION: Resolution.MILLISECOND,
}
_DIGITS = re.compile(rb"[0-9]*")


class DefinitionMissingError(Exception):
    """The listener or the mapping of a stored message is no longer configured."""

    def __init__(self, what: str) -> None:
        super().__init__(f"no such {what} in the settings")


class MessagePartMissingError(Exception):
    """A stored part of a message is beyond the patients that its mapping finds now."""

    def __init__(self) -> None:
        super().__init__("its mapping now finds fewer patients in the message")


class ContentUnreadableError(Exception):
    """A stored message cannot be read now; `code` is the code of the system error."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(f"its content cannot be read now ({code})")


class ContentMissingError(Exception):
    """The content of a stored message is missing or incomplete."""

    def __init__(self) -> None:
        super().__init__("its content is missing: see the folder of large messages")


class ContentDamagedError(Exception):
    """The content of a stored message has changed since it was acknowledged."""

    def __init__(self) -> None:
        super().__init__("its content does not have the digest with which it was stored")


@dataclass(frozen=True, slots=True)
class ReceivedMatch:
    """
    What a modality sent, and the order of each reference.

    Of an N-SET, `received` is the performed step after it.
    """

    kind: MessageKind
    received: ReceivedObject
    matches: Sequence[Match]

    @property
    def orders(self) -> Sequence[Order]:
        return [found.order for found in self.matches if found.order is not None]

    @property
    def fault(self) -> MatchFault | None:
        """The fault of a reference without an order; a contradiction goes first."""
        if self.received.is_own:
            return None  # nothing is added to a report, and no order is awaited
        faults = {found.fault for found in self.matches}
        return next((fault for fault in _FAULTS if fault in faults), None)

    @property
    def missing_keys(self) -> frozenset[int]:
        """The keys of the orders that are not known."""
        missing = (found.reference.key for found in self.matches if found.order is None)
        return frozenset(key for key in missing if key is not None)


_FAULTS = (MatchFault.OTHER_PATIENT, MatchFault.SEVERAL, MatchFault.NO_ORDER)


@dataclass(frozen=True, slots=True)
class MessageJob:
    claimed: ClaimedMessage
    source: SourceMessage
    events: Sequence[OrderEvent]
    merged: MergedPatients = MergedPatients.REDIRECT
    patient_conflict: PatientConflict = PatientConflict.PARK
    patient_names: PatientNames = PatientNames.COMPATIBLE
    conflicts: Sequence[Order] = ()
    """Orders of other patients that the message names."""
    exception_code: str = ""
    """The code of an exception that was found while reading, such as an ambiguous order number."""
    demographics: KnownDemographics = field(default_factory=dict)
    """The latest demographics of its patients from earlier messages."""
    moves: VisitTransfers = field(default_factory=dict)
    """Visits of its patients that moved."""
    pointers: Mapping[Patient, MergePointer] = field(default_factory=dict)
    """The merges of its patients, if it undoes one."""
    separations: Sequence[Separation] = ()
    """The undos of merges of its patients, if it merges some."""
    returning: Mapping[Patient, Sequence[ReturningOrder]] = field(default_factory=dict)
    """The orders that return to each merged patient if it undoes the merge."""
    redirected: Collection[Patient] = ()
    """The merged numbers of its batch: its orders with one of them are the survivor's."""
    has_early_rows: bool = False
    """Whether orders of its batch are known by a number only."""
    received: ReceivedMatch | None = None
    """What a modality sent, with the orders that it is about."""

    @property
    def sites(self) -> frozenset[str]:
        return frozenset(event.site for event in self.events)

    @property
    def patients(self) -> set[Patient]:
        """The patients that the message names, and those whose orders or visits it may be about."""
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


def read(claimed: ClaimedMessage, listeners: Mapping[str, ListenerPolicy]) -> MessageJob:
    """
    Map a stored message.

    Raises MessageRefusal, DefinitionMissingError, MessagePartMissingError, ContentMissingError,
    ContentUnreadableError, ContentDamagedError, and what hooks raise.
    """
    require_content(claimed)
    policy = listeners.get(claimed.listener)
    if policy is None:
        raise DefinitionMissingError("listener")
    definition = _definition(policy, claimed.mapping, claimed.mapping_version)
    unmapped: list[UnmappedCode] = []
    events = policy.read(definition, claimed.payload, _defaults(claimed, policy, unmapped))
    return _job(claimed, policy, definition, events, unmapped)


def require_content(claimed: ClaimedMessage) -> None:
    """Raise ContentMissingError, ContentUnreadableError or ContentDamagedError."""
    if claimed.is_damaged:
        raise ContentDamagedError
    if claimed.unreadable_code:
        raise ContentUnreadableError(claimed.unreadable_code)
    if not claimed.payload:
        raise ContentMissingError


def _defaults(
    claimed: ClaimedMessage, policy: ListenerPolicy, unmapped: list[UnmappedCode]
) -> ListenerDefaults:
    received = datetime.fromtimestamp(claimed.received_at / 1000, UTC)
    return ListenerDefaults(policy.site, policy.time_zone, received, unmapped)


def _job(
    claimed: ClaimedMessage,
    policy: ListenerPolicy,
    definition: InboundMapping,
    events: Sequence[OrderEvent],
    unmapped: Sequence[UnmappedCode],
) -> MessageJob:
    events = _part(events, claimed.flags)
    if unmapped:
        policy.on_unmapped_codes(definition.name, definition.version, unmapped)
    source = SourceMessage(
        claimed.message_id, sent_at(claimed.payload, policy, claimed.received_at)
    )
    return MessageJob(
        claimed,
        source,
        events,
        policy.merged,
        _conflict_policy(policy, events),
        definition.patient_names,
    )


def _conflict_policy(policy: ListenerPolicy, events: Sequence[OrderEvent]) -> PatientConflict:
    """Return the treatment of conflicts: a report never moves an order to another patient."""
    found = policy.patient_conflict
    has_report = any(event.action is OrderAction.OUTSIDE_REPORT for event in events)
    return PatientConflict.PARK if has_report and found is PatientConflict.MOVE else found


def _part(events: Sequence[OrderEvent], flags: int) -> Sequence[OrderEvent]:
    """Return the events of a row that holds one part of its message."""
    number = part_number(flags)
    if number is None:
        return events
    parts = parts_of(events)
    if number >= len(parts):  # the definition has changed
        raise MessagePartMissingError
    return parts[number]


def sent_at(payload: bytes, policy: ListenerPolicy, received_at: int) -> MessageTime | None:
    """
    Return MSH-7 with the clock that it was read from; None if it is not reliable.

    MSH-7 is not reliable if it is missing, has no minutes, comes from a sender without a name,
    lies within an hour that local time repeats or skips, or is more than `MAX_SENT_AHEAD_MS`
    after the arrival (`received_at`, ms).
    """
    header = peek(payload)
    sender = (header.sending_application.strip(), header.sending_facility.strip())
    if not any(sender):
        return None
    value = header.fields[_SENT_AT.field]
    if _DIGITS.fullmatch(value):  # the usual case needs no parsing
        text = value.decode("ascii")
    else:
        # The rest of the message may be long.
        head = lines.first_line(lines.trim_except_last_cr(payload)[0])
        text = Message.parse(head, fallback=policy.charset).value(_SENT_AT)
    found = _parse_sent_at(text, policy.time_zone)
    if found is None or found[0] > received_at + MAX_SENT_AHEAD_MS:
        return None
    at, resolution, zone = found
    return MessageTime(at, clock(_sender(*sender, zone), resolution))


@lru_cache(maxsize=1024)
def _sender(application: bytes, facility: bytes, zone: str) -> int:
    """Return the clock number of a sender and time zone: clocks of two zones are not compared."""
    return signed64(b"clock", application, facility, zone.encode())


@lru_cache(maxsize=1024)
def _parse_sent_at(value: str, time_zone: str) -> tuple[int, Resolution, str] | None:
    """Parse a time: milliseconds, resolution, zone. Cached: many messages have the same time."""
    stamp = parse_timestamp(value)
    if stamp is None or stamp.precision < Precision.MINUTE:
        return None
    moment = stamp.moment(ZoneInfo(time_zone))
    if moment.utcoffset() != moment.replace(fold=1).utcoffset():
        return None
    zone = time_zone if stamp.offset is None else ""
    return round(moment.timestamp() * 1000), _RESOLUTIONS[stamp.precision], zone


def _definition(policy: ListenerPolicy, name: str, version: str) -> InboundMapping:
    active = [definition for definition in policy.definitions if definition.name == name]
    for definition in active:
        if definition.version == version:
            return definition
    earlier = policy.find_version(name, version) if version else None
    if earlier is not None:
        return earlier
    if active:
        return active[0]
    raise DefinitionMissingError("mapping")
