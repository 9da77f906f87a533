"""An engine for tests: requests, browsers, and a controlled clock."""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from bridge.engine.service.accounts import passwords, users
from bridge.store.database import Database

BASE = "http://engine.test"
DELAY = 60
ADMIN, READER, OTHER = "admin@site1.test", "reader@site1.test", "other@site1.test"
FOREIGN = "admin@site2.test"
PASSWORD = "correct horse battery"
OURS = {"sec-fetch-site": "same-origin"}
"""The header of a request by one of our own pages."""


@dataclass
class Clock:
    """A clock in milliseconds that only the test advances."""

    now: int = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += int(seconds * 1000)


@dataclass
class Service:
    runner: asyncio.Runner
    http: httpx.AsyncClient
    clock: Clock
    database: Database
    application: Any
    tokens: dict[str, str] = field(default_factory=dict)

    def call(
        self, method: str, path: str, who: str | None = ADMIN, **options: Any
    ) -> httpx.Response:
        """Send one request with the token of a user; None: without a token."""
        headers = dict(options.pop("headers", {}))
        if who is not None:
            headers["x-access-token"] = self.tokens.get(who, who)
        return self.runner.run(self.http.request(method, path, headers=headers, **options))

    async def send_from(
        self, address: str, method: str, path: str, **options: Any
    ) -> httpx.Response:
        """Send one request from an IP address, without cookies."""
        transport = httpx.ASGITransport(app=self.application, client=(address, 40_000))
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            return await client.request(method, path, **options)

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
        return self.call("GET", link.removeprefix(BASE), None, **options)

    def status(self, accession: str = "A1", mrn: str = "P1") -> dict[str, Any]:
        response = self.post("report/status", {"clinicalInfo": [identity(accession, mrn)]})
        assert response.status_code == 200, response.text
        record: dict[str, Any] = response.json()[0]
        return record

    def session(self, page: httpx.Response) -> "Page":
        assert page.status_code == 200, page.text
        return Page(self, boot(page)["session"])

    def page(self, launched: httpx.Response, **options: Any) -> "Page":
        """Open the link of a launch; return the API of the report page."""
        return self.session(self.open(launched.json()["reportLink"], **options))

    def open_report(self, email: str = READER, **launch: Any) -> "Page":
        return self.page(self.launch(userInfo=user(email), **launch))

    def set_password(self, email: str, password: str = PASSWORD) -> None:
        with self.database.write() as connection:
            account = users.find_account(connection, email)
            assert account is not None
            passwords.store_hash(connection, account.id, passwords.hash_password(password), 1)

    def sign_in(self, email: str = READER, password: str = PASSWORD, **form: str) -> httpx.Response:
        """Send the login form, without an earlier session."""
        self.http.cookies.clear()
        form = {"email": email, "password": password, **form}
        return self.call("POST", "/reporting/login", None, data=form, headers=OURS)

    def account(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """Call the API of the signed-in account as its pages do."""
        options = {"headers": OURS, **({} if body is None else {"json": body}), **more}
        return self.call(method, f"/reporting/api/account{path}", None, **options)


@dataclass
class Page:
    service: Service
    secret: str

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secret}"}

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = self.bearer | options.pop("headers", {})
        path = f"/reporting/api/session/{path}"
        return self.service.call(method, path, None, headers=headers, **options)

    def __call__(self, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        return self.call("GET", path) if body is None else self.call("POST", path, json=dict(body))

    def save(self, text: str = "Normal.", **body: Any) -> int:
        """Save a text, or the given body, on the present version; return the new version."""
        body = {"version": self("report").json()["version"], **(body or {"text": text})}
        response = self("save", body)
        assert response.status_code == 200, response.text
        number: int = response.json()["version"]
        return number


def boot(page: httpx.Response) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="boot">(.*?)</script>', page.text)
    assert found, page.text
    data: dict[str, Any] = json.loads(found[1])
    return data


def identity(accession: str = "A1", mrn: str = "P1", site: str = "SITE1") -> dict[str, str]:
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
