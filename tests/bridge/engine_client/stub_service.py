"""A report service with a fixed response."""

import json
from typing import Any

import httpx

from bridge.contract import OrderKey
from bridge.engine_client.client import AccessTokens, EngineClient

ORDER = OrderKey("SITE1", "M-1", "A-1")
TRIPLE = {"SiteID": "SITE1", "PatientMRN": "M-1", "Accession": "A-1"}


class Service:
    """A report service with a fixed response; `requests` are the requests that it received."""

    def __init__(self, status: int = 200, response: Any = None, **headers: str) -> None:
        self.status, self.response, self.headers = status, response, headers
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        content = b"" if self.response is None else json.dumps(self.response).encode()
        names = {name.replace("_", "-"): value for name, value in self.headers.items()}
        return httpx.Response(self.status, content=content, headers=names)

    def client(self, tokens: AccessTokens | str = "T") -> EngineClient:
        transport = httpx.MockTransport(self)
        http = httpx.AsyncClient(transport=transport, base_url="http://engine")
        return EngineClient(http, tokens)

    @property
    def path(self) -> str:
        return self.requests[-1].url.path

    @property
    def body(self) -> Any:
        return json.loads(self.requests[-1].content)
