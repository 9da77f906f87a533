"""
Two origins on one machine: the engine as `reports.localhost`, hosts as `viewer.localhost`.

Browsers treat these names as different sites and as secure contexts.
"""

import argparse
import asyncio
import contextlib
import json
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import trustme
import uvicorn
from playwright.sync_api import Frame, FrameLocator, Page

from bridge.engine.http.engine_application import create_application
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.accounts import tokens, users
from bridge.engine.service.sites import site_settings
from bridge.engine.service.sites.site_settings import SiteSettings
from bridge.engine.settings import EngineSettings
from bridge.store.database import Database
from docs.guides.example_host.host import Host
from tests.databases import fresh_file
from tests.eventually import PATIENCE

TOKEN = "service-secret"
READER = "reader@site1.test"
SITES = {"SITE1": 60, "OPEN": 0}
"""Sites with their sign delay; OPEN has no configured hosts."""


@dataclass(frozen=True)
class Reports:
    """
    The engine on its own origin, and the token of a user without administration rights.

    `accession` and `reader` are the study and the user of one test.
    """

    url: str
    reader_token: str
    accession: str = "ACC-2001"
    reader: str = READER

    def api(self, path: str, **body: Any) -> httpx.Response:
        return ask(self.url, f"/api/report/{path}", body)

    def administer(self, part: str, **body: Any) -> None:
        local = self.url.replace("reports.localhost", "127.0.0.1")
        path = f"{local}/api/admin/sites/SITE1/{part}"
        verify = False  # self-signed certificate
        answer = httpx.put(
            path, json=body, headers={"x-access-token": TOKEN}, verify=verify, timeout=PATIENCE
        )
        assert answer.is_success, answer.text

    def identity(self, accession: str = "") -> dict[str, str]:
        """Return the identity of an order, by default the test's own."""
        accession = accession or self.accession
        return {"SiteID": "SITE1", "PatientMRN": "MRN-1001", "Accession": accession}

    def launch(self, accession: str = "", **more: Any) -> dict[str, Any]:
        user = {"UserEmail": self.reader, "UserName": "Rea Der", **more.pop("user", {})}
        body = {
            "clinicalInfo": self.identity(accession),
            "reportingApp": more.pop("app", {}),
            "response": {"type": "link"},
            "userInfo": user,
            **more,
        }
        answer = self.api("launch/clinical", **body)
        assert answer.status_code == 200, answer.text
        launched: dict[str, Any] = answer.json()
        return launched

    def record(self) -> dict[str, Any]:
        found: list[dict[str, Any]] = self.api("status", clinicalInfo=[self.identity()]).json()
        return found[0]


@contextlib.contextmanager
def reports(folder: Path, hosts: list[str], *, secure: bool = False) -> Iterator[Reports]:
    database = Database(fresh_file(folder / "engine.db"))
    with database.write() as connection:
        for site, delay in SITES.items():
            origins = () if site == "OPEN" else tuple(hosts)
            site_settings.add_site(
                connection, SiteSettings(site, sign_delay=delay, host_origins=origins), 0
            )
        reader = users.register(connection, "SITE1", READER, "Rea Der", 0, role=SiteRole.USER)
        bearer = tokens.create_token(
            connection, reader.id, now=0, random_bytes=secrets.token_bytes
        )[1]
        site_settings.set_prelim_group(connection, "SITE1", "Night", ["Resident"])
        tokens.ensure_service_token(connection, TOKEN, 0)
    with listening() as (port, listener):
        scheme = "https" if secure else "http"
        url = f"{scheme}://reports.localhost:{port}"
        installed = EngineSettings((("1", secrets.token_bytes(32)),), public_url=url)
        application = create_application(
            installed, database, clock=lambda: time.time_ns() // 1_000_000
        )
        options: dict[str, Any] = dict(certificate(folder)) if secure else {}
        options["timeout_keep_alive"] = 75
        config = uvicorn.Config(application, log_level="warning", lifespan="off", **options)
        server = uvicorn.Server(config)
        engine = application.state.engine

        async def serve() -> None:
            await engine.start()
            await server.serve([listener])
            await engine.stop()

        listener.listen()  # early requests wait until the engine is ready
        serving = threading.Thread(target=lambda: asyncio.run(serve()))
        serving.start()
        try:
            yield Reports(url, bearer)
        finally:
            engine.stopping = True
            server.should_exit = True
            serving.join()
            database.dispose()


