"""
A report without an ORM session: read and locked with one statement, written back with another.

Signing uses it because it is faster. Changes are written only by the statement of
`update_statements`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pydantic_core import to_json
from sqlalchemy import JSON, Connection
from sqlalchemy.orm import class_mapper

from bridge.engine.records.reports import DETACHED
from bridge.engine.records.tables import Report, metadata
from bridge.engine.rules.lifecycle import ReportOrigin, Status
from bridge.engine.rules.order import OrderId
from bridge.engine.service.work import Work
from bridge.store.statements import (
    BoundStatement,
    DialectStatement,
    bind,
    dialect_statement,
    execute,
    stored_json,
)

_TABLE: Final = metadata.tables[str(Report.__tablename__)]
_NAMES: Final = tuple(column.name for column in _TABLE.columns)
_DOCUMENTS: Final = frozenset(c.name for c in _TABLE.columns if isinstance(c.type, JSON))
_ENUMS: Final = {"status": Status, "origin": ReportOrigin}
_READ: Final = f"""
    SELECT {", ".join(f"r.{name}" for name in _NAMES)}
    FROM engine_report AS r JOIN engine_report_order AS o ON o.report_pk = r.pk
    WHERE o.site_id = :site_id AND o.mrn = :mrn AND o.accession = :accession
        AND NOT EXISTS (
            SELECT 1 FROM engine_patient_pointer AS p
            WHERE p.site_id = :site_id AND p.prior_mrn = :mrn
        )
"""  # noqa: S608  # a table's own names
# Looks up and locks in one statement. The caller checks that the order is still the report's.
_LOCKED: Final = DialectStatement(_READ, dialect_statement(f"{_READ} FOR UPDATE OF r").postgres)


@dataclass(frozen=True, slots=True)
class DetachedReport:
    """A locked report, and its values when it was read."""

    report: Report
    before: Mapping[str, Any]

    def update_statements(self, connection: Connection) -> list[BoundStatement]:
        """Return the statement that writes all changed values; empty without changes."""
        now = vars(self.report)
        changed = tuple(name for name in _NAMES if now[name] != self.before[name])
        if not changed:
            return []
        values = {name: _stored(name, now[name]) for name in changed}
        return [bind(connection, _update(changed), pk=self.report.pk, **values)]


def lock_detached(work: Work, identity: OrderId) -> DetachedReport | None:
    """
    Find and lock a report by one of its orders; None if there is none or its patient was merged.

    The order may have moved to another report before the lock was granted. The caller, who reads
    the report's orders next, must check that.
    """
    parameters = {"site_id": identity.site_id, "mrn": identity.mrn, "accession": identity.accession}
    row = execute(work.connection, _LOCKED, **parameters).first()
    if row is None:
        return None
    values = {name: _read(name, value) for name, value in zip(_NAMES, row, strict=True)}
    report: Report = class_mapper(Report).class_manager.new_instance()  # as the ORM makes them
    vars(report).update(values, **{DETACHED: True})
    return DetachedReport(report, values)


def _read(name: str, value: Any) -> Any:
    if name in _DOCUMENTS:
        return stored_json(value)
    return _ENUMS[name](value) if name in _ENUMS else value


def _stored(name: str, value: Any) -> Any:
    if name in _DOCUMENTS and value is not None:
        return to_json(value).decode()
    return value.value if name in _ENUMS else value


@cache
def _update(names: tuple[str, ...]) -> DialectStatement:
    """Build the update of some columns; cached because the same few combinations recur."""
    sets = ", ".join(f"{name} = :{name}" for name in names)
    return dialect_statement(f"UPDATE engine_report SET {sets} WHERE pk = :pk")  # noqa: S608  # a table's own names
