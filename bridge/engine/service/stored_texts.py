"""
The limit of texts that are read together: a site's templates, its macros, the states of a report.

Each text has its own limit (`rules.text.document`). Pages and exports read all texts of a kind at
once, and a request of a few bytes can copy a text of megabytes: a preliminary read, a signature.
A signing is never refused at this limit. The number of signatures is limited nevertheless: a report
is signed again only after it was unsigned, and unsigning is refused at the limit.
"""

from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Select,
    Text,
    cast,
    func,
    select,
    union_all,
)

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import Addendum, PrelimRead, Report, Signature, metadata
from bridge.engine.service.report_lookup import key_of
from bridge.engine.service.work import Work

MAX_STORED: Final = 8_000_000
"""Characters, as JSON, above which no further text is stored."""

_ROW: Final = 100
"""Characters that a row counts in addition to its text."""

Condition = ColumnElement[bool]

_TABLES: Final = tuple(
    metadata.tables[str(table.__tablename__)] for table in (Addendum, PrelimRead, Signature)
)


def require_room(connection: Connection, documents: Column[Any], *rows: Condition) -> None:
    """Raise EngineError if the documents of these rows already have MAX_STORED characters."""
    _require_room(connection, _sizes(documents).where(*rows))


def require_room_for_states(work: Work, report: Report) -> None:
    """Raise EngineError if a report's addenda, reads and signatures have MAX_STORED characters."""
    own = (_sizes(table.c.document).where(table.c.report_pk == key_of(report)) for table in _TABLES)
    _require_room(work.connection, *own)


def _sizes(documents: Column[Any]) -> Select[tuple[int]]:
    return select((func.coalesce(func.length(cast(documents, Text)), 0) + _ROW).label("size"))


def _require_room(connection: Connection, *sizes: Select[tuple[int]]) -> None:
    size = union_all(*sizes).subquery().c.size
    if connection.execute(select(func.coalesce(func.sum(size), 0))).scalar_one() >= MAX_STORED:
        raise EngineError(ErrorCode.TOO_MUCH_TEXT)
