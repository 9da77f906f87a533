"""
Sign a report (interface document, sign): now, or recallable until the cooling period ends.

The moment and the cooling period are the server's. Recalling is `unsign`.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import insert

from bridge.engine.errors import RuleBroken
from bridge.engine.records.tables import Report, ReportOrder, Signature, metadata
from bridge.engine.rules.cooling import cooling_end
from bridge.engine.rules.identity import Triple
from bridge.engine.rules.integrity import fingerprint
from bridge.engine.rules.lifecycle import Event, Fact
from bridge.engine.rules.reasons import Reason
from bridge.engine.rules.status import SIGNED, ReleaseKind
from bridge.engine.service import feed, releases
from bridge.engine.service.around import Around
from bridge.engine.service.finding import key_of, lock_report
from bridge.engine.service.lifecycle import document_json, gather, person, take
from bridge.engine.service.prelim import review
from bridge.engine.service.reading import About
from bridge.engine.service.work import ChangeEvent, Work

_KEPT = insert(metadata.tables[str(Signature.__tablename__)])


def sign(
    work: Work, triple: Triple, *, ignore_delay: bool = False, time_zone: str | None = None
) -> Report:
    """Sign in the name of the report's owner, as the API does; the audit knows who acted."""
    report = lock_report(work, triple).report
    return sign_report(
        work, report, report.owner_id, ignore_delay=ignore_delay, time_zone=time_zone
    )


def sign_report(
    work: Work,
    report: Report,
    signer_id: int | None,
    *,
    ignore_delay: bool = False,
    time_zone: str | None = None,
) -> Report:
    """Sign a locked report, or end the cooling period of one that is signed already."""
    was_signed = report.status in SIGNED
    around = Around.of(work.session, report)
    facts = gather(work, report, ignores_delay=ignore_delay, around=around)
    take(work, report, Event.SIGN, facts=facts)
    if was_signed:
        releases.expedite(work, report)
        return report
    if signer_id is None:
        raise RuleBroken(Reason.NOT_OWNED)
    with work.session.no_autoflush:  # one statement for all that changes of the report
        about = About.of(work.session, report, work.now, around)
        signer = person(work, report.site_id, signer_id)
    _write_signature(work, report, signer_id, signer, about.orders, time_zone)
    if Fact.PRELIM_READ in facts:
        review(work, report, signer_id)
    ends = cooling_end(work.now, around.sign_delay, ignore_delay=ignore_delay)
    report.cooling_until = ends
    feed.announce(work, report, ChangeEvent.REPORT_SIGNED, about=about)
    releases.schedule(work, report, ReleaseKind.FINAL, due_at=ends, about=about)
    return report


def _write_signature(
    work: Work,
    report: Report,
    signer_id: int,
    signer: dict[str, Any],
    orders: Sequence[ReportOrder],
    time_zone: str | None,
) -> None:
    content = document_json(report)
    triples = [Triple(order.site_id, order.mrn, order.accession) for order in orders]
    report.signed_at = work.now
    report.signed_by_id = signer_id
    report.signed_by = signer
    report.signed_zone = time_zone
    report.content_hash = fingerprint(report.report_id, triples, content, signer["email"], work.now)
    report.lease_holder = report.lease_until = None
    work.session.execute(
        _KEPT,
        {
            "report_pk": key_of(report),
            "signed_at": work.now,
            "signed_by": signer,
            "acted_by_id": work.actor.account_id,
            "document": content,
            "content_text": report.content_text,
            "content_hash": report.content_hash,
            "cleared": [],
        },
    )
