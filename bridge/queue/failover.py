"""
Failover: requeue the claims of nodes that are gone.

Each process that claims work holds a heartbeat lock on the database
(`bridge.store.postgresql.dedicated_connections`). When a lock has been missing for `GRACE_SECONDS`,
its node is considered failed, and its claims are queued again with their attempt count. This is
faster than waiting for the leases to expire.

PostgreSQL only. On SQLite all processes run on one machine, and lease expiry is sufficient.
Blocking: call from a worker thread.
"""

import time
from collections.abc import Callable

from sqlalchemy import text

from bridge.queue.inbox import Inbox
from bridge.queue.outbox import Outbox
from bridge.store.database import Database
from bridge.store.postgresql.dedicated_connections import GRACE_SECONDS, without_heartbeat

_CLAIM_OWNERS = text("""
    SELECT owner FROM message WHERE state = 'claimed'
    UNION SELECT owner FROM delivery WHERE state = 'claimed'
""")


class Failover:
    """Detects failed nodes and requeues what they had claimed."""

    def __init__(
        self,
        database: Database,
        inbox: Inbox,
        outbox: Outbox,
        own_names: tuple[str, ...],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`own_names` are the claim owners of this process; they never count as failed."""
        self._database = database
        self._own_names = frozenset(own_names)
        self._queues = (inbox, outbox)
        self._clock = clock
        self._missing_since: dict[str, float] = {}

    def requeue_claims_of_failed_nodes(self, now: int) -> int:
        """Requeue messages and deliveries of failed nodes; return the number. `now` is in ms."""
        if not self._database.has_heartbeats:
            return 0
        return sum(
            queue.requeue_claims(owner, now)
            for owner in self._failed_owners()
            for queue in self._queues
        )

    def _failed_owners(self) -> list[str]:
        with self._database.read_committed() as connection:
            owners = set(connection.execute(_CLAIM_OWNERS).scalars()) - self._own_names
            missing = without_heartbeat(connection, owners) if owners else set()
        now = self._clock()
        self._missing_since = {owner: self._missing_since.get(owner, now) for owner in missing}
        return [
            owner for owner, since in self._missing_since.items() if now - since >= GRACE_SECONDS
        ]
