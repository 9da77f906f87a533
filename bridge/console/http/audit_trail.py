"""Audit events of the report engine, and the hash chain of its audit trail."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from bridge.admin.access.permissions import Permission
from bridge.console.http.bodies import EngineEventParameters
from bridge.console.http.guard import AuditedAction, CallDep, ConsoleRoute, await_audited

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
