"""Sign-in by an OpenID Connect provider; wrong claims are refused."""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from fastapi import FastAPI
from joserfc.jwk import RSAKey
from sqlalchemy import text

from bridge.audit import trail
from bridge.engine.service.accounts import audit_queries, users
from bridge.engine.service.sites import site_settings
from bridge.engine.service.sites.site_settings import SiteSettings
from bridge.engine.settings import EngineSettings, SingleSignOn
from bridge.store.database import Database
from tests.bridge.engine.http.applications import application_with
from tests.bridge.engine.http.identity_provider import (
    CLIENT,
    SECRET,
    IdentityProvider,
    identity_provider,
)
from tests.databases import fresh_file
from tests.eventually import PATIENCE

BASE = "http://reports.test"
ADA = "ada@example.org"


@dataclass
class SignOn:
    runner: asyncio.Runner
    application: FastAPI
    database: Database
    provider: IdentityProvider

    def get(self, path: str, cookie: str = "") -> httpx.Response:
        async def load() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.application)
            async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
                return await client.get(path, headers={"cookie": cookie} if cookie else {})

        return self.runner.run(load())

    def sign_in(self, query: str = "next=/console") -> httpx.Response:
        """Sign in by the provider; return the last response."""
        sent = self.get(f"/reporting/login/oidc?{query}")
        assert sent.status_code == 303, sent.text
        back = httpx.get(sent.headers["location"], follow_redirects=False, timeout=PATIENCE)
        return self.get(back.headers["location"], cookie_of(sent))


def cookie_of(response: httpx.Response) -> str:
    """Return the first cookie that a response sets."""
    return response.headers.get_list("set-cookie")[0].partition(";")[0]


@pytest.fixture
def sign_on(tmp_path: Path) -> Iterator[SignOn]:
    database = Database(fresh_file(tmp_path / "engine.db"))
    with database.write() as connection:
        site_settings.add_site(connection, SiteSettings("SITE1"), 1)
        users.register(connection, "SITE1", ADA, "Ada Reader", 1)
    with identity_provider() as provider, asyncio.Runner() as runner:
        sso = SingleSignOn(provider.issuer, CLIENT, SECRET, label="Hospital account")
        settings = EngineSettings(
            link_keys=(("1", secrets.token_bytes(32)),), public_url=BASE, single_sign_on=sso
        )
        clock = lambda: time.time_ns() // 1_000_000  # noqa: E731  # a clock
        application = application_with(settings, database, clock)
        yield SignOn(runner, application, database, provider)
        runner.run(application.state.engine.stop())
    database.dispose()


def test_an_authenticated_user_is_signed_in(sign_on: SignOn) -> None:
    """Sign-in redirects to the requested page and is recorded as a login."""
    response = sign_on.sign_in()
    assert (response.status_code, response.headers["location"]) == (303, "/console")
    account = sign_on.get("/reporting/api/account", cookie_of(response))
    assert account.json()["email"] == ADA
    with sign_on.database.read() as connection:
        (event,) = trail.read_page(connection, trail.TrailQuery(action="login"))
    assert (event.user, event.outcome) == (ADA, "success")


def test_the_address_is_read_from_userinfo(sign_on: SignOn) -> None:
    """If the ID token has no e-mail address."""
    sign_on.provider.by_userinfo = True
    assert sign_on.sign_in().status_code == 303


def test_sign_in_redirects_to_the_requested_page(sign_on: SignOn) -> None:
    """To a report link or a landing page of this service, not to another host."""
    response = sign_on.sign_in("token=abc")
    assert response.headers["location"] == "/reporting/launch-report/clinical?token=abc"
    foreign = sign_on.sign_in("next=https://evil.test/")
    assert foreign.headers["location"] == "/reporting/worklist"


