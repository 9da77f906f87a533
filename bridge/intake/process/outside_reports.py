"""
Outside reports of a message as calls to the report engine, which keeps them as priors.

A message about an order that is not known waits for it: when the order arrives, the message is
applied again, so that the order is reported elsewhere, or the contradiction of the two is shown.
"""

from base64 import b64encode
from typing import Final

from bridge.contract import OutsideStatus
from bridge.contract.requests import OutsideReportBody
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.index_key import signal_hash
from bridge.intake.process.job_context import OUTSIDE_NOT_SUPPORTED, JobContext
from bridge.orders.order import key_of
from mappings.inbound.events import OrderAction, OrderEvent, OutsideReport

STORED: Final = "outside_report_stored"
_TAGS: Final = (
    "PatientName",
    "PatientBirthDate",
    "Modality",
    "BodyPartExamined",
    "StudyDescription",
    "ProcedureCode",
    "StudyDate",
    "StudyTime",
)


async def store_outside_reports(client: EngineClient, context: JobContext) -> None:
    """
    Store the outside reports of a message, also those whose patient is not known.

    Raises EngineFailure. Another report service has no place for them: that is an exception.
    """
    for event in context.job.events:
        if event.action is OrderAction.OUTSIDE_REPORT and not _is_known(event, context):
            named = {event.accession, event.placer, event.filler} - {""}
            context.waits_for |= {signal_hash("accession", number) for number in named}
    sent_at = context.job.source.sent_at
    for event in context.job.events:
        if event.outside is None:
            continue
        context.job.claimed.lease.require()
        body = _body(event, event.outside, None if sent_at is None else sent_at.at)
        try:
            await client.add_outside_report(body)
        except EngineFailure as failure:
            if not failure.is_unsupported:
                raise
            context.notes.append(OUTSIDE_NOT_SUPPORTED)
        else:
            context.notes.append(STORED)


def _is_known(event: OrderEvent, context: JobContext) -> bool:
    order = context.index.get(key_of(event))
    return order is not None and not (order.number_only or order.moved_away)


def _body(event: OrderEvent, report: OutsideReport, sent_at: int | None) -> OutsideReportBody:
    info = event.clinical_info
    return OutsideReportBody.model_construct(
        None,
        SiteID=event.site,
        PatientMRN=str(info.get("PatientMRN") or ""),
        Accession=event.accession,
        **{tag: str(info[tag]) for tag in _TAGS if info.get(tag)},
        sender=report.sender,
        number=report.number,
        parent=report.parent,
        reportStatus=OutsideStatus(report.status),
        statusCode=report.code,
        reportedAt=report.at,
        sentAt=sent_at,
        title=report.title,
        author=report.author,
        text=report.text,
        pdfs=[b64encode(pdf).decode() for pdf in report.pdfs],
        omitted=list(report.omitted),
    )
