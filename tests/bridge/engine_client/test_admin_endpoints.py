"""The administration endpoints of the client, against the engine."""

import asyncio
import secrets

import httpx
import pytest

from bridge.engine.http.engine_application import create_application
from bridge.engine.service.accounts import tokens
from bridge.engine.service.sites import site_settings
from bridge.engine.service.sites.site_settings import SiteSettings
from bridge.engine.settings import EngineSettings
from bridge.engine_client.callers import HttpCaller
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.store.database import Database

BASE = "http://engine.test"


def test_administration_of_a_site(database: Database) -> None:
    """Settings, audit events, import and export of a template, import of a code map."""
    with database.write() as connection:
        site_settings.add_site(connection, SiteSettings("SITE 1"), 1)
        tokens.ensure_service_token(connection, "service-secret", 1)
    settings = EngineSettings(link_keys=(("1", secrets.token_bytes(32)),), public_url=BASE)
    application = create_application(settings, database, clock=lambda: 1_800_000_000_000)
    asyncio.run(_walk(application))


async def _walk(application: object) -> None:
    transport = httpx.ASGITransport(application, raise_app_exceptions=False)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url=BASE) as http:
        client = EngineClient(HttpCaller(http), "service-secret")
        changed = await client.change_site("SITE 1", {"signDelay": 30})
        assert changed == await client.site("SITE 1")
        assert changed["signDelay"] == 30
        html = "<header>Findings</header><p>Lungs: </p>"
        await client.import_template("SITE 1", 1, html)
        assert "Lungs" in await client.export_template("SITE 1", 1)
        await client.set_code_map("SITE 1", "system,match,code\ncpt,X,1\n")
        actions = [each["action"] for each in await client.audit_events("SITE 1", 0)]
        changes = [each for each in actions if each.endswith("-update")]
        assert changes[:3] == ["site-update", "template-update", "code-map-update"]
        with pytest.raises(EngineFailure):
            await client.site("NOWHERE")
    await application.state.engine.stop()  # type: ignore[attr-defined]
