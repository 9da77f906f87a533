"""
Endpoints for many reports: status, linking, change feed, patients, worklist, health.

Part of `EngineClient`.
"""

from collections.abc import Sequence
from typing import Any, Final

from bridge.contract import ReportStatus
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import (
    ChangePage,
    OrderKey,
    PatientUpdate,
    ReportExport,
    StatusRecord,
    WorklistPage,
)
from bridge.engine_client.responses import (
    change_page,
    signed_texts,
    status_records,
    worklist_page,
)
from bridge.engine_client.transport import EngineTransport, omit_none
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
            after=after,
            limit=limit,
            wait=wait or None,
            without=list(without) or None,
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
