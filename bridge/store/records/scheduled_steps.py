"""
The scheduled procedure steps of orders: what the modality worklist answers from.

A step is one row, stored in the transaction that stores the change of its order, so that a query
sees an order as soon as it is applied. Queries read the rows each time; nothing is cached.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, delete, func, insert, or_, select, tuple_

from bridge.contract import OrderKey
from bridge.store.tables import SCHEDULED_STEPS

_STEP: Final = SCHEDULED_STEPS.c
_BATCH: Final = 200
_NO_STATION: Final = "|"


class StepStatus(StrEnum):
    """Scheduled Procedure Step Status (0040,0020), and the states after the step."""

    SCHEDULED = "SCHEDULED"
    ARRIVED = "ARRIVED"
    READY = "READY"
    STARTED = "STARTED"
    COMPLETED = "COMPLETED"
    DISCONTINUED = "DISCONTINUED"
    CANCELLED = "CANCELLED"


ON_WORKLIST: Final = (
    StepStatus.SCHEDULED,
    StepStatus.ARRIVED,
    StepStatus.READY,
    StepStatus.STARTED,
)


@dataclass(frozen=True, slots=True)
class ScheduledStep:
    """
    A scheduled procedure step.

    `day` is the local date of its start as a number, 20261130; `time` is HHMMSS or ''. `item` is
    the worklist item as DICOM JSON (PS3.18 annex F), with one item in (0040,0100). `stations` are
    AE titles.
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
    texts: Collection[str] = ()


Place = tuple[int, str, int]
"""The place of a step in the order of steps: day, time, id."""


def replace_steps(connection: Connection, key: OrderKey, steps: Sequence[ScheduledStep]) -> None:
    """Store the steps of an order in place of those that it had."""
    own = (_STEP.site == key.site, _STEP.accession == key.accession, _STEP.mrn == key.mrn)
    connection.execute(delete(SCHEDULED_STEPS).where(*own))
    rows = [_values(step) for step in steps]
    if rows:
        connection.execute(insert(SCHEDULED_STEPS), rows)


def find(connection: Connection, chosen: StepFilter) -> Iterator[ScheduledStep]:
    """Yield the steps that meet the conditions, by start; read in batches as they are needed."""
    rows = connection.execution_options(yield_per=_BATCH).execute(_statement(chosen))
    yield from map(_step, rows)


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
    return [_step(row) for row in rows], place


def _step(row: Row[Any]) -> ScheduledStep:
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
        row.item,
        row.changed_at,
    )


def _values(step: ScheduledStep) -> dict[str, object]:
    values = asdict(step)
    values |= values.pop("key")
    values["stations"] = "".join(f"|{title}" for title in step.stations) + "|"
    return values


_ORDER: Final = (func.coalesce(_STEP.day, 0), _STEP.time, _STEP.id)


def _statement(chosen: StepFilter) -> Select[Any]:
    query = select(*_STEP).order_by(*_ORDER)
    lists = (
        (_STEP.status, chosen.statuses),
        (_STEP.site, chosen.sites),
        (_STEP.modality, chosen.modalities),
        (_STEP.location, chosen.locations),
        (_STEP.study_uid, chosen.study_uids),
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
