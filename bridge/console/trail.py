"""
What people did in the console: who, when, what, on which row, and whether it went well.

Rows, names, sites and codes, and the reason that a person gave: what was searched for is not kept,
nor what was read. Blocking.
"""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import BigInteger, Text, column, insert, select, table

from bridge.store.database import Database

DONE = "done"
_DEED = table(
    "console_deed",
    *(column(name, BigInteger) for name in ("id", "at")),
    *(column(name, Text) for name in ("email", "action", "subject", "outcome", "site", "reason")),
)
_LAST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Deed:
    """One entry; `subject` is such as `message 17`, `outcome` is `done` or a code."""

    email: str
    action: str
    subject: str = ""
    outcome: str = DONE
    site: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DeedQuery:
    """Which deeds: None leaves a thing open; times in ms, `until` and `before` excluded."""

    sites: Collection[str] | None = None
    email: str | None = None
    action: str | None = None
    subject: str | None = None
    since: int | None = None
    until: int | None = None
    before: int | None = None
    limit: int = 100


def note(database: Database, deed: Deed, now: int) -> None:
    """Keep a deed."""
    row = {name: getattr(deed, name) for name in Deed.__slots__}
    with database.write() as connection:
        connection.execute(insert(_DEED).values(at=now, **row))


def newest(database: Database, wanted: DeedQuery) -> list[dict[str, object]]:
    """List deeds, newest first; times in ms."""
    before = _LAST if wanted.before is None else wanted.before
    statement = select(_DEED).where(_DEED.c.id < before)
    if wanted.sites is not None:
        statement = statement.where(_DEED.c.site.in_(sorted(wanted.sites)))
    for name in ("email", "action", "subject"):
        if (value := getattr(wanted, name)) is not None:
            statement = statement.where(_DEED.c[name] == value)
    if wanted.since is not None:
        statement = statement.where(_DEED.c.at >= wanted.since)
    if wanted.until is not None:
        statement = statement.where(_DEED.c.at < wanted.until)
    with database.read() as connection:
        found = connection.execute(statement.order_by(_DEED.c.id.desc()).limit(wanted.limit))
        return [dict(row) for row in found.mappings()]
