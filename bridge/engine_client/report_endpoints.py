"""
Endpoints for one report: launch, read, export, sign, delete and reset.

Part of `EngineClient`. Members of a request with their default value are left out, because another
service may reject members that it does not know.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bridge.engine_client.errors import EngineFailure, classify, code_of
from bridge.engine_client.models import (
    LaunchRequest,
    LaunchResult,
    OrderKey,
    PrelimMatch,
    ReportExport,
    SessionLink,
    UserInfo,
)
from bridge.engine_client.responses import (
    UnreadableResponse,
    export,
    launched,
    member,
    prelim_match,
    session,
)
from bridge.engine_client.transport import EngineTransport, omit_none
from bridge.errors import FailureKind

LAUNCH = "/api/report/launch/clinical"
BATCH = "/api/report/launch/clinical/batch"


def _nothing(_: object) -> None:
    """Ignore the response body."""


class ReportEndpoints:
    """The endpoints of the interface document from launch to unassign."""

    def __init__(self, transport: EngineTransport) -> None:
        """Use the transport that all endpoints share."""
        self._transport = transport

    async def launch(self, launch: LaunchRequest) -> LaunchResult:
        """Create or open a report; return its link."""
        return await self._transport.call(
            "POST", LAUNCH, launch.site, launched, body=_launch_body(launch)
        )

    async def launch_batch(
        self, launches: Sequence[LaunchRequest]
    ) -> list[LaunchResult | EngineFailure]:
        """
        Launch several reports of one token in one call; return one result for each, in order.

        Raises EngineFailure if the whole call failed (`is_unsupported`: no such endpoint).
        """
        bodies = [_launch_body(each) for each in launches]
        results = await self._transport.call(
            "POST", BATCH, launches[0].site, _batch_results, body=bodies
        )
        if len(results) != len(launches):
            raise EngineFailure(BATCH, FailureKind.AMBIGUOUS, "unreadable")
        return results

    async def create_session(
        self,
        site: str,
        user_name: str,
        user_email: str,
        *,
        location: str | None = None,
        app_language: str | None = None,
        speech_language: str | None = None,
        auth: str | None = None,
    ) -> SessionLink:
        """Create a short-lived link that warms up an embedded session; creates no report."""
        clinical_info = omit_none(
            SiteID=site,
            SiteLocation=location,
            AppLanguage=app_language,
            SpeechLanguage=speech_language,
        )
        user = omit_none(UserName=user_name, UserEmail=user_email, Auth=auth)
        body = {"clinicalInfo": clinical_info, "userInfo": user}
        return await self._transport.call("POST", "/api/report/init", site, session, body=body)

    async def open_link(self, link: str) -> str:
        """Open a report link or session link as a browser does; return the HTML."""
        response = await self._transport.send("GET", link, "")
        return response.text

    async def content(self, order: OrderKey) -> str:
        """Read the report's plain text."""
        return await self._transport.call(
            "GET", "/api/report/content", order.site, member("content"), query=order.tags()
        )

    async def export_html(self, order: OrderKey, time_zone: str | None = None) -> str:
        """Export a complete HTML document; `time_zone` is an IANA name."""
        body = _one_report(order, timeZone=time_zone)
        return await self._transport.call(
            "POST", "/api/report/export/html", order.site, member("html"), body=body
        )

    async def export_json(
        self, order: OrderKey, *, prelim_until: int | None = None
    ) -> ReportExport:
        """
        Export the JSON record: texts, times and persons.

        `prelim_until` (ms), here and below, is an addition of our engine: it selects the text of
        the latest preliminary read up to that time.
        """
        body = _one_report(order, prelimUntil=prelim_until)
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
        """Export RTF; our engine includes only the first `addenda` addenda."""
        body = _one_report(
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
        """Export PDF with the first `addenda` addenda; an addition of our engine."""
        body = _one_report(order, timeZone=time_zone, addenda=addenda, prelimUntil=prelim_until)
        response = await self._transport.send(
            "POST", "/api/report/export/pdf", order.site, body=body
        )
        return response.content

    async def sign(
        self, order: OrderKey, time_zone: str | None = None, *, ignore_sign_delay: bool = False
    ) -> None:
        """Sign a report, or end the sign delay of a signed one."""
        await self._act(
            "sign", order, timeZone=time_zone, ignoreSignDelay=ignore_sign_delay or None
        )

    async def unsign(self, order: OrderKey) -> None:
        """Recall a signature within the sign delay."""
        await self._act("unsign", order)

    async def release_addendum(self, order: OrderKey) -> None:
        """End the sign delay of a signed addendum (`addendum/sign`)."""
        await self._act("addendum/sign", order, ignoreSignDelay=True)

    async def unsign_addendum(self, order: OrderKey) -> None:
        """Recall the signature of the latest addendum."""
        await self._act("addendum/unsign", order)

    async def prelim(self, order: OrderKey, group: str, tag: str) -> None:
        """Save a preliminary read."""
        await self._act("prelim", order, prelimGroup=group, prelimTag=tag)

    async def delete(
        self, order: OrderKey, *, only_ordered: bool = False, set_aside: bool = False
    ) -> None:
        """
        Delete an unsigned report.

        With `only_ordered` our engine refuses (400) to delete a report in progress; another
        service may ignore the field. `set_aside`: the order is not cancelled.
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
        """Clear a Draft that was Ordered, so that it is Ordered again."""
        await self._flat("reset-order", order)

    async def unassign(self, order: OrderKey) -> None:
        """Remove the owner of a Draft; keep its content."""
        await self._flat("unassign", order)

    async def prelims(self, site: str, group: str, tag: str) -> PrelimMatch:
        """Find the longest-waiting preliminary read of a group and tag."""
        query = {"SiteID": site, "prelimGroup": group, "prelimTag": tag}
        return await self._transport.call(
            "GET", "/api/report/site/prelims", site, prelim_match, query=query
        )

    async def _act(self, action: str, order: OrderKey, **options: object) -> None:
        body = _one_report(order, **options)
        await self._transport.call("POST", f"/api/report/{action}", order.site, _nothing, body=body)

    async def _flat(self, action: str, order: OrderKey) -> None:
        await self._transport.call(
            "POST", f"/api/report/{action}", order.site, _nothing, body=order.tags()
        )


def _launch_body(launch: LaunchRequest) -> dict[str, Any]:
    """Build the body of `POST /api/report/launch/clinical`."""
    body: dict[str, Any] = {
        "clinicalInfo": dict(launch.clinical_info),
        "reportingApp": dict(launch.reporting_app),
        "response": {"type": launch.response_type},
    }
    if launch.qr_code is not None:
        body["response"]["qrCodeOptions"] = {
            "size": launch.qr_code.size,
            "mode": launch.qr_code.mode,
        }
    if launch.user is not None:
        body["userInfo"] = _user(launch.user)
    if launch.dicom_sr:
        body["dicomSR"] = [{"fileData": each} for each in launch.dicom_sr]
    if launch.key_images:
        body["keyImages"] = [
            {"imageData": each.image_data, "contentType": each.content_type}
            | ({"fileName": each.file_name} if each.file_name else {})
            for each in launch.key_images
        ]
    if launch.link_group:
        body["linkGroup"] = launch.link_group
    return body | {
        name: True
        for name, wanted in (
            ("lazyLaunch", launch.lazy),
            ("registerOrder", launch.register_order),
            ("forceUpdatePatientName", launch.force_update_patient_name),
        )
        if wanted
    }


def _user(user: UserInfo) -> dict[str, Any]:
    body: dict[str, Any] = {"UserEmail": user.email, "UserName": user.name}
    if user.auth:
        body["Auth"] = user.auth
    if user.force_ownership_transfer:
        body["forceOwnershipTransfer"] = True
    return body


def _one_report(order: OrderKey, **options: Any) -> dict[str, Any]:
    """Build the body of a single-report endpoint, without options that are None."""
    return {"clinicalInfo": order.tags()} | omit_none(**options)


def _batch_results(value: object) -> list[LaunchResult | EngineFailure]:
    """Read the response to a batch: results of launches and problem bodies, mixed."""
    results = value.get("results") if isinstance(value, Mapping) else value
    if not isinstance(results, list):
        raise UnreadableResponse("results")
    return [_batch_result(each) for each in results]


def _batch_result(value: object) -> LaunchResult | EngineFailure:
    status = value.get("status") if isinstance(value, Mapping) else None
    if isinstance(status, int):
        code = code_of(value, status)
        return EngineFailure(BATCH, classify(status, code), code, status)
    return launched(value)
