"""Saved views of the lists: own ones and shared ones."""

from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field, StringConstraints

from bridge.admin.access.permissions import Permission
from bridge.admin.lists import views
from bridge.admin.lists.views import SavedView, ViewChange
from bridge.console.http.guard import AuditedAction, CallDep, ConsoleCall, ConsoleRoute, run_audited
from bridge.console.http.models.bodies import Body, Filters, Text
from bridge.console.http.models.lists import SavedViewBody, ViewsBody
from bridge.console.http.operate.lists import ListName
from bridge.contract.requests import RowId
from bridge.executors import CONSOLE_THREADS

router = APIRouter(prefix="/api/views", route_class=ConsoleRoute)


class ViewContent(Body):
    """What a view restores."""

    filters: Filters = Field(default_factory=dict)
    columns: Annotated[list[Text], Field(max_length=50)] = Field(default_factory=list)
    sort: Text = "time"


class ViewBody(Body):
    """A view to save."""

    list: ListName
    name: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80)]
    shared: bool = False
    body: ViewContent

    def change(self, view_id: int | None) -> ViewChange:
        return ViewChange(self.list.value, self.name, self.shared, self.body.model_dump(), view_id)


@router.get("", responses={200: {"model": ViewsBody}})
async def list_views(
    call: CallDep, list_name: Annotated[ListName | None, Query(alias="list")] = None
) -> dict[str, Any]:
    """List the user's own views and the shared ones."""
    call.user.grant.require(Permission.SEE)
    name = "" if list_name is None else list_name.value
    found = await CONSOLE_THREADS.run(
        views.list_views, call.context.database, call.user.grant, name
    )
    return {"rows": [asdict(view) for view in found]}


@router.post("", responses={200: {"model": SavedViewBody}})
async def add(body: ViewBody, call: CallDep) -> dict[str, Any]:
    """Save a new view; a shared one requires the permission `operate`."""
    return await _saved(call, body, None)


@router.put("/{view_id}", responses={200: {"model": SavedViewBody}})
async def change(view_id: RowId, body: ViewBody, call: CallDep) -> dict[str, Any]:
    """Change a view."""
    return await _saved(call, body, view_id)


@router.delete("/{view_id}")
async def delete(view_id: RowId, call: CallDep) -> dict[str, Any]:
    """Delete a view."""
    database, grant = call.context.database, call.user.grant
    grant.require(Permission.SEE)
    work = partial(views.delete_view, database, view_id, grant)
    if await CONSOLE_THREADS.run(views.is_shared, database, view_id):
        action = AuditedAction((Permission.SEE,), "delete view", f"view {view_id}")
        await run_audited(call, action, work)
    else:
        await CONSOLE_THREADS.run(work)
    return {}


async def _saved(call: ConsoleCall, body: ViewBody, view_id: int | None) -> dict[str, Any]:
    """Save a view. Shared ones leave an audit event: others will use them."""
    database, grant, now = call.context.database, call.user.grant, call.context.clock()
    grant.require(Permission.SEE)

    def work() -> SavedView:
        return views.save_view(database, body.change(view_id), grant, now)

    was_shared = view_id is not None and await CONSOLE_THREADS.run(
        views.is_shared, database, view_id
    )
    if body.shared or was_shared:
        subject = f"view {'' if view_id is None else view_id}".strip()
        action = AuditedAction((Permission.SEE,), "save view", subject)
        return asdict(await run_audited(call, action, work))
    return asdict(await CONSOLE_THREADS.run(work))
