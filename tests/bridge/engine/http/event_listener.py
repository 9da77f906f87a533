"""A client of the event stream over ASGI, which the transport of httpx does not support."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from tests.bridge.engine.http.engine_service import Page
from tests.eventually import PATIENCE


@dataclass
class Listener:
    """One open stream. Each message is (kind, data, id)."""

    page: Page
    last_event_id: str = ""
    status: int = 0
    all: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    messages: asyncio.Queue[tuple[str, dict[str, Any], str]] = field(default_factory=asyncio.Queue)
    _gone: asyncio.Event = field(default_factory=asyncio.Event)
    _has_sent_body: bool = False

    async def listen(self) -> None:
        """Keep the stream open until `leave`."""
        headers = [(b"authorization", f"Bearer {self.page.secret}".encode())]
        if self.last_event_id:
            headers.append((b"last-event-id", self.last_event_id.encode()))
        path = "/reporting/api/session/events"
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": headers,
            "server": ("engine.test", 80),
            "client": ("127.0.0.1", 1),
        }
        await self.page.service.application(scope, self._receive, self._send)

    def leave(self) -> None:
        self._gone.set()

    async def next(self, kind: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            while True:
                found, data, _ = await self.messages.get()
                if found == kind:
                    return data

    async def change(self, event: str) -> dict[str, Any]:
        while (data := await self.next("change"))["event"] != event:
            pass
        return data

    def pending(self) -> list[tuple[str, dict[str, Any], str]]:
        return [self.messages.get_nowait() for _ in range(self.messages.qsize())]

    async def _receive(self) -> dict[str, Any]:
        if not self._has_sent_body:
            self._has_sent_body = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        for block in message.get("body", b"").decode().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if "event" in lines:
                event = (lines["event"], json.loads(lines["data"]), lines.get("id", ""))
                self.all.append(event)
                self.messages.put_nowait(event)


@contextlib.asynccontextmanager
async def listening(page: Page, last_event_id: str = "") -> AsyncIterator[Listener]:
    """Open the event stream of a page and wait for its first event."""
    listener = Listener(page, last_event_id)
    task = asyncio.get_running_loop().create_task(listener.listen())
    try:
        await listener.next("presence")
        yield listener
    finally:
        listener.leave()
        await task
