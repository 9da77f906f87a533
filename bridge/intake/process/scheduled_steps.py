"""
The scheduled procedure steps of orders: computed from an order by a definition of the kind
`worklist`, and stored with it.

The status of a step is that of its order, unless a modality has said what became of the step.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from bridge import active_settings
from bridge.active_settings import SourceFinder, active_sources
from bridge.contract import OrderKey
from bridge.errors import BridgeError
from bridge.index_key import keyed_text
from bridge.orders.order import Order, OrderState, Patient
from bridge.orders.plans import OrderTask
from bridge.orders.rules import CREATING_ACTIONS
from bridge.store.database import Database
from bridge.store.records import exceptions, mapping_versions, order_index, scheduled_steps
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.records.scheduled_steps import (
    NO_PERFORMED,
    ScheduledStep,
    StepComputation,
    StepStatus,
    StoredStep,
    StoredSteps,
    make_uid,
)
from config import Settings
from mappings.compiler import compile_sources
from mappings.inbound.events import OrderEvent
from mappings.language.diagnostics import RuleFailed
from mappings.outbound.results import ResultOrder
from mappings.outbound.worklist_item import WorklistItem, WorklistMapping, worklist_context

ITEM_INVALID: Final = "worklist_item"
"""The code of an order with a value that its worklist item cannot have; the keyword follows."""
STUDY_UID: Final = "StudyInstanceUID"
_METADATA: Final = "Metadata"
_NO_RULE: Final = "code"
_STUDY, _STEP_ID, _MODALITY = "0020000D", "00400009", "00080060"
_STATION, _LOCATION, _DAY, _TIME = "00400001", "00400011", "00400002", "00400003"
_STEP_SEQUENCE, _STATUS = "00400100", "00400020"
_TIME_DIGITS: Final = 6


class NotAWorklist(BridgeError):
    """The definition that `[dicom] worklist` names is of another kind."""

    def __init__(self, name: str) -> None:
        super().__init__(f"dicom.worklist: {name} is not a definition of the kind worklist")


def compile_definition(find: SourceFinder, name: str) -> WorklistMapping:
    """Compile the definition of the worklist. Raises MappingErrors, NotAWorklist."""
    compiled = compile_sources(find(name), name)
    if not isinstance(compiled, WorklistMapping):
        raise NotAWorklist(name)
    return compiled


@dataclass(frozen=True, slots=True)
class StepRules:
    """What makes the steps of orders: the definition, and the time zones of sites."""

    mapping: WorklistMapping
    zones: Mapping[str, str] = field(default_factory=dict)
    default_zone: str = "UTC"

    @property
    def version(self) -> str:
        """Changes when steps must be computed again."""
        zones = json.dumps([self.default_zone, *sorted(self.zones.items())])
        return sha256(f"{self.mapping.version} {zones}".encode()).hexdigest()[:16]


def step_rules(settings: Settings, find: SourceFinder) -> StepRules | None:
    """
    Return the rules of the worklist, None if there is none.

    Times with a zone are converted to the zone of the first listener of their site. Raises
    MappingErrors, NotAWorklist.
    """
    if settings.dicom.bind is None:
        return None
    zones: dict[str, str] = {}
    for listener in settings.listener:
        zones.setdefault(listener.site, listener.time_zone)
    default = settings.listener[0].time_zone if settings.listener else "UTC"
    return StepRules(compile_definition(find, settings.dicom.worklist), zones, default)


def active_step_rules(settings: Settings, database: Database) -> StepRules | None:
    """Return the active rules of the worklist. Raises MappingErrors, NotAWorklist, StoreError."""
    if settings.dicom.bind is None:
        return None
    current = active_settings.current(settings, database)
    return step_rules(current, active_sources(current, database))


def study_uid_of(order: Order) -> str:
    """
    Return the StudyInstanceUID of an order that has none, by its key: a retry has the same one.

    Without the index key of the installation nobody can compute it (PS3.5 B.2).
    """
    key = order.key
    digest = keyed_text(f"{STUDY_UID}\0{key.site}\0{key.mrn}\0{key.accession}")
    return f"2.25.{UUID(bytes=bytes.fromhex(digest)[:16], version=5).int}"


def with_study_uid(before: Order | None, after: Order, event: OrderEvent) -> Order:
    """
    Return an order with a StudyInstanceUID. One that was made here remains what it is.

    Only an order message with a UID replaces it: then a message about the order came first.
    """
    if after.number_only or after.moved_away:
        return after
    known = str(before.tags.get(STUDY_UID, "")) if before is not None else ""
    sent = str(after.tags.get(STUDY_UID, ""))
    is_made = before is not None and known.startswith(_MADE) and not _names(before, known)
    if is_made:
        replaces = event.action in CREATING_ACTIONS and event.clinical_info.get(STUDY_UID)
        uid = sent if replaces else known
    else:
        uid = sent or known or study_uid_of(after)
    return after if sent == uid else replace(after, tags={**after.tags, STUDY_UID: uid})


_MADE: Final = "2.25."


def _names(order: Order, uid: str) -> bool:
    """True if the sender of an order named a UID."""
    return any(uid in line for line in order.echo)


_OF_STATES: Final[Mapping[OrderState, StepStatus]] = {
    OrderState.CANCELLED: StepStatus.CANCELLED,
    OrderState.HELD: StepStatus.HELD,
    OrderState.REPORTED: StepStatus.COMPLETED,
}
"""The status of the steps of an order that is not open."""
_ENDED: Final = frozenset({StepStatus.COMPLETED, StepStatus.DISCONTINUED})


def status_of(
    order: Order, of_item: StepStatus, stored: StoredStep | None, *, discontinued: bool
) -> StepStatus:
    """
    Return the status of a step.

    `of_item` is that of the definition, for open orders. `discontinued`: a message ends the order
    now with that word. What a modality ended stays so; what it began is ended by the order, because
    many modalities never say that they have finished.
    """
    said = None if stored is None else stored.performed
    if said in _ENDED:
        return said
    status = _OF_STATES.get(order.state)
    if status is None:
        return of_item if of_item in _ENDED else said or of_item
    was_discontinued = stored is not None and stored.status is StepStatus.DISCONTINUED
    if status is StepStatus.CANCELLED and (discontinued or was_discontinued):
        return StepStatus.DISCONTINUED
    return status


def steps_of(
    rules: StepRules,
    order: Order,
    now: int,
    stored: StoredSteps,
    *,
    discontinued: bool = False,
    keep: bool = True,
) -> tuple[list[ScheduledStep], list[str]]:
    """
    Return the steps of an order, and the keywords of attributes whose value does not fit.

    A step without a required attribute is left out. With `keep`, attributes without a value keep
    that of the stored step: a change need not repeat all fields. `now` is in ms.
    """
    if order.number_only or order.moved_away or order.state is OrderState.UNKNOWN:
        return [], []
    key = order.key
    tags = {tag: str(value) for tag, value in order.tags.items() if tag != _METADATA}
    tags |= {"SiteID": key.site, "PatientMRN": key.mrn, "Accession": key.accession}
    context = worklist_context(
        ResultOrder(tags, order.tags.get(_METADATA) or {}, order.placer, order.filler, order.echo),
        key.site,
        datetime.fromtimestamp(now / 1000, UTC),
        rules.zones.get(key.site, rules.default_zone),
    )
    try:
        items = rules.mapping.items(context)
    except RuleFailed:
        return [], [_NO_RULE]
    problems = dict.fromkeys(keyword for item in items for keyword in item.problems)
    steps: list[ScheduledStep] = []
    for item in items:
        if item.usable:
            before = stored.get(item.text(_STEP_ID))
            own = with_stored(item, json.loads(before.item)) if keep and before else item
            status = StepStatus(item.status)
            status = status_of(order, status, before, discontinued=discontinued)
            if status is StepStatus.SCHEDULED and before and _stays_expired(before, own):
                status = StepStatus.EXPIRED
            steps.append(_step(order, len(steps), own, status, before, now))
    return steps, list(problems)


def _step(
    order: Order,
    position: int,
    item: WorklistItem,
    status: StepStatus,
    before: StoredStep | None,
    now: int,
) -> ScheduledStep:
    step = _sorted({**item.step, _STATUS: {"vr": "CS"}})
    whole = _sorted({**item.item, _STEP_SEQUENCE: {"vr": "SQ", "Value": [step]}})
    day, time = item.text(_DAY), item.text(_TIME)
    return ScheduledStep(
        order.key,
        position,
        item.text(_STEP_ID),
        item.text(_STUDY),
        status,
        item.text(_MODALITY),
        tuple(item.texts(_STATION)),
        item.text(_LOCATION),
        int(day) if day.isdigit() else None,
        time.ljust(_TIME_DIGITS, "0"),
        json.dumps(whole, ensure_ascii=False, separators=(",", ":")),
        before.changed_at if before is not None and before.status is status else now,
        before.performed if before is not None else None,
        before.performed_steps if before is not None else NO_PERFORMED,
        before.workitem_uid if before is not None else make_uid(),
    )


def _stays_expired(before: StoredStep, item: WorklistItem) -> bool:
    """True if a step left the worklist by its age, and has no other day now."""
    if before.status is not StepStatus.EXPIRED:
        return False
    (step,) = json.loads(before.item)[_STEP_SEQUENCE]["Value"]
    return [item.text(_DAY)] == (step[_DAY].get("Value") or [""])


def with_stored(item: WorklistItem, stored: Mapping[str, Any]) -> WorklistItem:
    """Return an item whose attributes without a value have that of a stored item."""
    step = _filled(item.step, stored[_STEP_SEQUENCE]["Value"][0])
    whole = {**_filled(item.item, stored), _STEP_SEQUENCE: {"vr": "SQ", "Value": [step]}}
    return replace(item, item=whole)


def _filled(elements: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    return {
        tag: element if "Value" in element else stored.get(tag, element)
        for tag, element in elements.items()
    }


def _sorted(elements: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(elements.items()))


class StepWriter:
    """Computes and stores the steps of orders, within the transaction that stores the orders."""

    def __init__(self, rules: StepRules | None = None) -> None:
        """Without `rules` there is no worklist."""
        self.rules = rules

    def with_study_uids(self, tasks: list[OrderTask]) -> list[OrderTask]:
        """Return tasks whose orders have a StudyInstanceUID; unchanged without a worklist."""
        if self.rules is None:
            return tasks
        return [
            replace(task, after=with_study_uid(task.before, task.after, task.event))
            for task in tasks
        ]

    def write(
        self,
        connection: Connection,
        orders: Sequence[Order],
        now: int,
        *,
        discontinued: Collection[OrderKey] = (),
        keep: bool = True,
    ) -> None:
        """
        Store the steps of orders; of several with one key, those of the last one.

        `discontinued` are those that a message ends with that word. `keep`: as in `steps_of`. A
        value that does not fit is an exception of the message that brought the order, so that each
        order has one.
        """
        if self.rules is None or not orders:
            return
        last = {order.key: order for order in orders}
        stored = scheduled_steps.stored(connection, last)
        self._store(connection, last, stored, now, discontinued=discontinued, keep=keep)

    def move(self, connection: Connection, patients: Collection[Patient], now: int) -> None:
        """
        Store the steps of patients whose orders moved from one to another.

        Call it after the orders moved, with the former and the present patients. A step keeps what
        a modality said; one of another patient has no value that its order does not have.
        """
        if self.rules is None or not patients:
            return
        taken = scheduled_steps.take(connection, patients)
        by_accession = {(key.site, key.accession): steps for key, steps in taken.items()}
        orders = {order.key: order for order in order_index.find_by_patient(connection, patients)}
        own = {key: order for key, order in orders.items() if key in taken}
        self._store(connection, own, taken, now)
        others = {key: order for key, order in orders.items() if key not in taken}
        stored = {key: by_accession.get((key.site, key.accession), {}) for key in others}
        self._store(connection, others, stored, now, keep=False)

    def _store(
        self,
        connection: Connection,
        orders: Mapping[OrderKey, Order],
        stored: Mapping[OrderKey, StoredSteps],
        now: int,
        *,
        discontinued: Collection[OrderKey] = (),
        keep: bool = True,
    ) -> None:
        if self.rules is None:
            return
        steps: dict[OrderKey, list[ScheduledStep]] = {}
        codes: list[tuple[int, str]] = []
        for key, order in orders.items():
            own, ends = stored.get(key, {}), key in discontinued
            found = steps_of(self.rules, order, now, own, discontinued=ends, keep=keep)
            steps[key], problems = found
            codes += [(order.first_message, f"{ITEM_INVALID} {name}") for name in problems[:1]]
        scheduled_steps.replace_all(connection, steps)
        exceptions.add(connection, ExceptionSubject.MESSAGE, codes, now)

    def remove(self, connection: Connection, keys: Collection[OrderKey]) -> None:
        """Remove the steps of orders that were combined with another one."""
        if self.rules is not None:
            scheduled_steps.replace_all(connection, dict.fromkeys(keys, ()))


class StoredOrderSteps:
    """
    Computes the steps of stored orders, newest first, after the worklist was switched on or its
    definition changed.

    A run continues where the last one stopped, also after a crash. Blocking.
    """

    def __init__(self, settings: Settings, database: Database, clock: Callable[[], int]) -> None:
        """`clock` is in ms."""
        self._settings = settings
        self._database = database
        self._clock = clock
        self._activation = -1
        self._rules: StepRules | None = None
        self._seen = ""
        self._expired_at = 0  # ms

    def expire(self) -> None:
        """Take steps off the worklist that nobody ended (`steps_expire`), once an hour."""
        age, now = self._settings.dicom.steps_expire, self._clock()
        if not age or now < self._expired_at + _EXPIRE_EVERY:
            return
        with self._database.write() as connection:
            scheduled_steps.expire(connection, _ago(now, age), now)
        self._expired_at = now

    def run(self) -> bool:
        """Compute the steps of some orders; return True if there are no others."""
        with self._database.read() as connection:
            activation = mapping_versions.latest_activation_id(connection)
            known = scheduled_steps.read_computation(connection)
        if activation != self._activation:
            self._rules = active_step_rules(self._settings, self._database)
            self._activation = activation
        rules = self._rules
        if rules is None:
            return self._forget(known)
        if known is None or known.version != rules.version:
            if self._seen != rules.version:  # other nodes may use the former rules until then
                self._seen = rules.version
                return True
            with self._database.write() as connection:
                known = StepComputation(rules.version, order_index.newest_id(connection) + 1)
                scheduled_steps.store_computation(connection, known)
        if known.cursor is None:
            return True
        return self._compute(rules, known.cursor)

    def _forget(self, known: StepComputation | None) -> bool:
        """Have all steps computed when the worklist is on again: nobody keeps them until then."""
        if known is not None:
            with self._database.write() as connection:
                scheduled_steps.forget_computation(connection)
        return True

    def _compute(self, rules: StepRules, cursor: int) -> bool:
        """Compute the steps of the orders of a page, each few of them in one transaction."""
        now = self._clock()
        with self._database.read() as connection:
            page = order_index.page_before(connection, cursor, _PAGE)
            listed = scheduled_steps.on_worklist(connection, [order.key for order in page.values()])
        wanted = [
            order_id
            for order_id, order in page.items()
            if order.key in listed or (order.is_open and not self._is_past(order, now))
        ]
        for start in range(0, len(wanted), _AT_ONCE):
            self._store(rules, wanted[start : start + _AT_ONCE], now)
        left = min(page, default=None)
        with self._database.write() as connection:
            scheduled_steps.store_computation(connection, StepComputation(rules.version, left))
        return left is None

    def _is_past(self, order: Order, now: int) -> bool:
        """True if an order was for a day so long ago that its steps are not on the worklist."""
        age = self._settings.dicom.steps_expire
        day = str(order.tags.get("StudyDate", ""))
        return bool(age) and "" < day < _ago(now, age).strftime("%Y%m%d")

    def _store(self, rules: StepRules, ids: Sequence[int], now: int) -> None:
        """Store the steps of these orders as they are now; a message may have changed them."""
        with self._database.write() as connection:
            orders = order_index.lock(connection, ids)
            missing = [order for order in orders if not order.tags.get(STUDY_UID)]
            given = {order.key: {**order.tags, STUDY_UID: study_uid_of(order)} for order in missing}
            order_index.set_tags(connection, given)
            orders = [replace(order, tags=given.get(order.key, order.tags)) for order in orders]
            StepWriter(rules).write(connection, orders, now, keep=False)


_PAGE: Final = 500
_AT_ONCE: Final = 20
"""Orders of one transaction: the write lock of SQLite is held for some ten milliseconds."""
_EXPIRE_EVERY: Final = 3_600_000  # ms


def _ago(now: int, age: float) -> datetime:
    """Return the time that is `age` seconds before `now` (ms)."""
    return datetime.fromtimestamp(now / 1000, UTC) - timedelta(seconds=age)
