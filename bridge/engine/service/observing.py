"""
From which host origins a site's reports were embedded, as browsers named them.

For administrators who set up host origins. Where some are configured, the others were refused by
the browser; where none is, whoever is listed embeds reports.
"""

from typing import Any

from sqlalchemy import func, select
from sqlmodel import Session

from bridge.engine.service.sessions import SESSIONS
from bridge.engine.service.sites import get_site
from bridge.engine.service.watching import moment


def observed_hosts(rows: Session, site_id: str) -> list[dict[str, Any]]:
    """Return {origin, lastSeenAt, configured} of each, the newest first; raise `SiteNotFound`."""
    connection = rows.connection()
    configured = get_site(connection, site_id).host_origins
    host = SESSIONS.c.details["host"].as_string()
    newest = func.max(SESSIONS.c.created_at)
    query = (
        select(host.label("origin"), newest.label("at"))
        .where(SESSIONS.c.site_id == site_id, host.is_not(None), host != "")
        .group_by(host)
        .order_by(newest.desc())
        .limit(100)
    )
    return [
        {
            "origin": row.origin,
            "lastSeenAt": moment(row.at),
            "configured": row.origin in configured,
        }
        for row in connection.execute(query)
    ]
