"""
The scheduled procedure steps of orders: what the modality worklist answers from.

A step is one row, stored in the transaction that stores the change of its order, so that a query
sees an order as soon as it is applied. Queries read the rows each time; nothing is cached.

The item of a row has no status: `find_page` adds that of the row, so that a status changes alone.
"""

import json
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)

from bridge.contract import OrderKey
from bridge.orders.order import Patient
from bridge.orders.received_objects import (
    PerformedStep,
    PerformedSteps,
    StepEvent,
    combined_event,
    with_performed,
)
from bridge.store.columns import one_of
from bridge.store.tables import SCHEDULED_STEPS, STEP_COMPUTATIONS, upsert

_STEP: Final = SCHEDULED_STEPS.c
_NO_STATION: Final = "|"
NO_STATUS: Final = '"00400020":{"vr":"CS"}'
"""Scheduled Procedure Step Status in the item of a row."""
NO_PERFORMED: Final = "{}"


class StepStatus(StrEnum):
    """
    Scheduled Procedure Step Status (0040,0020), and the states after the step.

    `HELD`: the order is on hold, and its step is not on the worklist. `EXPIRED`: nobody ended the
    step, and its start was long ago.
    """

    SCHEDULED = "SCHEDULED"
    ARRIVED = "ARRIVED"
    READY = "READY"
    STARTED = "STARTED"
    COMPLETED = "COMPLETED"
    DISCONTINUED = "DISCONTINUED"
    CANCELLED = "CANCELLED"
    HELD = "HELD"
    EXPIRED = "EXPIRED"


ON_WORKLIST: Final = (
    StepStatus.SCHEDULED,
    StepStatus.ARRIVED,
    StepStatus.READY,
    StepStatus.STARTED,
)


def make_uid() -> str:
    """Return a new UID (PS3.5 annex B.2)."""
    return f"2.25.{uuid.uuid4().int}"


@dataclass(frozen=True, slots=True)
class ScheduledStep:
    """
    A scheduled procedure step.

    `day` is the local date of its start as a number, 20261130; `time` is HHMMSS or ''. `item` is
    the worklist item as DICOM JSON (PS3.18 annex F), with one item in (0040,0100). `stations` are
    AE titles. `changed_at` (ms) is the time of the status.
    """

    key: OrderKey
    position: int
    step_id: str
    study_uid: str
    status: StepStatus
    modality: str
    stations: tuple[str, ...]
    location: str
    day: int | None
    time: str
    item: str
    changed_at: int
    performed: StepStatus | None = None
    """The status that a modality gave it; changes of the order keep it."""
    performed_steps: str = NO_PERFORMED
    """What each performed step said (`dump_performed`); changes of the order keep it."""
    workitem_uid: str = field(default_factory=make_uid)
    """The SOP instance UID of its workitem. It stays the same when order and patient change."""


@dataclass(frozen=True, slots=True)
class StepFilter:
    """
    Conditions on the columns of a step; an empty one does not restrict.

    `sites`, `modalities`, `stations` and `locations` are alternatives; '' means a step without a
    value. `days` is a closed range. `texts` are parts of the item, as written in JSON.
    """

    statuses: Collection[str] = ON_WORKLIST
    sites: Collection[str] = ()
    modalities: Collection[str] = ()
    stations: Collection[str] = ()
    locations: Collection[str] = ()
    days: tuple[int | None, int | None] = (None, None)
    accession: str = ""
    mrn: str = ""
    study_uids: Collection[str] = ()
    workitem_uids: Collection[str] = ()
    texts: Collection[str] = ()


Place = tuple[int, str, int]
"""The place of a step in the order of steps: day, time, id."""


_DELETE: Final = (
    delete(SCHEDULED_STEPS)
    .where(_STEP.site == bindparam("of_site"), _STEP.accession == bindparam("of_accession"))
    .where(_STEP.mrn == bindparam("of_mrn"))
)
_INSERT: Final = insert(SCHEDULED_STEPS)


def replace_all(connection: Connection, steps: Mapping[OrderKey, Sequence[ScheduledStep]]) -> None:
    """Store the steps of orders in place of those that they had."""
    if not steps:
        return
    ordered = sorted(steps, key=attrgetter("site", "accession", "mrn"))
    keys = [
        {"of_site": key.site, "of_accession": key.accession, "of_mrn": key.mrn} for key in ordered
    ]
    connection.execute(_DELETE, keys)
    rows = [_values(step) for key in ordered for step in steps[key]]
    if rows:
        connection.execute(_INSERT, rows)


