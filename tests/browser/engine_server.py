"""A running engine that tests launch, administer, stop and start."""

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
from sqlalchemy import text

from bridge.engine.http.engine_application import create_application
from bridge.engine.service.accounts import tokens
from bridge.engine.service.sites import site_settings
from bridge.engine.service.sites.site_settings import SiteSettings
from bridge.engine.settings import EngineSettings, WritingAids
from bridge.store.database import Database
from tests.databases import fresh_file
from tests.enrolment import enrol
from tests.eventually import PATIENCE
from tests.trust import TRUSTED

TOKEN = "service-secret"
COOLING = 60  # seconds
READER, OTHER = "rea@site1.test", "otto@site1.test"


@dataclass
class EngineServer:
    """An engine with the site SITE1; it keeps its port over a restart."""

    folder: Path
    port: int = 0
    assistance: WritingAids = field(default_factory=WritingAids)
    _keys: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _server: uvicorn.Server | None = None
    _thread: threading.Thread | None = None
    _database: Database | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prepare(self, **settings: Any) -> None:
        fresh_file(self.folder / "engine.db")
        database = self._open()
        with database.write() as connection:
            site_settings.add_site(connection, SiteSettings("SITE1", **settings), 0)
            tokens.ensure_service_token(connection, TOKEN, 0)
        database.dispose()

    def start(self) -> None:
        self._database = self._open()
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", self.port))
        listening.listen()  # early requests wait until the engine is ready
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
        """Stop at once and cut all connections."""
        if self._server and self._thread and self._database:
            self._server.force_exit = self._server.should_exit = True
            self._thread.join()
            self._database.dispose()
            self._server = None

    def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        answer = httpx.request(
            method,
            f"{self.url}/api/{path}",
            json=body,
            headers={"x-access-token": TOKEN},
            timeout=PATIENCE,
            verify=TRUSTED,
        )
        assert answer.status_code < 300, answer.text
        return answer

    def launch(
        self, accession: str = "A1", email: str = READER, mrn: str = "P1", **changes: Any
    ) -> str:
        """Launch a report for a user and return its link; `tags` go to clinicalInfo."""
        identity = {"SiteID": "SITE1", "PatientMRN": mrn, "Accession": accession}
        body = {
            "clinicalInfo": {**identity, **changes.pop("tags", {})},
            "reportingApp": {},
            "response": {"type": "link"},
            "userInfo": {"UserEmail": email, "UserName": email.partition("@")[0].title()},
            **changes,
        }
        link: str = self.call("POST", "report/launch/clinical", body).json()["reportLink"]
        return link

    def content(self, accession: str = "A1", mrn: str = "P1") -> str:
        query = f"SiteID=SITE1&PatientMRN={mrn}&Accession={accession}"
        text: str = self.call("GET", f"report/content?{query}").json()["content"]
        return text

    def status(self, accession: str = "A1", mrn: str = "P1") -> str:
        order = {"SiteID": "SITE1", "PatientMRN": mrn, "Accession": accession}
        record = self.call("POST", "report/status", {"clinicalInfo": [order]}).json()[0]
        return str(record["status"])

    def enrol(self, email: str, password: str) -> None:
        enrol(self.call, self.url, email, password)

    def cookies(self, email: str, password: str) -> list[dict[str, str]]:
        """Sign in as the login form does; return the cookies for a browser profile."""
        form = {"email": email, "password": password, "token": "", "next": ""}
        answer = httpx.post(
            f"{self.url}/reporting/login", data=form, timeout=PATIENCE, verify=TRUSTED
        )
        assert answer.status_code == httpx.codes.SEE_OTHER, answer.text
        return [{"name": n, "value": v, "url": self.url} for n, v in answer.cookies.items()]

    def age_sessions(self) -> None:
        """Set the last authentication of all sessions to a time long ago."""
        database = self._open()
        with database.write() as connection:
            connection.execute(
                text(
                    "UPDATE engine_browser_session"
                    " SET details = json_set(details, '$.authenticated_at', 1)"
                )
            )
        database.dispose()

    def _open(self) -> Database:
        return Database(f"sqlite:///{self.folder / 'engine.db'}")


@contextmanager
def opened(folder: Path) -> Iterator[EngineServer]:
    engine = EngineServer(folder)
    engine.prepare(sign_delay=COOLING)
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()
