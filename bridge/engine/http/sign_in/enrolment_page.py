"""
The page of an enrolment link: the owner of an account sets a password and an authenticator app.

The page is a plain form, which works without scripts. It is refused in frames and from pages of
other sites. `enrolment.json` has the texts by language.
"""

import html
from base64 import b64encode
from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from bridge.contract.errors import ErrorCode
from bridge.engine.documents.qr import qr_png
from bridge.engine.errors import EngineError
from bridge.engine.http import html_pages
from bridge.engine.http.engine_state import EngineState, engine_of
from bridge.engine.http.html_pages import language_of, texts_of
from bridge.engine.http.requests.audit_events import audit_event, record_refusal
from bridge.engine.http.requests.guard import (
    is_cross_site,
    is_framed,
    is_prefetch,
    prefetched,
    read_form,
)
from bridge.engine.http.sign_in.password_sign_in import ENTRANCE, take_attempt
from bridge.engine.service.accounts import enrolment, second_factor
from bridge.engine.service.accounts.enrolment import EnrolmentState, FoundEnrolment
from bridge.engine.service.accounts.passwords import hash_password, require_strong
from bridge.engine.service.accounts.sign_in_limit import buckets_of_owner, buckets_of_source
from bridge.engine.service.work import ActorRef, Work

router = APIRouter(include_in_schema=False)

_STATUS: Mapping[EnrolmentState, int] = {
    EnrolmentState.UNKNOWN: 404,
    EnrolmentState.USED: 410,
    EnrolmentState.EXPIRED: 410,
    EnrolmentState.SUPERSEDED: 410,
}

_VIEW = "view"
"""The form field with the secret of the view, sealed for the link."""
_NEW = 'type="password" autocomplete="new-password"'


@router.api_route(enrolment.PATH, methods=["GET", "HEAD"])
async def enrol(request: Request, token: str = "") -> Response:
    """Return the form of a link, or a notice if the link is not open."""
    if is_prefetch(request):
        return prefetched()
    token = token[:256]
    if is_framed(request):
        return _notice(request, "not_in_frames", 403)
    found = await _find(request, token)
    if found.state is not EnrolmentState.OPEN:
        return _ended_notice(request, found.state)
    secret = None
    if _needs_code(engine_of(request), found):
        secret = await _new_secret(request, found)
    return await _form(request, token, found, secret)


@router.post(enrolment.PATH)
async def enrolled(request: Request) -> Response:
    """Store the password and the authenticator, and mark the link as used."""
    form = await read_form(request)
    if is_framed(request) or is_cross_site(engine_of(request), request):
        record_refusal(request, "enrol", code="foreign_origin")
        return _notice(request, "not_in_frames", 403)
    token = form.get("token", "")
    found = await _find(request, token)
    if found.state is not EnrolmentState.OPEN:
        return _ended_notice(request, found.state)
    try:
        return await _complete(request, form, found)
    except EngineError as refusal:
        if refusal.code is ErrorCode.TOO_MANY_ATTEMPTS:
            record_refusal(request, "enrol", code=refusal.code)
        elif refusal.code is not ErrorCode.SIGN_IN_BUSY:
            raise
        return await _again(request, form, found, "too_many", refusal.status)


async def _complete(request: Request, form: Mapping[str, str], found: FoundEnrolment) -> Response:
    engine = engine_of(request)
    limit = engine.settings.rates.failed_authentications
    attempt = await take_attempt(engine, buckets_of_owner(limit, f"enrolment {found.pk}"))
    password = form.get("password", "")
    if password != form.get("again", ""):
        return await _again(request, form, found, "differ")
    step = authenticator = None
    if _needs_code(engine, found):
        secret = _secret_of_form(engine, form, found) or _stored_secret(engine, form, found)
        code = form.get("code", "")
        step = second_factor.matching_step(secret, code, engine.clock()) if secret else None
        if secret is None or step is None:
            record_refusal(request, "enrol", code="wrong_code")
            return await _again(request, form, found, "wrong_code")
        authenticator = second_factor.seal(engine.keys, found.account_id, secret)

    def hashed() -> str:
        require_strong(password, found.email, found.name)
        return hash_password(password)

    try:
        password_hash = await engine.hashing.run(hashed, known=False)
    except EngineError as refusal:
        if refusal.code is ErrorCode.SIGN_IN_BUSY:
            raise
        return await _again(request, form, found, refusal.code)

    def apply(work: Work) -> bool:
        done = enrolment.complete(
            work.connection, found, password_hash, authenticator, step, work.now
        )
        if done:
            engine.sign_in_limiter.give_back(work.connection, attempt)
            work.audit(audit_event(request, "enrol", account_id=found.account_id))
        return done

    if not await engine.work.change(ActorRef(found.account_id), engine.clock(), apply):
        return _ended_notice(request, (await _find(request, form.get("token", ""))).state)
    sign_in = f"/reporting/login?next={ENTRANCE}"
    return RedirectResponse(sign_in, 303, {"Cache-Control": "no-store"})


