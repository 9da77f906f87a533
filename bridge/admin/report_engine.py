"""Administrative endpoints of the report engine over HTTP, for the console and `bridge console`."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from pydantic import ValidationError

from bridge.admin.errors import EngineRefusal, EngineUnreachable
from bridge.contract.responses import AccountInfo, EnrolmentLink, iso, moment
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure

_SUCCESS: Final = range(200, 300)
_NOT_FOUND: Final = 404


class ReportEngine:
    """
    Calls the administrative endpoints of the report engine with the bridge's own token.

    Raises EngineRefusal with the engine's code and text, EngineUnreachable if it does not respond.
    """

    def __init__(self, client: EngineClient) -> None:
        self.client = client

    async def call(
        self, method: str, *path: str, body: object = None, query: Mapping[str, Any] | None = None
    ) -> Any:
        """
        Call an administrative endpoint and return the parsed response body.

        `path` contains the parts of the path, unquoted; the second one is a SiteID.
        """
        site = path[1] if len(path) > 1 else ""
        quoted = "".join(f"/{quote(each, safe='')}" for each in path)
        try:
            status, answer = await self.client.administer(
                method, quoted, site, body=body, query=query
            )
        except EngineFailure:
            raise EngineUnreachable from None
        return _successful(status, answer)

    async def audit_events(self, site: str, criteria: Mapping[str, Any]) -> list[dict[str, Any]]:
        """
        List audit events of a site, newest first; `criteria` are the endpoint's parameters.

        Times are in ms here, and ISO 8601 in the request and the response.
        """
        span = {name: iso(criteria[name]) for name in ("since", "until") if name in criteria}
        answer = await self.call("GET", "sites", site, "audit", query={**criteria, **span})
        try:
            return [{**each, "at": moment(each["at"])} for each in answer["events"]]
        except ValueError:
            raise EngineUnreachable from None

    async def verify_audit(self) -> dict[str, Any]:
        """Verify the whole hash chain of the audit trail."""
        verdict: dict[str, Any] = await self.call("GET", "audit", "verdict")
        return verdict

    async def account(self, email_or_id: str) -> AccountInfo | None:
        """Find an account by its e-mail address or its id."""
        is_id = email_or_id.isascii() and email_or_id.isdigit()  # else an e-mail address
        query = {"accountId": email_or_id} if is_id else {"email": email_or_id}
        try:
            status, answer = await self.client.administer_account("GET", query=query)
            if status == _NOT_FOUND:
                return None
            return AccountInfo.model_validate(_successful(status, answer))
        except (EngineFailure, ValidationError):
            raise EngineUnreachable from None

    async def enrol(
        self, account_id: str, *, second_factor: bool, end_tokens: bool
    ) -> EnrolmentLink:
        """End password, second factor and sessions of an account; return an enrolment link."""
        body = {"accountId": account_id, "secondFactor": second_factor, "endTokens": end_tokens}
        try:
            return EnrolmentLink.model_validate(await self._account("/enrolment", body))
        except ValidationError:
            raise EngineUnreachable from None

    async def require_second_factor(self, account_id: str, *, required: bool) -> None:
        await self._account("/second-factor", {"accountId": account_id, "required": required})

    async def set_disabled(self, account_id: str, *, disabled: bool) -> None:
        await self._account("/disable" if disabled else "/enable", {"accountId": account_id})

    async def sites(self) -> frozenset[str]:
        return frozenset(str(each["SiteID"]) for each in await self.call("GET", "sites"))

    async def _account(self, path: str, body: Mapping[str, Any]) -> Any:
        try:
            status, answer = await self.client.administer_account("POST", path, body=body)
        except EngineFailure:
            raise EngineUnreachable from None
        return _successful(status, answer)


def _successful(status: int, answer: Any) -> Any:
    """Return the body of a successful response. Raises EngineRefusal."""
    if status in _SUCCESS:
        return answer
    problem = answer if isinstance(answer, dict) else {}
    code, detail = problem.get("code", f"http_{status}"), problem.get("detail", "")
    raise EngineRefusal(status, str(code), str(detail))
