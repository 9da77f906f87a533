"""Audit events of the report engine, a table of the console's, and the hash chain."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from bridge.admin.access.permissions import Permission
from bridge.admin.lists import audit
from bridge.admin.lists.listing import Access
from bridge.console.http.guard import (
    HEADERS,
    AuditedAction,
    CallDep,
    ConsoleRoute,
    await_audited,
    run_audited,
)
from bridge.console.http.models.bodies import EngineEventParameters, FiltersBody
from bridge.executors import CONSOLE_THREADS

router = APIRouter(prefix="/api", route_class=ConsoleRoute)


@router.get("/sites/{site}/audit")
async def engine_events(
    site: str, query: Annotated[EngineEventParameters, Query()], call: CallDep
) -> dict[str, Any]:
    """List the report engine's audit events of a site, newest first."""
    action = AuditedAction((Permission.AUDIT,), "read", "audit trail", lambda: [site])
    criteria = query.model_dump(exclude_none=True)
    return {
        "rows": await await_audited(
            call, action, lambda: call.context.engine.audit_events(site, criteria)
        )
    }


@router.post("/audit/verify")
async def verify(call: CallDep) -> dict[str, Any]:
    """Verify the hash chain of the report engine's audit trail."""
    action = AuditedAction((Permission.AUDIT,), "verify", "audit trail")
    return await await_audited(call, action, call.context.engine.verify_audit)


@router.post("/audit/export")
async def export(body: FiltersBody, call: CallDep) -> Response:
    """Return the newest 100,000 events of console and command line that match, as CSV."""
    parts = audit.table(call.context.audit, body.filters, Access.of(call.user.grant))
    action = AuditedAction((Permission.AUDIT,), "export", "audit events")
    first = await run_audited(call, action, lambda: [next(parts), next(parts)])
    headers = {**HEADERS, "Content-Disposition": 'attachment; filename="audit.csv"'}
    kind = "text/csv; charset=utf-8"
    return StreamingResponse(_sent(first, parts), headers=headers, media_type=kind)


async def _sent(first: list[str], parts: Iterator[str]) -> AsyncIterator[str]:
    """Yield the parts of a table; one is in memory at a time."""
    for part in first:
        yield part
    while (part := await CONSOLE_THREADS.run(partial(next, parts, ""))) != "":
        yield part
