"""A radiologist's report page: opens a report link and sends the requests of the page."""

import json
import re
from typing import Any

import httpx

from tests.acceptance.house import House
from tests.eventually import PATIENCE
from tests.trust import TRUSTED

BOOT = re.compile(r'<script type="application/json" id="boot">(.*?)</script>', re.DOTALL)


class Window:
    def __init__(self, house: House, mrn: str, accession: str) -> None:
        clinical = {"SiteID": "SITE1", "PatientMRN": mrn, "Accession": accession}
        body = {"clinicalInfo": clinical, "reportingApp": {}, "response": {"type": "link"}}
        link = house.post("/api/report/launch/clinical", body)["reportLink"]
        page = httpx.get(link, timeout=PATIENCE, verify=TRUSTED)
        boot = BOOT.search(page.text)
        assert boot is not None, page.status_code
        self.house = house
        self.session = json.loads(boot[1])["session"]

    def do(self, action: str, **body: Any) -> dict[str, Any]:
        """Press a button of the page; return the state after it."""
        reply = httpx.post(
            f"{self.house.url}/reporting/api/session/{action}",
            json=body,
            headers={"Authorization": f"Bearer {self.session}"},
            timeout=PATIENCE,
            verify=TRUSTED,
        )
        assert reply.status_code == 200, reply.text
        state: dict[str, Any] = reply.json()
        return state


def addendum(house: House, mrn: str, accession: str, text: str) -> None:
    """Write and sign an addendum to a signed report; without a sign delay it is released."""
    window = Window(house, mrn, accession)
    state = window.do("addendum/create")
    state = window.do("addendum/save", version=version_of(state), text=text)
    window.do("addendum/sign", version=version_of(state))


def version_of(state: dict[str, Any]) -> int:
    return int(next(row["version"] for row in state["addenda"] if row["state"] == "draft"))
