"""
The report page of one session: it authenticates the page and executes its requests.

Only its bearer token authenticates a page, never a cookie. Therefore no other site can send
requests in the name of the user.

The page shows controls by the report's status and the user's permissions. Hidden controls are no
access check: the use cases check permissions again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from starlette.responses import JSONResponse, Response

from bridge.audit.events import AuditEvent
from bridge.contract import SIGNED, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.http.engine_state import EngineState, engine_of
from bridge.engine.http.requests.audit_events import audit_event, record_refusal
from bridge.engine.http.requests.response_bodies import BY_SESSION, unauthorized
from bridge.engine.rules.site_roles import ReportAction
from bridge.engine.service.accounts.sessions import (
    SEEN_EVERY_MS,
    BrowserSession,
    add_details,
    find_session,
    keep_alive,
)
from bridge.engine.service.caller import account_role
from bridge.engine.service.signing import page_actions
from bridge.engine.service.signing.lease import TAB, Editor
from bridge.engine.service.sites.audit_states import StateReader, difference
from bridge.engine.service.work import ActorRef, Work


class Control(StrEnum):
    EDIT = "edit"
    SIGN = "sign"
    SIGN_NOW = "sign-now"
    UNSIGN = "unsign"
    PRELIM = "prelim"
    DISCARD = "discard"
    ADDENDUM_CREATE = "addendum-create"
    ADDENDUM_UNSIGN = "addendum-unsign"
    ADDENDUM_SIGN_NOW = "addendum-sign-now"


def controls(page: Mapping[str, Any]) -> list[Control]:
    """Return the controls for a page that `service.signing.page_actions.load` describes."""
    status, permitted = ReportStatus(page["status"]), frozenset(page["permitted"])
    found = _signed(page) if status in SIGNED else _unsigned(page, status)
    return [control for control, action in found.items() if action in permitted]


def _unsigned(page: Mapping[str, Any], status: ReportStatus) -> dict[Control, ReportAction]:
    found = {Control.EDIT: ReportAction.EDIT} if page["writable"] else {}
    # An administrator may sign for an owner through the API, but nobody signs a colleague's text
    # by a key or button of the page: they take the report over first.
    if status is ReportStatus.ORDERED or not page["owner"]:
        return found
    found |= {Control.SIGN: ReportAction.SIGN, Control.PRELIM: ReportAction.PRELIM}
    return found | ({Control.DISCARD: ReportAction.DISCARD} if status is ReportStatus.DRAFT else {})


def _signed(page: Mapping[str, Any]) -> dict[Control, ReportAction]:
    found: dict[Control, ReportAction] = {}
    if page["unsignUntil"] is not None:
        found |= {Control.UNSIGN: ReportAction.SIGN, Control.SIGN_NOW: ReportAction.SIGN}
    if not any(addendum["state"] == "draft" for addendum in page["addenda"]):
        found[Control.ADDENDUM_CREATE] = ReportAction.ADDEND
    if page["addendumUnsignUntil"] is not None:
        found |= {
            Control.ADDENDUM_UNSIGN: ReportAction.ADDEND,
            Control.ADDENDUM_SIGN_NOW: ReportAction.ADDEND,
        }
    return found


Result = TypeVar("Result")
PageAction = Callable[[Work, Editor, str], Result]
"""A use case of the report page: unit of work, editor, report id."""

VIEW_PAUSE_MS = 5 * 60 * 1000
"""A request after a pause of this length is recorded as a new view of the report."""


@dataclass(frozen=True, slots=True)
class ReportPage:
    """A session and its report; `change` and `show` return the state of the page."""

    engine: EngineState
    session: BrowserSession
    request: Request

    async def in_tab(self, tab: str) -> "ReportPage":
        session = self.session
        if tab in ("", session.tab):
            return self
        await self.engine.work.write(lambda c: add_details(c, session, {TAB: tab}))
        return replace(self, session=replace(session, details={**session.details, TAB: tab}))

    async def show(self, *, take_over: bool = False) -> Response:
        """Return the state of the page; record one view for requests in quick succession."""
        response = await self._respond(lambda *_: {}, take_over=take_over)
        if self.engine.clock() - self.session.last_seen_at > VIEW_PAUSE_MS:
            self.engine.audit_buffer.add([self._event("view")])
        return response

    async def change(self, action: str, apply: PageAction[Any], *, result: str = "") -> Response:
        """
        Change the report, record the action, and return the new state of the page.

        With `result`, the state has the result of `apply` as the member of this name.
        """

        def apply_and_record(work: Work, editor: Editor, report_id: str) -> dict[str, Any]:
            value = apply(work, editor, report_id)
            work.audit(self._event(action))
            return {result: value} if result else {}

        return await self._respond(apply_and_record)

    async def read(self, reading: PageAction[Result]) -> Result:
        """Return the result of `reading`; record nothing."""
        return await self._execute(reading)

    async def read_and_record(
        self, action: str, report_id: str, reading: PageAction[Result]
    ) -> Result:
        """Return the result of `reading`; record that the user has read this report."""

        def read_with_event(work: Work, editor: Editor, own_id: str) -> Result:
            result = reading(work, editor, own_id)
            work.audit(replace(self._event(action), report_id=report_id))
            return result

        return await self._execute(read_with_event)

    async def change_without_page(
        self,
        action: str,
        apply: PageAction[Any],
        *,
        state: StateReader | None = None,
        target: tuple[str, str] | None = None,
    ) -> Response:
        """
        Change something and return 204: the report may not be readable afterwards.

        `state` reads the audited members of `target` before and after the change.
        """

        def apply_with_states(work: Work, editor: Editor, report_id: str) -> None:
            before = {} if state is None else state(work.connection)
            apply(work, editor, report_id)
            event = replace(self._event(action), target=target)
            if state is not None:
                event = replace(event, **difference(before, state(work.connection)))
            work.audit(event)

        await self._execute(apply_with_states)
        return Response(status_code=204)

    def _event(self, action: str) -> AuditEvent:
        session = self.session
        account_id = session.account_id
        return audit_event(
            self.request, action, session.site_id, session.report_id, account_id=account_id
        )

    async def _respond(
        self, apply: PageAction[dict[str, Any]], *, take_over: bool = False
    ) -> Response:
        def apply_and_load(work: Work, editor: Editor, report_id: str) -> dict[str, Any]:
            extra = apply(work, editor, report_id)
            page = page_actions.load(work, editor, report_id, take_over=take_over)
            return page | extra

        page = await self._execute(apply_and_load)
        return JSONResponse({**page, "can": [control.value for control in controls(page)]})

    async def _execute(self, apply: PageAction[Result]) -> Result:
        session, now = self.session, self.engine.clock()

        def check_and_apply(work: Work) -> Result:
            role = account_role(work.connection, session.account_id, session.site_id)
            if role is None:
                raise EngineError(ErrorCode.FORBIDDEN)
            if now - session.last_seen_at > SEEN_EVERY_MS:
                keep_alive(work.connection, session, now)
            editor = Editor(session.account_id, role, session.holder, session.tab)
            return apply(work, editor, session.report_id)

        actor = ActorRef(session.account_id, session_pk=session.pk)
        return await self.engine.work.change(actor, now, check_and_apply)


async def authenticate_page(request: Request) -> ReportPage:
    """Return the page of the request's bearer token; raise 401."""
    engine = engine_of(request)
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        record_refusal(request, "session", code="no_session")
        raise unauthorized("the session of an opened report is required", BY_SESSION)
    now, life = engine.clock(), engine.settings.lifetimes
    session = await engine.work.read(lambda c: find_session(c, secret.strip(), now, life))
    if session is None or not session.report_id:
        record_refusal(request, "session", code="session_ended")
        raise unauthorized("the session has ended; open the report again", BY_SESSION)
    return ReportPage(engine, session, request)


async def _page(request: Request) -> ReportPage:
    page: ReportPage = request.state.report_page
    return page


ReportPageDep = Annotated[ReportPage, Depends(_page)]
