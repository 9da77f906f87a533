"""
The console with a real engine and database in one process: two sites, users of all roles.

Invented patients: DOE^JANE with M1 and A1 at SITE1, ROE^JOHN with M2 and A2 at SITE2.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from bridge.admin.access.grants import GrantedRoles, save_grant
from bridge.admin.access.permissions import ConsoleRole, Grant
from bridge.admin.messages.message_index import MessageIndexer
from bridge.admin.messages.message_replay import MessageSubjects
from bridge.console.context import ConsoleContext
from bridge.console.http.application import create_application
from bridge.contract import OrderKey
from bridge.contract.responses import SignedInUser
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.rules.text.document import to_json
from bridge.engine.rules.text.plain_text import from_outline
from bridge.engine.service.accounts import passwords, users
from bridge.engine.service.sites import site_settings
from bridge.engine.service.sites.site_settings import SiteSettings
from bridge.engine_client.client import EngineClient, InProcess
from bridge.intake.receive.acknowledgments import AcknowledgmentBuilder, ControlIds
from bridge.intake.receive.listener_policy import make_listeners
from bridge.intake.receive.verdict import FrameEvaluator
from bridge.orders.order import Order, OrderState
from bridge.queue import log_tables
from bridge.queue.deliveries import DeliveryRequest
from bridge.queue.outbox import Outbox
from bridge.report_engine import engine_application, engine_http, engine_tokens
from bridge.runtime.web_server import Probes, Readiness
from bridge.store import databases
from bridge.store.database import Database
from bridge.store.records import order_index
from config import Settings, load
from mllp.framing import Frame
from tests.acceptance.house import free_port
from tests.acceptance.orders import order
from tests.bridge.admin.messages.full_index import index_all
from tests.databases import create_migrated_home
from tests.enrolment import form_of

BASE = "http://console.test"
PASSWORD = "7 grey herons, one pond"  # invented
SITES = ("SITE1", "SITE2")
PATIENTS = {"SITE1": "DOE^JANE", "SITE2": "ROE^JOHN"}
USERS = {
    "viewer": Grant("viewer@site1.test", ConsoleRole.VIEWER),
    "operator": Grant("operator@site1.test", ConsoleRole.OPERATOR),
    "editor": Grant("editor@site1.test", ConsoleRole.OPERATOR, bodies=True),
    "author": Grant("author@site1.test", ConsoleRole.MAPPING_AUTHOR, bodies=True),
    "chief": Grant("chief@site1.test", ConsoleRole.SYSTEM_ADMINISTRATOR, bodies=True),
    "viewer1": Grant("viewer1@site1.test", ConsoleRole.VIEWER, sites=frozenset({"SITE1"})),
    "editor1": Grant("editor1@site1.test", ConsoleRole.OPERATOR, True, frozenset({"SITE1"})),
    "admin1": Grant(
        "admin1@site1.test", ConsoleRole.SITE_ADMINISTRATOR, True, frozenset({"SITE1"})
    ),
    "nowhere": Grant("nowhere@site1.test", ConsoleRole.SITE_ADMINISTRATOR, True),
}
SETTINGS = """
[http]
public_url = "http://console.test"
[sign_in]
second_factor = "optional"
[[listener]]
name = "orders"
bind = "127.0.0.1:{0}"
site = "SITE1"
[[listener]]
name = "north"
bind = "127.0.0.1:{1}"
site = "SITE2"
[[listener]]
name = "stray"
bind = "127.0.0.1:{2}"
[[destination]]
name = "ris"
address = "127.0.0.1:{3}"
sites = ["SITE1"]
[[destination]]
name = "ris-north"
address = "127.0.0.1:{4}"
sites = ["SITE2"]
[[destination]]
name = "archive"
address = "127.0.0.1:{5}"
"""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Clock:
    """The clock of console and engine; a test advances it by `ahead` ms."""

    ahead: int = 0

    def __call__(self) -> int:
        return now_ms() + self.ahead


@dataclass
class RunningConsole:
    """The console as an ASGI application; `messages` and `deliveries` are ids by site."""

    runner: asyncio.Runner
    client: httpx.AsyncClient
    settings: Settings
    database: Database
    application: FastAPI
    engine: EngineClient
    cookies: dict[str, str]
    messages: dict[str, int]
    deliveries: dict[str, int]
    clock: Clock
    ids: dict[str, str]

    def audit_events(self, user: str, limit: int = 100, **filters: str) -> list[dict[str, Any]]:
        """Return the console's audit events, newest first."""
        body = {"filters": filters, "limit": limit}
        response = self.call(user, "POST", "/api/lists/audit", body)
        assert response.status_code == 200, response.text
        rows: list[dict[str, Any]] = response.json()["rows"]
        return rows

    def call(
        self, who: str, method: str, path: str, body: object = None, **headers: str
    ) -> httpx.Response:
        """Call an endpoint like the web app, signed in as one of USERS; '': not signed in."""
        return self.ask(method, f"/console{path}", self.cookies.get(who, ""), body, **headers)

    def ask(
        self, method: str, path: str, cookie: str = "", body: object = None, **headers: str
    ) -> httpx.Response:
        """Send a request with a cookie; empty headers are left out."""
        given = {"origin": BASE, "cookie": cookie}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in given.items() if value}
        return self.runner.run(
            self.client.request(method, f"{BASE}{path}", json=body, headers=sent)
        )

    def sign_in(self, email: str, password: str = PASSWORD, cookie: str = "") -> str:
        """Sign in like a browser; return the cookie header."""
        return self.runner.run(sign_in(self.client, email, password, cookie))

    def signs_in(self, email: str, password: str = PASSWORD) -> bool:
        """True if a password opens an account."""
        form = {"email": email, "password": password, "token": "", "next": "/console"}
        request = self.client.post(f"{BASE}/reporting/login", data=form, headers={"origin": BASE})
        response = self.runner.run(request)
        self.client.cookies.clear()
        assert response.status_code in {303, 401, 403}, response.text
        return response.status_code == httpx.codes.SEE_OTHER

    def enrol(self, link: str, password: str) -> None:
        form = form_of(link, password)
        request = self.client.post(f"{BASE}/reporting/enrol", data=form, headers={"origin": BASE})
        response = self.runner.run(request)
        assert response.status_code == httpx.codes.SEE_OTHER, response.text

    def set_password(self, account_id: int, password: str) -> None:
        engine = databases.open_engine_database(self.settings)
        with engine.write() as connection:
            passwords.store_hash(connection, account_id, passwords.hash_password(password), 1)
        engine.dispose()

    def token(self, site: str, email: str) -> str:
        made = self.call("chief", "POST", f"/api/sites/{site}/tokens", {"email": email})
        return str(made.json()["token"])

    @contextmanager
    def limited(self, site: str) -> Iterator[None]:
        signed_in_user = self.engine.signed_in_user

        async def of_one_site(cookies: str, *, unattended: bool) -> SignedInUser | None:
            found = await signed_in_user(cookies, unattended=unattended)
            return found and found.model_copy(update={"site": site})

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.engine, "signed_in_user", of_one_site)
            yield

    @contextmanager
    def required_second_factor(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.application.state.context, "second_factor", True)
            yield

    def store(self, listener: str, payload: bytes) -> int:
        listening = make_listeners(self.settings)[listener]
        moment = datetime.now(UTC)
        verdict = FrameEvaluator(listening, print).evaluate(Frame(payload), moment)
        arrival = AcknowledgmentBuilder(listening, ControlIds()).arrival(verdict, payload, moment)
        return log_tables.store(self.database, [arrival])[0].message_id

    def index(self) -> None:
        subjects = MessageSubjects(self.settings, self.database)
        indexer = MessageIndexer(self.database, subjects, now_ms, absent_of=subjects.absent_tags)
        index_all(indexer)


