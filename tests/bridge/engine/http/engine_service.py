"""An engine for tests: requests, browsers, and a controlled clock."""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from bridge.store.database import Database

BASE = "http://engine.test"
DELAY = 60
ADMIN, READER, OTHER = "admin@site1.test", "reader@site1.test", "other@site1.test"
FOREIGN = "admin@site2.test"


@dataclass
class Clock:
    """A clock in milliseconds that only the test advances."""

    now: int = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += int(seconds * 1000)


@dataclass
class Service:
    """An engine with a client; all calls run on the loop of the test."""

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
    """The API of an opened report page."""

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
    """Return the start data of an opened report page."""
    found = re.search(r'<script type="application/json" id="boot">(.*?)</script>', page.text)
    assert found, page.text
    data: dict[str, Any] = json.loads(found[1])
    return data


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