@dataclass(frozen=True, slots=True)
class StoredStep:
    """
    What is kept of a step when its order changes: its status with its time, what modalities said,
    its item, and the UID of its workitem.
    """

    status: StepStatus
    changed_at: int
    performed: StepStatus | None
    item: str
    workitem_uid: str
    performed_steps: str


StoredSteps = Mapping[str, StoredStep]
"""The steps of an order, by step id."""

_STORED: Final[Select[Any]] = select(
    *(_STEP.site, _STEP.mrn, _STEP.accession, _STEP.step_id),
    *(_STEP.status, _STEP.changed_at, _STEP.performed, _STEP.item, _STEP.workitem_uid),
    _STEP.performed_steps,
).where(_STEP.site == bindparam("site"), one_of(_STEP.accession, "accessions"))


def stored(connection: Connection, keys: Collection[OrderKey]) -> Mapping[OrderKey, StoredSteps]:
    """Return the steps of orders; orders without any are absent."""
    found: defaultdict[OrderKey, dict[str, StoredStep]] = defaultdict(dict)
    for site, own in _by_site(keys).items():
        for row in connection.execute(_STORED, {"site": site, "accessions": own}):
            found[OrderKey(row.site, row.mrn, row.accession)][row.step_id] = _stored(row)
    return found


_BEFORE: Final[Mapping[StepStatus, Collection[StepStatus]]] = {
    StepStatus.STARTED: {*ON_WORKLIST, StepStatus.DISCONTINUED, StepStatus.EXPIRED},
    StepStatus.COMPLETED: {*ON_WORKLIST, StepStatus.DISCONTINUED, StepStatus.EXPIRED},
    StepStatus.DISCONTINUED: {*ON_WORKLIST, StepStatus.EXPIRED},
    StepStatus.SCHEDULED: {StepStatus.STARTED},
}
"""
The statuses that a modality may change. A step that the order completed stays completed although a
performed step of it begins; a cancelled one stays cancelled.
"""

_OF_EVENTS: Final[Mapping[StepEvent, StepStatus]] = {
    StepEvent.STARTED: StepStatus.STARTED,
    StepEvent.COMPLETED: StepStatus.COMPLETED,
    StepEvent.DISCONTINUED: StepStatus.DISCONTINUED,
    StepEvent.REVERTED: StepStatus.SCHEDULED,
}


def dump_performed(performed: PerformedSteps) -> str:
    """Return performed steps as the text of a row."""
    found = {uid: [one.event.value, one.has_images] for uid, one in performed.items()}
    return json.dumps(found, separators=(",", ":"))


def load_performed(text: str) -> PerformedSteps:
    """Read performed steps from the text of a row."""
    found: Mapping[str, tuple[str, bool]] = json.loads(text)
    return {
        uid: PerformedStep(StepEvent(event), has_images)
        for uid, (event, has_images) in found.items()
    }


def performed_of(connection: Connection, key: OrderKey) -> PerformedSteps:
    """Return the performed steps of an order, those of all of its scheduled steps."""
    found: dict[str, PerformedStep] = {}
    for text in connection.scalars(select(_STEP.performed_steps).where(*_of(key))):
        found |= load_performed(text)
    return found


def set_performed(
    connection: Connection,
    key: OrderKey,
    step_ids: Collection[str],
    instance: str,
    said: PerformedStep,
    now: int,
) -> None:
    """
    Note what a performed step says of these steps of an order; without ids, of all.

    The status of a step follows from all of its performed steps. An unknown id means the step of an
    order that has only one: modalities change it, and a new definition does.
    """
    columns = (_STEP.id, _STEP.step_id, _STEP.status, _STEP.performed_steps)
    rows = connection.execute(select(*columns).where(*_of(key)).with_for_update()).all()
    named = [row for row in rows if row.step_id in step_ids]
    if not named and (not step_ids or len(rows) == 1):
        named = list(rows)
    for row in named:
        known = load_performed(row.performed_steps)
        performed = with_performed(known, instance, said)
        event = combined_event(performed)
        if performed is known or event is None:
            continue
        values: dict[str, object] = {"performed_steps": dump_performed(performed)}
        before, status = StepStatus(row.status), _OF_EVENTS[event]
        is_again = (
            status is StepStatus.STARTED
            and before is StepStatus.COMPLETED
            and combined_event(known) is StepEvent.COMPLETED
        )
        if before in _BEFORE[status] or is_again:
            values["performed"] = "" if status is StepStatus.SCHEDULED else status.value
            if status is not before:
                values |= {"status": status.value, "changed_at": now}
        connection.execute(update(SCHEDULED_STEPS).where(_STEP.id == row.id).values(values))


