"""
Accounts across all sites: for the console with a service token, and for operators.

The console checks which of its users may change which account (`bridge.authority`). An operator,
whose command calls the application in its own process, may do more, and may name an account by its
e-mail address instead of its id.
"""

# ruff: noqa: N815  # the spelling of the interface reference

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import StrictBool
from sqlalchemy import Connection
from starlette.responses import JSONResponse, Response

from bridge.contract.errors import ErrorCode
from bridge.contract.requests import Body, Identifier
from bridge.email import is_email
from bridge.engine.errors import EngineError
from bridge.engine.http.engine_state import EngineState, engine_of
from bridge.engine.http.requests.audit_events import audit_event
from bridge.engine.http.requests.guard import AdminRoute
from bridge.engine.http.requests.response_bodies import problems
from bridge.engine.http.requests.use_cases import actor_of
from bridge.engine.http.routes.admin.administration import SignatureBody, TokenBody
from bridge.engine.rules.timestamps import iso
from bridge.engine.service.accounts import second_factor, sessions, system_accounts, tokens, users
from bridge.engine.service.accounts.site_users import DAY_MS
from bridge.engine.service.accounts.system_accounts import AccountFacts
from bridge.engine.service.caller import Caller
from bridge.engine.service.sites import audit_states, site_settings
from bridge.engine.service.sites.site_settings import image_uri
from bridge.engine.service.work import FEED_CHANNEL, Work

Result = TypeVar("Result")

router = APIRouter(
    prefix="/api/account", tags=["Accounts"], route_class=AdminRoute, responses=problems()
)

_Text = Annotated[str, Query(max_length=320)]


class AccountBody(Body):
    """An account by its id."""

    accountId: Identifier


class EnrolmentBody(AccountBody):
    """An account whose owner must set a new password."""

    secondFactor: StrictBool = False
    endTokens: StrictBool = True


class SecondFactorBody(AccountBody):
    """Whether an account needs a second factor."""

    required: StrictBool


@router.get("", response_model=dict[str, Any])
async def find_account(
    request: Request,
    email: _Text = "",
    accountId: _Text = "",  # noqa: N803  # the spelling of the interface
) -> Response:
    """Return an account by its e-mail address or its id."""
    _require_service(request)

    def reading(connection: Connection) -> AccountFacts | None:
        if accountId:
            return system_accounts.facts_of(connection, system_accounts.key_of(accountId))
        return system_accounts.facts_by_email(connection, email)

    found = await engine_of(request).work.read(reading)
    if found is None:
        raise EngineError(ErrorCode.NOT_FOUND)
    return JSONResponse(found.as_json())


@router.get("/readers", response_model=dict[str, int])
async def count_readers(request: Request) -> Response:
    """Return how many readers without a role in the console are `enrolled` and `invited`."""
    _require_service(request)
    found = await engine_of(request).work.read(system_accounts.count_readers)
    return JSONResponse(asdict(found))


@router.post("/enrolment", response_model=dict[str, Any])
async def enrol(body: EnrolmentBody, request: Request) -> Response:
    """
    Remove password and authenticator of an account, end its sessions, return a one-time link.

    `secondFactor`: the account needs a second factor, because it has a console role. `endTokens`:
    also revoke its tokens and their links. `link` is null if users sign in only by the provider.
    """
    engine = engine_of(request)
    settings = engine.settings

    def apply(work: Work, key: int) -> dict[str, Any]:
        issued = system_accounts.enrol(
            work.connection,
            key,
            engine.random,
            work.now,
            settings.lifetimes.enrolment_link if settings.passwords else None,
            second_factor=body.secondFactor,
            end_tokens=body.endTokens,
        )
        if issued is None:
            return {"link": None, "expiresAt": None}
        return {
            "link": issued.address(engine.base_url(request)),
            "expiresAt": iso(issued.expires_at),
        }

    response = await _change(request, body.accountId, "user-enrol", apply)
    return JSONResponse(response, headers={"Cache-Control": "no-store"})


