"""
What administrators of a site read and set over HTTP (ours): settings, audit trail, supplies.

Part of `EngineClient`; see there. Values are the API's JSON: people and consoles read them.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from bridge.engine_client.replies import Unreadable
from bridge.engine_client.requests import given
from bridge.engine_client.transport import Transport


class Administering:
    """Endpoints below `/api/admin/sites/{SiteID}`."""

    def __init__(self, transport: Transport) -> None:
        """Share one transport."""
        self._transport = transport

    async def site(self, site: str) -> dict[str, Any]:
        """Read a site's settings."""
        return await self._transport.call("GET", _path(site), site, _object)

    async def change_site(self, site: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Change members of a site's settings; give them all as they are then."""
        return await self._transport.call("PATCH", _path(site), site, _object, body=dict(changes))

    async def audit_events(
        self, site: str, after: int | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Read a site's audit trail: behind a sequence number oldest first, else newest first."""
        query = given(after=after, limit=limit)
        path = f"{_path(site)}/audit"
        answer = await self._transport.call("GET", path, site, _object, query=query)
        events = answer.get("events")
        if not isinstance(events, list):
            raise Unreadable("events")
        return events

    async def administer(
        self,
        method: str,
        path: str,
        site: str = "",
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
    ) -> tuple[int, Any]:
        """
        Pass on what a person asks of `/api/admin` and `path`; give status and body of the answer.

        The words of a refusal are for that person, and for no log.
        """
        whole = f"/api/admin{path}"
        return await self._transport.relay(method, whole, site, body=body, query=query)

    async def import_template(self, site: str, number: int, html: str) -> None:
        """Create or replace a numbered template from an IHE MRRT file."""
        path = f"{_path(site)}/templates/{number}/mrrt"
        await self._transport.send("PUT", path, site, body={"html": html})

    async def export_template(self, site: str, number: int) -> str:
        """Read a numbered template as an IHE MRRT file."""
        path = f"{_path(site)}/templates/{number}/mrrt"
        return str((await self._transport.call("GET", path, site, _object)).get("html", ""))

    async def set_code_map(self, site: str, csv: str) -> None:
        """Replace a site's billing code map by a CSV: system,match,code,description."""
        await self._transport.send("PUT", f"{_path(site)}/code-map", site, body={"csv": csv})


def _path(site: str) -> str:
    return f"/api/admin/sites/{quote(site, safe='')}"


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable("object")
    return value