def complete(connection: Connection, key: OrderKey, now: int) -> None:
    """Complete the steps of an order whose report is signed."""
    status = StepStatus.COMPLETED
    connection.execute(
        update(SCHEDULED_STEPS)
        .where(*_of(key), _STEP.status.in_(sorted(_BEFORE[status])))
        .values(status=status.value, performed=status.value, changed_at=now)
    )


def _of(key: OrderKey) -> tuple[ColumnElement[bool], ...]:
    return _STEP.site == key.site, _STEP.accession == key.accession, _STEP.mrn == key.mrn


def expire(connection: Connection, before: datetime, now: int) -> int:
    """
    Take steps off the worklist whose start and status are older than a time; return their number.

    An order for a day in the past that has just arrived is not taken off.
    """
    day, moment = int(before.strftime("%Y%m%d")), round(before.timestamp() * 1000)
    is_past = and_(or_(_STEP.day < day, _STEP.day.is_(None)), _STEP.changed_at < moment)
    changed = (
        update(SCHEDULED_STEPS)
        .where(is_past, _STEP.status.in_([status.value for status in ON_WORKLIST]))
        .values(status=StepStatus.EXPIRED.value, changed_at=now)
    )
    return connection.execute(changed).rowcount


def take(connection: Connection, patients: Collection[Patient]) -> Mapping[OrderKey, StoredSteps]:
    """Remove the steps of patients, and return them."""
    found: defaultdict[OrderKey, dict[str, StoredStep]] = defaultdict(dict)
    for site, mrn in sorted(patients):
        own = (_STEP.site == site, _STEP.mrn == mrn)
        for row in connection.execute(select(*_STEP).where(*own)):
            found[OrderKey(site, mrn, row.accession)][row.step_id] = _stored(row)
        connection.execute(delete(SCHEDULED_STEPS).where(*own))
    return found


def _stored(row: Row[Any]) -> StoredStep:
    said = StepStatus(row.performed) if row.performed else None
    return StoredStep(
        StepStatus(row.status),
        row.changed_at,
        said,
        row.item,
        row.workitem_uid,
        row.performed_steps,
    )


def steps_of(connection: Connection, keys: Iterable[OrderKey]) -> list[ScheduledStep]:
    """Return the steps of orders, in any status, in the order of their messages."""
    found = []
    for key in keys:
        rows = connection.execute(select(*_STEP).where(*_of(key)).order_by(_STEP.position))
        found += [_read(row) for row in rows]
    return found


_LISTED: Final[Select[Any]] = select(_STEP.site, _STEP.mrn, _STEP.accession).where(
    _STEP.site == bindparam("site"),
    one_of(_STEP.accession, "accessions"),
    _STEP.status.in_([status.value for status in ON_WORKLIST]),
)


def on_worklist(connection: Connection, keys: Collection[OrderKey]) -> set[OrderKey]:
    """Return the orders among these that have a step on the worklist."""
    found: set[OrderKey] = set()
    for site, own in _by_site(keys).items():
        rows = connection.execute(_LISTED, {"site": site, "accessions": own})
        found |= {OrderKey(*row) for row in rows} & {*keys}
    return found


def _by_site(keys: Iterable[OrderKey]) -> Mapping[str, set[str]]:
    accessions: defaultdict[str, set[str]] = defaultdict(set)
    for key in keys:
        accessions[key.site].add(key.accession)
    return accessions


def orders_of_study(connection: Connection, study_uid: str) -> list[OrderKey]:
    """Return the orders with a step of a study."""
    orders = select(_STEP.site, _STEP.mrn, _STEP.accession).where(_STEP.study_uid == study_uid)
    return [OrderKey(*row) for row in connection.execute(orders.distinct())]


def find_page(
    connection: Connection, chosen: StepFilter, after: Place | None, count: int
) -> tuple[list[ScheduledStep], Place | None]:
    """
    Return the next steps that meet the conditions, and the place of the last; None at the end.

    A query reads pages in transactions of their own, because a modality may read slowly. A step
    that gets another start between two pages may occur twice or be left out.
    """
    query = _statement(chosen).limit(count)
    if after is not None:
        query = query.where(tuple_(*_ORDER) > tuple_(*after))
    rows = connection.execute(query).all()
    last = rows[-1] if len(rows) == count else None
    place = None if last is None else (last.day or 0, last.time, last.id)
    return [_read(row) for row in rows], place


