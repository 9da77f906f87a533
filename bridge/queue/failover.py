"""Failover: requeue the claims of a node whose heartbeat lock is gone.

Whoever holds claims is seen by the others while it lives (`bridge.store.presence`). One that
stays away is dead: what it had claimed is queued again, attempts kept. Blocking: call it from a
thread. On SQLite all processes share a machine, and leases are enough.
"""

import time
from collections.abc import Callable

from sqlalchemy import text

from bridge.queue.inbox import Inbox
from bridge.queue.outbox import Outbox
from bridge.store.database import Database
from bridge.store.presence import without_heartbeat

GRACE_SECONDS = 4.0
"""Longer than it takes a living node to be seen again after its connection was cut."""

_OWNERS = text("""
    SELECT owner FROM message WHERE state = 'claimed'
    UNION SELECT owner FROM delivery WHERE state = 'claimed'
""")


class Failover:
    """Looks after the claims of others."""

    def __init__(
        self,
        database: Database,
        inbox: Inbox,
        outbox: Outbox,
        own: tuple[str, ...],
        *,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """`own` are our own names: whatever the locks say, we live."""
        self._database = database
        self._own = frozenset(own)
        self._queues = (inbox, outbox)
        self._timer = timer
        self._missed: dict[str, float] = {}

    def requeue_claims_of_failed_nodes(self, now: int) -> int:
        """Queue again what the dead had claimed; give how many. `now` is in ms."""
        if self._database.dialect != "postgresql":
            return 0
        return sum(
            queue.requeue_claims(each, now) for each in self._dead() for queue in self._queues
        )

    def _dead(self) -> list[str]:
        with self._database.read() as connection:
            owners = set(connection.execute(_OWNERS).scalars()) - self._own
            gone = without_heartbeat(connection, owners) if owners else set()
        moment = self._timer()
        self._missed = {owner: self._missed.get(owner, moment) for owner in gone}
        return [owner for owner, at in self._missed.items() if moment - at >= GRACE_SECONDS]
