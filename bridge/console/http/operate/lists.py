"""
The lists of the console: pages, rows by id, counts, and columns with content.

Filters are in the body, because addresses are logged. A page without a private filter leaves no
audit event; a search for a number or name, and each call of columns, leaves one.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter
from pydantic import Field
from sqlalchemy import Connection

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import InvalidContent, NoSuchItem
from bridge.admin.lists import attention, audit, columns, deliveries, message_columns, orders, steps
from bridge.admin.lists.definitions import LISTS
from bridge.admin.lists.listing import MAX_ROWS, Access, ListDefinition, ListPage, ListRequest
from bridge.admin.lists.row_json import as_json
from bridge.admin.messages.message_index import indexed_from
from bridge.audit import outbox
from bridge.console.http.guard import (
    AuditedAction,
    CallDep,
    ConsoleCall,
    ConsoleRoute,
    run_audited,
)
from bridge.console.http.models.bodies import Body, FiltersBody, Moment, Text
from bridge.console.http.models.lists import (
    ColumnsResponse,
    CountBody,
    ListPageBody,
    RowsResponse,
)
from bridge.contract.requests import RowId
from bridge.executors import CONSOLE_THREADS
from bridge.queue.log_tables import pull_new

router = APIRouter(prefix="/api/lists", route_class=ConsoleRoute)


class ListName(StrEnum):
    MESSAGES = "messages"
    DELIVERIES = "deliveries"
    ORDERS = "orders"
    ATTENTION = "attention"
    AUDIT = "audit"
    STEPS = "steps"


_PERMISSIONS: Final = {
    ListName.ORDERS: Permission.FIND,
    ListName.AUDIT: Permission.AUDIT,
    ListName.STEPS: Permission.FIND,
}
_COUNTED_ROWS: Final = {ListName.ATTENTION: attention, ListName.STEPS: steps}
"""Lists whose pages count rows."""
_SEARCHED: Final = ("number", "name")


class ListBody(FiltersBody):
    """A page of a list; `before` is the `next` of the page before it."""

    sort: Text = "time"
    descending: bool = True
    before: Moment | None = None
    after: RowId | None = None
    limit: int = Field(100, ge=1, le=MAX_ROWS)

    def request(self) -> ListRequest:
        return ListRequest(**self.model_dump())


class RowsBody(Body):
    """Rows by their ids."""

    ids: Annotated[list[RowId], Field(max_length=MAX_ROWS)]


class ColumnsBody(Body):
    """Columns with content, for rows by their ids."""

    ids: Annotated[list[RowId], Field(max_length=columns.MAX_IDS)]
    columns: Annotated[list[Text], Field(min_length=1, max_length=columns.MAX_COLUMNS)]


@router.post("/{listed}", responses={200: {"model": ListPageBody}})
async def page(listed: ListName, body: ListBody, call: CallDep) -> dict[str, Any]:
    """
    Return a page of a list, newest first.

    `indexed_from`: after an upgrade, the time (ms) from which on messages are found by names and
    missing tags; null if all are.
    """
    call.user.grant.require(_PERMISSIONS.get(listed, Permission.SEE))
    work = partial(_page, call, listed, body.request())
    return await _searched(call, listed, body.filters, work)


@router.post("/{listed}/count", responses={200: {"model": CountBody}})
async def count(listed: ListName, body: FiltersBody, call: CallDep) -> dict[str, Any]:
    """Return how many rows match, up to 10,000, and whether that is exact."""
    call.user.grant.require(_PERMISSIONS.get(listed, Permission.SEE))
    work = partial(_count, call, listed, body.filters)
    return await _searched(call, listed, body.filters, work)


@router.post("/{listed}/rows", responses={200: {"model": RowsResponse}})
async def rows(listed: ListName, body: RowsBody, call: CallDep) -> dict[str, Any]:
    """Return rows by their ids, as far as the user may see them."""
    call.user.grant.require(_PERMISSIONS.get(listed, Permission.SEE))
    definition = _definition(listed)
    access = Access.of(call.user.grant)

    def work() -> dict[str, Any]:
        with call.context.database.read() as connection:
            return {"rows": as_json(definition.rows(connection, body.ids, access))}

    return await CONSOLE_THREADS.run(work)


@router.post("/{listed}/columns", responses={200: {"model": ColumnsResponse}})
async def content(listed: ListName, body: ColumnsBody, call: CallDep) -> dict[str, Any]:
    """Return columns with numbers, names and other content, and the rows left for another call."""
    grant = call.user.grant
    grant.require(_PERMISSIONS.get(listed, Permission.SEE))
    read = _column_reader(call, listed)
    action = AuditedAction((), "list content", listed.value)

    def work() -> dict[str, Any]:
        outbox.describe(after={"ids": body.ids, "columns": body.columns})
        found = read(body.ids, body.columns, Access.of(grant))
        return {"values": found.values, "left": found.left}

    return await run_audited(call, action, work)


def _column_reader(call: ConsoleCall, listed: ListName) -> Callable[..., columns.ColumnValues]:
    database = call.context.database
    if listed is ListName.MESSAGES:
        return partial(message_columns.values, database, call.context.subjects_of)
    if listed is ListName.DELIVERIES:
        return partial(deliveries.column_values, database)
    if listed is ListName.ORDERS:
        return partial(orders.column_values, database)
    if listed is ListName.STEPS:
        return partial(steps.column_values, database)
    raise InvalidContent("this list has no such columns")


async def _searched(
    call: ConsoleCall,
    listed: ListName,
    filters: Mapping[str, Any],
    work: Callable[[], dict[str, Any]],
) -> dict[str, Any]:
    """Run a search; one for a number or a name leaves an audit event, without the value."""
    by = [name for name in _SEARCHED if name in filters]
    if not by:
        return await CONSOLE_THREADS.run(work)
    action = AuditedAction((Permission.FIND,), "search", f"{listed.value} by {' and '.join(by)}")
    return await run_audited(call, action, work)


def _definition(listed: ListName) -> ListDefinition[Any]:
    if listed not in LISTS:
        raise NoSuchItem("this list has no rows by id")
    return LISTS[listed]


def _page(call: ConsoleCall, listed: ListName, request: ListRequest) -> dict[str, Any]:
    access = Access.of(call.user.grant)
    database = call.context.database
    found: ListPage[Any]
    if listed is ListName.AUDIT:
        found = audit.page(call.context.audit, request, access)
        return _page_json(found, found.rows)
    pull_new(database)
    with database.read() as connection:
        found = (_COUNTED_ROWS.get(listed) or LISTS[listed]).page(connection, request, access)
        complete_from = indexed_from(connection) if listed is ListName.MESSAGES else None
    return {**_page_json(found, as_json(found.rows)), "indexed_from": complete_from}


def _page_json(found: ListPage[Any], rows: Sequence[Any]) -> dict[str, Any]:
    return {
        "rows": rows,
        "next": found.next,
        "examined_to": found.examined_to,
        "complete": found.complete,
        "sortable": found.sortable,
    }


def _count(call: ConsoleCall, listed: ListName, filters: Mapping[str, Any]) -> dict[str, Any]:
    access = Access.of(call.user.grant)
    if listed is ListName.AUDIT:
        raise NoSuchItem("the events are not counted")
    counter: Callable[[Connection, Mapping[str, Any], Access], tuple[int, bool]]
    counter = (_COUNTED_ROWS.get(listed) or LISTS[listed]).count
    with call.context.database.read() as connection:
        number, exact = counter(connection, filters, access)
    return {"count": number, "exact": exact}
