"""Codes that messages had and no code table has: listed, left as they are, or given an entry."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from bridge.console.context import CodeEntry
from bridge.console.http.guard import AuditedAction, ContextDep, UserDep, run_audited
from bridge.console.http.mapping_bodies import NAME, TABLE, CodeBody, LeaveBody
from bridge.console.http.route import ConsoleRoute
from bridge.console.permissions import Permission
from bridge.executors import Threads

router = APIRouter(prefix="/api", route_class=ConsoleRoute)
Name = Annotated[str, Path(pattern=NAME)]
Table = Annotated[str, Path(pattern=TABLE)]


@router.get("/unknown-codes")
async def unknown_codes(user: UserDep, context: ContextDep) -> Mapping[str, Any]:
    """List the codes that the definitions in force have met; none that may be about a person."""
    user.grant.require(Permission.AUTHOR)
    email = user.grant.email
    return {"rows": await Threads.CONSOLE.run(context.drafts.unmapped_codes, email)}


@router.post("/unknown-codes/leave")
async def leave(
    body: LeaveBody, request: Request, user: UserDep, context: ContextDep
) -> Mapping[str, Any]:
    """Say that a code stays without an entry; whoever is told of it hears no more."""
    subject = f"code table {body.code_table} of mapping {body.mapping}"
    wanted, email = AuditedAction((Permission.AUTHOR,), "leave code", subject), user.grant.email
    work = context.drafts.ignore_code
    await run_audited(
        request, user, wanted, lambda: work(body.mapping, body.code_table, body.code, email)
    )
    return {}


@router.put("/mappings/{name}/codes/{table}")
async def add(
    name: Name,
    table: Table,
    body: CodeBody,
    request: Request,
    user: UserDep,
    context: ContextDep,
) -> Mapping[str, Any]:
    """Write an entry into one's draft of the definition; nothing comes into force."""
    wanted = AuditedAction((Permission.AUTHOR,), "save draft", f"mapping {name}")
    entry = CodeEntry(name, user.grant.email, table, body.code, body.value.strip(), back=body.back)
    async with context.gate.entered():
        return await run_audited(request, user, wanted, lambda: context.drafts.add_code(entry))
