"""A whole engine behind ASGI, on SQLite and on PostgreSQL, with a clock that tests turn."""

import asyncio
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from bridge.engine.http.application import create_application
from bridge.engine.rules.authority import Role
from bridge.engine.service import sites, tokens, users
from bridge.engine.service.sites import SiteSettings
from bridge.engine.settings import EngineSettings
from bridge.store.database import Database
from bridge.store.migrate import upgrade

BASE = "http://engine.test"
DELAY = 60
ADMIN, READER, OTHER = "admin@site1.test", "reader@site1.test", "other@site1.test"
FOREIGN = "admin@site2.test"


@dataclass
class Clock:
    """Milliseconds that pass only when a test says so."""

    now: int = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        """Let time pass."""
        self.now += int(seconds * 1000)


@dataclass
class Service:
    """The engine as its callers see it; every call runs on the one loop of the test."""

    runner: asyncio.Runner
    http: httpx.AsyncClient
    clock: Clock
    database: Database
    application: Any
    tokens: dict[str, str] = field(default_factory=dict)

    def call(
        self, method: str, path: str, who: str | None = ADMIN, **options: Any
    ) -> httpx.Response:
        """Send one request with the token of `who`."""
        headers = dict(options.pop("headers", {}))
        if who is not None:
            headers["x-access-token"] = self.tokens.get(who, who)
        return self.runner.run(self.http.request(method, path, headers=headers, **options))

    def post(
        self, path: str, body: Any = None, who: str | None = ADMIN, **options: Any
    ) -> httpx.Response:
        """Post JSON below `/api/`."""
        return self.call("POST", f"/api/{path}", who, json=body, **options)

    def get(self, path: str, who: str | None = ADMIN, **query: Any) -> httpx.Response:
        """Get below `/api/`."""
        return self.call("GET", f"/api/{path}", who, params=query)

    def launch(self, who: str = ADMIN, **changes: Any) -> httpx.Response:
        """Launch with `launch_body`."""
        return self.post("report/launch/clinical", launch_body(**changes), who)

    def open(self, link: str, **options: Any) -> httpx.Response:
        """Open a link as a browser does."""
        return self.call("GET", link.removeprefix(BASE), None, **options)

    def status(self, accession: str = "A1", mrn: str = "P1") -> dict[str, Any]:
        """Return the status record of one order."""
        answer = self.post("report/status", {"clinicalInfo": [identity(accession, mrn)]})
        assert answer.status_code == 200, answer.text
        record: dict[str, Any] = answer.json()[0]
        return record

    def session(self, page: httpx.Response) -> "Page":
        """Return the API of an opened report page."""
        assert page.status_code == 200, page.text
        return Page(self, boot(page)["session"])


@dataclass
class Page:
    """What the report page may call."""

    service: Service
    secret: str

    def __call__(self, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        method = "GET" if body is None else "POST"
        return self.service.call(
            method,
            f"/reporting/api/session/{path}",
            None,
            headers={"authorization": f"Bearer {self.secret}"},
            **({} if body is None else {"json": dict(body)}),
        )


def boot(page: httpx.Response) -> dict[str, Any]:
    """Return what an opened report page is told at its beginning."""
    import json  # noqa: PLC0415
    import re  # noqa: PLC0415

    found = re.search(r'<script type="application/json" id="boot">(.*?)</script>', page.text)
    assert found, page.text
    told: dict[str, Any] = json.loads(found[1])
    return told


def identity(accession: str = "A1", mrn: str = "P1", site: str = "SITE1") -> dict[str, str]:
    """Return an order's identity."""
    return {"SiteID": site, "PatientMRN": mrn, "Accession": accession}


def launch_body(
    accession: str = "A1", mrn: str = "P1", site: str = "SITE1", **changes: Any
) -> dict[str, Any]:
    """Return the body of a plain launch; members of `changes` replace its own."""
    tags = changes.pop("tags", {})
    return {
        "clinicalInfo": {**identity(accession, mrn, site), **tags},
        "reportingApp": {},
        "response": {"type": "link"},
        **changes,
    }


def user(email: str = READER, name: str = "Rea Der", **more: Any) -> dict[str, Any]:
    """Return a `userInfo`."""
    return {"UserEmail": email, "UserName": name, **more}


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def service(database: Database, clock: Clock) -> Iterator[Service]:
    """Two sites, with people on them; the first cools signatures for a minute."""
    upgrade(database, package="bridge.engine.records", version_table="alembic_engine")
    settings = EngineSettings(
        link_keys=(("1", secrets.token_bytes(32)),), public_url=BASE, threads=4
    )
    application = create_application(settings, database, clock=clock)
    with asyncio.Runner() as runner:
        transport = httpx.ASGITransport(app=application)
        client = httpx.AsyncClient(transport=transport, base_url=BASE)
        made = Service(runner, client, clock, database, application, _people(database, clock.now))
        yield made
        runner.run(client.aclose())
        runner.run(application.state.engine.stop())


def _people(database: Database, now: int) -> dict[str, str]:
    with database.write() as connection:
        sites.add_site(connection, SiteSettings("SITE1", "First", sign_delay=DELAY), now)
        sites.add_site(connection, SiteSettings("SITE2", "Second"), now)
        found = {}
        for email, site, role in (
            (ADMIN, "SITE1", Role.ADMINISTRATOR),
            (READER, "SITE1", Role.USER),
            (OTHER, "SITE1", Role.USER),
            (FOREIGN, "SITE2", Role.ADMINISTRATOR),
        ):
            name = email.partition("@")[0].title() + " Person"
            account = users.register(connection, site, email, name, now, role=role)
            found[email] = tokens.create_token(
                connection, account.id, now=now, random_bytes=secrets.token_bytes
            )[1]
        tokens.ensure_service_token(connection, "service-secret", now)
    return {**found, "service": "service-secret"}
