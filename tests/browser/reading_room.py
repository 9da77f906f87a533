"""An engine that really listens, and what a test wants of it: launch, administer, stop, start."""

import asyncio
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from bridge.engine.http.engine_application import create_application
from bridge.engine.service.accounts import tokens
from bridge.engine.service.sites import site_settings
from bridge.engine.service.sites.site_settings import SiteSettings
from bridge.engine.settings import EngineSettings, WritingAids
from bridge.store.database import Database
from tests.databases import fresh_file
from tests.enrolment import enrol
from tests.eventually import PATIENCE

TOKEN = "service-secret"
COOLING = 60  # seconds
READER, OTHER = "rea@site1.test", "otto@site1.test"


@dataclass
class ReadingRoom:
    """One site, SITE1, behind an address that stays while the server goes and comes back."""

    folder: Path
    port: int = 0
    assistance: WritingAids = field(default_factory=WritingAids)
    _keys: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _server: uvicorn.Server | None = None
    _thread: threading.Thread | None = None
    _database: Database | None = None

    @property
    def url(self) -> str:
        """The engine's address."""
        return f"http://127.0.0.1:{self.port}"

    def prepare(self, **settings: Any) -> None:
        """Make the database and the site."""
        fresh_file(self.folder / "engine.db")
        database = self._open()
        with database.write() as connection:
            site_settings.add_site(connection, SiteSettings("SITE1", **settings), 0)
            tokens.ensure_service_token(connection, TOKEN, 0)
        database.dispose()

    def start(self) -> None:
        """Listen, on the same port as before."""
        self._database = self._open()
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", self.port))
        listening.listen()  # who comes before the engine is ready waits for it
        self.port = listening.getsockname()[1]
        settings = EngineSettings(
            (("1", self._keys),), public_url=self.url, assistance=self.assistance
        )
        application = create_application(
            settings, self._database, clock=lambda: time.time_ns() // 1_000_000
        )
        config = uvicorn.Config(
            application,
            log_level="error",
            lifespan="off",
            timeout_keep_alive=75,
        )
        server = self._server = uvicorn.Server(config)
        engine = application.state.engine

        async def serve() -> None:
            await engine.start()
            await server.serve([listening])
            await engine.stop()

        self._thread = threading.Thread(target=lambda: asyncio.run(serve()))
        self._thread.start()

    def stop(self) -> None:
        """Go away at once: connections are cut."""
        if self._server and self._thread and self._database:
            self._server.force_exit = self._server.should_exit = True
            self._thread.join()
            self._database.dispose()
            self._server = None

    def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Call the API with the service's token."""
        answer = httpx.request(
            method,
            f"{self.url}/api/{path}",
            json=body,
            headers={"x-access-token": TOKEN},
            timeout=PATIENCE,
        )
        assert answer.status_code < 300, answer.text
        return answer

    def launch(
        self, accession: str = "A1", who: str = READER, mrn: str = "P1", **changes: Any
    ) -> str:
        """Launch for a user and return the link; `tags` go to clinicalInfo."""
        identity = {"SiteID": "SITE1", "PatientMRN": mrn, "Accession": accession}
        body = {
            "clinicalInfo": {**identity, **changes.pop("tags", {})},
            "reportingApp": {},
            "response": {"type": "link"},
            "userInfo": {"UserEmail": who, "UserName": who.partition("@")[0].title()},
            **changes,
        }
        link: str = self.call("POST", "report/launch/clinical", body).json()["reportLink"]
        return link

    def content(self, accession: str = "A1", mrn: str = "P1") -> str:
        """Return the report's text as the API gives it."""
        query = f"SiteID=SITE1&PatientMRN={mrn}&Accession={accession}"
        text: str = self.call("GET", f"report/content?{query}").json()["content"]
        return text

    def status(self, accession: str = "A1", mrn: str = "P1") -> str:
        """Return the report's status."""
        order = {"SiteID": "SITE1", "PatientMRN": mrn, "Accession": accession}
        record = self.call("POST", "report/status", {"clinicalInfo": [order]}).json()[0]
        return str(record["status"])

    def enrol(self, email: str, password: str) -> None:
        """Set somebody's password by an enrolment link."""
        enrol(self.call, self.url, email, password)

    def cookies(self, email: str, password: str) -> list[dict[str, str]]:
        """Sign in as the login form does; give the cookies as a browser's profile takes them."""
        form = {"email": email, "password": password, "token": "", "next": ""}
        answer = httpx.post(f"{self.url}/reporting/login", data=form, timeout=PATIENCE)
        assert answer.status_code == httpx.codes.SEE_OTHER, answer.text
        return [{"name": n, "value": v, "url": self.url} for n, v in answer.cookies.items()]

    def _open(self) -> Database:
        return Database(f"sqlite:///{self.folder / 'engine.db'}")


@contextmanager
def opened(folder: Path) -> Iterator[ReadingRoom]:
    """An engine that listens; its site cools signatures for a minute."""
    room = ReadingRoom(folder)
    room.prepare(sign_delay=COOLING)
    room.start()
    try:
        yield room
    finally:
        room.stop()