def _read(row: Row[Any]) -> ScheduledStep:
    status = f'"00400020":{{"vr":"CS","Value":["{row.status}"]}}'
    return ScheduledStep(
        OrderKey(row.site, row.mrn, row.accession),
        row.position,
        row.step_id,
        row.study_uid,
        StepStatus(row.status),
        row.modality,
        tuple(title for title in row.stations.split("|") if title),
        row.location,
        row.day,
        row.time,
        row.item.replace(NO_STATUS, status, 1),
        row.changed_at,
        StepStatus(row.performed) if row.performed else None,
        row.performed_steps,
        row.workitem_uid,
    )


class RequestedProcedure(NamedTuple):
    """Study Instance UID and Requested Procedure ID that the worklist gave to modalities."""

    study_uid: str
    procedure_id: str


_PROCEDURE_ID: Final = "00401001"


def requested_procedures(
    connection: Connection, keys: Collection[OrderKey]
) -> dict[OrderKey, RequestedProcedure]:
    """Return the requested procedure of orders that have steps, from the first step."""
    found: dict[OrderKey, RequestedProcedure] = {}
    for step in steps_of(connection, keys):
        if step.study_uid:
            values = json.loads(step.item).get(_PROCEDURE_ID, {}).get("Value") or [""]
            found.setdefault(step.key, RequestedProcedure(step.study_uid, str(values[0])))
    return found


def _values(step: ScheduledStep) -> dict[str, object]:
    values = asdict(step)
    values |= values.pop("key")
    values["stations"] = "".join(f"|{title}" for title in step.stations) + "|"
    values["performed"] = step.performed or ""
    return values


_COMPUTATION: Final = STEP_COMPUTATIONS.c
_WORKLIST: Final = "worklist"
_STORE_COMPUTATION: Final = upsert(STEP_COMPUTATIONS)


@dataclass(frozen=True, slots=True)
class StepComputation:
    """
    The last computation of the steps of stored orders: by which rules, and how far it has come.

    Orders with a row id below `cursor` are left; None if all are done.
    """

    version: str
    cursor: int | None


def read_computation(connection: Connection) -> StepComputation | None:
    query = select(_COMPUTATION.version, _COMPUTATION.cursor).where(_COMPUTATION.name == _WORKLIST)
    row = connection.execute(query).first()
    return None if row is None else StepComputation(row.version, row.cursor)


def store_computation(connection: Connection, found: StepComputation) -> None:
    values = {"name": _WORKLIST, "version": found.version, "cursor": found.cursor}
    connection.execute(_STORE_COMPUTATION, values)


def forget_computation(connection: Connection) -> None:
    """Have all steps computed again when the worklist is next on."""
    connection.execute(delete(STEP_COMPUTATIONS).where(_COMPUTATION.name == _WORKLIST))


_ORDER: Final = (func.coalesce(_STEP.day, 0), _STEP.time, _STEP.id)


def _statement(chosen: StepFilter) -> Select[Any]:
    query = select(*_STEP).order_by(*_ORDER)
    lists = (
        (_STEP.status, chosen.statuses),
        (_STEP.site, chosen.sites),
        (_STEP.modality, chosen.modalities),
        (_STEP.location, chosen.locations),
        (_STEP.study_uid, chosen.study_uids),
        (_STEP.workitem_uid, chosen.workitem_uids),
    )
    for column, values in lists:
        if values:
            query = query.where(column.in_([str(value) for value in values]))
    for column, value in ((_STEP.accession, chosen.accession), (_STEP.mrn, chosen.mrn)):
        if value:
            query = query.where(column == value)
    no_station = _STEP.stations == _NO_STATION
    if chosen.stations:
        titles = [
            _STEP.stations.contains(f"|{title}|", autoescape=True) if title else no_station
            for title in chosen.stations
        ]
        query = query.where(or_(*titles))
    for text in chosen.texts:
        query = query.where(_STEP.item.contains(text, autoescape=True))
    first, last = chosen.days
    if first is not None:
        query = query.where(_STEP.day >= first)
    if last is not None:
        query = query.where(_STEP.day <= last)
    return query