def make_data_directory(home: Path) -> tuple[Settings, Database, Database]:
    create_migrated_home(home)
    (home / "bridge.toml").write_text(SETTINGS.format(*(free_port() for _ in range(6))), "utf-8")
    settings = load(home)
    engine, database = (
        databases.open_engine_database(settings),
        databases.open_bridge_database(settings),
    )
    databases.migrate_engine(engine)
    databases.migrate_bridge(database)
    return settings, engine, database


def add_accounts(engine: Database, database: Database) -> dict[str, str]:
    ids: dict[str, int] = {}
    with engine.write() as connection:
        for site in SITES:
            site_settings.add_site(
                connection, SiteSettings(site, name=f"Hospital {site}"), now_ms()
            )
            findings = to_json(from_outline("Findings:"))
            site_settings.set_template(connection, site, 1, "CT", findings, now_ms())
        for who, grant in {**USERS, "": Grant("reader@site1.test", ConsoleRole.VIEWER)}.items():
            account = users.register(
                connection, "SITE1", grant.email, grant.email[:6], now_ms(), role=SiteRole.USER
            )
            passwords.store_hash(connection, account.id, passwords.hash_password(PASSWORD), 1)
            ids[who] = account.id
        users.register(connection, "SITE2", "reader@site2.test", "Reader", now_ms())
    for who, grant in USERS.items():
        save_grant(database, replace(grant, account_id=str(ids[who])), now_ms(), "test")
    return {who: str(key) for who, key in ids.items()}