def certificate(folder: Path) -> dict[str, Any]:
    issued = trustme.CA().issue_cert("reports.localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    return {"ssl_certfile": str(folder / "server.pem"), "ssl_version": ssl.PROTOCOL_TLS_SERVER}


@contextlib.contextmanager
def listening() -> Iterator[tuple[int, socket.socket]]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield listener.getsockname()[1], listener


@contextlib.contextmanager
def hosting(*, coep: bool = False, site: str = "SITE1") -> Iterator[Host]:
    """Run the example host of `docs/guides/example_host` on a free port; the caller sets `app`."""
    options = argparse.Namespace(
        app="", token=TOKEN, site=site, email=READER, name="Rea Der", coep=coep
    )
    host = Host(("127.0.0.1", 0), options)

    def asking(path: str, body: dict[str, Any]) -> tuple[int, Any]:
        answer = ask(host.app, path, body)
        return answer.status_code, answer.json()

    host.ask = asking  # type: ignore[method-assign]  # trusts the self-signed certificate
    serving = threading.Thread(target=host.serve_forever, args=(0.01,))
    serving.start()
    try:
        yield host
    finally:
        host.shutdown()
        host.server_close()
        serving.join()


def origin_of(host: Host) -> str:
    return f"http://viewer.localhost:{host.server_port}"


def ask(app: str, path: str, body: dict[str, Any], *, token: str = TOKEN) -> httpx.Response:
    """Post to the engine; only browsers resolve names below `localhost`."""
    local = app.replace("reports.localhost", "127.0.0.1")
    headers = {"x-access-token": token}
    verify = False  # self-signed certificate
    return httpx.post(local + path, json=body, headers=headers, verify=verify, timeout=PATIENCE)


@dataclass
class Viewer:
    page: Page
    reports: Reports
    errors: list[str] = field(default_factory=list)
    expected: str = "\0"
    """Text of console lines that the browser prints for responses that the test expects."""

    @property
    def frame(self) -> FrameLocator:
        return self.page.frame_locator("#stage iframe")

    def study(self, accession: str = "", **boxes: bool) -> None:
        """Fill in the study; `sync` and `force` are checkboxes."""
        self.page.fill("input[name=Accession]", accession or self.reports.accession)
        for name, checked in boxes.items():
            self.page.set_checked(f"input[name={name}]", checked)

    def open(self, accession: str = "", **boxes: bool) -> dict[str, Any]:
        """Open a study in the frame and wait until it is ready."""
        self.study(accession, **boxes)
        ready = len(self.events("report_ready"))
        self.page.click("#open")
        return self.event("report_ready", ready)

    def act(self, action: str) -> None:
        self.page.click(f"#{action}")

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        """Return the events so far, oldest first."""
        shown = f"#log li{f'[data-type={kind}]' if kind else ''}"
        lines = self.page.locator(shown).evaluate_all("all => all.map(each => each.dataset.event)")
        return [json.loads(line) for line in reversed(lines)]

    def event(self, kind: str, after: int = 0) -> dict[str, Any]:
        """Wait for the event of a kind after `after` others of it, and return it."""
        self.until(lambda: len(self.events(kind)) > after, kind)
        return self.events(kind)[after]

    def until(self, holds: Callable[[], bool], what: str = "") -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > deadline:
                kinds = [event["type"] for event in self.events()]
                message = f"no {what}; {kinds}; {self.errors}"
                raise AssertionError(message)
            self.page.wait_for_timeout(50)

    def inside(self) -> Frame:
        return next(frame for frame in self.page.frames if "reports.localhost" in frame.url)

    def selected(self) -> str:
        inside = self.frame.locator("body")
        text: str = inside.evaluate("() => getSelection().toString()")
        return text

    def type(self, text: str) -> None:
        self.frame.locator(".ProseMirror[contenteditable=true]").first.focus()
        self.page.keyboard.press("Control+End")
        self.page.keyboard.type(text)
