"""
The endpoints over many reports: status, linking, changes, patients, worklist, health.

Part of `EngineClient`; see there.
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
"""Code of our own: a service gave the record of a signed report without its text."""

_SIGNED: Final = frozenset({ReportStatus.FINAL, ReportStatus.ADDENDUM})


def _nothing(_: object) -> None:
    """Ignore the body."""


class BulkEndpoints:
    """Interface document, status and linking; DESIGN chapter 6 for the rest."""

    def __init__(self, transport: EngineTransport) -> None:
        """Share one transport."""
        self._transport = transport

    async def status(self, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        """Ask for the records of orders that one site's token may see; unknown ones are absent."""
        body = {"clinicalInfo": [each.tags() for each in orders]}
        return await self._transport.call(
            "POST", "/api/report/status", orders[0].site, status_records, body=body
        )

    async def signed_texts(self, orders: Sequence[OrderKey]) -> dict[OrderKey, ReportExport]:
        """
        Read the texts of signed reports, by their orders: an addition of our own engine.

        The orders are of sites with one token. An order is absent where its report is not signed,
        not there, or has another patient by now. Site, tags and preliminary reads of the exports
        are empty. Raises EngineFailure, `no_texts` where the service has none of a signed report.
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
        """Make one report of several orders of a site, the first of them its anchor."""
        return await self._grouping("link-orders", orders)

    async def unlink_orders(self, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        """Take orders of a site out of their groups."""
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
        Read what changed after a cursor, in commit order.

        Waits up to `wait` seconds for something to happen. `site` chooses the token, and
        with it the sites that are seen. Events of `without` need not be told; a service may
        tell them all the same.
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
        """Correct demographics over all reports of a site; idempotent."""
        body = {"SiteID": update.site, "PatientMRN": update.mrn, **update.tags}
        await self._transport.call("POST", "/api/patient/update", update.site, _nothing, body=body)

    async def merge_patients(self, site: str, mrn: str, prior_mrn: str) -> None:
        """Move everything of `prior_mrn` to the survivor `mrn`; idempotent."""
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
        """Ask `/readyz`. Raises EngineFailure when the service is not ready, or is not there."""
        await self._transport.send("GET", "/readyz", "")
        return True

    async def description(self) -> object:
        """Read `/openapi.json`."""
        return await self._transport.call("GET", "/openapi.json", "", lambda value: value)


def _several_orders(site: str, orders: Sequence[OrderKey]) -> dict[str, Any]:
    """Build the body of link-orders and unlink-orders: the site once, the orders in order."""
    return {
        "SiteID": site,
        "clinicalInfo": [{"PatientMRN": each.mrn, "Accession": each.accession} for each in orders],
    }
