"""The worklist of a signed-in user: rows, changes, filters, assignment."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from sqlalchemy import Connection
from sqlmodel import Session
from starlette.responses import JSONResponse, Response

from bridge.contract import ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.contract.requests import TAG_LENGTH, Body, Identifier, OptionalIdentifier, QueryText
from bridge.engine.errors import EngineError
from bridge.engine.http.engine_state import EngineDep, engine_of
from bridge.engine.http.requests.audit_events import access_events, audit_event
from bridge.engine.http.sign_in.account_session import AccountRoute, SignedInDep
from bridge.engine.rules.order import Priority
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service import worklist
from bridge.engine.service.accounts import users
from bridge.engine.service.accounts.own_account import AccountSession
from bridge.engine.service.accounts.sessions import is_valid
from bridge.engine.service.caller import account_role
from bridge.engine.service.change_feed import FeedPage, read_changes
from bridge.engine.service.sites.site_settings import get_site, list_prelim_groups
from bridge.engine.service.work import ActorRef, Work
from bridge.engine.service.worklist import (
    ElsewhereFilter,
    OwnerFilter,
    RowsQuery,
    SortColumn,
    read_rows,
)

POLL_SECONDS = 0.5  # also checks whether the client is still connected

router = APIRouter(
    prefix="/reporting/api/account", route_class=AccountRoute, include_in_schema=False
)

Text = Annotated[str, Query(max_length=TAG_LENGTH)]
_PAGE = 200


def _query(
    *,
    SiteID: QueryText,  # noqa: N803  # the spelling of the interface reference
    status: Annotated[list[ReportStatus] | None, Query()] = None,
    owner: OwnerFilter = OwnerFilter.ANYBODY,
    q: Text = "",
    location: Text = "",
    modality: Text = "",
    priority: Priority | None = None,
    group: Text = "",
    tag: Text = "",
    addenda: bool = False,
    elsewhere: ElsewhereFilter = ElsewhereFilter.UNNAMED,
    reportId: Annotated[list[str] | None, Query(max_length=_PAGE)] = None,  # noqa: N803  # as above
    sort: SortColumn = SortColumn.UPDATED,
    descending: bool = True,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=_PAGE)] = 100,
) -> RowsQuery:
    return RowsQuery(
        site_id=SiteID,
        status=tuple(status or ()),
        owner=owner,
        text=q,
        location=location,
        modality=modality,
        priority=priority,
        prelim_group=group,
        prelim_tag=tag,
        addenda=addenda,
        report_ids=tuple(reportId or ()),
        elsewhere=elsewhere,
        sort=sort,
        descending=descending,
        offset=offset,
        limit=limit,
    )


def _member(connection: Connection, signed: AccountSession, site_id: str) -> SiteRole:
    account_id = signed.browser_user.account_on(site_id)
    role = None if account_id is None else account_role(connection, account_id, site_id)
    if role is None:
        raise EngineError(ErrorCode.FORBIDDEN)
    return role


@router.get("/rows")
async def rows(
    query: Annotated[RowsQuery, Depends(_query)], request: Request, signed: SignedInDep
) -> Response:
    """Return rows of a site's worklist and the total number of rows."""
    engine, account_id = engine_of(request), signed.account.id

    def reading(session: Session) -> Any:
        _member(session.connection(), signed, query.site_id)
        return read_rows(session, query, account_id, engine.clock())

    found = await engine.work.read_session(reading)
    shown = [(query.site_id, item["reportId"]) for item in found.items]
    engine.audit_buffer.add(access_events(request, "worklist", [query.site_id], shown))
    return JSONResponse(found.as_json())


@router.get("/site")
async def site(
    SiteID: QueryText,  # noqa: N803  # the spelling of the interface reference
    engine: EngineDep,
    signed: SignedInDep,
) -> Response:
    """Return the filter values of a site and, for administrators, the possible readers."""

    def reading(connection: Connection) -> dict[str, Any]:
        role = _member(connection, signed, SiteID)
        groups = list_prelim_groups(connection, SiteID)
        readers = users.members(connection, SiteID) if role is SiteRole.ADMINISTRATOR else []
        return {
            "locations": list(get_site(connection, SiteID).locations),
            "prelimGroups": [{"name": group["name"], "tags": group["tags"]} for group in groups],
            "readers": [
                {"email": reader.email, "name": reader.name or reader.email}
                for reader in readers
                if not reader.disabled
            ],
        }

    return JSONResponse(await engine.work.read(reading))


@router.get("/changes")
async def changes(
    SiteID: QueryText,  # noqa: N803  # the spelling of the interface reference
    request: Request,
    signed: SignedInDep,
    after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    wait: Annotated[float, Query(ge=0, le=30)] = 20.0,
) -> Response:
    """Return the reports that changed after a cursor; wait up to `wait` seconds for the first."""
    engine = engine_of(request)

    def reading(connection: Connection) -> FeedPage:
        # Checked on each read, because the session may end while the page waits.
        if not is_valid(connection, signed.session, engine.clock(), engine.settings.lifetimes):
            raise EngineError(ErrorCode.FORBIDDEN)
        _member(connection, signed, SiteID)
        return read_changes(connection, [SiteID], after, 500)

    caller = f"account {signed.account.id}"
    engine.polls.require_room(caller)
    with engine.polls.counted(caller):
        page = await engine.read_until(
            wait,
            POLL_SECONDS,
            reading,
            lambda page: bool(page.changes),
            is_gone=request.is_disconnected,
        )
    changed = dict.fromkeys(str(change["reportId"]) for change in page.changes)
    return JSONResponse({"reportIds": list(changed), "cursor": page.cursor})


class AssignBody(Body):
    """The reader of a report; an empty e-mail address removes the assignment."""

    reportId: Identifier  # noqa: N815  # as above
    email: OptionalIdentifier = ""


@router.post("/assign")
async def assign(body: AssignBody, request: Request, signed: SignedInDep) -> Response:
    """Assign a report to a reader, or return it to the worklist; for site administrators."""
    engine, account_id = engine_of(request), signed.account.id

    def apply(work: Work) -> None:
        if body.email:
            report = worklist.assign(work, signed.browser_user, body.reportId, body.email)
        else:
            report = worklist.return_to_worklist(work, signed.browser_user, body.reportId)
        action = "assign" if body.email else "unassign"
        work.audit(audit_event(request, action, report.site_id, report.report_id))

    await engine.work.change(ActorRef(account_id), engine.clock(), apply)
    return Response(status_code=204)
