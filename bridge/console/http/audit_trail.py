"""Audit events of the console and of the report engine, and the results that were delivered."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from bridge.admin.access.permissions import Permission
from bridge.console.http.bodies import (
    ConsoleEventParameters,
    EngineEventParameters,
)
from bridge.console.http.guard import AuditedAction, CallDep, ConsoleRoute, await_audited
from bridge.executors import CONSOLE_THREADS

router = APIRouter(prefix="/api", route_class=ConsoleRoute)
_ACCEPTED = (
    *("id", "destination", "report_id", "event"),
    *("code", "attempts", "acknowledged_at"),
)


@router.get("/deeds")
async def console_events(
    query: Annotated[ConsoleEventParameters, Query()], call: CallDep
) -> dict[str, Any]:
    """List audit events of console and command line, newest first, on the user's sites."""
    call.user.grant.require(Permission.AUDIT)
    return {
        "rows": await CONSOLE_THREADS.run(
            call.context.audit.newest, query.query(call.user.grant.visible_sites)
        )
    }


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
