"""The list of audit events: the console's, with the pages of the other lists."""

from typing import Any, Final

from bridge.admin.access.permissions import Permission
from bridge.admin.audit_events import AuditRelay, ConsoleEventQuery
from bridge.admin.errors import InvalidContent
from bridge.admin.lists.listing import Access, ListPage, ListRequest, number_of, text_of

_TEXTS: Final = {"person": "email", "action": "action", "target": "subject"}
_TIMES: Final = ("since", "until")


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
