"""
How far the reconcile job is, and what its last whole round said: kept in the database.

So that a restart, or another node, goes on where it was, and people can read what was compared,
what differs, and what was not looked at. No patient data: counts, codes, ids of reports. Blocking.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sqlalchemy import Connection, text

EXAMPLES = 20
NEVER_COMPARED = (
    "names and birth dates; orders that are held, awaited or cancelled here, but for those that "
    "still stand as Ordered there; reports that somebody has begun and nobody here ordered; what "
    "the sender has and never sent"
)

_RUNNING, _LAST, _WISH = "running", "last", "wish"
_READ = text("SELECT said FROM reconcile_round WHERE name = :name")
_WRITE = text("""
    INSERT INTO reconcile_round (name, said) VALUES (:name, :said)
    ON CONFLICT (name) DO UPDATE SET said = :said
""")


@dataclass(slots=True)
class Round:
    """One round over all live orders, then over what stands on the worklist; times in ms."""

    began_at: int
    ended_at: int = 0
    """0: it goes on."""
    after: int = 0
    """The row of the last order that was compared."""
    sites: list[str] = field(default_factory=list)
    """Sites whose worklist is still to be read."""
    site: str = ""
    """The site whose worklist is being read, and from where."""
    cursor: str = ""
    in_worklist: bool = False
    orders: int = 0
    """So many live orders were compared."""
    reports: int = 0
    """So many reports that stand as Ordered were compared."""
    differing: dict[str, int] = field(default_factory=dict)
    """What differs, by its code; `not_ordered SITE` is a report that nobody here ordered."""
    not_ordered: list[str] = field(default_factory=list)
    """Ids of some of the reports that nobody here ordered."""
    not_asked: dict[str, int] = field(default_factory=dict)
    """Orders that the service would not speak of, and sites' worklists, by its code."""
    still_ordered: list[int] = field(default_factory=list)
    """Rows of orders that are not live here, and stand as Ordered there."""
    whole: bool = True
    """Whether every site's worklist could be read."""

    @property
    def is_through(self) -> bool:
        """Whether nothing is left to compare."""
        return self.in_worklist and not self.site and not self.sites

    def count(self, codes: Iterable[str]) -> None:
        """Count what differs."""
        self.differing = dict(Counter(self.differing) + Counter(codes))

    def miss(self, code: str, count: int) -> None:
        """Count what was not looked at."""
        self.not_asked[code] = self.not_asked.get(code, 0) + count


def running(connection: Connection, now: int) -> Round:
    """Read the round that goes on, or begin one: also where a later one is wished for."""
    found, wished = _read(connection, _RUNNING), wish(connection)
    if found is None or found.began_at < wished:
        return Round(began_at=max(now, wished))  # the clock of who wished may be ahead of ours
    return found


def last(connection: Connection) -> Round | None:
    """Read the last whole round; None where there was none yet."""
    return _read(connection, _LAST)


def ask(connection: Connection, now: int) -> None:
    """Wish for a round that begins from now on and goes through without a rest."""
    connection.execute(_WRITE, {"name": _WISH, "said": json.dumps(now)})


def wish(connection: Connection) -> int:
    """Give from when (ms) the round must be that somebody waits for; 0 where nobody does."""
    said = connection.execute(_READ, {"name": _WISH}).scalar()
    done = last(connection) if said is not None else None
    wished = 0 if said is None else int(json.loads(said))
    return 0 if done is not None and done.began_at >= wished else wished


def save(connection: Connection, one: Round, now: int) -> None:
    """Keep how far it is; one that has ended becomes the last, and another begins."""
    if not one.ended_at:
        _put(connection, _RUNNING, one)
        return
    _put(connection, _LAST, one)
    _put(connection, _RUNNING, Round(began_at=now))


def told(one: Round) -> dict[str, Any]:
    """Give what people may want to know of a round."""
    hidden = {"after", "cursor", "sites", "site", "whole", "in_worklist", "still_ordered"}
    return {k: v for k, v in asdict(one).items() if k not in hidden}


def _put(connection: Connection, name: str, one: Round) -> None:
    connection.execute(_WRITE, {"name": name, "said": json.dumps(asdict(one))})


def _read(connection: Connection, name: str) -> Round | None:
    said = connection.execute(_READ, {"name": name}).scalar()
    if said is None:
        return None
    known = {each.name for each in fields(Round)}  # another release's may have others
    found: dict[str, Any] = {k: v for k, v in json.loads(said).items() if k in known}
    return Round(**found)
