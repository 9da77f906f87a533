"""
Client of the report service, with one method for each endpoint that the bridge calls.

An `EngineCaller` sends the requests to our engine in this process or to a service over HTTP. Each
method returns a value or raises `EngineFailure`, which says whether a retry can help.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import (
    SIGNED,
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
    ignore_body,
    signed_in_user,
    signed_texts,
    status_records,
    worklist_page,
)
from bridge.engine_client.transport import AccessTokens, EngineCaller, EngineTransport, omit_none
from bridge.errors import FailureKind

NO_TEXTS: Final = "no_texts"
"""Error code of the client: the record of a signed report has no text."""


class BulkEndpoints:
    """Status and linking of the interface reference, and additions of our own engine."""

    def __init__(self, transport: EngineTransport) -> None:
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
        if any(text is None and record.status in SIGNED for record, text in answers):
            raise EngineFailure("/api/report/status", FailureKind.PERMANENT, NO_TEXTS)
        return {
            order: text for record, text in answers if text is not None for order in record.orders
        }

    async def link_orders(self, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        """Link orders of a site to one report; the first order is the anchor."""
        return await self._post_orders("link-orders", orders)

    async def unlink_orders(self, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        """Unlink orders of a site from their reports."""
        return await self._post_orders("unlink-orders", orders)

    async def _post_orders(
        self, action: str, orders: Sequence[OrderKey]
    ) -> tuple[StatusRecord, ...]:
        site = orders[0].site
        return await self._transport.call(
            "POST",
            f"/api/report/{action}",
            site,
            status_records,
            body=_orders_body(site, orders),
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
        await self._transport.call(
            "POST", "/api/patient/update", update.site, ignore_body, body=body
        )

    async def merge_patients(self, site: str, mrn: str, prior_mrn: str) -> None:
        """Move all reports of `prior_mrn` to the surviving `mrn`; idempotent."""
        body = {"SiteID": site, "PatientMRN": mrn, "PriorPatientMRN": prior_mrn}
        await self._transport.call("POST", "/api/patient/merge", site, ignore_body, body=body)

    async def undo_merge(self, site: str, mrn: str, prior_mrn: str) -> None:
        """Let `prior_mrn` lead to `mrn` no longer; reports do not move; idempotent."""
        body = {"SiteID": site, "PatientMRN": mrn, "PriorPatientMRN": prior_mrn}
        await self._transport.call("POST", "/api/patient/unmerge", site, ignore_body, body=body)

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


def _orders_body(site: str, orders: Sequence[OrderKey]) -> dict[str, Any]:
    return {
        "SiteID": site,
        "clinicalInfo": [{"PatientMRN": each.mrn, "Accession": each.accession} for each in orders],
    }


_ACCOUNTS: Final = "/api/account"
_PROFILE: Final = "/reporting/api/account"
_UNAUTHORIZED: Final = 401


class AdminEndpoints:
    """Endpoints below `/api/admin` and `/api/account`, and the profile of a browser session."""

    def __init__(self, transport: EngineTransport) -> None:
        self._transport = transport

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
        full_path = f"/api/admin{path}"
        return await self._transport.forward(method, full_path, site, body=body, query=query)

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

    async def signed_in_user(
        self, cookies: str, *, unattended: bool = False
    ) -> SignedInUser | None:
        """Return the signed-in user, or None. `unattended` does not prolong the session."""
        try:
            response = await self._transport.get_as_browser(
                _PROFILE, cookies, unattended=unattended
            )
            return signed_in_user(response.json())
        except EngineFailure as failure:
            if failure.status == _UNAUTHORIZED:
                return None
            raise
        except (UnreadableResponse, ValueError, RecursionError):
            raise EngineFailure(_PROFILE, FailureKind.PERMANENT, "unreadable") from None


class EngineClient(ReportEndpoints, BulkEndpoints, AdminEndpoints):
    """The endpoints that the bridge calls, and the transport that they share."""

    def __init__(self, caller: EngineCaller, tokens: AccessTokens | str) -> None:
        """`caller` sends the requests; `tokens` are by site, or one token for all sites."""
        access_tokens = tokens if isinstance(tokens, AccessTokens) else AccessTokens(tokens)
        super().__init__(EngineTransport(caller, access_tokens))

    def token_of(self, site: str) -> str:
        """Return the access token for a site; all launches of a batch use one token."""
        return self.tokens.of(site)

    @property
    def tokens(self) -> AccessTokens:
        return self._transport.tokens
