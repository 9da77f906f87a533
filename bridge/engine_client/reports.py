"""
The endpoints about one report: read it, export it, and move it through its states.

Part of `EngineClient`; see there.
"""

from collections.abc import Sequence

from bridge.engine_client.models import Export, OrderKey, PrelimMatch
from bridge.engine_client.replies import export, member, prelim_match
from bridge.engine_client.requests import one_report
from bridge.engine_client.transport import Transport


def _nothing(_: object) -> None:
    """Ignore the body: the document says there is none."""


class Reports:
    """Interface document, Endpoints, from content to unassign."""

    def __init__(self, transport: Transport) -> None:
        """Share one transport."""
        self._transport = transport

    async def content(self, order: OrderKey) -> str:
        """Read the report's plain text."""
        return await self._transport.call(
            "GET", "/api/report/content", order.site, member("content"), query=order.tags()
        )

    async def export_html(self, order: OrderKey, time_zone: str | None = None) -> str:
        """Export a complete HTML document; dates in an IANA zone."""
        body = one_report(order, timeZone=time_zone)
        return await self._transport.call(
            "POST", "/api/report/export/html", order.site, member("html"), body=body
        )

    async def export_json(self, order: OrderKey, *, prelim_until: int | None = None) -> Export:
        """
        Export the JSON record: texts, times and people.

        `prelim_until` (ms) is for our own engine, here and below: the text is that of the latest
        preliminary read by then.
        """
        body = one_report(order, prelimUntil=prelim_until)
        return await self._transport.call(
            "POST", "/api/report/export/json", order.site, export, body=body
        )

    async def export_rtf(
        self,
        order: OrderKey,
        time_zone: str | None = None,
        *,
        content_only: bool = False,
        addenda: int | None = None,
        prelim_until: int | None = None,
    ) -> bytes:
        """Export RTF, as bytes; our own engine shows only the first `addenda` addenda."""
        body = one_report(
            order,
            timeZone=time_zone,
            responseType="arraybuffer",
            contentOnly=content_only or None,
            addenda=addenda,
            prelimUntil=prelim_until,
        )
        response = await self._transport.send(
            "POST", "/api/report/export/rtf", order.site, body=body
        )
        return response.content

    async def export_pdf(
        self,
        order: OrderKey,
        time_zone: str | None = None,
        *,
        addenda: int | None = None,
        prelim_until: int | None = None,
    ) -> bytes:
        """Export PDF with the first `addenda` addenda; an addition of our own engine."""
        body = one_report(order, timeZone=time_zone, addenda=addenda, prelimUntil=prelim_until)
        response = await self._transport.send(
            "POST", "/api/report/export/pdf", order.site, body=body
        )
        return response.content

    async def sign(
        self, order: OrderKey, time_zone: str | None = None, *, ignore_sign_delay: bool = False
    ) -> None:
        """Sign, or end the cooling period of what is signed."""
        await self._act(
            "sign", order, timeZone=time_zone, ignoreSignDelay=ignore_sign_delay or None
        )

    async def unsign(self, order: OrderKey) -> None:
        """Take a signature back within the cooling period."""
        await self._act("unsign", order)

    async def release_addendum(self, order: OrderKey) -> None:
        """Deliver a signed addendum now (`addendum/sign`)."""
        await self._act("addendum/sign", order, ignoreSignDelay=True)

    async def unsign_addendum(self, order: OrderKey) -> None:
        """Take the latest addendum's signature back."""
        await self._act("addendum/unsign", order)

    async def prelim(self, order: OrderKey, group: str, tag: str) -> None:
        """Make a preliminary read."""
        await self._act("prelim", order, prelimGroup=group, prelimTag=tag)

    async def delete(
        self, order: OrderKey, *, only_ordered: bool = False, set_aside: bool = False
    ) -> None:
        """
        Delete an unsigned report.

        With `only_ordered` our own engine refuses (400) what somebody has begun; a service that
        ignores unknown fields deletes it all the same. `set_aside`: the order is not cancelled.
        """
        wishes = {"onlyWhenOrdered": only_ordered, "setAside": set_aside}
        options = {name: True for name, wanted in wishes.items() if wanted}
        await self._act("delete", order, **options)

    async def update_dicom_sr(
        self, order: OrderKey, files: Sequence[str], mode: str | None = None
    ) -> None:
        """Replace (default) or append DICOM SR files, each base64."""
        await self._act(
            "update-dicomsr", order, dicomSR=[{"fileData": each} for each in files], mode=mode
        )

    async def reset_order(self, order: OrderKey) -> None:
        """Empty a Draft that was Ordered, so that it is Ordered again."""
        await self._flat("reset-order", order)

    async def unassign(self, order: OrderKey) -> None:
        """Take a Draft from its owner; the content stays."""
        await self._flat("unassign", order)

    async def prelims(self, site: str, group: str, tag: str) -> PrelimMatch:
        """Find the preliminary read of a group and tag that waits longest."""
        query = {"SiteID": site, "prelimGroup": group, "prelimTag": tag}
        return await self._transport.call(
            "GET", "/api/report/site/prelims", site, prelim_match, query=query
        )

    async def _act(self, action: str, order: OrderKey, **options: object) -> None:
        body = one_report(order, **options)
        await self._transport.call("POST", f"/api/report/{action}", order.site, _nothing, body=body)

    async def _flat(self, action: str, order: OrderKey) -> None:
        await self._transport.call(
            "POST", f"/api/report/{action}", order.site, _nothing, body=order.tags()
        )
