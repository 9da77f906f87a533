"""
The limit of texts that are kept together: a site's templates, its macros, the states of a report.

Each text has its own limit (`rules.text.document`). Pages and exports read all texts of a kind at
once, and a request of a few bytes can copy a text of megabytes: a preliminary read, a signature.
"""

from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Connection, Text, cast, func, select

from bridge.engine.errors import RuleBroken
from bridge.engine.records.tables import Addendum, PrelimRead, Report, Signature, metadata
from bridge.engine.rules.lifecycle import Reason
from bridge.engine.service.report_lookup import key_of
from bridge.engine.service.work import Work

MAX_STORED: Final = 8_000_000
"""Characters, as JSON, above which no further text is stored."""

_ROW: Final = 100
"""Characters that a row counts in addition to its text."""

Condition = ColumnElement[bool]

_TABLES: Final = tuple(
    metadata.tables[str(each.__tablename__)] for each in (Addendum, PrelimRead, Signature)
)


def require_room(connection: Connection, documents: Column[Any], *rows: Condition) -> None:
    """Raise RuleBroken if the documents of these rows already have MAX_STORED characters."""
    if _stored(connection, documents, *rows) >= MAX_STORED:
        raise RuleBroken(Reason.TOO_MUCH_TEXT)


def require_room_for_states(work: Work, report: Report) -> None:
    """Raise RuleBroken if addenda, reads and signatures of a locked report have as much text."""
    stored = sum(
        _stored(work.connection, table.c.document, table.c.report_pk == key_of(report))
        for table in _TABLES
    )
    if stored >= MAX_STORED:
        raise RuleBroken(Reason.TOO_MUCH_TEXT)


def _stored(connection: Connection, documents: Column[Any], *rows: Condition) -> int:
    size = func.sum(func.coalesce(func.length(cast(documents, Text)), 0) + _ROW)
    return int(connection.execute(select(func.coalesce(size, 0)).where(*rows)).scalar_one())
