"""What the console asks of the report service, over HTTP, for whoever is signed in."""

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import quote

from bridge.console.errors import EngineRefusal, EngineUnreachable
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import Account, Enrolment, WorklistPage
from bridge.engine_client.replies import Unreadable, account, enrolment, iso, moment

_GOOD = range(200, 300)
_NOT_FOUND = 404


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

    async def administer_account(
        self,
        method: str,
        path: str = "",
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
    ) -> tuple[int, Any]:
        """Call an endpoint of accounts in our own name."""

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


class ReportEngine:
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
            raise EngineUnreachable from None
        return _taken(status, answer)

    async def audit_events(self, site: str, wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
        """
        List audit events of a site, newest first; `wanted` as the endpoint has it.

        Times are milliseconds here, and ISO 8601 on the way.
        """
        span = {name: iso(wanted[name]) for name in ("since", "until") if name in wanted}
        answer = await self.ask("GET", "sites", site, "audit", query={**wanted, **span})
        try:
            return [{**each, "at": moment(each["at"], "at")} for each in answer["events"]]
        except Unreadable:
            raise EngineUnreachable from None

    async def verify_audit(self) -> dict[str, Any]:
        """Have the whole chain walked."""
        verdict: dict[str, Any] = await self.ask("GET", "audit", "verdict")
        return verdict

    async def account(self, who: str) -> Account | None:
        """Find an account by its e-mail address or its id."""
        is_id = who.isascii() and who.isdigit()  # anything else may be a form of an address
        query = {"accountId": who} if is_id else {"email": who}
        try:
            status, answer = await self.engine.administer_account("GET", query=query)
            return None if status == _NOT_FOUND else account(_taken(status, answer))
        except (EngineFailure, Unreadable):
            raise EngineUnreachable from None

    async def enrol(self, account_id: str, *, second_factor: bool, end_tokens: bool) -> Enrolment:
        """End password, second factor and sessions of an account; make an enrolment link."""
        body = {
            "accountId": account_id,
            "secondFactor": second_factor,
            "endTokens": end_tokens,
        }
        try:
            return enrolment(await self._account("/enrolment", body))
        except Unreadable:
            raise EngineUnreachable from None

    async def require_second_factor(self, account_id: str, *, required: bool) -> None:
        """Say whether the account needs a second factor."""
        await self._account("/second-factor", {"accountId": account_id, "required": required})

    async def set_disabled(self, account_id: str, *, disabled: bool) -> None:
        """Disable or enable an account."""
        await self._account("/disable" if disabled else "/enable", {"accountId": account_id})

    async def sites(self) -> frozenset[str]:
        """List the ids of all sites."""
        return frozenset(str(each["SiteID"]) for each in await self.ask("GET", "sites"))

    async def _account(self, path: str, body: Mapping[str, Any]) -> Any:
        try:
            status, answer = await self.engine.administer_account("POST", path, body=body)
        except EngineFailure:
            raise EngineUnreachable from None
        return _taken(status, answer)


def _taken(status: int, answer: Any) -> Any:
    """Give the answer of a call that succeeded. Raises NotTaken."""
    if status in _GOOD:
        return answer
    told = answer if isinstance(answer, dict) else {}
    raise EngineRefusal(
        status, str(told.get("code", f"http_{status}")), str(told.get("detail", ""))
    )
