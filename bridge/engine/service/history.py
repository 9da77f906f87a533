"""
How a report came to say what it says: its preliminary reads and its recalled signings.

Each with the text as it was then, so that preliminary and final can stand side by side.
"""

from typing import Any

from sqlmodel import col, select

from bridge.engine.records.tables import PrelimRead, Signature
from bridge.engine.rules.document import from_text, to_json
from bridge.engine.service.finding import key_of, lock_report_by_id
from bridge.engine.service.lease import Editor
from bridge.engine.service.lifecycle import prelim_reads
from bridge.engine.service.work import Work


def read_history(work: Work, _: Editor, report_id: str) -> dict[str, Any]:
    """Return `{prelims, signings}`, oldest first; withdrawn ones say so."""
    report = lock_report_by_id(work, report_id)
    signings = work.session.exec(
        select(Signature)
        .where(Signature.report_pk == key_of(report))
        .order_by(col(Signature.signed_at), col(Signature.pk))
    )
    return {
        "prelims": [_prelim(each) for each in prelim_reads(work, report)],
        "signings": [_signing(each) for each in signings],
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
