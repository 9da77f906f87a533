"""The account of a signed-in user: profile, password, access tokens."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.responses import JSONResponse, Response

from bridge.engine.errors import NotFound
from bridge.engine.http.engine_state import EngineDep, engine_of
from bridge.engine.http.models.accounts import ConfirmBody, OwnTokenBody, PasswordBody, ProfileBody
from bridge.engine.http.requests.audit_events import audit_event
from bridge.engine.http.sign_in import password_check
from bridge.engine.http.sign_in.account_session import AccountRoute, SignedInDep
from bridge.engine.http.sign_in.password_form import sign_out
from bridge.engine.service.accounts import own_account, passwords, tokens, users
from bridge.engine.service.accounts.site_users import DAY_MS, token_json
from bridge.engine.service.sites import audit_states
from bridge.engine.service.sites.site_changes import image_uri
from bridge.engine.service.work import ActorRef, Work

router = APIRouter(
    prefix="/reporting/api/account", route_class=AccountRoute, include_in_schema=False
)

Key = Annotated[int, Path(ge=1, lt=2**63)]


@router.get("")
async def read_profile(engine: EngineDep, signed: SignedInDep) -> Response:
    """Return the user with preferences and sites."""
    return JSONResponse(await engine.work.read(lambda c: own_account.account_json(c, signed)))


@router.put("")
async def change_profile(body: ProfileBody, request: Request, signed: SignedInDep) -> Response:
    """Change preferences of the user; absent members are unchanged."""
    engine, key = engine_of(request), signed.account.id
    image = await engine.work.run(lambda: image_uri(body.signature, "/signature"))

    read_state = audit_states.profile(key)

    def apply(work: Work) -> dict[str, Any]:
        before = read_state(work.connection)
        own_account.save_choices(work.connection, signed.browser_user, body.choices())
        if body.name:
            own_account.rename(work.connection, signed.browser_user, body.name)
        if "signature" in body.model_fields_set:
            users.update_membership(work.connection, key, signature=image)
        event = audit_event(request, "profile-update", target=("account", str(key)))
        changes = audit_states.difference(before, read_state(work.connection))
        work.audit(replace(event, **changes))
        return own_account.account_json(work.connection, signed)

    return JSONResponse(await engine.work.change(ActorRef(key), engine.clock(), apply))


@router.post("/password")
async def change_password(body: PasswordBody, request: Request, signed: SignedInDep) -> Response:
    """Set a new password; other sessions of the account end."""
    engine, key = engine_of(request), signed.account.id
    own = await engine.work.read(lambda c: own_account.profile(c, signed.browser_user))
    present, attempt = await password_check.verify_owner(
        request, signed, body.present, pointer="/present"
    )

    def hashed() -> str:
        passwords.require_strong(body.wanted, own["email"], own["name"])
        return passwords.hash_password(body.wanted)

    password_hash = await engine.hashing.run(hashed)

    def apply(work: Work) -> None:
        own_account.change_password(work.connection, signed, present, password_hash, work.now)
        engine.throttle.give_back(work.connection, attempt)
        event = audit_event(request, "password-update", target=("account", str(key)))
        work.audit(replace(event, before={}, after={"password": "changed"}))

    await engine.work.change(ActorRef(key), engine.clock(), apply)
    return Response(status_code=204)


@router.post("/confirm")
async def confirm(body: ConfirmBody, request: Request, signed: SignedInDep) -> Response:
    """Confirm the password again; some actions require a recent confirmation."""
    engine, key = engine_of(request), signed.account.id
    password_hash, attempt = await password_check.verify_owner(request, signed, body.password)

    def apply(work: Work) -> None:
        proof = password_check.prove_owner(engine, work, signed.account, password_hash, body.code)
        own_account.confirm(work.connection, signed, proof, work.now)
        engine.throttle.give_back(work.connection, attempt)
        work.audit(audit_event(request, "confirm"))

    await engine.work.change(ActorRef(key), engine.clock(), apply)
    return Response(status_code=204)


@router.post("/sign-out")
async def leave(request: Request) -> Response:
    """End the session."""
    return await sign_out(request)


@router.get("/tokens")
async def own_tokens(engine: EngineDep, signed: SignedInDep) -> Response:
    """Return the user's access tokens, newest first, without their secrets."""
    found = await engine.work.read(lambda c: tokens.list_tokens(c, [signed.account.id]))
    return JSONResponse([token_json(each) for each in found])


@router.post("/tokens")
async def create_token(body: OwnTokenBody, request: Request, signed: SignedInDep) -> Response:
    """Create an access token; only this response contains its secret."""
    engine, key = engine_of(request), signed.account.id

    def apply(work: Work) -> dict[str, Any]:
        days = body.expiresDays
        token_id, secret = tokens.create_token(
            work.connection,
            key,
            now=work.now,
            random_bytes=engine.random,
            label=body.label,
            expires_at=None if days is None else work.now + days * DAY_MS,
        )
        event = audit_event(
            request, "token-create", target=("token", str(token_id)), token=token_id
        )
        made = {"account": key, "label": body.label, "days": days}
        work.audit(replace(event, before={}, after=made))
        return {"id": token_id, "token": secret}

    return JSONResponse(await engine.work.change(ActorRef(key), engine.clock(), apply), 201)


@router.delete("/tokens/{token_id}")
async def revoke_token(token_id: Key, request: Request, signed: SignedInDep) -> Response:
    """Revoke an own token, and the links issued with it."""
    engine, key = engine_of(request), signed.account.id

    def apply(work: Work) -> None:
        account_id, _ = tokens.owner_of(work.connection, token_id)
        if account_id != key:
            raise NotFound
        changes = tokens.revocation(work.connection, token_id, work.now)
        tokens.revoke_token(work.connection, token_id, work.now)
        event = audit_event(
            request, "token-revoke", target=("token", str(token_id)), token=token_id
        )
        work.audit(replace(event, **changes))

    await engine.work.change(ActorRef(key), engine.clock(), apply)
    return Response(status_code=204)
