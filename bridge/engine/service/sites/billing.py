"""
Billing codes: a site's code map, and the codes derived from it for a report.

No code table is included (CPT is licensed content): a site without a map gets no codes.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select
from sqlmodel import Session, col
from sqlmodel import select as select_rows

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import Billing, Report, metadata
from bridge.engine.rules.text.billing import MAX_PHRASE, CodeRow, CodeSystem, derive_codes
from bridge.engine.service.report_lookup import key_of, orders_of
from bridge.engine.service.sites.site_settings import lock_site
from bridge.engine.service.work import Work
from parsers.limits import TABLE, DocumentRefused
from parsers.readers import read_csv

CODES = metadata.tables["engine_code_map"]
COLUMNS = ("system", "match", "code", "description")


def read_code_map(text: str) -> list[CodeRow]:
    """Parse `system,match,code,description` rows of a CSV with a header; raise `EngineError`."""
    try:
        lines = read_csv(text.lstrip("\ufeff"), TABLE)
        _, header = next(lines, (1, []))
        missing = set(COLUMNS[:3]) - set(header)
        if missing:
            raise EngineError(
                ErrorCode.BAD_CODE_MAP,
                f"the first line lacks {', '.join(sorted(missing))}",
                pointer="/csv",
            )
        return [_row(line, dict(zip(header, row, strict=False))) for line, row in lines if row]
    except DocumentRefused as refused:
        place = f"line {refused.line}: " if refused.line else ""
        raise EngineError(
            ErrorCode.BAD_CODE_MAP, f"{place}{refused.reason}", pointer="/csv"
        ) from None


def _row(line: int, row: dict[str, str]) -> CodeRow:
    system, match, code = (row.get(name, "").strip() for name in COLUMNS[:3])
    if system.lower() not in set(CodeSystem) or not match or not code:
        raise EngineError(
            ErrorCode.BAD_CODE_MAP,
            f"line {line}: system must be cpt or icd10; match and code are required",
        )
    if len(match) > MAX_PHRASE:
        raise EngineError(
            ErrorCode.BAD_CODE_MAP, f"line {line}: match has more than {MAX_PHRASE} characters"
        )
    return CodeRow(CodeSystem(system.lower()), match, code, row.get("description", "").strip())


def set_code_map(connection: Connection, site_id: str, rows: Sequence[CodeRow]) -> None:
    lock_site(connection, site_id)  # concurrent replacements must not mix their rows
    connection.execute(delete(CODES).where(CODES.c.site_id == site_id))
    if rows:
        connection.execute(
            insert(CODES),
            [
                {
                    "site_id": site_id,
                    "system": row.system,
                    "match": row.match,
                    "code": row.code,
                    "description": row.description,
                }
                for row in rows
            ],
        )


def code_map(connection: Connection, site_id: str) -> list[CodeRow]:
    """Return a site's code map in its original order."""
    query = select(CODES).where(CODES.c.site_id == site_id).order_by(CODES.c.id)
    return [
        CodeRow(CodeSystem(row.system), row.match, row.code, row.description)
        for row in connection.execute(query)
    ]


def generate(work: Work, report: Report) -> dict[str, Any]:
    """Derive the billing codes of a locked report from its site's code map, and store them."""
    orders = [order.tags for order in orders_of(work.session, key_of(report))]
    codes = derive_codes(code_map(work.connection, report.site_id), orders, report.content_text)
    work.session.add(Billing(report_pk=key_of(report), codes=codes, created_at=work.now))
    return codes


def latest(session: Session, report: Report) -> dict[str, Any] | None:
    """Return the billing codes that were generated last, None if there are none."""
    query = select_rows(Billing.codes).where(Billing.report_pk == key_of(report))
    found = session.exec(query.order_by(col(Billing.pk).desc()).limit(1)).first()
    return None if found is None else dict(found)
