"""
Clients of the API over one kept connection that measure their requests.

`Line` measures only the service: it builds the request before the clock starts.
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
        """Send a request and return the response; raise on an error status."""
        answer = self.http.post(path, json=body).raise_for_status()
        return answer.json() if answer.content else None

    def timed(self, path: str, body: Any = None) -> float:
        """Send a request (GET without a body) and return its duration."""
        before = time.perf_counter()
        method = "GET" if body is None else "POST"
        self.http.request(method, path, json=body).raise_for_status()
        return 1000 * (time.perf_counter() - before)

    def close(self) -> None:
        self.http.close()


class Line:
    def __init__(self, at: Installation) -> None:
        self._socket = socket.create_connection(("127.0.0.1", at.house.http_port), timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._token = at.house.token

    def post(self, path: str, body: Any) -> tuple[float, float]:
        """Send a request; return its time and the seconds until the complete response."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: engine\r\nx-access-token: {self._token}\r\n"
        more = f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        request = (head + more).encode() + content
        sent = time.perf_counter()
        self._socket.sendall(request)
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
        self._file.close()
        self._socket.close()


def identity(accession: str, mrn: str = "") -> dict[str, str]:
    return {"SiteID": "SITE1", "PatientMRN": mrn or f"M{accession}", "Accession": accession}


def launch_body(accession: str, **tags: str) -> dict[str, Any]:
    info = {**identity(accession), **tags}
    return {"clinicalInfo": info, "reportingApp": {}, "response": {"type": "link"}}