def store_data(console: RunningConsole) -> None:
    outbox = Outbox(console.database, "test")
    for number, (site, listener, destination) in enumerate(
        (("SITE1", "orders", "ris"), ("SITE2", "north", "ris-north")), start=1
    ):
        payload = order(number, name=PATIENTS[site])
        console.messages[site] = console.store(listener, payload)
        key = OrderKey(site, f"M{number}", f"A{number}")
        release = DeliveryRequest(
            destination, f"R{number}", f"R{number}:1", "final", now_ms(), outbox_content(key)
        )
        with console.database.write() as connection:
            stored = Order(key, OrderState.ORDERED, console.messages[site], console.messages[site])
            order_index.save(connection, [replace(stored, report_id=f"R{number}")])
            outbox.enqueue(connection, [release], now_ms())
        (claimed,) = outbox.claim(destination, now_ms(), 1)
        outbox.store_payloads({claimed.delivery_id: (payload, f"D{number}")})
        outbox.release([claimed.delivery_id], now_ms())
        console.deliveries[site] = claimed.delivery_id
    console.messages[""] = console.store("stray", order(3, name="POE^JILL"))
    console.index()


def outbox_content(key: OrderKey) -> Mapping[str, Any]:
    named = {"SiteID": key.site, "PatientMRN": key.mrn, "Accession": key.accession}
    return {"orders": [{**named, "PatientName": PATIENTS[key.site]}], "status": "Final"}


def build_applications(
    settings: Settings, engine: Database, database: Database, clock: Clock
) -> tuple[FastAPI, FastAPI, EngineClient, httpx.AsyncClient | InProcess]:
    served = engine_application(settings, engine, clock, GrantedRoles(settings))
    http = engine_http(settings, served)
    client = EngineClient(http, engine_tokens(settings))
    context = ConsoleContext(settings, database, client, MessageSubjects(settings, database), clock)
    return served, create_application(context), client, http


def router(served: FastAPI, console: FastAPI, database: Database) -> Any:
    from bridge.metrics import Metrics  # noqa: PLC0415  # only here

    return Probes(Metrics(), Readiness(), database, now_ms).router(served, console)


async def sign_in(
    client: httpx.AsyncClient, email: str, password: str = PASSWORD, cookie: str = ""
) -> str:
    """Sign in like a browser; return the cookie header."""
    form = {"email": email, "password": password, "token": "", "next": "/console"}
    headers = {"origin": BASE, **({"cookie": cookie} if cookie else {})}
    response = await client.post(f"{BASE}/reporting/login", data=form, headers=headers)
    assert response.status_code == 303, response.text
    client.cookies.clear()
    made = (row.partition(";")[0] for row in response.headers.get_list("set-cookie"))
    return next(text for text in made if "account" in text.partition("=")[0])