@pytest.mark.parametrize(
    "wrong_claims",
    [
        {"iss": "https://other.example.org"},
        {"aud": "another client"},
        {"nonce": "of another attempt"},
        {"exp": 1_600_000_000},
        {"email_verified": False},
        {"email_verified": ["true"]},
        {"email": "unknown@example.org"},
        {"email": ""},
        {"azp": "another client"},
    ],
    ids=lambda wrong_claims: (
        next(iter(wrong_claims)) if isinstance(wrong_claims, dict) else str(wrong_claims)
    ),
)
def test_wrong_claims_are_refused(sign_on: SignOn, wrong_claims: dict[str, Any]) -> None:
    """A failed sign-in creates no session; the audit event has the cause and no user."""
    sign_on.provider.wrong_claims = wrong_claims
    response = sign_on.sign_in()
    assert response.status_code == 401
    assert "report_account" not in str(response.headers)
    sign_on.runner.run(sign_on.application.state.engine.audit_buffer.flush())
    with sign_on.database.read() as connection:
        (event,) = audit_queries.newest_anonymous(connection, None, 10)
    assert (event["action"], event["outcome"]) == ("login", "refused")
    assert event["details"]["code"]
    assert "unknown@" not in str(event)


@pytest.mark.parametrize(
    "variant",
    [
        "\uff41da@example.org",  # full width
        "ada@e\u2179ample.org",  # a Roman numeral
        "ada@example.or\u1d4d",  # a modifier letter
        "gro\u00df@example.org",  # folds to ss
        "GRO\u1e9e@example.org",
        "gro\u017fs@example.org",  # a long s
        "\u0430da@example.org",  # Cyrillic
    ],
)
def test_an_address_that_only_folds_to_an_account_is_refused(sign_on: SignOn, variant: str) -> None:
    """The provider has authenticated the owner of another mailbox."""
    with sign_on.database.write() as connection:
        users.register(connection, "SITE1", "gross@example.org", "Gross", 1)
    sign_on.provider.wrong_claims = {"email": variant}
    assert sign_on.sign_in().status_code == 401


def test_letter_case_of_an_address_is_ignored(sign_on: SignOn) -> None:
    """Providers report addresses as users entered them."""
    sign_on.provider.wrong_claims = {"email": "Ada@EXAMPLE.org"}
    assert sign_on.sign_in().status_code == 303


def test_a_signature_of_another_key_is_refused(sign_on: SignOn) -> None:
    """A token with an unknown key is refused."""
    sign_on.provider.signing = RSAKey.generate_key(2048)
    assert sign_on.sign_in().status_code == 401


def test_rotated_keys_are_loaded_again(sign_on: SignOn) -> None:
    """After the provider has changed its key."""
    assert sign_on.sign_in().status_code == 303
    sign_on.provider.key = RSAKey.generate_key(2048, auto_kid=True)
    assert sign_on.sign_in().status_code == 303


def test_a_provider_with_another_issuer_is_refused(sign_on: SignOn) -> None:
    """The discovery document must name the configured issuer."""
    sign_on.provider.claimed_issuer = "https://other.example.org"
    assert sign_on.get("/reporting/login/oidc").status_code == 401


def test_an_attempt_belongs_to_its_browser(sign_on: SignOn) -> None:
    """A callback without its cookie, or with another state, is refused."""
    sent = sign_on.get("/reporting/login/oidc")
    back = httpx.get(sent.headers["location"], follow_redirects=False, timeout=PATIENCE).headers[
        "location"
    ]
    other = cookie_of(sign_on.get("/reporting/login/oidc"))
    for cookie in ("", "report_sign_on=1.AAAA", "report_sign_on=9.!", other):
        assert sign_on.get(back, cookie).status_code == 401
    assert sign_on.get(back.replace("state=", "state=x"), cookie_of(sent)).status_code == 401
    assert sign_on.get(back, cookie_of(sent)).status_code == 303
    assert sign_on.get(back, cookie_of(sent)).status_code == 401  # a code is valid once


def test_a_disabled_account_cannot_sign_in(sign_on: SignOn) -> None:
    """The provider cannot sign in a disabled account either."""
    with sign_on.database.write() as connection:
        connection.execute(text("UPDATE engine_account SET disabled_at = 1"))
    assert sign_on.sign_in().status_code == 401


