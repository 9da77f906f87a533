"""The list of audit events: the console's, with the pages of the other lists."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from bridge.admin.access.permissions import Permission
from bridge.admin.audit_events import AuditRelay, ConsoleEventQuery
from bridge.admin.errors import InvalidContent
from bridge.admin.lists.csv_lines import MARK, csv_line
from bridge.admin.lists.listing import Access, Filters, ListPage, ListRequest, number_of, text_of

_TEXTS: Final = {"person": "email", "action": "action", "target": "subject"}
_TIMES: Final = ("since", "until")
MAX_EXPORTED: Final = 100_000
"""Events of a table, the newest."""
_EXPORTED_AT_ONCE: Final = 1_000
_COLUMNS: Final = ("id", "time", "person", "action", "target", "outcome", "site", "reason")


def page(relay: AuditRelay, request: ListRequest, access: Access) -> ListPage[dict[str, Any]]:
    """Return events, newest first. Raises InvalidContent, PermissionDenied."""
    access.require(Permission.AUDIT)
    if unknown := request.filters.keys() - _TEXTS.keys() - set(_TIMES):
        raise InvalidContent(f"this list has no filter {min(unknown)[:40]!r}")
    filters = request.filters
    criteria: dict[str, Any] = {
        field: text_of(filters, name) for name, field in _TEXTS.items() if name in filters
    }
    criteria |= {name: number_of(filters, name) for name in _TIMES if name in filters}
    rows = relay.newest(
        ConsoleEventQuery(
            sites=access.sites, before=request.before, limit=request.limit, **criteria
        )
    )
    more = len(rows) == request.limit
    return ListPage(rows, rows[-1]["id"] if more else None, None, complete=not more, sortable=False)


def table(relay: AuditRelay, filters: Filters, access: Access) -> Iterator[str]:
    """
    Yield a table of events (CSV), newest first, page by page.

    Times are in ISO 8601 and UTC. Raises InvalidContent, PermissionDenied.
    """
    request = ListRequest(filters, limit=_EXPORTED_AT_ONCE)
    yield MARK + csv_line(_COLUMNS)
    for _ in range(0, MAX_EXPORTED, _EXPORTED_AT_ONCE):
        found = page(relay, request, access)
        yield "".join(csv_line(_cells(row)) for row in found.rows)
        if found.next is None:
            return
        request = replace(request, before=found.next)


def _cells(row: dict[str, Any]) -> list[str]:
    at = datetime.fromtimestamp(row["at"] / 1000, UTC).isoformat(timespec="milliseconds")
    names = ("email", "action", "subject", "outcome", "site", "reason")
    return [str(row["id"]), at, *(str(row[name]) for name in names)]
