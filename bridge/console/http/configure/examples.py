"""
Examples of a definition: list them with what differs, accept a new result, remove one.

They are added by an export of de-identified messages (`as_examples`).
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from bridge.admin.access.permissions import Permission
from bridge.admin.definitions import examples
from bridge.admin.definitions.drafts import as_operator_errors, check_cached
from bridge.admin.errors import InvalidContent
from bridge.console.http.guard import AuditedAction, CallDep, ConsoleCall, ConsoleRoute, run_audited
from bridge.console.http.models.bodies import NAME, AcceptedExamplesBody
from bridge.contract.requests import RowId
from bridge.executors import CONSOLE_THREADS
from mappings.compiler import Compiled
from mappings.inbound.definition import InboundMapping

router = APIRouter(prefix="/api/mappings", route_class=ConsoleRoute)
Name = Annotated[str, Path(pattern=NAME)]
Version = Annotated[str, Query(pattern=r"^(active|draft|files|previous|[0-9a-f]{4,16})$")]


@router.get("/{name}/examples")
async def list_examples(name: Name, call: CallDep, version: Version = "draft") -> dict[str, Any]:
    """List the examples, each with what differs with a version."""
    call.user.grant.require(Permission.AUTHOR)

    def work() -> Sequence[Any]:
        return examples.list_json(call.context.database, name, _compiled(call, name, version))

    async with call.context.gate.entered():
        return {"rows": await CONSOLE_THREADS.run(work)}


@router.post("/{name}/examples/accept")
async def accept(name: Name, body: AcceptedExamplesBody, call: CallDep) -> dict[str, Any]:
    """Make the results of a version the expected ones; no ids: of all examples that differ."""

    def work() -> int:
        mapping = _compiled(call, name, body.version)
        if not isinstance(mapping, InboundMapping):
            raise InvalidContent("the definition has mistakes, or reads no messages")
        return examples.accept(call.context.database, mapping, body.ids)

    action = AuditedAction((Permission.AUTHOR,), "accept examples", f"mapping {name}")
    async with call.context.gate.entered():
        return {"accepted": await run_audited(call, action, work)}


@router.delete("/{name}/examples/{example_id}")
async def remove(name: Name, example_id: RowId, call: CallDep) -> dict[str, Any]:
    """Remove an example."""
    work = partial(examples.remove, call.context.database, name, [example_id])
    action = AuditedAction((Permission.AUTHOR,), "remove example", f"mapping {name}")
    await run_audited(call, action, work)
    return {}


def _compiled(call: ConsoleCall, name: str, version: str) -> Compiled | None:
    """Return a version, the active one if there is no draft; None if it has mistakes."""
    grant = call.user.grant
    code = Permission.CODE in grant.permissions
    with as_operator_errors():
        sources = call.context.trials.sources(name, grant.email, version, code=code)
    return check_cached(sources, name).compiled
