"""A caller of the API over one kept connection: it times what it asks."""

import time
from typing import Any

import httpx

from tests.benchmarks.installation import Installation


class Caller:
    """The site's administrator; times are milliseconds."""

    def __init__(self, at: Installation) -> None:
        headers = {"x-access-token": at.house.token}
        self.http = httpx.Client(base_url=at.house.url, headers=headers, timeout=120)

    def post(self, path: str, body: Any) -> Any:
        """Ask, and return what is answered; raise what is no success."""
        answer = self.http.post(path, json=body).raise_for_status()
        return answer.json() if answer.content else None

    def timed(self, path: str, body: Any = None) -> float:
        """Ask (GET where there is no body), and return how long that took."""
        before = time.perf_counter()
        method = "GET" if body is None else "POST"
        self.http.request(method, path, json=body).raise_for_status()
        return 1000 * (time.perf_counter() - before)

    def close(self) -> None:
        """End the connection."""
        self.http.close()


def identity(accession: str, mrn: str = "") -> dict[str, str]:
    """The triple of an order."""
    return {"SiteID": "SITE1", "PatientMRN": mrn or f"M{accession}", "Accession": accession}


def launch_body(accession: str, **tags: str) -> dict[str, Any]:
    """An eager launch that gives a link."""
    info = {**identity(accession), **tags}
    return {"clinicalInfo": info, "reportingApp": {}, "response": {"type": "link"}}
