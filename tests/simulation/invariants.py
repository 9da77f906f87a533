"""
Invariants of claims, checked after each call of a node to the database.

They read the tables with a connection of their own and use no code of the product.
"""

import sqlite3

from tests.simulation.lock_server import LockServer
from tests.simulation.node import Node
from tests.simulation.storage import Storage
from tests.simulation.world import World

_LEASE_SECONDS = 60.0  # of a cluster, the longest one
_MARGIN_SECONDS = 15.0  # for a call to the database that begins before a lease ends


class Claims:
    """Watches the claims of one queue: `message` or `delivery`."""

    def __init__(
        self, world: World, storage: Storage, table: str, server: LockServer | None
    ) -> None:
        """With `server` a claim ends with its owner's lock, otherwise with its lease."""
        self._server = server
        self._world, self._storage, self._table = world, storage, table
        self._known: dict[int, tuple[str, int]] = {}
        self._unknown_until = 0.0
        lanes = ["lane_1", "lane_2"] if table == "message" else ["lane"]
        claimed = " UNION ALL ".join(
            f"SELECT {lane} AS lane, id FROM {table} "  # noqa: S608  # names of this module
            f"WHERE state = 'claimed' AND {lane} IS NOT NULL"
            for lane in lanes
        )
        self._doubled = f"SELECT lane FROM ({claimed}) GROUP BY lane HAVING count(*) > 1"  # noqa: S608
        self._claimed = f"SELECT id, owner, lease_until FROM {table} WHERE state = 'claimed'"  # noqa: S608
        self._state = f"SELECT state FROM {table} WHERE id = ?"  # noqa: S608
        waiting = " UNION ALL ".join(
            f"SELECT 1 FROM {table} AS c JOIN {table} AS e ON e.id < c.id "  # noqa: S608
            f"AND e.{mine} = c.{theirs} AND e.state = 'queued' WHERE c.id = :id"
            for mine in lanes
            for theirs in lanes
        )
        self._waiting = f"{waiting} LIMIT 1"

    def forget(self, earlier: sqlite3.Connection) -> None:
        """
        Compare the next state with the earlier one that replaces the database.

        A node cannot know that its claims are gone until their leases end.
        """
        rows = earlier.execute(self._claimed).fetchall()
        self._known = {row[0]: (row[1], row[2]) for row in rows}
        self._unknown_until = self._world.now + _LEASE_SECONDS + _MARGIN_SECONDS

    def check(self, node: Node) -> None:
        rows = self._storage.rows
        now, before = self._world.boot_ms(), self._known
        self._known = current = {row[0]: (row[1], row[2]) for row in rows(self._claimed)}
        if current == before:
            return
        for _ in rows(self._doubled):
            self._world.violate(f"two claims in one lane of {self._table}")
        for row_id, (owner, lease_until) in before.items():
            if owner == node.name or current.get(row_id, ("",))[0] == owner:
                continue
            if self._server.is_held(owner) if self._server else lease_until > now:
                self._world.violate(
                    f"{node.name} ended the claim of {owner} on {self._table} {row_id}, "
                    f"which {owner} held"
                )
            state = rows(self._state, row_id)
            if state and state[0][0] not in ("queued", "claimed"):
                self._world.violate(f"{node.name} settled the claim of {owner}")
        for row_id in current.keys() - before.keys():
            self._check_order(row_id)

    def _check_order(self, row_id: int) -> None:
        if self._storage.observer.execute(self._waiting, {"id": row_id}).fetchone():
            self._world.violate(f"{self._table} {row_id} was claimed before an earlier one")

    def check_call(self, name: str, row_id: int) -> None:
        """Check that a node acts only on a row that is claimed by it, or queued."""
        if self._world.now < self._unknown_until:
            return
        sql = f"SELECT state, owner, lease_until FROM {self._table} WHERE id = ?"  # noqa: S608
        for state, owner, _ in self._storage.rows(sql, row_id):
            if (state, owner) != ("claimed", name) and state != "queued":
                self._world.violate(f"{name} acts on {self._table} {row_id}: {state} by {owner}")
