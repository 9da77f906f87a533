"""
The list of scheduled procedure steps: what the modality worklist shows, and what it showed before.

Steps are sorted by their start, the latest first, so a page counts rows instead of ids. Rows have
no number of a patient or order: `column_values` reads accession and placer number.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from bridge.admin.access.permissions import Permission
from bridge.admin.audit_events import audited
from bridge.admin.errors import InvalidContent
from bridge.admin.lists.columns import ColumnValues
from bridge.admin.lists.listing import (
    MAX_COUNT,
    SORTABLE,
    UNLIMITED,
    Access,
    Filters,
    ListPage,
    ListRequest,
    choices_of,
    text_of,
    texts_of,
)
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from bridge.store.records.scheduled_steps import ON_WORKLIST, StepStatus
from bridge.store.tables import ORDERS, SCHEDULED_STEPS

_STEP: Final = SCHEDULED_STEPS.c
_FILTERS: Final = frozenset({"day", "status", "modality", "station", "location", "site", "number"})
_NUMBERS: Final = ("accession", "placer")
_OF_STEP: Final = and_(*(ORDERS.c[name] == _STEP[name] for name in ("site", "accession", "mrn")))


@dataclass(frozen=True, slots=True)
class StepRow:
    """
    A scheduled procedure step.

    `start` is local, `2026-11-30T14:30:00`, a day, or '' without a time. `order_id` is None while
    the order is not stored.
    """

    id: int
    order_id: int | None
    site: str
    start: str
    status: str
    modality: str
    stations: tuple[str, ...]
    location: str
    step_id: str
    changed_at: int


def page(connection: Connection, request: ListRequest, access: Access) -> ListPage[StepRow]:
    """Return steps, the latest start first; `before` counts rows. Raises InvalidContent."""
    offset = request.before or 0
    if offset > SORTABLE:
        raise InvalidContent(f"only the latest {SORTABLE} steps are listed")
    order = (_STEP.day.desc(), _STEP.time.desc(), _STEP.id.desc())
    statement = (
        select(SCHEDULED_STEPS, ORDERS.c.id.label("order_id"))
        .select_from(SCHEDULED_STEPS.outerjoin(ORDERS, _OF_STEP))
        .where(*conditions(request.filters, access))
        .order_by(*order)
    )
    found = connection.execute(statement.offset(offset).limit(request.limit)).all()
    rows = [
        StepRow(
            row.id,
            row.order_id,
            row.site,
            _start(row.day, row.time),
            row.status,
            row.modality,
            tuple(title for title in row.stations.split("|") if title),
            row.location,
            row.step_id,
            row.changed_at,
        )
        for row in found
    ]
    more = len(rows) == request.limit
    return ListPage(
        rows, offset + request.limit if more else None, None, complete=not more, sortable=False
    )


def list_steps(home: Path, filters: Filters, limit: int) -> list[dict[str, Any]]:
    """Return steps with the numbers of their orders. Audited. Raises InvalidContent."""
    target = ("steps", "one number" if "number" in filters else "all")
    with bridge_database(home) as database, audited(home, database, "search", target):
        with database.read() as connection:
            rows = page(connection, ListRequest(filters, limit=limit), UNLIMITED).rows
        values = column_values(database, [row.id for row in rows], _NUMBERS, UNLIMITED).values
    return [{**asdict(row), **values.get(row.id, {})} for row in rows]


def count(
    connection: Connection, filters: Filters, access: Access, at_most: int = MAX_COUNT
) -> tuple[int, bool]:
    """Return how many steps match, up to `at_most`, and whether that is all of them."""
    some = select(_STEP.id).where(*conditions(filters, access)).limit(at_most + 1)
    number = connection.execute(select(func.count()).select_from(some.subquery())).scalar_one()
    return min(number, at_most), number <= at_most


def conditions(filters: Filters, access: Access) -> list[ColumnElement[bool]]:
    """
    Return the conditions of steps that match and are visible; the default is what modalities see.

    `day` is a date, `2026-11-30`; `number` is an accession. Raises InvalidContent.
    """
    if unknown := filters.keys() - _FILTERS:
        raise InvalidContent(f"this list has no filter {min(unknown)[:40]!r}")
    chosen = choices_of(filters, "status", list(StepStatus)) if "status" in filters else ON_WORKLIST
    found: list[ColumnElement[bool]] = [_STEP.status.in_([str(status) for status in chosen])]
    if "day" in filters:
        found.append(_STEP.day == _day(text_of(filters, "day")))
    names = ("modality", "location", "site")
    found += [_STEP[name].in_(texts_of(filters, name)) for name in names if name in filters]
    if "station" in filters:
        titles = texts_of(filters, "station")
        found.append(
            or_(*(_STEP.stations.contains(f"|{title}|", autoescape=True) for title in titles))
        )
    if "number" in filters:
        found.append(_STEP.accession == text_of(filters, "number"))
    return found if access.sites is None else [*found, _STEP.site.in_(sorted(access.sites))]


def column_values(
    database: Database, ids: Sequence[int], columns: Sequence[str], access: Access
) -> ColumnValues:
    """
    Return the values of columns: `accession`, `placer`; '' of an order that is not stored.

    Raises PermissionDenied, InvalidContent.
    """
    for name in columns:
        if name not in _NUMBERS:
            raise InvalidContent(f"there is no column {name[:40]!r}")
    access.require(Permission.FIND)
    query = (
        select(_STEP.id, _STEP.site, _STEP.accession, ORDERS.c.placer)
        .select_from(SCHEDULED_STEPS.outerjoin(ORDERS, _OF_STEP))
        .where(_STEP.id.in_(ids))
    )
    with database.read() as connection:
        rows = connection.execute(query).mappings().all()
    return ColumnValues(
        {
            row["id"]: {name: str(row[name] or "").partition("^")[0][:200] for name in columns}
            for row in rows
            if access.sites is None or row["site"] in access.sites
        }
    )


def _day(text: str) -> int:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise InvalidContent("the filter day needs a date, such as 2026-11-30") from None
    return int(day.strftime("%Y%m%d"))


def _start(day: int | None, time: str) -> str:
    if day is None:
        return ""
    written = f"{day // 10_000:04}-{day // 100 % 100:02}-{day % 100:02}"
    clock = ":".join(time[at : at + 2] for at in range(0, min(len(time), 6), 2))
    return f"{written}T{clock}" if clock else written
