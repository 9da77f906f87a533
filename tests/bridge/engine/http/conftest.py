"""An engine behind ASGI, on SQLite and on PostgreSQL."""

import asyncio
import secrets
from collections.abc import Iterator

import httpx
import pytest

from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.accounts import tokens, users
from bridge.engine.service.sites import site_settings
from bridge.engine.service.sites.site_settings import SiteSettings
from bridge.engine.settings import EngineSettings
from bridge.store.database import Database
from tests.bridge.engine.http.applications import application_with
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    BASE,
    DELAY,
    FOREIGN,
    OTHER,
    READER,
    Clock,
    Service,
)


@pytest.fixture
def clock() -> Clock:
    """A clock that advances only on request."""
    return Clock()


@pytest.fixture
def service(database: Database, clock: Clock) -> Iterator[Service]:
    """Two sites with users; the first has a sign delay of one minute."""
    settings = EngineSettings(
        link_keys=(("1", secrets.token_bytes(32)),), public_url=BASE, threads=4
    )
    application = application_with(settings, database, clock)
    application.state.engine.sign_in_limiter.moment = lambda _: clock.now
    with asyncio.Runner() as runner:
        transport = httpx.ASGITransport(app=application)
        client = httpx.AsyncClient(transport=transport, base_url=BASE)
        made = Service(
            runner, client, clock, database, application, add_accounts(database, clock.now)
        )
        yield made
        runner.run(client.aclose())
        runner.run(application.state.engine.stop())


def add_accounts(database: Database, now: int) -> dict[str, str]:
    with database.write() as connection:
        site_settings.add_site(connection, SiteSettings("SITE1", "First", sign_delay=DELAY), now)
        site_settings.add_site(connection, SiteSettings("SITE2", "Second"), now)
        found = {}
        for email, site, role in (
            (ADMIN, "SITE1", SiteRole.ADMINISTRATOR),
            (READER, "SITE1", SiteRole.USER),
            (OTHER, "SITE1", SiteRole.USER),
            (FOREIGN, "SITE2", SiteRole.ADMINISTRATOR),
        ):
            name = email.partition("@")[0].title() + " Person"
            account = users.register(connection, site, email, name, now, role=role)
            found[email] = tokens.create_token(
                connection, account.id, now=now, random_bytes=secrets.token_bytes
            )[1]
        tokens.ensure_service_token(connection, "service-secret", now)
    return {**found, "service": "service-secret"}
