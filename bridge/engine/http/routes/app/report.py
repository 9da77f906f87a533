"""
Routes of the report page: load, save, sign, recall, addenda, billing codes, read-only shares.

They require the session of an opened report and act on that report only. Every change returns the
new state of the page.
"""

from functools import partial
from typing import Annotated, Any

from fastapi import Path
from pydantic import Field, StrictBool, StrictInt
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from bridge.contract.requests import Body, Identifier
from bridge.engine.http.app_bodies import ChoicesBody, TextBody
from bridge.engine.http.launch_requests import link_address
from bridge.engine.http.report_page import ReportPageDep
from bridge.engine.http.requests.guard import session_router
from bridge.engine.http.requests.response_bodies import PAGE_LEFT
from bridge.engine.http.window_handover import wait_for_handover
from bridge.engine.links import Purpose
from bridge.engine.rules.timestamps import iso
from bridge.engine.service.accounts import own_account
from bridge.engine.service.launch import link_visits
from bridge.engine.service.reports import shares
from bridge.engine.service.signing import page_actions
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.sites import audit_states
from bridge.engine.service.work import Work

router = session_router()

PageJson = dict[str, Any]


class VersionedBody(Body):
    """A request that names the version of the report that the page shows."""

    version: StrictInt = 0


class SaveBody(VersionedBody, TextBody):
    """A text to save, the applied template, and whether the user leaves the page."""

    template: Annotated[StrictInt, Field(ge=1, le=999_999_999)] | None = None
    leaving: StrictBool = False


class SessionPrelimBody(VersionedBody):
    """A preliminary read."""

    prelimGroup: Identifier  # noqa: N815  # the spelling of the interface reference
    prelimTag: Identifier  # noqa: N815  # the spelling of the interface reference


class OpenBody(Body):
    """
    Whether to take the writing lease from another session, and the name of the page's tab.

    A reloaded page names the same tab again, and shares the lease of its session before.
    """

    takeOver: StrictBool = False  # noqa: N815  # as its neighbours are spelled
    tab: Annotated[str, Field(pattern=r"^[0-9a-f]{0,64}$")] = ""


@router.get("/report", response_model=PageJson)
async def load(page: ReportPageDep) -> Response:
    """Return the state of the report page."""
    return await page.show()


@router.post("/open", response_model=PageJson)
async def open_again(body: OpenBody, page: ReportPageDep) -> Response:
    """
    Return the state of the page; with `takeOver` take the writing lease first.

    The other window has saved its text by then, or has not answered for 3 s.
    """
    if body.takeOver:
        await wait_for_handover(page.engine, page.session.report_id, page.session.pk)
    opened = await page.in_tab(body.tab)
    return await opened.show(take_over=body.takeOver)


@router.post("/transfer", response_model=PageJson)
async def transfer(page: ReportPageDep) -> Response:
    """
    Take over the Draft from its owner, after the user has confirmed.

    The other window has saved its text by then, or has not answered for 3 s.
    """
    await wait_for_handover(page.engine, page.session.report_id, page.session.pk)
    return await page.change(
        "transfer",
        lambda work, editor, report_id: link_visits.take_over(work, report_id, editor.account_id),
    )


@router.post("/save", response_model=PageJson, responses=PAGE_LEFT)
async def save(body: SaveBody, page: ReportPageDep) -> Response:
    """Save the text if it is based on the current version."""

    def apply(work: Work, editor: Editor, report_id: str, *, leaving: bool = False) -> None:
        page_actions.save(
            work,
            editor,
            report_id,
            body.version,
            body.sent(),
            template=body.template,
            leaving=leaving,
        )

    if not body.leaving:
        return await page.change("save", apply)

    def save_and_leave(work: Work, editor: Editor, report_id: str) -> None:
        apply(work, editor, report_id, leaving=True)
        page_actions.leave(work, editor, report_id)

    return await page.change_without_page("save", save_and_leave)


@router.post("/sign", response_model=PageJson)
async def sign(body: VersionedBody, page: ReportPageDep) -> Response:
    """Sign the report."""
    return await page.change("sign", partial(page_actions.sign, version=body.version))


@router.post("/sign-now", response_model=PageJson)
async def sign_now(body: VersionedBody, page: ReportPageDep) -> Response:
    """End the sign delay of a signed report, or sign without a delay."""
    sign_without_delay = partial(page_actions.sign, version=body.version, ignore_delay=True)
    return await page.change("sign", sign_without_delay)


