"""
Endpoints for one report: launch, read, export and delete.

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
    ReportExport,
)
from bridge.engine_client.responses import (
    UnreadableResponse,
    export,
    ignore_body,
    launch_result,
    text_member,
)
from bridge.engine_client.transport import EngineTransport, omit_none
from bridge.errors import FailureKind

LAUNCH = "/api/report/launch/clinical"
BATCH = "/api/report/launch/clinical/batch"


class ReportEndpoints:
    """The endpoints of the interface reference from launch to delete."""

    def __init__(self, transport: EngineTransport) -> None:
        self._transport = transport

    async def launch(self, launch: LaunchRequest) -> LaunchResult:
        return await self._transport.call(
            "POST", LAUNCH, launch.site, launch_result, body=_launch_body(launch)
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

    async def content(self, order: OrderKey) -> str:
        """Read the report's plain text."""
        return await self._transport.call(
            "GET", "/api/report/content", order.site, text_member("content"), query=order.tags()
        )

    async def export_json(
        self, order: OrderKey, *, prelim_until: int | None = None
    ) -> ReportExport:
        """
        Export the JSON record: texts, times and persons.

        `prelim_until` (ms), here and below, is an addition of our engine: it selects the text of
        the latest preliminary read up to that time.
        """
        body = _report_body(order, prelimUntil=prelim_until)
        return await self._transport.call(
            "POST", "/api/report/export/json", order.site, export, body=body
        )

    async def export_rtf(
        self,
        order: OrderKey,
        time_zone: str | None = None,
        *,
        addenda: int | None = None,
        prelim_until: int | None = None,
    ) -> bytes:
        """Export RTF; our engine includes only the first `addenda` addenda."""
        body = _report_body(
            order,
            timeZone=time_zone,
            responseType="arraybuffer",
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
        body = _report_body(order, timeZone=time_zone, addenda=addenda, prelimUntil=prelim_until)
        response = await self._transport.send(
            "POST", "/api/report/export/pdf", order.site, body=body
        )
        return response.content

    async def delete(
        self, order: OrderKey, *, only_ordered: bool = False, set_aside: bool = False
    ) -> None:
        """
        Delete an unsigned report.

        With `only_ordered` our engine refuses (400) to delete a report in progress; another
        service may ignore the field. `set_aside`: the order is not cancelled.
        """
        flags = {"onlyWhenOrdered": only_ordered, "setAside": set_aside}
        options = {name: True for name, wanted in flags.items() if wanted}
        body = _report_body(order, **options)
        await self._transport.call("POST", "/api/report/delete", order.site, ignore_body, body=body)


def _launch_body(launch: LaunchRequest) -> dict[str, Any]:
    """Build the body of `POST /api/report/launch/clinical`."""
    body: dict[str, Any] = {
        "clinicalInfo": dict(launch.clinical_info),
        "reportingApp": dict(launch.reporting_app),
        "response": {"type": "link"},
    }
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


def _report_body(order: OrderKey, **options: Any) -> dict[str, Any]:
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
    return launch_result(value)