def test_the_login_page_has_the_button_of_the_provider(sign_on: SignOn) -> None:
    """The HTML contains it, so that no script is needed."""
    page = sign_on.get("/reporting/login?next=/console").text
    assert 'href="/reporting/login/oidc?next=%2Fconsole&amp;token="' in page
    assert "Hospital account" in page


def confirm(sign_on: SignOn, session: str, **wrong_claims: Any) -> httpx.Response:
    sent = sign_on.get("/reporting/login/oidc?confirm=1&next=/console", session)
    query = parse_qs(urlsplit(sent.headers["location"]).query)
    assert (query["prompt"], query["max_age"]) == (["login"], ["0"])
    sign_on.provider.wrong_claims = wrong_claims
    back = httpx.get(sent.headers["location"], follow_redirects=False, timeout=PATIENCE)
    return sign_on.get(back.headers["location"], f"{session}; {cookie_of(sent)}")


@pytest.mark.parametrize("seconds", [int, float])
def test_a_confirmation_replaces_the_session(
    sign_on: SignOn, seconds: Callable[[float], float]
) -> None:
    """The provider required the credentials again; the old session ends."""
    session = cookie_of(sign_on.sign_in())
    response = confirm(sign_on, session, auth_time=seconds(time.time()))
    assert (response.status_code, response.headers["location"]) == (303, "/console")
    assert sign_on.get("/reporting/api/account", cookie_of(response)).json()["email"] == ADA
    assert sign_on.get("/reporting/api/account", session).status_code == 401


@pytest.mark.parametrize(
    "wrong_claims",
    [
        {},
        {"auth_time": 1_600_000_000},
        {"auth_time": "now"},
        {"auth_time": True},
        {"auth_time": -1},
        {"auth_time": 4_000_000_000},
        {"auth_time": 10**400},
        {"auth_time": float("inf")},
        {"auth_time": float("nan")},
        {"email": "eve@example.org"},
    ],
    ids=[
        "no time",
        "an old time",
        "a text",
        "no number",
        "a negative number",
        "a future time",
        "a huge number",
        "infinity",
        "NaN",
        "another account",
    ],
)
def test_a_confirmation_without_new_credentials_is_refused(
    sign_on: SignOn, wrong_claims: dict[str, Any]
) -> None:
    """A confirmation of another user is refused too; the session continues."""
    with sign_on.database.write() as connection:
        users.register(connection, "SITE1", "eve@example.org", "Eve Reader", 1)
    session = cookie_of(sign_on.sign_in())
    if "email" in wrong_claims:
        wrong_claims = {**wrong_claims, "auth_time": int(time.time())}
    assert confirm(sign_on, session, **wrong_claims).status_code == 401
    assert sign_on.get("/reporting/api/account", session).json()["email"] == ADA


def test_a_confirmation_needs_a_session(sign_on: SignOn) -> None:
    assert confirm(sign_on, "other=1", auth_time=int(time.time())).status_code == 401


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys", "/userinfo"])
@pytest.mark.parametrize(
    "body",
    [
        b" " * 2**20 + b'{"sub": "4711", "email": "ada@example.org", "email_verified": true}',
        b'{"a":' * 2000 + b"1" + b"}" * 2000,
        b'{"keys": [%s]}' % b",".join([b'{"kty": "EC", "crv": "P-256"}'] * 1000),
        b"[]",
    ],
    ids=["large", "deep", "many keys", "no object"],
)
def test_a_response_of_the_provider_is_bounded(sign_on: SignOn, path: str, body: bytes) -> None:
    """A response that is too large, too deep, or no object ends the attempt with 401."""
    sign_on.provider.by_userinfo = True
    sign_on.provider.responses[path] = body
    sent = sign_on.get("/reporting/login/oidc?next=/console")
    if sent.status_code == 303:
        back = httpx.get(sent.headers["location"], follow_redirects=False, timeout=PATIENCE)
        sent = sign_on.get(back.headers["location"], cookie_of(sent))
    assert sent.status_code == 401
