"""Sign-in by an OpenID Connect provider; wrong claims are refused."""

import asyncio
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from fastapi import FastAPI
from joserfc.jwk import RSAKey
from sqlalchemy import text

from bridge.engine.http.engine_application import create_application
from bridge.engine.service.accounts import audit_queries, users
from bridge.engine.service.sites import site_settings
from bridge.engine.service.sites.site_settings import SiteSettings
from bridge.engine.settings import EngineSettings, SingleSignOn
from bridge.store.database import Database
from bridge.store.migration import upgrade
from bridge.wiring.stores import ENGINE_PACKAGE, ENGINE_VERSIONS
from tests.bridge.engine.http.identity_provider import (
    CLIENT,
    SECRET,
    IdentityProvider,
    identity_provider,
)
from tests.eventually import PATIENCE

BASE = "http://reports.test"
ADA = "ada@example.org"


@dataclass
class Door:
    """An engine and its provider; walks a browser through both."""

    runner: asyncio.Runner
    application: FastAPI
    database: Database
    provider: IdentityProvider

    def get(self, path: str, cookie: str = "") -> httpx.Response:
        """Load a page."""

        async def load() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.application)
            async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
                return await client.get(path, headers={"cookie": cookie} if cookie else {})

        return self.runner.run(load())

    def walk(self, query: str = "next=/console") -> httpx.Response:
        """Press the button, be let in by the provider, come back."""
        sent = self.get(f"/reporting/login/oidc?{query}")
        assert sent.status_code == 303, sent.text
        back = httpx.get(sent.headers["location"], follow_redirects=False, timeout=PATIENCE)
        return self.get(back.headers["location"], cookie_of(sent))


def cookie_of(answer: httpx.Response) -> str:
    """The first cookie that an answer sets."""
    return answer.headers.get_list("set-cookie")[0].partition(";")[0]


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    """One site with Ada, who has no password."""
    database = Database(f"sqlite:///{tmp_path / 'engine.db'}")
    upgrade(database, ENGINE_PACKAGE, ENGINE_VERSIONS)
    with database.write() as connection:
        site_settings.add_site(connection, SiteSettings("SITE1"), 1)
        users.register(connection, "SITE1", ADA, "Ada Reader", 1)
    with identity_provider() as provider, asyncio.Runner() as runner:
        sso = SingleSignOn(provider.issuer, CLIENT, SECRET, label="Hospital account")
        settings = EngineSettings(
            link_keys=(("1", secrets.token_bytes(32)),), public_url=BASE, single_sign_on=sso
        )
        clock = lambda: time.time_ns() // 1_000_000  # noqa: E731  # a clock
        application = create_application(settings, database, clock=clock)
        yield Door(runner, application, database, provider)
        runner.run(application.state.engine.stop())
    database.dispose()


def test_whoever_is_vouched_for_comes_in(door: Door) -> None:
    """Sign-in redirects to the requested page and is recorded as a login."""
    answer = door.walk()
    assert (answer.status_code, answer.headers["location"]) == (303, "/console")
    account = door.get("/reporting/api/account", cookie_of(answer))
    assert account.json()["email"] == ADA
    with door.database.read() as connection:
        (event,) = audit_queries.read_page(connection, audit_queries.TrailQuery(action="login"))
    assert (event.user, event.outcome) == (ADA, "success")


def test_an_address_that_only_the_provider_is_asked_for_counts_too(door: Door) -> None:
    """The e-mail address comes from userinfo if the ID token has none."""
    door.provider.by_userinfo = True
    assert door.walk().status_code == 303


def test_a_link_to_a_report_is_opened_afterwards(door: Door) -> None:
    """Only landing pages of this service are redirected to."""
    answer = door.walk("token=abc")
    assert answer.headers["location"] == "/reporting/launch-report/clinical?token=abc"
    away = door.walk("next=https://evil.test/")
    assert away.headers["location"] == "/reporting/worklist"


@pytest.mark.parametrize(
    "lies",
    [
        {"iss": "https://other.example.org"},
        {"aud": "somebody else"},
        {"nonce": "of another attempt"},
        {"exp": 1_600_000_000},
        {"email_verified": False},
        {"email": "stranger@example.org"},
        {"email": ""},
        {"azp": "somebody else"},
    ],
    ids=lambda lies: next(iter(lies)) if isinstance(lies, dict) else str(lies),
)
def test_what_is_not_vouched_for_lets_nobody_in(door: Door, lies: dict[str, Any]) -> None:
    """A failed sign-in creates no session; the audit event has the cause and no user."""
    door.provider.lies = lies
    answer = door.walk()
    assert answer.status_code == 401
    assert "report_account" not in str(answer.headers)
    door.runner.run(door.application.state.engine.audit_buffer.flush())
    with door.database.read() as connection:
        (event,) = audit_queries.newest_anonymous(connection, None, 10)
    assert (event["action"], event["outcome"]) == ("login", "refused")
    assert event["details"]["code"]
    assert "stranger" not in str(event)


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
def test_an_address_that_only_folds_to_an_accounts_is_another_persons(
    door: Door, variant: str
) -> None:
    """The provider has authenticated the owner of another mailbox."""
    with door.database.write() as connection:
        users.register(connection, "SITE1", "gross@example.org", "Gross", 1)
    door.provider.lies = {"email": variant}
    assert door.walk().status_code == 401


