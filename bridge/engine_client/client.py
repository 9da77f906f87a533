"""
Client of the report service, with one method for each endpoint of the interface document.

An `EngineCaller` sends the requests to our engine in this process or to a service over HTTP. Each
method returns a value or raises `EngineFailure`, which says whether a retry can help.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

from bridge.contract import ReportStatus
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import (
    ChangePage,
    OrderKey,
    PatientUpdate,
    ReportExport,
    SignedInUser,
    StatusRecord,
    WorklistPage,
)
from bridge.engine_client.report_endpoints import ReportEndpoints
from bridge.engine_client.responses import (
    UnreadableResponse,
    change_page,
    signed_texts,
    status_records,
    visitor,
    worklist_page,
)
from bridge.engine_client.transport import AccessTokens, EngineCaller, EngineTransport, omit_none
from bridge.errors import FailureKind

NO_TEXTS: Final = "no_texts"
"""Error code of the client: the record of a signed report has no text."""

_SIGNED: Final = frozenset({ReportStatus.FINAL, ReportStatus.ADDENDUM})


def _nothing(_: object) -> None:
    """Ignore the response body."""


class BulkEndpoints:
    """Status and linking of the interface document, and additions of our own engine."""

    def __init__(self, transport: EngineTransport) -> None:
        """Use the transport that all endpoints share."""
        self._transport = transport

    async def status(self, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        """Read the status records of orders of one token; unknown orders are absent."""
        body = {"clinicalInfo": [each.tags() for each in orders]}
        return await self._transport.call(
            "POST", "/api/report/status", orders[0].site, status_records, body=body
        )

    async def signed_texts(self, orders: Sequence[OrderKey]) -> dict[OrderKey, ReportExport]:
        """
        Read the texts of signed reports by their orders; an addition of our own engine.

        The orders belong to one token. An order is absent if its report is unsigned or unknown, or
        belongs to another patient. Site, tags and preliminary reads of the exports are empty.
        Raises EngineFailure, with code `no_texts` if a signed report has no text.
        """
        body = {"clinicalInfo": [each.tags() for each in orders], "texts": True}
        answers = await self._transport.call(
            "POST", "/api/report/status", orders[0].site, signed_texts, body=body
        )
        if any(text is None and record.status in _SIGNED for record, text in answers):
            raise EngineFailure("/api/report/status", FailureKind.PERMANENT, NO_TEXTS)
        return {
            order: text for record, text in answers if text is not None for order in record.orders
        }

    async def link_orders(self, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        """Link orders of a site to one report; the first order is the anchor."""
        return await self._grouping("link-orders", orders)

    async def unlink_orders(self, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        """Unlink orders of a site from their reports."""
        return await self._grouping("unlink-orders", orders)

    async def _grouping(self, action: str, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        site = orders[0].site
        return await self._transport.call(
            "POST",
            f"/api/report/{action}",
            site,
            status_records,
            body=_several_orders(site, orders),
        )

    async def changes(
        self,
        after: int,
        limit: int = 500,
        wait: float = 0.0,
        site: str = "",
        without: Sequence[str] = (),
    ) -> ChangePage:
        """
        Read the changes after a cursor, in commit order.

        Waits up to `wait` seconds for a change. `site` selects the token, which determines the
        visible sites. The service may leave out the events in `without`.
        """
        query = omit_none(
            after=after, limit=limit, wait=wait or None, without=list(without) or None
        )
        return await self._transport.call(
            "GET", "/api/report/changes", site, change_page, query=query, wait=wait
        )

    async def update_patient(self, update: PatientUpdate) -> None:
        """Update demographics in all reports of a site; idempotent."""
        body = {"SiteID": update.site, "PatientMRN": update.mrn, **update.tags}
        await self._transport.call("POST", "/api/patient/update", update.site, _nothing, body=body)

    async def merge_patients(self, site: str, mrn: str, prior_mrn: str) -> None:
        """Move all reports of `prior_mrn` to the surviving `mrn`; idempotent."""
        body = {"SiteID": site, "PatientMRN": mrn, "PriorPatientMRN": prior_mrn}
        await self._transport.call("POST", "/api/patient/merge", site, _nothing, body=body)

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
        query = omit_none(
            SiteID=site,
            status=status,
            PatientMRN=mrn,
            Accession=accession,
            q=text,
            sort=sort,
            limit=limit,
            cursor=cursor or None,
        )
        return await self._transport.call("GET", "/api/worklist", site, worklist_page, query=query)

    async def is_ready(self) -> bool:
        """Call `/readyz`. Raises EngineFailure if the service is not ready or not reachable."""
        await self._transport.send("GET", "/readyz", "")
        return True

    async def description(self) -> object:
        """Read `/openapi.json`."""
        return await self._transport.call("GET", "/openapi.json", "", lambda value: value)


def _several_orders(site: str, orders: Sequence[OrderKey]) -> dict[str, Any]:
    """Build the body of link-orders and unlink-orders."""
    return {
        "SiteID": site,
        "clinicalInfo": [{"PatientMRN": each.mrn, "Accession": each.accession} for each in orders],
    }


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


class EngineClient(ReportEndpoints, BulkEndpoints, AdminEndpoints):
    """All endpoints of the interface document, and the additions of our own engine."""

    def __init__(self, caller: EngineCaller, tokens: AccessTokens | str) -> None:
        """`caller` sends the requests; `tokens` are the access tokens of the service."""
        known = tokens if isinstance(tokens, AccessTokens) else AccessTokens(tokens)
        super().__init__(EngineTransport(caller, known))

    def token_of(self, site: str) -> str:
        """Return the access token for a site; all launches of a batch use one token."""
        return self.tokens.of(site)

    @property
    def tokens(self) -> AccessTokens:
        """The access tokens by site."""
        return self._transport.tokens


def browser_session_address(
    base_url: str,
    site: str,
    user_name: str = "",
    user_email: str = "",
    auth: str = "",
    *,
    location: str | None = None,
    app_language: str | None = None,
    speech_language: str | None = None,
) -> str:
    """
    Build the URL of the browser route `GET /reporting/init`.

    It contains an administrator's token (interface document, rule 6). Prefer
    `EngineClient.create_session`.
    """
    query = omit_none(
        SiteID=site,
        SiteLocation=location,
        Auth=auth or None,
        UserName=user_name or None,
        UserEmail=user_email or None,
        AppLanguage=app_language,
        SpeechLanguage=speech_language,
    )
    return f"{base_url}/reporting/init?{urlencode(query, quote_via=quote)}"
