"""
Callers of the API over one kept connection, that time what they ask.

`Line` measures the service alone: what is asked is written before the clock starts.
"""

import json
import socket
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


class Line:
    """The site's administrator on a bare socket."""

    def __init__(self, at: Installation) -> None:
        self._socket = socket.create_connection(("127.0.0.1", at.house.http_port), timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._token = at.house.token

    def post(self, path: str, body: Any) -> tuple[float, float]:
        """Ask; give when the question was sent, and the seconds until all of the answer came."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: engine\r\nx-access-token: {self._token}\r\n"
        more = f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        question = (head + more).encode() + content
        sent = time.perf_counter()
        self._socket.sendall(question)
        status, length = self._file.readline(), 0
        while (line := self._file.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        self._file.read(length)
        took = time.perf_counter() - sent
        if not status.startswith(b"HTTP/1.1 200"):
            raise AssertionError(f"{path} was refused: {status!r}")
        return sent, took

    def close(self) -> None:
        """End the connection."""
        self._file.close()
        self._socket.close()


def identity(accession: str, mrn: str = "") -> dict[str, str]:
    """The triple of an order."""
    return {"SiteID": "SITE1", "PatientMRN": mrn or f"M{accession}", "Accession": accession}


def launch_body(accession: str, **tags: str) -> dict[str, Any]:
    """An eager launch that gives a link."""
    info = {**identity(accession), **tags}
    return {"clinicalInfo": info, "reportingApp": {}, "response": {"type": "link"}}
