"""
The radiologist and her host application: HTTP calls, as an integrator makes them.

Reports are opened by launch links; what the page does goes through its session endpoints. The
rest are the calls of the interface document.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import httpx

from bridge.demo.errors import CallRefused, Unexpected
from bridge.demo.installation import SITE

_BOOT: Final = re.compile(r'<script type="application/json" id="boot">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Order:
    """What names a report: the patient and one of its orders."""

    mrn: str
    accession: str

    def identity(self) -> dict[str, str]:
        """Return the triple as the interface spells it."""
        return {"SiteID": SITE, "PatientMRN": self.mrn, "Accession": self.accession}


@dataclass(frozen=True, slots=True)
class WorklistReport:
    """A row of the worklist; `tags` are those of its first order, times in ms."""

    status: str
    accessions: frozenset[str]
    tags: dict[str, Any]
    release_at: int | None


class Radiologist:
    """One user's token at one address; every call that fails raises CallRefused."""

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
        """Return the report of an order that is known to be there."""
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

    async def do(self, deed: str, order: Order, **more: Any) -> None:
        """POST one of `/api/report/…`, which name an order and answer without a body."""
        await self.call("POST", f"/api/report/{deed}", {"clinicalInfo": order.identity(), **more})

    async def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Any:
        """Call, by default with her token; return the JSON, None for an empty body."""
        answer = await self._http.request(
            method, path, json=body, headers=headers if headers is not None else self._token
        )
        if not answer.is_success:
            raise CallRefused(f"{method} {path.partition('?')[0]}", *_problem(answer))
        return answer.json() if answer.content else None


@dataclass(frozen=True, slots=True)
class Page:
    """An opened report page; each deed returns the page's state."""

    radiologist: Radiologist
    session: str

    async def do(self, deed: str, **body: Any) -> dict[str, Any]:
        """Do what a button of the page does."""
        method, content = ("GET", None) if deed == "report" else ("POST", body)
        headers = {"Authorization": f"Bearer {self.session}"}
        path = f"/reporting/api/session/{deed}"
        state: dict[str, Any] = await self.radiologist.call(method, path, content, headers)
        return state

    async def write(self, lines: Sequence[str]) -> None:
        """Type the report's text and save it."""
        state = await self.do("report")
        await self.do("save", version=state["version"], text="\n".join(lines))

    async def write_addendum(self, text: str) -> None:
        """Begin an addendum, type it, sign it."""
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
