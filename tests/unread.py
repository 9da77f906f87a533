"""Requests to an ASGI application with a body that must not be read."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from starlette.routing import BaseRoute

from tests.eventually import PATIENCE

LENGTH = 20 * 2**20
"""Declared bytes, which are never sent."""

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND")


@dataclass
class UnreadRequest:
    """A request with a body; `reads` counts how often the application asked for it."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 0
    reads: int = 0

    async def send(self, application: Any) -> "UnreadRequest":
        """Send the request; reading its body gives a disconnect."""
        own = {
            "host": "testserver",
            "content-type": "application/json",
            "content-length": str(LENGTH),
            **self.headers,
        }

        async def receive() -> dict[str, Any]:
            self.reads += 1
            return {"type": "http.disconnect"}

        async def answer(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]

        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in own.items()],
            "client": ("192.0.2.1", 1),
            "server": ("testserver", 80),
        }
        async with asyncio.timeout(PATIENCE):
            await application(scope, receive, answer)
        return self


def flat(routes: Iterable[BaseRoute]) -> list[BaseRoute]:
    found: list[BaseRoute] = []
    for route in routes:
        router = getattr(route, "original_router", None)
        found += [route] if router is None else flat(router.routes)
    return found


def paths_of(routes: Iterable[BaseRoute]) -> list[str]:
    """Return the paths of all routes, with `1` for each parameter."""
    found = set()
    for route in flat(routes):
        path = getattr(route, "path", "")
        while "{" in path:
            head, _, rest = path.partition("{")
            path = f"{head}1{rest.partition('}')[2]}"
        found.add(path)
    return sorted(found)
