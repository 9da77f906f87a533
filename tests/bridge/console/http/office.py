"""
The console over a real engine and a real database in one process: two sites, people of all roles.

Invented patients: DOE^JANE with M1 and A1 at SITE1, ROE^JOHN with M2 and A2 at SITE2.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from bridge.console.grants import give
from bridge.console.indexing import Indexer
from bridge.console.permissions import Grant, Role
from bridge.engine.rules.authority import Role as SiteRole
from bridge.engine.rules.document import to_json
from bridge.engine.rules.outline import from_outline
from bridge.engine.service import passwords, sites, users
from bridge.engine.service.sites import SiteSettings
from bridge.engine_client.calling import Caller
from bridge.engine_client.client import EngineClient
from bridge.intake.answers import Answers
from bridge.intake.verdict import Judge
from bridge.queue.deliveries import Release
from bridge.queue.hot_path import HOT_PATHS
from bridge.queue.inserts import admit
from bridge.queue.outbox import Outbox
from bridge.runtime.probes import Probes, Readiness
from bridge.store import order_saving
from bridge.store.database import Database
from bridge.store.order_index import IndexedOrder, Key
from bridge.wiring import stores
from bridge.wiring.belonging import Belongings
from bridge.wiring.console import console_application
from bridge.wiring.engine import engine_application, engine_http, engine_tokens
from bridge.wiring.homes import make_home
from bridge.wiring.intake import ControlIds, listenings
from config import Settings, load
from mllp.framing import Frame
from tests.acceptance.house import free_port
from tests.acceptance.orders import order

BASE = "http://console.test"
PASSWORD = "correct horse battery"  # nobody's
SITES = ("SITE1", "SITE2")
PATIENTS = {"SITE1": "DOE^JANE", "SITE2": "ROE^JOHN"}
PEOPLE = {
    "viewer": Grant("viewer@site1.test", Role.VIEWER),
    "operator": Grant("operator@site1.test", Role.OPERATOR),
    "editor": Grant("editor@site1.test", Role.OPERATOR, bodies=True),
    "author": Grant("author@site1.test", Role.MAPPING_AUTHOR, bodies=True),
    "chief": Grant("chief@site1.test", Role.SYSTEM_ADMINISTRATOR, bodies=True),
    "viewer1": Grant("viewer1@site1.test", Role.VIEWER, sites=frozenset({"SITE1"})),
    "editor1": Grant("editor1@site1.test", Role.OPERATOR, True, frozenset({"SITE1"})),
    "admin1": Grant("admin1@site1.test", Role.SITE_ADMINISTRATOR, True, frozenset({"SITE1"})),
    "nowhere": Grant("nowhere@site1.test", Role.SITE_ADMINISTRATOR, True),
}
SETTINGS = """
[http]
public_url = "http://console.test"
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
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass
class Office:
    """The console behind ASGI; `messages` and `deliveries` are ids by site."""

    runner: asyncio.Runner
    client: httpx.AsyncClient
    settings: Settings
    database: Database
    console: FastAPI
    engine: EngineClient
    cookies: dict[str, str]
    messages: dict[str, int]
    deliveries: dict[str, int]

    def call(self, who: str, method: str, path: str, body: object = None) -> httpx.Response:
        """Call an endpoint as a page of ours does, signed in as one of PEOPLE; '': as nobody."""
        headers = {"origin": BASE, "cookie": self.cookies.get(who, "")}
        request = self.client.request(method, f"{BASE}/console{path}", json=body, headers=headers)
        return self.runner.run(request)

    def store(self, listener: str, payload: bytes) -> int:
        """Store a message as its listener would; give its id."""
        listening = listenings(self.settings)[listener]
        moment = datetime.now(UTC)
        verdict = Judge(listening, print).judge(Frame(payload), moment)
        arrival = Answers(listening, ControlIds()).arrival(verdict, payload, moment)
        with self.database.write() as connection:
            cursor = self.database.driver(connection).cursor()
            return admit(HOT_PATHS[self.database.dialect], cursor, [arrival])[0].message_id

    def index(self) -> None:
        """Let what was stored be found."""
        Indexer(self.database, Belongings(self.settings, self.database), now_ms).catch_up()


