"""The endpoints of the report page: they stay when another page takes its place.

Behind the session that opening a link began, for the one report it was opened for.
Every change answers with the page's new state.
"""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field, StrictBool, StrictInt
from starlette.responses import Response

from bridge.engine.http.live.sync_launch import wait_for_handover
from bridge.engine.http.models.accounts import ChoicesBody
from bridge.engine.http.models.fields import Body, Identifier, TextBody
from bridge.engine.http.models.responses import PAGE_LEFT, problems
from bridge.engine.http.pages.report_page import ReportPageDep
from bridge.engine.http.requests.guard import SessionRoute
from bridge.engine.service.accounts import own_account
from bridge.engine.service.launch import link_opening
from bridge.engine.service.signing import page_actions, page_state
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.sites import audit_states
from bridge.engine.service.work import Work

router = APIRouter(
    prefix="/reporting/api/session",
    tags=["Report page"],
    route_class=SessionRoute,
    responses=problems(500),
)

PageJson = dict[str, Any]


class VersionedBody(Body):
    """A deed on the report as the page has seen it."""

    version: StrictInt = 0


class SaveBody(VersionedBody, TextBody):
    """A text to be kept, the template that was applied to it, and whether its page is left."""

    template: Annotated[StrictInt, Field(ge=1, le=999_999_999)] | None = None
    leaving: StrictBool = False


class SessionPrelimBody(VersionedBody):
    """A preliminary read."""

    prelimGroup: Identifier  # noqa: N815  # the spelling of the interface document
    prelimTag: Identifier  # noqa: N815  # the spelling of the interface document


class OpenBody(Body):
    """Whether the writing lease is taken from another session."""

    takeOver: StrictBool = False  # noqa: N815  # as its neighbours are spelled


@router.get("/report", response_model=PageJson)
async def load(page: ReportPageDep) -> Response:
    """Return the report as the page shows it."""
    return await page.show()


@router.post("/open", response_model=PageJson)
async def open_again(body: OpenBody, page: ReportPageDep) -> Response:
    """
    Return the report, and take the writing lease from another session if asked to.

    The window that writes has saved what was typed there by then, or did not answer for 3 s.
    """
    if body.takeOver:
        await wait_for_handover(page.engine, page.session.report_id, page.session.pk)
    return await page.show(take_over=body.takeOver)


@router.post("/transfer", response_model=PageJson)
async def transfer(page: ReportPageDep) -> Response:
    """
    Take the Draft over from its owner: the user has agreed to the prompt.

    The window that writes has saved what was typed there by then, or did not answer for 3 s.
    """
    report_id = page.session.report_id
    await wait_for_handover(page.engine, report_id, page.session.pk)
    return await page.change(
        "transfer", lambda work, editor: link_opening.take_over(work, report_id, editor.account_id)
    )


@router.post("/save", response_model=PageJson, responses=PAGE_LEFT)
async def save(body: SaveBody, page: ReportPageDep) -> Response:
    """Keep the text, if it was made from the present version."""
    report_id = page.session.report_id

    def apply(work: Work, editor: Editor) -> None:
        page_actions.save(
            work, editor, report_id, body.version, body.sent(), template=body.template
        )

    if not body.leaving:
        return await page.change("save", apply)

    def last(work: Work, editor: Editor) -> None:
        apply(work, editor)
        page_state.leave(work, editor, report_id)

    return await page.leave("save", last)


@router.post("/sign", response_model=PageJson)
async def sign(body: VersionedBody, page: ReportPageDep) -> Response:
    """Sign."""
    report_id = page.session.report_id
    return await page.change(
        "sign", lambda work, editor: page_actions.sign(work, editor, report_id, body.version)
    )


@router.post("/sign-now", response_model=PageJson)
async def sign_now(body: VersionedBody, page: ReportPageDep) -> Response:
    """End the cooling period of a signed report, or sign without one."""
    report_id = page.session.report_id
    return await page.change(
        "sign",
        lambda work, editor: page_actions.sign(
            work, editor, report_id, body.version, ignore_delay=True
        ),
    )


@router.post("/unsign", response_model=PageJson)
async def unsign(page: ReportPageDep) -> Response:
    """Recall the report."""
    report_id = page.session.report_id
    return await page.change(
        "unsign", lambda work, editor: page_actions.unsign(work, editor, report_id)
    )


@router.post("/prelim", response_model=PageJson)
async def prelim(body: SessionPrelimBody, page: ReportPageDep) -> Response:
    """Make the report Preliminary."""
    report_id = page.session.report_id
    return await page.change(
        "prelim",
        lambda work, editor: page_actions.prelim(
            work, editor, report_id, body.version, body.prelimGroup, body.prelimTag
        ),
    )


@router.put("/choices", status_code=204, response_class=Response)
async def choose(body: ChoicesBody, page: ReportPageDep) -> Response:
    """Keep how the user wants to see reports of this site."""
    session = page.session
    return await page.leave(
        "profile-update",
        lambda work, editor: own_account.save_page_choices(
            work.connection, session, body.choices()
        ),
        state=audit_states.profile(session.account_id, session.site_id),
        target=("account", str(session.account_id)),
    )


@router.post("/discard", status_code=204, response_class=Response)
async def discard(page: ReportPageDep) -> Response:
    """Discard the Draft."""
    report_id = page.session.report_id
    return await page.leave(
        "discard", lambda work, editor: page_actions.discard_report(work, editor, report_id)
    )


@router.post("/addendum/create", response_model=PageJson)
async def create_addendum(page: ReportPageDep) -> Response:
    """Begin an addendum."""
    report_id = page.session.report_id
    return await page.change(
        "addendum-create",
        lambda work, editor: page_actions.create_addendum(work, editor, report_id),
    )


@router.post("/addendum/save", response_model=PageJson)
async def save_addendum(body: SaveBody, page: ReportPageDep) -> Response:
    """Keep the addendum's text; `version` is the addendum's own."""
    report_id = page.session.report_id
    return await page.change(
        "addendum-save",
        lambda work, editor: page_actions.save_addendum(
            work, editor, report_id, body.version, body.sent()
        ),
    )


@router.post("/addendum/sign", response_model=PageJson)
async def sign_addendum(body: VersionedBody, page: ReportPageDep) -> Response:
    """Sign the addendum; `version` is the addendum's own."""
    report_id = page.session.report_id
    return await page.change(
        "addendum-sign",
        lambda work, editor: page_actions.sign_addendum(work, editor, report_id, body.version),
    )


@router.post("/addendum/sign-now", response_model=PageJson)
async def release_addendum(page: ReportPageDep) -> Response:
    """Release the newest signed addendum before its time."""
    report_id = page.session.report_id
    return await page.change(
        "addendum-release",
        lambda work, editor: page_actions.release_addendum(work, editor, report_id),
    )


@router.post("/addendum/unsign", response_model=PageJson)
async def unsign_addendum(page: ReportPageDep) -> Response:
    """Recall the newest signed addendum."""
    report_id = page.session.report_id
    return await page.change(
        "addendum-unsign",
        lambda work, editor: page_actions.unsign_addendum(work, editor, report_id),
    )


@router.post("/addendum/cancel", response_model=PageJson)
async def cancel_addendum(page: ReportPageDep) -> Response:
    """Throw the open addendum away."""
    report_id = page.session.report_id
    return await page.change(
        "addendum-cancel",
        lambda work, editor: page_actions.cancel_addendum(work, editor, report_id),
    )