@router.post("/unsign", response_model=PageJson)
async def unsign(page: ReportPageDep) -> Response:
    """Recall the report."""
    return await page.change("unsign", page_actions.unsign)


@router.post("/prelim", response_model=PageJson)
async def prelim(body: SessionPrelimBody, page: ReportPageDep) -> Response:
    """Make the report Preliminary."""
    return await page.change(
        "prelim",
        partial(
            page_actions.prelim, version=body.version, group=body.prelimGroup, tag=body.prelimTag
        ),
    )


@router.put("/choices", status_code=204, response_class=Response)
async def choose(body: ChoicesBody, page: ReportPageDep) -> Response:
    """Save the user's display preferences for this site."""
    session = page.session
    return await page.change_without_page(
        "profile-update",
        lambda work, editor, _: own_account.save_page_choices(
            work.connection, session, body.choices()
        ),
        state=audit_states.profile(session.account_id, session.site_id),
        target=("account", str(session.account_id)),
    )


@router.post("/discard", status_code=204, response_class=Response)
async def discard(page: ReportPageDep) -> Response:
    """Discard the Draft."""
    return await page.change_without_page("discard", page_actions.discard_report)


@router.post("/addendum/create", response_model=PageJson)
async def create_addendum(page: ReportPageDep) -> Response:
    """Create an addendum."""
    return await page.change("addendum-create", page_actions.create_addendum)


@router.post("/addendum/save", response_model=PageJson)
async def save_addendum(body: SaveBody, page: ReportPageDep) -> Response:
    """Save the text of the addendum; `version` is the version of the addendum."""
    apply = partial(page_actions.save_addendum, version=body.version, document=body.sent())
    return await page.change("addendum-save", apply)


@router.post("/addendum/sign", response_model=PageJson)
async def sign_addendum(body: VersionedBody, page: ReportPageDep) -> Response:
    """Sign the addendum; `version` is the version of the addendum."""
    apply = partial(page_actions.sign_addendum, version=body.version)
    return await page.change("addendum-sign", apply)


@router.post("/addendum/sign-now", response_model=PageJson)
async def release_addendum(page: ReportPageDep) -> Response:
    """Release the newest signed addendum before its sign delay ends."""
    return await page.change("addendum-release", page_actions.release_addendum)


@router.post("/addendum/unsign", response_model=PageJson)
async def unsign_addendum(page: ReportPageDep) -> Response:
    """Recall the newest signed addendum."""
    return await page.change("addendum-unsign", page_actions.unsign_addendum)


@router.post("/addendum/cancel", response_model=PageJson)
async def cancel_addendum(page: ReportPageDep) -> Response:
    """Discard the open addendum."""
    return await page.change("addendum-cancel", page_actions.cancel_addendum)


class ShareBody(Body):
    """The lifetime of a share; the site's maximum is also the default."""

    expiresSeconds: Annotated[StrictInt, Field(ge=60)] | None = None  # noqa: N815  # as its neighbours


@router.post("/billing", response_model=PageJson)
async def generate_billing(page: ReportPageDep) -> Response:
    """Derive billing codes from the site's code map, store and return them as `billingCode`."""
    return await page.change("billing", page_actions.generate_billing, result="billingCode")


@router.get("/billing", response_model=PageJson)
async def read_billing(page: ReportPageDep) -> Response:
    """Return the last generated billing codes, null if there are none."""
    codes = await page.read(page_actions.read_billing)
    return JSONResponse({"billingCode": codes})


@router.get("/shares", response_model=PageJson)
async def list_shares(page: ReportPageDep) -> Response:
    """Return the valid shares of the report, without their addresses."""
    listed = await page.read(shares.list_shares)
    return JSONResponse({"shares": listed})


@router.post("/shares", response_model=PageJson)
async def share(body: ShareBody, page: ReportPageDep, request: Request) -> Response:
    """Create a read-only link to the report; only this response contains its address."""
    engine, base = page.engine, page.engine.base_url(request)

    def apply(work: Work, editor: Editor, report_id: str) -> dict[str, Any]:
        created = shares.create_share(work, editor, report_id, engine.random, body.expiresSeconds)
        address = link_address(base, Purpose.SHARE, created.handle)
        return {"id": created.pk, "link": address, "expiresAt": iso(created.expires_at)}

    return await page.change("share-create", apply, result="share")


@router.post("/shares/{share_id}/revoke", response_model=PageJson)
async def revoke(share_id: Annotated[int, Path(ge=1, lt=2**63)], page: ReportPageDep) -> Response:
    """Revoke a share."""
    return await page.change("share-revoke", partial(shares.revoke, pk=share_id))