def test_letter_case_is_no_difference(door: Door) -> None:
    """Providers report addresses as people wrote them."""
    door.provider.lies = {"email": "Ada@EXAMPLE.org"}
    assert door.walk().status_code == 303


def test_a_signature_of_another_key_lets_nobody_in(door: Door) -> None:
    """A token with an unknown key is refused."""
    door.provider.signing = RSAKey.generate_key(2048)
    assert door.walk().status_code == 401


def test_exchanged_keys_are_read_again(door: Door) -> None:
    """Rotated keys of the provider are loaded."""
    assert door.walk().status_code == 303
    door.provider.key = RSAKey.generate_key(2048, auto_kid=True)
    assert door.walk().status_code == 303


def test_a_provider_that_calls_itself_otherwise_is_none(door: Door) -> None:
    """A provider with another issuer is refused."""
    door.provider.claimed_issuer = "https://other.example.org"
    assert door.get("/reporting/login/oidc").status_code == 401


def test_an_attempt_belongs_to_its_browser(door: Door) -> None:
    """A callback without its cookie, or with another state, is refused."""
    sent = door.get("/reporting/login/oidc")
    back = httpx.get(sent.headers["location"], follow_redirects=False, timeout=PATIENCE).headers[
        "location"
    ]
    other = cookie_of(door.get("/reporting/login/oidc"))
    for cookie in ("", "report_sign_on=1.AAAA", "report_sign_on=9.!", other):
        assert door.get(back, cookie).status_code == 401
    assert door.get(back.replace("state=", "state=x"), cookie_of(sent)).status_code == 401
    assert door.get(back, cookie_of(sent)).status_code == 303
    assert door.get(back, cookie_of(sent)).status_code == 401  # a code is good once


def test_a_closed_account_stays_closed(door: Door) -> None:
    """An unknown account cannot sign in."""
    with door.database.write() as connection:
        connection.execute(text("UPDATE engine_account SET disabled_at = 1"))
    assert door.walk().status_code == 401


def test_the_login_page_offers_it(door: Door) -> None:
    """Before and without any script too; an engine without a provider does not."""
    page = door.get("/reporting/login?next=/console").text
    assert 'href="/reporting/login/oidc?next=%2Fconsole&amp;token="' in page
    assert "Hospital account" in page


def confirm(door: Door, session: str, **lies: Any) -> httpx.Response:
    """Confirm the own identity by the provider while signed in."""
    sent = door.get("/reporting/login/oidc?confirm=1&next=/console", session)
    asked = parse_qs(urlsplit(sent.headers["location"]).query)
    assert (asked["prompt"], asked["max_age"]) == (["login"], ["0"])
    door.provider.lies = lies
    back = httpx.get(sent.headers["location"], follow_redirects=False, timeout=PATIENCE)
    return door.get(back.headers["location"], f"{session}; {cookie_of(sent)}")


def test_a_confirmation_is_a_new_session_in_the_place_of_the_old_one(door: Door) -> None:
    """The provider asked for the credentials again: the proof is fresh, the old session ends."""
    session = cookie_of(door.walk())
    answer = confirm(door, session, auth_time=int(time.time()))
    assert (answer.status_code, answer.headers["location"]) == (303, "/console")
    assert door.get("/reporting/api/account", cookie_of(answer)).json()["email"] == ADA
    assert door.get("/reporting/api/account", session).status_code == 401


@pytest.mark.parametrize(
    "lies",
    [
        {},
        {"auth_time": 1_600_000_000},
        {"auth_time": "now"},
        {"auth_time": True},
        {"email": "eve@example.org"},
    ],
    ids=["no time", "an old time", "a text", "no number", "another account"],
)
def test_a_confirmation_without_new_credentials_proves_nothing(
    door: Door, lies: dict[str, Any]
) -> None:
    """A confirmation without new credentials, or of another user, is refused; the session stays."""
    with door.database.write() as connection:
        users.register(connection, "SITE1", "eve@example.org", "Eve Reader", 1)
    session = cookie_of(door.walk())
    if "email" in lies:
        lies = {**lies, "auth_time": int(time.time())}
    assert confirm(door, session, **lies).status_code == 401
    assert door.get("/reporting/api/account", session).json()["email"] == ADA


def test_a_confirmation_needs_a_session(door: Door) -> None:
    """Without a session there is nobody whose identity could be confirmed."""
    assert confirm(door, "other=1", auth_time=int(time.time())).status_code == 401