@router.post("/second-factor", status_code=204, response_class=Response)
async def require_second_factor(body: SecondFactorBody, request: Request) -> Response:
    """Set whether an account needs a second factor; accounts with a console role do."""
    await _change(
        request,
        body.accountId,
        "user-second-factor",
        lambda work, key: second_factor.require(work.connection, key, required=body.required),
        required=body.required,
    )
    return Response(status_code=204)


@router.post("/disable", status_code=204, response_class=Response)
async def disable(body: AccountBody, request: Request) -> Response:
    """
    Disable an account: its sessions, tokens and links end at once and permanently.

    Refused for the last system administrator of the console.
    """
    engine = engine_of(request)
    _require_service(request)
    if (roles := engine.roles) is not None:
        key = await _key_of(engine, body.accountId)
        if not await engine.work.run(lambda: roles.suspend(key)):
            raise EngineError(ErrorCode.LAST_ADMINISTRATOR, status=409)
    await _change(
        request,
        body.accountId,
        "user-disable",
        lambda work, key: sessions.disable(work.connection, key, work.now),
    )
    return Response(status_code=204)


@router.post("/enable", status_code=204, response_class=Response)
async def enable(body: AccountBody, request: Request) -> Response:
    """Enable a disabled account."""
    await _change(
        request,
        body.accountId,
        "user-enable",
        lambda work, key: sessions.enable(work.connection, key),
    )
    engine = engine_of(request)
    if (roles := engine.roles) is not None:
        key = await _key_of(engine, body.accountId)
        await engine.work.run(lambda: roles.resume(key))
    return Response(status_code=204)


operator_router = APIRouter(prefix="/api/admin/operator", route_class=AdminRoute)


class AddressBody(Body):
    email: Identifier


class NewAddressBody(AccountBody):
    email: Identifier


class OperatorSignatureBody(SignatureBody):
    email: Identifier


@operator_router.post("/accounts")
async def reserve_account(body: AddressBody, request: Request) -> Response:
    """Return the account of an address; create one that is on no site if there is none."""
    email = _address(body.email)

    def apply(work: Work) -> dict[str, Any]:
        work.audit(audit_event(request, "user-reserve", target=("user", email)))
        return system_accounts.reserve(work.connection, email, work.now).as_json()

    return JSONResponse(await _operate(request, apply))


@operator_router.post("/accounts/email")
async def change_email(body: NewAddressBody, request: Request) -> Response:
    """Change the e-mail address of an account; its sessions end."""
    email = _address(body.email)
    await _change(
        request,
        body.accountId,
        "user-email",
        lambda work, key: system_accounts.change_email(work.connection, key, email, work.now),
    )
    return Response(status_code=204)


@operator_router.put("/accounts/signature")
async def set_signature(body: OperatorSignatureBody, request: Request) -> Response:
    """Set the signature image of a user on all their sites."""
    image = await engine_of(request).work.run(lambda: image_uri(body.signature, "/signature"))
    read_state = audit_states.signature(body.email)

    def apply(work: Work) -> None:
        account = users.find_account(work.connection, body.email)
        if account is None:
            raise EngineError(ErrorCode.ACCOUNT_NOT_FOUND)
        before = read_state(work.connection)
        users.update_membership(work.connection, account.id, signature=image)
        event = audit_event(request, "signature-update", target=("user", body.email))
        work.audit(replace(event, before=before, after=read_state(work.connection)))

    await _operate(request, apply)
    return Response(status_code=204)


@operator_router.get("/tokens")
async def list_tokens(request: Request, site: str = "") -> Response:
    """Return the tokens of a site's users, or all of them, without their secrets; times in ms."""

    def reading(connection: Connection) -> list[tokens.TokenView]:
        if not site:
            return tokens.all_tokens(connection)
        site_settings.get_site(connection, site)
        at_home = users.accounts_at_home(connection, site)
        return tokens.tokens_of_site(connection, site, at_home)

    found = await engine_of(request).work.read(reading)
    return JSONResponse([asdict(token) for token in found])


