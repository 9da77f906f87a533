"""
The radiologist and her host application, simulated by HTTP calls.

Reports are opened by launch links. The page uses its session endpoints; all other calls are those
of the interface document.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import httpx

from bridge.demo.checks import CallRefused, Unexpected
from bridge.demo.installation import SITE

_BOOT: Final = re.compile(r'<script type="application/json" id="boot">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Order:
    """The patient and the accession that identify a report."""

    mrn: str
    accession: str

    def identity(self) -> dict[str, str]:
        """Return the order key as in the HTTP interface."""
        return {"SiteID": SITE, "PatientMRN": self.mrn, "Accession": self.accession}


@dataclass(frozen=True, slots=True)
class WorklistReport:
    """A row of the worklist; `tags` are those of its first order, times in ms."""

    status: str
    accessions: frozenset[str]
    tags: dict[str, Any]
    release_at: int | None


class Radiologist:
    """A client with the token of one user. A failed call raises CallRefused."""

    def __init__(self, address: str, token: str) -> None:
        self._http = httpx.AsyncClient(base_url=address, timeout=30, trust_env=False)
        self._token = {"x-access-token": token}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def worklist(self) -> list[WorklistReport]:
        """Return the site's reports."""
        page = await self.call("GET", f"/api/worklist?SiteID={SITE}&limit=500")
        return [
            WorklistReport(
                row["status"],
                frozenset(order["Accession"] for order in row["orders"]),
                row["orders"][0],
                row["unsignUntil"],
            )
            for row in page["items"]
        ]

    async def report(self, order: Order) -> WorklistReport:
        """Return the report of an existing order."""
        reports = await self.worklist()
        found = [each for each in reports if order.accession in each.accessions]
        if len(found) != 1:
            raise Unexpected(f"reports of {order.accession}", 1, len(found))
        return found[0]

    async def link(self, order: Order) -> str:
        """Launch a report; return its link."""
        body = {
            "clinicalInfo": order.identity(),
            "reportingApp": {"AppLanguage": "en-US"},
            "response": {"type": "link"},
        }
        launched = await self.call("POST", "/api/report/launch/clinical", body)
        return str(launched["reportLink"])

    async def open(self, order: Order) -> "Page":
        """Launch a report and open its link, as the viewer's browser does."""
        link = await self.link(order)
        answer = await self._http.get(link)
        boot = _BOOT.search(answer.text)
        if not answer.is_success or boot is None:
            raise CallRefused("opening a report link", answer.status_code, "")
        return Page(self, str(json.loads(boot[1])["session"]))

    async def do(self, action: str, order: Order, **more: Any) -> None:
        """Call an action of `/api/report/…` for an order."""
        await self.call("POST", f"/api/report/{action}", {"clinicalInfo": order.identity(), **more})

    async def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Any:
        """Make a call, by default with the token; return the JSON, None for an empty body."""
        answer = await self._http.request(
            method, path, json=body, headers=headers if headers is not None else self._token
        )
        if not answer.is_success:
            raise CallRefused(f"{method} {path.partition('?')[0]}", *_problem(answer))
        return answer.json() if answer.content else None


@dataclass(frozen=True, slots=True)
class Page:
    """An opened report page; each action returns the state of the page."""

    radiologist: Radiologist
    session: str

    async def do(self, action: str, **body: Any) -> dict[str, Any]:
        """Perform the action of a button of the page."""
        method, content = ("GET", None) if action == "report" else ("POST", body)
        headers = {"Authorization": f"Bearer {self.session}"}
        path = f"/reporting/api/session/{action}"
        state: dict[str, Any] = await self.radiologist.call(method, path, content, headers)
        return state

    async def write(self, lines: Sequence[str]) -> None:
        """Write and save the text of the report."""
        state = await self.do("report")
        await self.do("save", version=state["version"], text="\n".join(lines))

    async def write_addendum(self, text: str) -> None:
        """Create, write and sign an addendum."""
        state = await self.do("addendum/create")
        state = await self.do("addendum/save", version=_draft_version(state), text=text)
        await self.do("addendum/sign", version=_draft_version(state))


def _draft_version(state: dict[str, Any]) -> int:
    return int(next(each["version"] for each in state["addenda"] if each["state"] == "draft"))


def _problem(answer: httpx.Response) -> tuple[int, str]:
    try:
        return answer.status_code, str(answer.json().get("code", ""))
    except ValueError:
        return answer.status_code, ""
