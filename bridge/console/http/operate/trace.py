"""The trace of a message: which rule gave which value, and its place in the message."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query

from bridge.admin.errors import NoSuchItem
from bridge.admin.items.message_trace import trace_message
from bridge.console.context import ConsoleContext
from bridge.console.http.guard import CallDep, ConsoleRoute, run_audited
from bridge.console.http.models.rules import Trace
from bridge.console.http.operate.messages import reading
from bridge.contract.requests import RowId
from bridge.queue import queries
from bridge.queue.errors import NoSuchRow
from mappings.inbound.definition import MAX_GROUPS

router = APIRouter(prefix="/api/messages", route_class=ConsoleRoute)
First = Annotated[int, Query(ge=0, lt=MAX_GROUPS)]


@router.get("/{message_id}/trace", response_model=Trace)
async def trace(message_id: RowId, call: CallDep, first: First = 0) -> Mapping[str, Any]:
    """Return the sources of each value of a message, from the n-th order or patient on."""
    work = partial(_trace, call.context, message_id, first)
    return await run_audited(call, reading(call.context, message_id), work)


def _trace(context: ConsoleContext, message_id: int, first: int) -> Mapping[str, Any]:
    try:
        detail = queries.message(context.database, message_id)
    except NoSuchRow:
        raise NoSuchItem from None
    mapping = context.subjects_of.definition(detail.row.mapping, detail.row.mapping_version)
    return trace_message(context.settings, context.database, mapping, detail, first=first)