def furnish(home: Path) -> tuple[Settings, Database, Database]:
    """Make a home with its settings, and both databases."""
    make_home(home)
    (home / "bridge.toml").write_text(SETTINGS.format(*(free_port() for _ in range(6))), "utf-8")
    settings = load(home)
    engine, database = stores.open_engine_database(settings), stores.open_bridge_database(settings)
    stores.migrate_engine(engine)
    stores.migrate_bridge(database)
    return settings, engine, database


def employ(engine: Database, database: Database) -> None:
    """Add two sites, and everybody's account and role."""
    with engine.write() as connection:
        for site in SITES:
            sites.add_site(connection, SiteSettings(site, name=f"Hospital {site}"), now_ms())
            findings = to_json(from_outline("Findings:"))
            sites.set_template(connection, site, 1, "CT", findings, now_ms())
        for grant in (*PEOPLE.values(), Grant("reader@site1.test", Role.VIEWER)):
            account = users.register(
                connection, "SITE1", grant.email, grant.email[:6], now_ms(), role=SiteRole.USER
            )
            passwords.set_password(connection, account.id, PASSWORD)
        users.register(connection, "SITE2", "reader@site2.test", "Reader", now_ms())
    for grant in PEOPLE.values():
        give(database, grant, now_ms(), "test")


def fill(office: Office) -> None:
    """Store a message, its order and a delivery of each site, and one that nobody can read."""
    outbox = Outbox(office.database, "test")
    for number, (site, listener, destination) in enumerate(
        (("SITE1", "orders", "ris"), ("SITE2", "north", "ris-north")), start=1
    ):
        payload = order(number, name=PATIENTS[site])
        office.messages[site] = office.store(listener, payload)
        key = Key(site, f"M{number}", f"A{number}")
        release = Release(destination, f"R{number}", f"R{number}:1", "final", now_ms(), told(key))
        with office.database.write() as connection:
            seen = IndexedOrder(key, "ordered", office.messages[site], office.messages[site])
            order_saving.save(connection, [replace(seen, report_id=f"R{number}")])
            outbox.enqueue(connection, [release], now_ms())
        (claimed,) = outbox.claim(destination, now_ms(), 1)
        outbox.store_payload(claimed.delivery_id, payload, f"D{number}")
        outbox.release([claimed.delivery_id], now_ms())
        office.deliveries[site] = claimed.delivery_id
    office.messages[""] = office.store("stray", order(3, name="POE^JILL"))
    office.index()


def told(key: Key) -> Mapping[str, Any]:
    """What the outbox keeps of an order."""
    named = {"SiteID": key.site, "PatientMRN": key.mrn, "Accession": key.accession}
    return {"orders": [{**named, "PatientName": PATIENTS[key.site]}], "status": "Final"}


def application(
    settings: Settings, engine: Database, database: Database
) -> tuple[FastAPI, FastAPI, EngineClient, Caller]:
    """Build the engine, the console, and the client that the console asks the engine with."""
    served = engine_application(settings, engine, now_ms)
    http = engine_http(settings, served)
    client = EngineClient(http, engine_tokens(settings))
    console = console_application(
        settings, database, client, Belongings(settings, database), now_ms
    )
    return served, console, client, http


def router(served: FastAPI, console: FastAPI, database: Database) -> Any:
    """Serve both as one process does."""
    from bridge.observability.metrics import Metrics  # noqa: PLC0415  # only here

    return Probes(Metrics(), Readiness(), database, now_ms).over(served, console)


async def sign_in(client: httpx.AsyncClient, email: str) -> str:
    """Sign in as a browser does; give the cookie header."""
    form = {"email": email, "password": PASSWORD, "token": "", "next": "/console"}
    answer = await client.post(f"{BASE}/reporting/login", data=form, headers={"origin": BASE})
    assert answer.status_code == 303, answer.text
    client.cookies.clear()
    return answer.headers["set-cookie"].partition(";")[0]
