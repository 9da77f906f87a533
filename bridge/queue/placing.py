"""
Put deliveries into the outbox: few statements for many, each database in its own way.

Within the caller's transaction.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from bridge.store.answers import run
from bridge.store.arrays import packed
from bridge.store.steps import is_asked_once


class Place(NamedTuple):
    """A delivery as it is queued; times in ms."""

    destination: str
    lane: int
    report_id: str
    release_key: str
    event: str
    orders: str
    release_at: int
    created_at: int
    control_id: str = ""
    state: str = "queued"
    attempts: int = 0


_COLUMNS: Final = (
    ("destination", "text"),
    ("lane", "bigint"),
    *((name, "text") for name in ("report_id", "release_key", "event", "orders")),
    ("release_at", "bigint"),
    ("created_at", "bigint"),
    *((name, "text") for name in ("control_id", "state")),
    ("attempts", "integer"),
)

_NAMES: Final = ", ".join(name for name, _ in _COLUMNS)
_KNOWN: Final = "ON CONFLICT (destination, release_key) DO NOTHING"

SQLITE_DELIVERY: Final = (
    f"INSERT INTO delivery ({_NAMES}) VALUES ({', '.join('?' for _ in _COLUMNS)}) "  # noqa: S608  # our own names
    f"{_KNOWN} RETURNING id"
)
SQLITE_LANE: Final = "INSERT INTO delivery_lane (lane, delivery_id, claimed) VALUES (?, ?, 0)"
_KINDS: Final = tuple(dict(_COLUMNS).values())
_ARRAYS: Final = ", ".join(f"%b::{kind}[]" for kind in _KINDS)
# The ids are drawn in the order in which the deliveries are given: lanes live by it.
POSTGRES_PLACE: Final = f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest({_ARRAYS}) WITH ORDINALITY AS t ({_NAMES}, place)
    ), numbered AS MATERIALIZED (
        SELECT nextval('delivery_id_seq') AS id, g.*
        FROM (SELECT * FROM given ORDER BY place) AS g
    ), new AS (
        INSERT INTO delivery (id, {_NAMES}) SELECT id, {_NAMES} FROM numbered ORDER BY id
        {_KNOWN} RETURNING id
    ), lanes AS (
        INSERT INTO delivery_lane (lane, delivery_id, claimed)
        SELECT lane, id, 0 FROM numbered JOIN new USING (id)
    )
    SELECT id FROM new
"""  # noqa: S608  # our own names


def place(connection: Connection, deliveries: Sequence[Place]) -> int:
    """Queue deliveries in their order; give how many were not there before."""
    if not deliveries:
        return 0
    if is_asked_once(connection):
        return len(run(connection, POSTGRES_PLACE, packed(_KINDS, deliveries)).all())
    ids = [run(connection, SQLITE_DELIVERY, each).scalar() for each in deliveries]
    lanes = [(each.lane, number) for each, number in zip(deliveries, ids, strict=True) if number]
    if lanes:
        run(connection, SQLITE_LANE, lanes, many=True)
    return len(lanes)
