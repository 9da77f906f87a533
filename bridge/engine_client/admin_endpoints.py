"""
Administration endpoints of our engine: sites, audit trail, accounts, and the signed-in user.

Part of `EngineClient`. Most values are the JSON of the API, which the console shows.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import SignedInUser
from bridge.engine_client.responses import UnreadableResponse, visitor
from bridge.engine_client.transport import EngineTransport, omit_none
from bridge.errors import FailureKind

_ACCOUNTS: Final = "/api/account"
_PROFILE: Final = "/reporting/api/account"
_SIGNED_OUT: Final = 401


class AdminEndpoints:
    """Endpoints below `/api/admin` and `/api/account`, and the profile of a browser session."""

    def __init__(self, transport: EngineTransport) -> None:
        """Use the transport that all endpoints share."""
        self._transport = transport

    async def site(self, site: str) -> dict[str, Any]:
        """Read a site's settings."""
        return await self._transport.call("GET", _path(site), site, _object)

    async def change_site(self, site: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Change members of a site's settings; return all settings after the change."""
        return await self._transport.call("PATCH", _path(site), site, _object, body=dict(changes))

    async def audit_events(
        self, site: str, after: int | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Read a site's audit trail: after a sequence number oldest first, else newest first."""
        query = omit_none(after=after, limit=limit)
        path = f"{_path(site)}/audit"
        answer = await self._transport.call("GET", path, site, _object, query=query)
        events = answer.get("events")
        if not isinstance(events, list):
            raise UnreadableResponse("events")
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
        Forward a user's request to `/api/admin` and `path`; return status and body of the response.

        The text of an error response may contain patient data. Do not log it.
        """
        whole = f"/api/admin{path}"
        return await self._transport.forward(method, whole, site, body=body, query=query)

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

    async def administer_account(
        self,
        method: str,
        path: str = "",
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
    ) -> tuple[int, Any]:
        """Call an account endpoint with our own token; return status and body of the response."""
        return await self._transport.forward(
            method, f"{_ACCOUNTS}{path}", "", body=body, query=query
        )

    async def visitor(self, cookies: str, *, unattended: bool = False) -> SignedInUser | None:
        """Return the signed-in user, or None. `unattended` does not prolong the session."""
        try:
            response = await self._transport.get_as_browser(
                _PROFILE, cookies, unattended=unattended
            )
            return visitor(response.json())
        except EngineFailure as failure:
            if failure.status == _SIGNED_OUT:
                return None
            raise
        except (UnreadableResponse, ValueError, RecursionError):
            raise EngineFailure(_PROFILE, FailureKind.PERMANENT, "unreadable") from None


def _path(site: str) -> str:
    return f"/api/admin/sites/{quote(site, safe='')}"


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnreadableResponse("object")
    return value
