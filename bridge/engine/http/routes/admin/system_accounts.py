"""
Accounts across all sites, for the console; only with a service token.

The console checks which of its users may change which account (`bridge.authority`).
"""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from bridge.engine.errors import Forbidden, NotFound
from bridge.engine.http.engine_state import engine_of
from bridge.engine.http.models.administration import AccountBody, EnrolmentBody, SecondFactorBody
from bridge.engine.http.models.responses import problems
from bridge.engine.http.requests.audit_events import audit_event
from bridge.engine.http.requests.guard import AdminRoute
from bridge.engine.http.requests.use_cases import actor_of
from bridge.engine.rules.timestamps import iso
from bridge.engine.service.accounts import second_factor, sessions, system_accounts
from bridge.engine.service.accounts.system_accounts import AccountFacts
from bridge.engine.service.caller import Caller
from bridge.engine.service.work import Work

router = APIRouter(
    prefix="/api/account", tags=["Accounts"], route_class=AdminRoute, responses=problems()
)

_Text = Annotated[str, Query(max_length=320)]


@router.get("", response_model=dict[str, Any])
async def find_account(
    request: Request,
    email: _Text = "",
    accountId: _Text = "",  # noqa: N803  # the spelling of the interface
) -> Response:
    """Return an account by its e-mail address or its id."""
    _require_service(request)

    def reading(connection: Any) -> AccountFacts | None:
        if accountId:
            return system_accounts.facts_of(connection, system_accounts.key_of(accountId))
        return system_accounts.facts_by_email(connection, email)

    found = await engine_of(request).work.read(reading)
    if found is None:
        raise NotFound
    return JSONResponse(found.as_json())


@router.post("/enrolment", response_model=dict[str, Any])
async def enrol(body: EnrolmentBody, request: Request) -> Response:
    """
    Remove password and authenticator of an account, end its sessions, return a one-time link.

    `secondFactor`: the account needs a second factor, because it has a console role. `endTokens`:
    also revoke its tokens and their links. `link` is null if users sign in only by the provider.
    """
    engine = engine_of(request)
    _require_service(request)
    settings = engine.settings

    def apply(work: Work) -> dict[str, Any]:
        facts = system_accounts.require_account(work.connection, body.accountId)
        issued = system_accounts.enrol(
            work.connection,
            facts.account_id,
            engine.random,
            work.now,
            settings.lifetimes.enrolment_link if settings.passwords else None,
            second_factor=body.secondFactor,
            end_tokens=body.endTokens,
        )
        event = audit_event(request, "user-enrol", target=("account", str(facts.account_id)))
        work.audit(replace(event, **_audited_changes(work, facts)))
        if issued is None:
            return {"link": None, "expiresAt": None}
        return {
            "link": issued.address(engine.base_url(request)),
            "expiresAt": iso(issued.expires_at),
        }

    response = await engine.work.change(actor_of(request.state.caller), engine.clock(), apply)
    return JSONResponse(response, headers={"Cache-Control": "no-store"})


@router.post("/second-factor", status_code=204, response_class=Response)
async def require_second_factor(body: SecondFactorBody, request: Request) -> Response:
    """Set whether an account needs a second factor; accounts with a console role do."""
    return await _change(
        request,
        body.accountId,
        "user-second-factor",
        lambda work, key: second_factor.require(work.connection, key, required=body.required),
        required=body.required,
    )


@router.post("/disable", status_code=204, response_class=Response)
async def disable(body: AccountBody, request: Request) -> Response:
    """
    Disable an account: its sessions, tokens and links end at once and permanently.

    Refused for the last system administrator of the console.
    """
    engine = engine_of(request)
    _require_service(request)
    if (roles := engine.roles) is not None:
        await engine.work.run(lambda: roles.suspend(system_accounts.key_of(body.accountId)))
    return await _change(
        request,
        body.accountId,
        "user-disable",
        lambda work, key: sessions.disable(work.connection, key, work.now),
    )


@router.post("/enable", status_code=204, response_class=Response)
async def enable(body: AccountBody, request: Request) -> Response:
    """Enable a disabled account."""
    response = await _change(
        request,
        body.accountId,
        "user-enable",
        lambda work, key: sessions.enable(work.connection, key),
    )
    engine = engine_of(request)
    if (roles := engine.roles) is not None:
        await engine.work.run(lambda: roles.resume(system_accounts.key_of(body.accountId)))
    return response


async def _change(
    request: Request, account_id: str, action: str, apply: Any, **details: Any
) -> Response:
    engine = engine_of(request)
    _require_service(request)

    def apply_and_record(work: Work) -> None:
        facts = system_accounts.require_account(work.connection, account_id)
        apply(work, facts.account_id)
        target = ("account", str(facts.account_id))
        event = audit_event(request, action, target=target, **details)
        work.audit(replace(event, **_audited_changes(work, facts)))

    await engine.work.change(actor_of(request.state.caller), engine.clock(), apply_and_record)
    return Response(status_code=204)


def _audited_changes(work: Work, before: AccountFacts) -> dict[str, Any]:
    """Return the audited members that differ from `before`, with both values."""
    work.flush()
    after = system_accounts.require_account(work.connection, str(before.account_id))
    return system_accounts.difference(before, after)


def _require_service(request: Request) -> None:
    caller: Caller = request.state.caller
    if not caller.service:
        raise Forbidden