@operator_router.post("/tokens")
async def create_token(body: TokenBody, request: Request) -> Response:
    """Create a token of a user that is valid for all their sites."""

    def apply(work: Work) -> dict[str, Any]:
        account = users.find_account(work.connection, body.email)
        if account is None:
            raise EngineError(ErrorCode.ACCOUNT_NOT_FOUND)
        if users.is_disabled(work.connection, account.id):
            raise EngineError(ErrorCode.ACCOUNT_DISABLED)
        days = body.expiresDays
        key, secret = tokens.create_token(
            work.connection,
            account.id,
            now=work.now,
            random_bytes=engine_of(request).random,
            label=body.label,
            expires_at=None if days is None else work.now + days * DAY_MS,
        )
        event = audit_event(
            request, "token-create", target=("token", str(key)), user=body.email, label=body.label
        )
        after = {"account": account.id, "label": body.label, "days": days}
        work.audit(replace(event, before={}, after=after))
        return {"token": secret}

    return JSONResponse(await _operate(request, apply))


@operator_router.delete("/tokens/{token_id}")
async def revoke_token(token_id: int, request: Request) -> Response:
    """Revoke a token, and the links that were created with it."""
    target = ("token", str(token_id))
    request.state.audited = ("token-revoke", None, target)

    def apply(work: Work) -> None:
        if not tokens.exists(work.connection, token_id):
            raise EngineError(ErrorCode.NOT_FOUND, "there is no such token")
        changes = tokens.revocation(work.connection, token_id, work.now)
        event = audit_event(request, "token-revoke", target=target, token=token_id)
        work.audit(replace(event, **changes))
        tokens.revoke_token(work.connection, token_id, work.now)

    await _operate(request, apply)
    return Response(status_code=204)


async def _operate(request: Request, apply: Callable[[Work], Result]) -> Result:
    engine = engine_of(request)
    return await engine.work.change(actor_of(request.state.caller), engine.clock(), apply)


async def _change(
    request: Request,
    account_id: str,
    action: str,
    apply: Callable[[Work, int], Result],
    **details: Any,
) -> Result:
    """Change an account and record it; `apply` gets the key of the account."""
    engine = engine_of(request)
    _require_service(request)
    if _is_address(engine, account_id):
        request.state.audited = (action, None, ("user", account_id))

    def apply_and_record(work: Work) -> Result:
        before = _account(engine, work.connection, account_id)
        result = apply(work, before.account_id)
        # Pages on other nodes notice at once that their session has ended.
        engine.work.database.notify(work.connection, FEED_CHANNEL)
        target = ("account", str(before.account_id))
        if engine.operator:
            target = ("user", before.email)
        event = audit_event(request, action, target=target, **details)
        work.audit(replace(event, **_audited_changes(work, before)))
        return result

    return await _operate(request, apply_and_record)


def _is_address(engine: EngineState, account_id: str) -> bool:
    return bool(engine.operator) and "@" in account_id


def _account(engine: EngineState, connection: Connection, account_id: str) -> AccountFacts:
    if not _is_address(engine, account_id):
        return system_accounts.require_account(connection, account_id)
    found = system_accounts.facts_by_email(connection, account_id)
    if found is None:
        raise EngineError(ErrorCode.ACCOUNT_NOT_FOUND)
    return found


async def _key_of(engine: EngineState, account_id: str) -> int:
    if not _is_address(engine, account_id):
        return system_accounts.key_of(account_id)
    facts = await engine.work.read(lambda connection: _account(engine, connection, account_id))
    return facts.account_id


def _address(email: str) -> str:
    if not is_email(email):
        text = "this is not a valid e-mail address"
        raise EngineError(ErrorCode.BAD_USER, text, pointer="/email")
    return email


def _audited_changes(work: Work, before: AccountFacts) -> dict[str, Any]:
    """Return the audited members that differ from `before`, with both values."""
    work.flush()
    after = system_accounts.require_account(work.connection, str(before.account_id))
    return audit_states.difference(before.as_json(), after.as_json())


def _require_service(request: Request) -> None:
    caller: Caller = request.state.caller
    if not caller.service:
        raise EngineError(ErrorCode.FORBIDDEN)
