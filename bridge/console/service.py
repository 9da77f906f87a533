"""What the console asks of the report service, over HTTP, for whoever is signed in."""

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import quote

from bridge.console.errors import NotTaken, Unreachable
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import WorklistPage

_GOOD = range(200, 300)


class Engine(Protocol):
    """What is needed of `bridge.engine_client.client.EngineClient`."""

    async def administer(
        self,
        method: str,
        path: str,
        site: str = "",
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
    ) -> tuple[int, Any]:
        """Pass on what a person asks of the administrative endpoints."""

    async def worklist(
        self,
        site: str,
        *,
        status: str | None = None,
        mrn: str | None = None,
        accession: str | None = None,
        text: str | None = None,
        sort: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> WorklistPage:
        """Read a page of a site's worklist."""


class Service:
    """Raises NotTaken with the service's own words, Unreachable where it does not answer."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def ask(
        self,
        method: str,
        *path: str,
        body: object = None,
        query: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call an administrative endpoint; `path` is its parts, the second of them a site's id."""
        site = path[1] if len(path) > 1 else ""
        whole = "".join(f"/{quote(each, safe='')}" for each in path)
        try:
            status, answer = await self.engine.administer(
                method, whole, site, body=body, query=query
            )
        except EngineFailure:
            raise Unreachable from None
        if status in _GOOD:
            return answer
        told = answer if isinstance(answer, dict) else {}
        raise NotTaken(status, str(told.get("code", f"http_{status}")), str(told.get("detail", "")))

    async def audit_events(self, site: str, wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
        """List audit events of a site, newest first; `wanted` as the endpoint has it."""
        answer = await self.ask("GET", "sites", site, "audit", query=wanted)
        events: list[dict[str, Any]] = answer["events"]
        return events

    async def verify_audit(self) -> dict[str, Any]:
        """Have the whole chain walked."""
        verdict: dict[str, Any] = await self.ask("GET", "audit", "verdict")
        return verdict
