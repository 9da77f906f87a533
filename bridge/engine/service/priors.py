"""
The earlier reports of the patient whose report is open, and their texts.

Only signed reports of the same patient on the same site: whoever reads a patient's study reads
what was found before.
"""

from typing import Any

from sqlmodel import col, select

from bridge.engine.errors import ReportNotFound
from bridge.engine.records.tables import Report, ReportOrder
from bridge.engine.rules.priors import COMPARED, Study, ranked
from bridge.engine.rules.status import SIGNED
from bridge.engine.service.finding import group_of, key_of, lock_report_by_id
from bridge.engine.service.lease import Editor
from bridge.engine.service.lifecycle import addenda_of, document_json, signed_addenda
from bridge.engine.service.reading import orders_by_report
from bridge.engine.service.work import Work

SHOWN = 50
_TAGS = ("Modality", "BodyPartExamined", "StudyDescription", "StudyDate", "StudyTime")


def list_priors(work: Work, _: Editor, report_id: str) -> list[dict[str, Any]]:
    """Return the patient's earlier signed reports, the best to compare with first, without text."""
    report = lock_report_by_id(work, report_id)
    orders = group_of(work.session, key_of(report))
    found = _signed(work, report, {order.mrn for order in orders})
    groups = orders_by_report(work.session, [key_of(each) for each in found])
    others = [Study(groups[key_of(each)][0].tags, each.signed_at or 0) for each in found]
    best = ranked(Study(orders[0].tags), others)[:SHOWN]
    return [
        {
            **_summary(found[index], groups[key_of(found[index])]),
            "compare": place < COMPARED,
        }
        for place, index in enumerate(best)
    ]


def read_prior(work: Work, _: Editor, report_id: str, prior_id: str) -> dict[str, Any]:
    """Return an earlier report of the same patient with its text; raise `ReportNotFound`."""
    report = lock_report_by_id(work, report_id)
    mrns = {order.mrn for order in group_of(work.session, key_of(report))}
    prior = next((e for e in _signed(work, report, mrns) if e.report_id == prior_id), None)
    if prior is None:
        raise ReportNotFound
    return {
        **_summary(prior, group_of(work.session, key_of(prior))),
        "document": document_json(prior),
        "addenda": [
            {"document": document_json(each), "signedAt": each.signed_at}
            for each in signed_addenda(addenda_of(work, prior))
        ],
    }


def _signed(work: Work, report: Report, mrns: set[str]) -> list[Report]:
    same_patient = select(ReportOrder.report_pk).where(
        ReportOrder.site_id == report.site_id, col(ReportOrder.mrn).in_(mrns)
    )
    query = select(Report).where(
        col(Report.pk).in_(same_patient),
        col(Report.pk) != key_of(report),
        col(Report.status).in_(SIGNED),
    )
    return list(work.session.exec(query.order_by(col(Report.pk))))


def _summary(report: Report, orders: list[ReportOrder]) -> dict[str, Any]:
    tags = orders[0].tags if orders else {}
    return {
        "reportId": report.report_id,
        "status": report.status.value,
        "accessions": [order.accession for order in orders],
        "signedAt": report.signed_at,
        "signedBy": (report.signed_by or {}).get("name", ""),
        "date": Study(tags).day,
        **{name: tags.get(name, "") for name in _TAGS},
    }
