"""
Earlier reports of the patient, and earlier states of this report.

Earlier reports are signed reports of the same patient on the same site, and reports that were not
made here. Earlier states include the text of that time, so that a page can compare preliminary and
final text.
"""

from typing import Any

from sqlalchemy import ColumnElement
from sqlmodel import col, select

from bridge.contract import SIGNED
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import PrelimRead, Report, ReportOrder, Signature
from bridge.engine.rules.order import AUTO_COMPARED, Study, rank_priors
from bridge.engine.rules.text.document import from_text, to_json
from bridge.engine.service.report_lookup import key_of, lock_report_by_id, orders_of
from bridge.engine.service.report_status import DEFERRED_TEXTS, orders_by_report
from bridge.engine.service.report_transitions import (
    addenda_of,
    document_json,
    prelim_reads,
    signed_addenda,
)
from bridge.engine.service.reports.outside import (
    PREFIX,
    find_outside,
    list_outside,
    read_outside,
    read_pdf,
)
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.work import Work

SHOWN = 50
EXAMINED = 1000
"""
Maximum number of reports that are compared with the current one. Many patients may share a
placeholder identifier.
"""
_TAGS = ("Modality", "BodyPartExamined", "StudyDescription", "StudyDate", "StudyTime")


def list_priors(work: Work, _: Editor, report_id: str) -> list[dict[str, Any]]:
    """
    Return the patient's earlier reports without text, the best for comparison first.

    Outside reports that their sender has withdrawn are last, and are not compared.
    """
    report = lock_report_by_id(work, report_id)
    orders = orders_of(work.session, key_of(report))
    found = _signed(work, report, {order.mrn for order in orders})
    groups = orders_by_report(work.session, [key_of(prior) for prior in found])
    others = [Study(groups[key_of(prior)][0].tags, prior.signed_at or 0) for prior in found]
    summaries = [_summary(prior, groups[key_of(prior)]) for prior in found]
    outside = list_outside(work.session, report, orders)
    usable = [prior for prior in outside if not prior.is_withdrawn]
    others += [prior.study for prior in usable]
    summaries += [prior.summary() for prior in usable]
    best = rank_priors(Study(orders[0].tags), others)[:SHOWN]
    withdrawn = [prior.summary() for prior in outside if prior.is_withdrawn]
    return [
        *({**summaries[at], "compare": rank < AUTO_COMPARED} for rank, at in enumerate(best)),
        *({**summary, "compare": False} for summary in withdrawn[: SHOWN - len(best)]),
    ]


def read_prior(work: Work, _: Editor, report_id: str, prior_id: str) -> dict[str, Any]:
    """Return an earlier report of the same patient with its text; raise `report_not_found`."""
    report = lock_report_by_id(work, report_id)
    orders = orders_of(work.session, key_of(report))
    if prior_id.startswith(PREFIX):
        return read_outside(work.session, find_outside(work.session, report, orders, prior_id))
    mrns = {order.mrn for order in orders}
    prior = next(iter(_signed(work, report, mrns, col(Report.report_id) == prior_id)), None)
    if prior is None:
        raise EngineError(ErrorCode.REPORT_NOT_FOUND)
    return {
        **_summary(prior, orders_of(work.session, key_of(prior))),
        "document": document_json(prior),
        "addenda": [
            {"document": document_json(addendum), "signedAt": addendum.signed_at}
            for addendum in signed_addenda(addenda_of(work, prior))
        ],
    }


def read_prior_pdf(
    work: Work, _: Editor, report_id: str, prior_id: str, version: int, number: int
) -> bytes:
    """Return a PDF file of a version of an outside report; raise `report_not_found`."""
    report = lock_report_by_id(work, report_id)
    orders = orders_of(work.session, key_of(report))
    return read_pdf(
        work.session, find_outside(work.session, report, orders, prior_id), version, number
    )


def _signed(
    work: Work, report: Report, mrns: set[str], *conditions: ColumnElement[bool]
) -> list[Report]:
    """Return the newest signed reports, oldest first; their texts are loaded on access."""
    same_patient = select(ReportOrder.report_pk).where(
        ReportOrder.site_id == report.site_id, col(ReportOrder.mrn).in_(mrns)
    )
    query = select(Report).where(
        col(Report.pk).in_(same_patient),
        col(Report.pk) != key_of(report),
        col(Report.status).in_(SIGNED),
        *conditions,
    )
    newest = query.options(*DEFERRED_TEXTS).order_by(col(Report.pk).desc()).limit(EXAMINED)
    return list(work.session.exec(newest))[::-1]


def _summary(report: Report, orders: list[ReportOrder]) -> dict[str, Any]:
    tags = orders[0].tags if orders else {}
    return {
        "reportId": report.report_id,
        "status": report.status.value,
        "accessions": [order.accession for order in orders],
        "signedAt": report.signed_at,
        "signedBy": (report.signed_by or {}).get("name", ""),
        "date": Study(tags).day,
        "outside": None,
        **{name: tags.get(name, "") for name in _TAGS},
    }


def read_history(work: Work, _: Editor, report_id: str) -> dict[str, Any]:
    """Return `{prelims, signings}`, oldest first; withdrawn ones are marked."""
    report = lock_report_by_id(work, report_id)
    signings = work.session.exec(
        select(Signature)
        .where(Signature.report_pk == key_of(report))
        .order_by(col(Signature.signed_at), col(Signature.pk))
    )
    return {
        "prelims": [_prelim(read) for read in prelim_reads(work, report)],
        "signings": [_signing(signing) for signing in signings],
    }


def _prelim(read: PrelimRead) -> dict[str, Any]:
    return {
        "group": read.group_name,
        "tag": read.tag_name,
        "at": read.read_at,
        "by": _name(read.read_by),
        "reviewedAt": read.reviewed_at,
        "reviewedBy": _name(read.reviewed_by),
        "withdrawn": read.withdrawn_at is not None,
        "document": _document(read),
    }


def _signing(signature: Signature) -> dict[str, Any]:
    return {
        "at": signature.signed_at,
        "by": _name(signature.signed_by),
        "withdrawn": signature.withdrawn_at is not None,
        "document": _document(signature),
    }


def _name(person: dict[str, Any] | None) -> str:
    return "" if not person else str(person.get("name") or person.get("email", ""))


def _document(row: PrelimRead | Signature) -> dict[str, Any]:
    return row.document if row.document is not None else to_json(from_text(row.content_text))
