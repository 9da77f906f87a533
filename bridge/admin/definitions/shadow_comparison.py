"""
What two versions of a definition make of stored messages, or of past results.

An inbound definition reads each message with both versions. An outbound one composes each delivery
with both, at one moment and from one reading of its report, so that only the versions can make them
differ. Nothing is sent or stored. Values contain patient data and are never logged.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Protocol

import httpx

from bridge.active_settings import active_sources, current, version_finder
from bridge.admin.definitions.result_previews import (
    ReleaseComposer,
    ResultPreview,
    compiled_destination,
    destinations_of,
    plans_of,
)
from bridge.admin.definitions.trials import (
    MessageSample,
    OrderReaders,
    changed_targets,
    stored_sample,
    worklist_items,
)
from bridge.admin.errors import InvalidContent, NoSuchItem
from bridge.admin.lists.definitions import DELIVERIES, MESSAGES
from bridge.admin.lists.listing import UNLIMITED, ListDefinition
from bridge.delivery.composer import MessagePlan
from bridge.delivery.preparation import ReportContent, ReportTexts
from bridge.engine_client.client import EngineClient, InProcess
from bridge.queue import queries
from bridge.queue.deliveries import ClaimedDelivery
from bridge.queue.errors import NoSuchRow
from bridge.queue.listing_rows import DeliveryRow
from bridge.report_engine import engine_tokens
from bridge.store.database import Database
from config import Settings
from config.listeners import ListenerSettings
from mappings.authoring.trial import FieldDifference, compare_items
from mappings.compiler import Compiled, compile_sources
from mappings.hl7 import dictionary
from mappings.hl7.differences import differences
from mappings.hl7.message import Message
from mappings.hl7.refusals import MessageRefusal
from mappings.inbound.definition import InboundMapping
from mappings.inbound.events import OrderEvent
from mappings.language.diagnostics import RuleFailed, Sources
from mappings.outbound.worklist_item import WorklistMapping

ACCEPTED, REFUSED, PARKED, NOT_TAKEN = "accepted", "refused", "parked", "not_taken"
SENT, NOT_SENT = "sent", "not_sent"
WORSE: Final = frozenset(
    {f"{ACCEPTED}_to_{outcome}" for outcome in (REFUSED, PARKED, NOT_TAKEN)}
    | {f"{SENT}_to_{NOT_SENT}"}
)
"""Changed outcomes that a person must see first."""
_FIELD: Final = re.compile(r"([A-Z][A-Z0-9]{2})(?:\[\d+\])?(-\d+)?")

Connect = Callable[[], httpx.AsyncClient | InProcess]
"""Opens a connection to the report engine; the caller closes it."""


@dataclass(frozen=True, slots=True)
class Compared:
    """
    A message, or a delivery, that was compared.

    `outcome` is a change such as `accepted_to_refused`, '' without one. `targets` are what has
    other values if it stays the same: targets of an inbound definition, fields such as `OBX-5` of
    an outbound one.
    """

    id: int
    outcome: str = ""
    targets: Sequence[str] = ()
    differs: bool = False
    """True also if something differs that has no target, such as the order of the events."""


class ShadowComparison(Protocol):
    """The two versions of a shadow run."""

    listed: ClassVar[ListDefinition[Any]]
    """The list of the rows that are compared."""
    at_once: ClassVar[int]
    """Rows that are compared together."""

    def compare(self, ids: Sequence[int]) -> list[Compared]:
        """Compare rows; without those that are gone, or that neither version is about."""


def compiled_pair(name: str, before: Sources, after: Sources) -> tuple[Compiled, Compiled]:
    """
    Compile two versions. Raises MappingErrors.

    Raises InvalidContent if they are of different kinds, such as one that reads messages and one
    that writes them.
    """
    pair = compile_sources(before, name), compile_sources(after, name)
    if type(pair[0]) is not type(pair[1]):
        if any(isinstance(version, InboundMapping) for version in pair):
            raise InvalidContent("one version reads messages, the other writes")
        raise InvalidContent("one version writes messages, the other worklist items")
    return pair


class MessageComparison:
    """Two versions that read messages."""

    listed: ClassVar[ListDefinition[Any]] = MESSAGES
    at_once: ClassVar[int] = 1

    def __init__(
        self, settings: Settings, database: Database, before: InboundMapping, after: InboundMapping
    ) -> None:
        self._database = database
        self._versions = before, after
        known = current(settings, database).listener
        self._listeners = {entry.name: entry for entry in known}

    def compare(self, ids: Sequence[int]) -> list[Compared]:
        found = (self._compared(message_id) for message_id in ids)
        return [compared for compared in found if compared is not None]

    def values(self, message_id: int) -> list[dict[str, str]]:
        """Return the targets that differ, with both values. Raises NoSuchItem."""
        sample = self._sample(message_id)
        if sample is None:
            raise NoSuchItem("the message is gone, or its listener was removed")
        return [{**changed, "name": ""} for changed in changed_targets(*self._versions, sample)]

    def _compared(self, message_id: int) -> Compared | None:
        sample = self._sample(message_id)
        outcomes = None if sample is None else outcomes_of(*self._versions, sample)
        if sample is None or outcomes is None:
            return None
        (was, old), (now, new) = outcomes
        if was == now and old == new:
            return Compared(message_id)
        if was != now:  # all its values differ, which says no more
            return Compared(message_id, f"{was}_to_{now}", differs=True)
        targets = [changed["target"] for changed in changed_targets(*self._versions, sample)]
        return Compared(message_id, targets=tuple(dict.fromkeys(targets)), differs=True)

    def _sample(self, message_id: int) -> MessageSample | None:
        return _stored(self._database, self._listeners, message_id)


def _stored(
    database: Database, listeners: Mapping[str, ListenerSettings], message_id: int
) -> MessageSample | None:
    """Return a message; None if retention has deleted it, or its listener is gone."""
    try:
        detail = queries.message(database, message_id)
    except NoSuchRow:
        return None
    listener = listeners.get(detail.row.listener)
    return None if listener is None else stored_sample(listener, detail.row, detail.payload)


class WorklistComparison:
    """Two versions that make worklist items of the orders of messages."""

    listed: ClassVar[ListDefinition[Any]] = MESSAGES
    at_once: ClassVar[int] = 1

    def __init__(
        self,
        settings: Settings,
        database: Database,
        before: WorklistMapping,
        after: WorklistMapping,
    ) -> None:
        self._database = database
        self._versions = before, after
        active = current(settings, database)
        self._listeners = {entry.name: entry for entry in active.listener}
        self._reader = OrderReaders(
            active, active_sources(settings, database), version_finder(database)
        )

    def compare(self, ids: Sequence[int]) -> list[Compared]:
        found = (self._compared(message_id) for message_id in ids)
        return [compared for compared in found if compared is not None]

    def values(self, message_id: int) -> list[dict[str, str]]:
        """Return the attributes that differ, with both values. Raises NoSuchItem."""
        differing = self._differences(message_id)
        if differing is None:
            raise NoSuchItem("the message is gone, or no order is read from it")
        return [
            {
                "place": "",
                "target": found.field,
                "name": "",
                "before": found.before,
                "after": found.after,
            }
            for found in differing
        ]

    def _compared(self, message_id: int) -> Compared | None:
        differing = self._differences(message_id)
        if differing is None:
            return None
        named = dict.fromkeys(found.field.rpartition(":")[2] for found in differing)
        return Compared(message_id, targets=tuple(named), differs=bool(differing))

    def _differences(self, message_id: int) -> list[FieldDifference] | None:
        """Return what differs; None if no item is made of the message."""
        sample = _stored(self._database, self._listeners, message_id)
        if sample is None:
            return None
        old, new = (worklist_items(one, self._reader, sample) for one in self._versions)
        return compare_items(old, new) if old or new else None


def _change(was: str, now: str) -> str:
    return "" if was == now else f"{was}_to_{now}"


Outcome = tuple[str, list[OrderEvent]]


def outcomes_of(
    before: InboundMapping, after: InboundMapping, sample: MessageSample
) -> tuple[Outcome, Outcome] | None:
    """Return what both versions make of a message; None if neither takes it."""
    try:
        message = Message.parse(sample.payload, fallback=sample.charset)
    except MessageRefusal:
        return None
    old, new = (_outcome(mapping, message, sample) for mapping in (before, after))
    return None if old[0] == new[0] == NOT_TAKEN else (old, new)


def _outcome(mapping: InboundMapping, message: Message, sample: MessageSample) -> Outcome:
    if not mapping.accepts(message.header, sample.charset):
        return NOT_TAKEN, []
    if mapping.pre_check(message, sample.defaults).refusals:
        return REFUSED, []
    try:
        return ACCEPTED, list(mapping.apply(message, sample.defaults))
    except MessageRefusal:
        return REFUSED, []
    except RuleFailed:
        return PARKED, []


@dataclass(frozen=True, slots=True)
class PlannedResults:
    """Deliveries of one destination, planned with both versions; their reports are not read."""

    before: Sequence[MessagePlan | ResultPreview]
    after: Sequence[MessagePlan | ResultPreview]

    @property
    def plans(self) -> list[MessagePlan]:
        return plans_of([*self.before, *self.after])


ResultPair = tuple[ResultPreview, ResultPreview]
"""The same delivery, composed with the earlier and the later version."""


class ResultComposition:
    """
    Composes deliveries with two versions of a definition that writes messages.

    Raises InvalidContent if no destination uses the definition, and BridgeError if a version does
    not suit one.
    """

    def __init__(
        self, settings: Settings, database: Database, name: str, before: Sources, after: Sources
    ) -> None:
        self._database = database
        self._name = name
        self._composer = ReleaseComposer(database)
        self._versions = {
            section.name: tuple(
                compiled_destination(settings, database, section, name, sources)
                for sources in (before, after)
            )
            for section in destinations_of(settings, database, name)
        }

    def plan(self, ids: Sequence[int]) -> list[PlannedResults]:
        """Plan deliveries with both versions, by destination. Blocking."""
        with self._database.read() as connection:
            rows = [listed.row for listed in DELIVERIES.rows(connection, ids, UNLIMITED)]
        planned = []
        for destination, versions in self._versions.items():
            own = [row for row in rows if row.destination == destination]
            deliveries = list(self._again(own, destination))
            if deliveries:
                both = (self._composer.plan(version, deliveries) for version in versions)
                planned.append(PlannedResults(*both))
        return planned

    def write(
        self, planned: Sequence[PlannedResults], contents: Sequence[ReportContent | BaseException]
    ) -> list[ResultPair]:
        """
        Write planned deliveries; `contents` are those of all their plans, in order. Blocking.

        Without those that neither version is about, or neither can compose.
        """
        now, left = datetime.now(UTC), iter(contents)
        pairs: list[ResultPair] = []
        for results in planned:
            before, after = (
                self._composer.write(version, left, now)
                for version in (results.before, results.after)
            )
            pairs += zip(before, after, strict=True)
        return [pair for pair in pairs if self._is_about(pair)]

    def _is_about(self, pair: ResultPair) -> bool:
        named = self._name in {preview.mapping for preview in pair}
        return named and any(preview.passed for preview in pair)

    def _again(self, rows: Iterable[DeliveryRow], destination: str) -> Iterator[ClaimedDelivery]:
        for row in rows:
            try:
                yield self._composer.again(row, destination)
            except NoSuchRow:  # retention has deleted it
                continue


async def read_contents(
    texts: ReportTexts, plans: Sequence[MessagePlan]
) -> list[ReportContent | BaseException]:
    """
    Return the content of each plan, in order.

    Both versions of a result get the same content: a PDF that is made again has another time.
    """
    keys = [(plan.delivery.delivery_id, plan.event, plan.mapping.style.formats) for plan in plans]
    once = dict(zip(keys, plans, strict=True))
    found = dict(zip(once, await texts.read(list(once.values())), strict=True))
    return [found[key] for key in keys]


class ResultComparison:
    """Two versions that write messages; a step reads the reports of a few deliveries at once."""

    listed: ClassVar[ListDefinition[Any]] = DELIVERIES
    at_once: ClassVar[int] = 20

    def __init__(
        self, composition: ResultComposition, settings: Settings, connect: Connect
    ) -> None:
        self._composition = composition
        self._connect = connect
        self._tokens = engine_tokens(settings)

    def compare(self, ids: Sequence[int]) -> list[Compared]:
        planned = self._composition.plan(ids)
        plans = [plan for results in planned for plan in results.plans]
        contents = asyncio.run(self._read(plans)) if plans else []
        return [_compared(*pair) for pair in self._composition.write(planned, contents)]

    async def _read(self, plans: Sequence[MessagePlan]) -> list[ReportContent | BaseException]:
        http = self._connect()
        try:
            return await read_contents(ReportTexts(EngineClient(http, self._tokens)), plans)
        finally:
            await http.aclose()


def _compared(before: ResultPreview, after: ResultPreview) -> Compared:
    was, now = (SENT if preview.passed else NOT_SENT for preview in (before, after))
    values = result_values(before, after)
    targets = dict.fromkeys(field_of(value["place"]) for value in values)
    named = tuple(filter(None, targets))
    return Compared(before.delivery_id, _change(was, now), named, differs=bool(values))


def result_values(before: ResultPreview, after: ResultPreview) -> list[dict[str, str]]:
    """Return the places that differ between two messages, or why one is not sent, with both."""
    if not (before.passed and after.passed):
        texts = [preview.reason or "yes" for preview in (before, after)]
        return [{"place": "", "target": SENT, "name": "", "before": texts[0], "after": texts[1]}]
    return [
        {
            "place": found.place,
            "target": field_of(found.place),
            "name": found.name,
            "before": found.before,
            "after": found.after,
        }
        for found in differences(Message.parse(before.payload), Message.parse(after.payload))
    ]


def field_of(place: str) -> str:
    """Return the field of a place, without repetitions and components: `OBX-5` of `OBX[3]-5.1`."""
    found = _FIELD.match(place)
    return "" if found is None else f"{found[1]}{found[2] or ''}"


def field_name(field: str) -> str:
    """Return the name of a field or segment in the standard, "" of everything else."""
    if _FIELD.fullmatch(field) is None:
        return ""
    return dictionary.field_name(field) if "-" in field else dictionary.SEGMENT_NAMES.get(field, "")


def comparison_of(
    settings: Settings,
    database: Database,
    name: str,
    versions: Mapping[str, Sources],
    connect: Connect,
) -> ShadowComparison:
    """
    Return the comparison of the versions `before` and `after` of a definition.

    Raises InvalidContent, MappingErrors, BridgeError.
    """
    before, after = compiled_pair(name, versions["before"], versions["after"])
    if isinstance(before, InboundMapping) and isinstance(after, InboundMapping):
        return MessageComparison(settings, database, before, after)
    if isinstance(before, WorklistMapping) and isinstance(after, WorklistMapping):
        return WorklistComparison(settings, database, before, after)
    composition = ResultComposition(settings, database, name, versions["before"], versions["after"])
    return ResultComparison(composition, settings, connect)
