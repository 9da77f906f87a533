"""Who sits at a report page: the session behind its bearer, and work in its name.

Only the bearer of the page counts here, never a cookie, so that no other site can
make a browser act.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from starlette.responses import JSONResponse, Response

from bridge.audit.events import AuditEvent
from bridge.engine.app.controls import controls
from bridge.engine.errors import Forbidden
from bridge.engine.http.engine_state import EngineState, engine_of
from bridge.engine.http.requests.audit_events import audit_event, record_refusal
from bridge.engine.http.requests.problems import BY_SESSION, unauthorized
from bridge.engine.service.accounts.sessions import (
    SEEN_EVERY_MS,
    BrowserSession,
    find_session,
    keep_alive,
)
from bridge.engine.service.caller import account_role
from bridge.engine.service.signing import page_state
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.sites.audit_states import StateReader, difference
from bridge.engine.service.work import Actor, Work

Result = TypeVar("Result")

VIEW_PAUSE_MS = 5 * 60 * 1000
"""After so long a silence, looking at the report again is another view of it."""


@dataclass(frozen=True, slots=True)
class ReportPage:
    """A session at its report; `change` and `show` answer with the page's state."""

    engine: EngineState
    session: BrowserSession
    request: Request

    async def show(self, *, take_over: bool = False) -> Response:
        """Return the page's state; a page that looks again and again is viewed once."""
        page = await self._state(lambda work, editor: {}, take_over=take_over)
        if self.engine.clock() - self.session.last_seen_at > VIEW_PAUSE_MS:
            self.engine.journal.note([self._event("view")])
        return page

    async def change(self, action: str, apply: Callable[[Work, Editor], Any]) -> Response:
        """Carry out a deed, note it in the audit trail, and return the page's new state."""

        def changing(work: Work, editor: Editor) -> dict[str, Any]:
            self._noted(action, apply, work, editor)
            return {}

        return await self._state(changing)

    async def obtain(
        self, action: str, name: str, apply: Callable[[Work, Editor], Any]
    ) -> Response:
        """Carry out a deed; return the page's new state, and what came of it under `name`."""
        return await self._state(
            lambda work, editor: {name: self._noted(action, apply, work, editor)}
        )

    async def read(self, reading: Callable[[Work, Editor], Result]) -> Result:
        """Return what a reading of the report gives."""
        return await self._do(reading)

    async def view(
        self, action: str, report_id: str, reading: Callable[[Work, Editor], Result]
    ) -> Result:
        """Return what a reading gives, and note in the audit trail which report was looked at."""

        def noted(work: Work, editor: Editor) -> Result:
            result = reading(work, editor)
            work.note(replace(self._event(action), report_id=report_id))
            return result

        return await self._do(noted)

    async def leave(
        self,
        action: str,
        apply: Callable[[Work, Editor], Any],
        *,
        state: StateReader | None = None,
        target: tuple[str, str] | None = None,
    ) -> Response:
        """
        Carry out a deed after which there may be no page to show.

        `state` reads what the audit event says of `target` before and after the change.
        """

        def described(work: Work, editor: Editor) -> None:
            before = {} if state is None else state(work.connection)
            apply(work, editor)
            event = replace(self._event(action), target=target)
            if state is not None:
                event = replace(event, **difference(before, state(work.connection)))
            work.note(event)

        await self._do(described)
        return Response(status_code=204)

    def _noted(
        self, action: str, apply: Callable[[Work, Editor], Any], work: Work, editor: Editor
    ) -> Any:
        result = apply(work, editor)
        work.note(self._event(action))
        return result

    def _event(self, action: str) -> AuditEvent:
        session = self.session
        account_id = session.account_id
        return audit_event(
            self.request, action, session.site_id, session.report_id, account_id=account_id
        )

    async def _state(
        self, apply: Callable[[Work, Editor], dict[str, Any]], *, take_over: bool = False
    ) -> Response:
        def loading(work: Work, editor: Editor) -> dict[str, Any]:
            more = apply(work, editor)
            page = page_state.load(work, editor, self.session.report_id, take_over=take_over)
            return page | more

        page = await self._do(loading)
        return JSONResponse({**page, "can": [each.value for each in controls(page)]})

    async def _do(self, apply: Callable[[Work, Editor], Result]) -> Result:
        session, now = self.session, self.engine.clock()

        def permitted(work: Work) -> Result:
            role = account_role(work.connection, session.account_id, session.site_id)
            if role is None:
                raise Forbidden
            if now - session.last_seen_at > SEEN_EVERY_MS:
                keep_alive(work.connection, session, now)
            return apply(work, Editor(session.account_id, role, session.holder))

        actor = Actor(session.account_id, session_pk=session.pk)
        return await self.engine.work.change(actor, now, permitted)


async def authenticate_page(request: Request) -> ReportPage:
    """Return the session of the request's bearer; raise 401."""
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
