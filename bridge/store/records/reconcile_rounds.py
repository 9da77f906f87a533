"""
Rounds of the reconcile job: progress and results, stored in the database.

A restarted process or another node continues the current round. Operators read the last one: what
was compared, what differs, and what was skipped. Contains counts, codes and report ids, and no
patient data. Blocking.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sqlalchemy import Connection, select

from bridge.store.tables import RECONCILE_ROUNDS, upsert

EXAMPLES = 20
"""Maximum number of report ids in `ReconcileRound.not_ordered`."""
NEVER_COMPARED = (
    "names and birth dates; orders that are on hold, awaited or cancelled here, except those that "
    "are still Ordered there; reports in progress without an order here; orders that the sender "
    "never sent"
)

_RUNNING, _LAST, _REQUEST = "running", "last", "wish"  # stored names


@dataclass(slots=True)
class ReconcileRound:
    """One round over all live orders, then over the worklists of all sites; times in ms."""

    began_at: int
    ended_at: int = 0
    """0 while the round is in progress."""
    after: int = 0
    """Row id of the last order that was compared."""
    sites: list[str] = field(default_factory=list)
    """Sites whose worklists are not read yet."""
    site: str = ""
    """The site whose worklist is being read; `cursor` is its next page."""
    cursor: str = ""
    in_worklist: bool = False
    orders: int = 0
    """Number of live orders compared."""
    reports: int = 0
    """Number of reports in status Ordered compared."""
    differing: dict[str, int] = field(default_factory=dict)
    """Differences by code; `not_ordered SITE` counts reports without an order in the bridge."""
    not_ordered: list[str] = field(default_factory=list)
    """Report ids of some reports without an order in the bridge."""
    not_asked: dict[str, int] = field(default_factory=dict)
    """Orders and worklists that the service refused to show, by its error code."""
    still_ordered: list[int] = field(default_factory=list)
    """Row ids of orders that are not live in the bridge, but Ordered in the service."""
    whole: bool = True
    """Whether the worklists of all sites were read."""

    @property
    def is_complete(self) -> bool:
        """Whether everything was compared."""
        return self.in_worklist and not self.site and not self.sites

    def count(self, codes: Iterable[str]) -> None:
        self.differing = dict(Counter(self.differing) + Counter(codes))

    def count_skipped(self, code: str, count: int) -> None:
        """Count orders or worklists that the service refused to show with this error code."""
        self.not_asked[code] = self.not_asked.get(code, 0) + count


def current_round(connection: Connection, now: int) -> ReconcileRound:
    """Read the round in progress, or start one if there is none or a newer one was requested."""
    found, requested = _read(connection, _RUNNING), requested_since(connection)
    if found is None or found.began_at < requested:
        # The clock of the process that requested it may be ahead.
        return ReconcileRound(began_at=max(now, requested))
    return found


def last_round(connection: Connection) -> ReconcileRound | None:
    """Read the last finished round; None if there is none yet."""
    return _read(connection, _LAST)


def request_round(connection: Connection, now: int) -> None:
    """Request a round that starts from now on and runs without pauses."""
    _put(connection, _REQUEST, now)


def requested_since(connection: Connection) -> int:
    """Return the time (ms) of the request for a round that has not finished; 0 if there is none."""
    requested = _body(connection, _REQUEST)
    if requested is None:
        return 0
    done = last_round(connection)
    return 0 if done is not None and done.began_at >= requested else requested


def save_round(connection: Connection, round_: ReconcileRound, now: int) -> None:
    """Store a round; a finished one becomes the last one, and a new one starts."""
    if not round_.ended_at:
        _put(connection, _RUNNING, asdict(round_))
        return
    _put(connection, _LAST, asdict(round_))
    _put(connection, _RUNNING, asdict(ReconcileRound(began_at=now)))


def round_summary(round_: ReconcileRound) -> dict[str, Any]:
    """Return the members of a round that operators see."""
    hidden = {"after", "cursor", "sites", "site", "whole", "in_worklist", "still_ordered"}
    return {k: v for k, v in asdict(round_).items() if k not in hidden}


def _put(connection: Connection, name: str, body: Any) -> None:
    connection.execute(upsert(RECONCILE_ROUNDS), {"name": name, "body": json.dumps(body)})


def _body(connection: Connection, name: str) -> Any:
    stored = connection.scalar(
        select(RECONCILE_ROUNDS.c.body).where(RECONCILE_ROUNDS.c.name == name)
    )
    return None if stored is None else json.loads(stored)


def _read(connection: Connection, name: str) -> ReconcileRound | None:
    stored = _body(connection, name)
    if stored is None:
        return None
    known = {field.name for field in fields(ReconcileRound)}  # other releases may store others
    return ReconcileRound(**{name: value for name, value in stored.items() if name in known})
