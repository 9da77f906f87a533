"""Sessions end with their token and account; tokens are limited, and passwords are hashed."""

import secrets
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlmodel import Session, select

from bridge.engine.errors import EngineError
from bridge.engine.records.tables import AccessToken, Enrolment, IssuedLink, Site
from bridge.engine.service.accounts import passwords, second_factor, sessions, users
from bridge.engine.service.accounts.own_account import (
    SignInProof,
    account_json,
    sign_in,
    signed_in,
)
from bridge.engine.service.accounts.sessions import NewSession
from bridge.engine.service.accounts.tokens import MAX_TOKENS, create_token, revoke_token
from bridge.engine.service.sites import site_settings
from bridge.engine.service.sites.site_settings import SiteSettings
from bridge.engine.settings import AccessLifetimes
from bridge.store.database import Database
from tests.bridge.engine.service.harness import SITE, ServiceHarness
from tests.databases import fresh_file

LIFE = AccessLifetimes(session=100, session_idle=1000)


def stored(session: Session, row: Any) -> Any:
    session.add(row)
    session.flush()
    return row


def link(session: Session, harness: ServiceHarness, name: str, **values: Any) -> IssuedLink:
    """Store a link that is valid for a second."""
    given = {"site_id": SITE, "key_id": "k", "sealed": b"x", "purpose": "launch", **values}
    made: IssuedLink = stored(
        session,
        IssuedLink(handle_hash=name, created_at=0, expires_at=harness.now + 1000, **given),
    )
    return made


def is_valid(harness: ServiceHarness, secret: str) -> bool:
    with harness.database.read() as connection:
        return sessions.find_session(connection, secret, harness.now, LIFE) is not None


def begin(harness: ServiceHarness, **options: Any) -> str:
    new = NewSession(SITE, harness.ann, **options)
    with harness.database.write() as connection:
        return sessions.begin_session(connection, bytes, new, harness.now, LIFE)


def test_a_session_that_is_in_use_ends(harness: ServiceHarness) -> None:
    """Activity does not extend a session beyond its absolute end."""
    secret = begin(harness)
    harness.later(99.999)
    with harness.database.write() as connection:
        found = sessions.find_session(connection, secret, harness.now, LIFE)
        assert found is not None
        sessions.keep_alive(connection, found, harness.now)
    harness.later(0.001)
    assert not is_valid(harness, secret)


@pytest.mark.parametrize("role", ["link_pk", "identity_link_pk"])
def test_a_session_ends_with_the_token_of_its_links(harness: ServiceHarness, role: str) -> None:
    """Both the link of the page and the link that identified the user count."""
    with harness.database.session() as session:
        token = AccessToken(token_hash="t", account_id=harness.admin, created_at=0)
        key = stored(session, token).id
        used = link(session, harness, "x", token_id=key).pk
    secret = begin(harness, **{role: used})
    assert is_valid(harness, secret)
    with harness.database.session() as session:
        token = session.exec(select(AccessToken)).one()
        token.revoked_at = harness.now
    assert not is_valid(harness, secret)


def test_leaving_a_site_keeps_links_of_other_sites(harness: ServiceHarness) -> None:
    """The links of a user on another site are used further."""
    with harness.database.session() as session:
        stored(session, Site(site_id="SITE2", name="Other Clinic", created_at=harness.now))
        for site_id in (SITE, "SITE2"):
            link(session, harness, site_id, site_id=site_id, account_id=harness.ann)
    with harness.database.write() as connection:
        sessions.leave_site(connection, harness.ann, SITE, harness.now)
    with harness.database.session() as session:
        ends = {row.site_id: row.expires_at for row in session.exec(select(IssuedLink))}
    assert ends == {SITE: harness.now, "SITE2": harness.now + 1000}


def test_a_disabled_account_has_no_enrolment(harness: ServiceHarness) -> None:
    """An enrolment link cannot give a password to an account that was disabled."""
    with harness.database.session() as session:
        stored(
            session,
            Enrolment(token_hash="x", account_id=harness.ann, created_at=0, expires_at=2**60),
        )
    with harness.database.write() as connection:
        sessions.disable(connection, harness.ann, harness.now)
    with harness.database.session() as session:
        assert session.exec(select(Enrolment)).one().ended_at == harness.now


def test_valid_tokens_of_an_account_are_limited(harness: ServiceHarness) -> None:
    """Expired and revoked tokens do not count, and other accounts have their own limit."""
    with harness.database.write() as connection:

        def create(account: int, ends: int | None = None) -> int:
            key, _ = create_token(
                connection,
                account,
                now=harness.now,
                random_bytes=secrets.token_bytes,
                expires_at=ends,
            )
            return key

        create(harness.ann, harness.now - 1)
        last = [create(harness.ann) for _ in range(MAX_TOKENS)][-1]
        with pytest.raises(EngineError) as refused:
            create(harness.ann)
        assert (refused.value.code, refused.value.status) == ("too_many_tokens", 400)
        create(harness.bob)
        revoke_token(connection, last, harness.now)
        create(harness.ann)


LEAST = "$argon2id$v=19$m=65536,t=3,p=4$"  # RFC 9106 4, second choice: 64 MiB, three passes


@pytest.fixture(scope="module")
def quick_passwords() -> None:
    """Hash passwords with the product's cost here."""


def test_passwords_are_argon2id_hashes(tmp_path: Path) -> None:
    """The hash is Argon2id with 64 MiB and three passes, and does not contain the password."""
    database = Database(fresh_file(tmp_path / "engine.db"))
    with database.write() as connection:
        site_settings.add_site(connection, SiteSettings("SITE1", "First"), 0)
        account = users.register(connection, "SITE1", "rea@site1.test", "Rea", 0)
        passwords.store_hash(connection, account.id, passwords.hash_password("correct horse"), 1)
        stored = connection.execute(text("SELECT password_hash FROM engine_account")).scalar_one()
    database.dispose()

    assert stored.startswith(LEAST)
    assert "correct horse" not in stored


def test_an_account_without_a_site_has_a_session_while_it_has_a_role(
    harness: ServiceHarness,
) -> None:
    """It creates the first site in the console; its session ends with its role."""
    with harness.database.write() as connection:
        account = users.create_account(connection, "new@site1.test", harness.now)
        proof = SignInProof(account)
        with pytest.raises(EngineError, match="may not do this"):
            sign_in(connection, proof, secrets.token_bytes, harness.now, LIFE)
        second_factor.require(connection, account.id, required=True)
        secret = sign_in(connection, proof, secrets.token_bytes, harness.now, LIFE)
        signed = signed_in(connection, secret, harness.now, LIFE)
        assert signed is not None
        shown = account_json(connection, signed)
        assert (shown["email"], shown["name"], shown["sites"]) == ("new@site1.test", "", [])
    assert is_valid(harness, secret)
    with harness.database.write() as connection:
        second_factor.require(connection, account.id, required=False)
    assert not is_valid(harness, secret)
