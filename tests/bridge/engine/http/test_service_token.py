"""The service token: of the bridge in the process of the engine, and of others."""

import secrets

import httpx
from sqlalchemy import Connection, update

from bridge.engine.http.engine_application import create_application
from bridge.engine.service.accounts.tokens import TOKENS
from bridge.engine.settings import EngineSettings
from bridge.engine_client.client import EngineClient, InProcess
from bridge.store.database import Database
from tests.bridge.engine.http.conftest import add_accounts
from tests.bridge.engine.http.engine_service import BASE, Clock

SERVICE = "rb_service_token"


def revoke_all(connection: Connection) -> None:
    connection.execute(update(TOKENS).values(revoked_at=1))


async def test_the_bridge_in_the_process_stays_admitted(database: Database, clock: Clock) -> None:
    """A revoked service token is refused for everybody else."""
    settings = EngineSettings(
        link_keys=(("1", secrets.token_bytes(32)),), public_url=BASE, service_token=SERVICE
    )
    application = create_application(settings, database, clock=clock)
    engine = application.state.engine
    add_accounts(database, clock.now)
    await engine.start()
    try:
        bridge = EngineClient(InProcess(application, BASE), SERVICE)
        stranger = EngineClient(InProcess(application, BASE), "rb_other")
        headers = {"x-access-token": SERVICE}
        transport = httpx.ASGITransport(app=application)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as http:
            assert (await http.get("/api/report/changes", headers=headers)).status_code == 200
            await engine.work.write(revoke_all)
            assert (await http.get("/api/report/changes", headers=headers)).status_code == 401
        assert (await bridge.administer("GET", "/sites"))[0] == 200
        assert (await stranger.administer("GET", "/sites"))[0] == 401
    finally:
        await engine.stop()
