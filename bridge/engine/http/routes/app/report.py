"""The endpoints of the report page: they stay when another page takes its place.

Behind the session that opening a link began, for the one report it was opened for.
Every change answers with the page's new state.
"""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field, StrictBool, StrictInt
from starlette.responses import Response

from bridge.engine.http.live.sync_launch import handed_over
from bridge.engine.http.models.accounts import ChoicesBody
from bridge.engine.http.models.fields import Body, Identifier, Passage
from bridge.engine.http.models.responses import LEFT, problems
from bridge.engine.http.pages.report_page import DeskDep
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

Page = dict[str, Any]


class Versioned(Body):
    """A deed on the report as the page has seen it."""

    version: StrictInt = 0


class Writing(Versioned, Passage):
    """A text to be kept, the template that was applied to it, and whether its page is left."""

    template: Annotated[StrictInt, Field(ge=1, le=999_999_999)] | None = None
    leaving: StrictBool = False


class Prelim(Versioned):
    """A preliminary read."""

    prelimGroup: Identifier  # noqa: N815  # the spelling of the interface document
    prelimTag: Identifier  # noqa: N815  # the spelling of the interface document


class Opening(Body):
    """Whether the writing lease is taken from another session."""

    takeOver: StrictBool = False  # noqa: N815  # as its neighbours are spelled


@router.get("/report", response_model=Page)
async def load(desk: DeskDep) -> Response:
    """Return the report as the page shows it."""
    return await desk.show()


@router.post("/open", response_model=Page)
async def open_again(body: Opening, desk: DeskDep) -> Response:
    """
    Return the report, and take the writing lease from another session if asked to.

    The window that writes has saved what was typed there by then, or did not answer for 3 s.
    """
    if body.takeOver:
        await handed_over(desk.engine, desk.session.report_id, desk.session.pk)
    return await desk.show(take_over=body.takeOver)


@router.post("/transfer", response_model=Page)
async def transfer(desk: DeskDep) -> Response:
    """
    Take the Draft over from its owner: the user has agreed to the prompt.

    The window that writes has saved what was typed there by then, or did not answer for 3 s.
    """
    report_id = desk.session.report_id
    await handed_over(desk.engine, report_id, desk.session.pk)
    return await desk.change(
        "transfer", lambda work, editor: link_opening.take_over(work, report_id, editor.account_id)
    )


@router.post("/save", response_model=Page, responses=LEFT)
async def save(body: Writing, desk: DeskDep) -> Response:
    """Keep the text, if it was made from the present version."""
    report_id = desk.session.report_id

    def deed(work: Work, editor: Editor) -> None:
        page_actions.save(
            work, editor, report_id, body.version, body.sent(), template=body.template
        )

    if not body.leaving:
        return await desk.change("save", deed)

    def last(work: Work, editor: Editor) -> None:
        deed(work, editor)
        page_state.leave(work, editor, report_id)

    return await desk.leave("save", last)


@router.post("/sign", response_model=Page)
async def sign(body: Versioned, desk: DeskDep) -> Response:
    """Sign."""
    report_id = desk.session.report_id
    return await desk.change(
        "sign", lambda work, editor: page_actions.sign(work, editor, report_id, body.version)
    )


@router.post("/sign-now", response_model=Page)
async def sign_now(body: Versioned, desk: DeskDep) -> Response:
    """End the cooling period of a signed report, or sign without one."""
    report_id = desk.session.report_id
    return await desk.change(
        "sign",
        lambda work, editor: page_actions.sign(
            work, editor, report_id, body.version, ignore_delay=True
        ),
    )


@router.post("/unsign", response_model=Page)
async def unsign(desk: DeskDep) -> Response:
    """Recall the report."""
    report_id = desk.session.report_id
    return await desk.change(
        "unsign", lambda work, editor: page_actions.unsign(work, editor, report_id)
    )


@router.post("/prelim", response_model=Page)
async def prelim(body: Prelim, desk: DeskDep) -> Response:
    """Make the report Preliminary."""
    report_id = desk.session.report_id
    return await desk.change(
        "prelim",
        lambda work, editor: page_actions.prelim(
            work, editor, report_id, body.version, body.prelimGroup, body.prelimTag
        ),
    )


@router.put("/choices", status_code=204, response_class=Response)
async def choose(body: ChoicesBody, desk: DeskDep) -> Response:
    """Keep how the user wants to see reports of this site."""
    session = desk.session
    return await desk.leave(
        "profile-update",
        lambda work, editor: own_account.save_page_choices(
            work.connection, session, body.choices()
        ),
        state=audit_states.profile(session.account_id, session.site_id),
        target=("account", str(session.account_id)),
    )


@router.post("/discard", status_code=204, response_class=Response)
async def discard(desk: DeskDep) -> Response:
    """Discard the Draft."""
    report_id = desk.session.report_id
    return await desk.leave(
        "discard", lambda work, editor: page_actions.discard_report(work, editor, report_id)
    )


@router.post("/addendum/create", response_model=Page)
async def create_addendum(desk: DeskDep) -> Response:
    """Begin an addendum."""
    report_id = desk.session.report_id
    return await desk.change(
        "addendum-create",
        lambda work, editor: page_actions.create_addendum(work, editor, report_id),
    )


@router.post("/addendum/save", response_model=Page)
async def save_addendum(body: Writing, desk: DeskDep) -> Response:
    """Keep the addendum's text; `version` is the addendum's own."""
    report_id = desk.session.report_id
    return await desk.change(
        "addendum-save",
        lambda work, editor: page_actions.save_addendum(
            work, editor, report_id, body.version, body.sent()
        ),
    )


@router.post("/addendum/sign", response_model=Page)
async def sign_addendum(body: Versioned, desk: DeskDep) -> Response:
    """Sign the addendum; `version` is the addendum's own."""
    report_id = desk.session.report_id
    return await desk.change(
        "addendum-sign",
        lambda work, editor: page_actions.sign_addendum(work, editor, report_id, body.version),
    )


@router.post("/addendum/sign-now", response_model=Page)
async def release_addendum(desk: DeskDep) -> Response:
    """Release the newest signed addendum before its time."""
    report_id = desk.session.report_id
    return await desk.change(
        "addendum-release",
        lambda work, editor: page_actions.release_addendum(work, editor, report_id),
    )


@router.post("/addendum/unsign", response_model=Page)
async def unsign_addendum(desk: DeskDep) -> Response:
    """Recall the newest signed addendum."""
    report_id = desk.session.report_id
    return await desk.change(
        "addendum-unsign",
        lambda work, editor: page_actions.unsign_addendum(work, editor, report_id),
    )


@router.post("/addendum/cancel", response_model=Page)
async def cancel_addendum(desk: DeskDep) -> Response:
    """Throw the open addendum away."""
    report_id = desk.session.report_id
    return await desk.change(
        "addendum-cancel",
        lambda work, editor: page_actions.cancel_addendum(work, editor, report_id),
    )
