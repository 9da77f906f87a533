"""
Put deliveries into the outbox: few statements for many, each database in its own way.

Within the caller's transaction. Who may be handed out at once is `outbox`'s to decide.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from bridge.store.answers import Words, run, run_all
from bridge.store.arrays import packed
from bridge.store.steps import is_asked_once


class Place(NamedTuple):
    """
    A delivery as it is written down; times in ms.

    `payload` is None where the message is not composed yet. `owner` is '' for what waits; else
    the delivery is his until `lease_until`.
    """

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
    owner: str | None = None
    lease_until: int | None = None
    edition: str = ""
    payload: bytes | None = None


_COLUMNS: Final = (
    ("destination", "text"),
    ("lane", "bigint"),
    *((name, "text") for name in ("report_id", "release_key", "event", "orders")),
    ("release_at", "bigint"),
    ("created_at", "bigint"),
    *((name, "text") for name in ("control_id", "state")),
    ("attempts", "integer"),
    ("owner", "text"),
    ("lease_until", "bigint"),
)
"""Of the delivery itself; its edition and payload follow."""

_NAMES: Final = ", ".join(name for name, _ in _COLUMNS)
_KNOWN: Final = "ON CONFLICT (destination, release_key) DO NOTHING"

SQLITE_DELIVERY: Final = (
    f"INSERT INTO delivery ({_NAMES}) VALUES ({', '.join('?' for _ in _COLUMNS)}) "  # noqa: S608  # our own names
    f"{_KNOWN} RETURNING id"
)
SQLITE_LANE: Final = "INSERT INTO delivery_lane (lane, delivery_id, claimed) VALUES (?, ?, ?)"
SQLITE_BODY: Final = "INSERT INTO delivery_body (delivery_id, payload, edition) VALUES (?, ?, ?)"
SQLITE_TAKEN: Final = """
    SELECT DISTINCT o.lane FROM json_each(?) AS asked
    CROSS JOIN delivery_lane AS o ON o.lane = asked.value
"""

_KINDS: Final = (*dict(_COLUMNS).values(), "text", "bytea")
_ARRAYS: Final = ", ".join(f"%b::{kind}[]" for kind in _KINDS)
# The ids are drawn in the order in which the deliveries are given: lanes live by it.
POSTGRES_PLACE: Final = f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest({_ARRAYS}) WITH ORDINALITY AS t ({_NAMES}, edition, payload, place)
    ), numbered AS MATERIALIZED (
        SELECT nextval('delivery_id_seq') AS id, g.*
        FROM (SELECT * FROM given ORDER BY place) AS g
    ), new AS (
        INSERT INTO delivery (id, {_NAMES}) SELECT id, {_NAMES} FROM numbered ORDER BY id
        {_KNOWN} RETURNING id
    ), lanes AS (
        INSERT INTO delivery_lane (lane, delivery_id, claimed)
        SELECT lane, id, CASE state WHEN 'claimed' THEN 1 ELSE 0 END
        FROM numbered JOIN new USING (id)
    ), bodies AS (
        INSERT INTO delivery_body (delivery_id, payload, edition)
        SELECT id, payload, edition FROM numbered JOIN new USING (id) WHERE payload IS NOT NULL
    )
    SELECT id, place FROM numbered JOIN new USING (id)
"""  # noqa: S608  # our own names
POSTGRES_TAKEN: Final = """
    SELECT DISTINCT o.lane FROM unnest(%s::bigint[]) AS asked (lane)
    JOIN delivery_lane AS o ON o.lane = asked.lane
"""


def taken(connection: Connection, lanes: Sequence[int], before: Sequence[Words]) -> frozenset[int]:
    """Give the lanes in which something stands that is not finished; what goes `before` is run."""
    if not lanes:
        run_all(connection, before)
        return frozenset()
    if is_asked_once(connection):
        asked = Words(POSTGRES_TAKEN, (list(lanes),))
    else:
        asked = Words(SQLITE_TAKEN, (str(list(lanes)),))
    return frozenset(run_all(connection, [*before, asked])[-1].scalars())


def place(connection: Connection, deliveries: Sequence[Place]) -> list[int | None]:
    """Write deliveries down in their order; give their ids, None where one was there before."""
    if not deliveries:
        return []
    if is_asked_once(connection):
        return _at_once(connection, deliveries)
    return _one_by_one(connection, deliveries)


def _at_once(connection: Connection, deliveries: Sequence[Place]) -> list[int | None]:
    ids: list[int | None] = [None] * len(deliveries)
    for number, place in run(connection, POSTGRES_PLACE, packed(_KINDS, deliveries)):
        ids[place - 1] = number
    return ids


def _one_by_one(connection: Connection, deliveries: Sequence[Place]) -> list[int | None]:
    ids: list[int | None] = [
        run(connection, SQLITE_DELIVERY, each[:-2]).scalar() for each in deliveries
    ]
    new = [(each, number) for each, number in zip(deliveries, ids, strict=True) if number]
    lanes = [(each.lane, number, int(each.owner is not None)) for each, number in new]
    if lanes:
        run(connection, SQLITE_LANE, lanes, many=True)
    bodies = [(number, each.payload, each.edition) for each, number in new if each.payload]
    if bodies:
        run(connection, SQLITE_BODY, bodies, many=True)
    return ids