async def _find(request: Request, token: str) -> FoundEnrolment:
    engine = engine_of(request)
    limit = engine.settings.rates.failed_authentications
    found = await engine.work.read(lambda c: enrolment.find(c, token, engine.clock()))
    if found.state is EnrolmentState.UNKNOWN:
        record_refusal(request, "enrol", code="unknown_link")
        source = buckets_of_source(limit, "enrolment", engine.client(request))
        await take_attempt(engine, source)
        return found
    return found


def _needs_code(engine: EngineState, found: FoundEnrolment) -> bool:
    return found.second_factor and engine.settings.asks_for_codes


async def _new_secret(request: Request, found: FoundEnrolment) -> bytes:
    """Return the secret of a new view, which replaces the one that the link stores."""
    engine = engine_of(request)
    secret = second_factor.new_secret(engine.random)
    await engine.work.write(lambda c: enrolment.store_secret(c, engine.keys, found, secret))
    return secret


def _secret_of_form(
    engine: EngineState, form: Mapping[str, str], found: FoundEnrolment
) -> bytes | None:
    return engine.keys.open_text(form.get(_VIEW, ""), enrolment.form_binding(found))


def _stored_secret(
    engine: EngineState, form: Mapping[str, str], found: FoundEnrolment
) -> bytes | None:
    if _VIEW in form or found.secret is None:
        return None
    return second_factor.unseal(engine.keys, found.account_id, found.secret)


async def _again(
    request: Request,
    form: Mapping[str, str],
    found: FoundEnrolment,
    problem: str,
    status: int = 400,
) -> Response:
    """
    Return the form with a problem, and with the secret that the sender was shown.

    A sender without it gets another one: only the view itself shows the secret of a view.
    """
    engine, secret = engine_of(request), None
    if _needs_code(engine, found):
        shown = _secret_of_form(engine, form, found)
        secret = second_factor.new_secret(engine.random) if shown is None else shown
    return await _form(request, form.get("token", ""), found, secret, problem, status)


def _ended_notice(request: Request, state: EnrolmentState) -> Response:
    return _notice(request, state.value, _STATUS.get(state, 410))


def _notice(request: Request, key: str, status: int) -> Response:
    texts = _texts(request)
    return html_pages.notice_page(
        texts["title"], texts[key], status=status, language=language_of(request)
    )


async def _form(
    request: Request,
    token: str,
    found: FoundEnrolment,
    secret: bytes | None,
    problem: str = "",
    status: int = 200,
) -> Response:
    engine, texts = engine_of(request), _texts(request)
    message = (
        f'<p class="problem" role="alert">{html.escape(texts[problem])}</p>' if problem else ""
    )
    authenticator = ""
    if secret is not None:
        uri = second_factor.provisioning_uri(secret, found.email)
        picture = b64encode(await engine.work.run(lambda: qr_png(uri))).decode("ascii")
        view = engine.keys.seal_text(secret, enrolment.form_binding(found))
        authenticator = f'<input type="hidden" name="{_VIEW}" value="{html.escape(view)}">'
        authenticator += _authenticator_fields(texts, picture, second_factor.base32(secret))
    form = (
        f"<p><strong>{html.escape(found.email)}</strong></p>{message}"
        f'<form method="post" action="{enrolment.PATH}">'
        f'<input type="hidden" name="token" value="{html.escape(token, quote=True)}">'
        f'<input type="hidden" name="username" autocomplete="username" '
        f'value="{html.escape(found.email, quote=True)}">'
        f"{_field(texts['password'], 'password', _NEW)}{_field(texts['again'], 'again', _NEW)}"
        f'{authenticator}<button type="submit">{html.escape(texts["save"])}</button></form>'
    )
    return html_pages.notice_page(
        texts["title"], texts["lead"], status=status, form=form, language=language_of(request)
    )


def _authenticator_fields(texts: Mapping[str, str], picture: str, secret: str) -> str:
    image = f'<img src="data:image/png;base64,{picture}" width="240" height="240" alt="">'
    code = 'inputmode="numeric" autocomplete="one-time-code" maxlength="20"'
    return (
        f"<p>{html.escape(texts['scan'])}</p>{image}"
        f'<p>{html.escape(texts["secret"])} <code class="secret">{secret}</code></p>'
        f"{_field(texts['code'], 'code', code)}"
    )


def _field(label: str, name: str, attributes: str) -> str:
    return f'<label>{html.escape(label)} <input name="{name}" {attributes} required></label>'


def _texts(request: Request) -> Mapping[str, str]:
    texts: Mapping[str, str] = texts_of("enrolment.json", language_of(request))
    return texts
