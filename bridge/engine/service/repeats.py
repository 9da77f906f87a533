"""
Requests that are sent again with the same Idempotency-Key: they get the first answer.

Only successes are stored; a refused request may be tried again as if it were new.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select, tuple_

from bridge.engine.errors import StateConflict
from bridge.engine.records.tables import metadata

REPEATS = metadata.tables["engine_idempotency"]
KEPT_MS = 24 * 3600 * 1000
"""How long an answer is kept."""


class KeyReused(StateConflict):
    """The Idempotency-Key was used for another request."""

    code = "key_reused"
    text = "the Idempotency-Key was used for another request"


@dataclass(frozen=True, slots=True)
class Repeat:
    """What makes a request the same one: key, token and route; `digest` is of its body."""

    key: str
    token_id: int
    route: str
    digest: str

    @property
    def name(self) -> str:
        """What those serialize on that bring this key at once: the second finds the answer."""
        return f"repeat {self.token_id} {self.route} {self.key}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A stored answer; `body` is None where there was none."""

    body: Any


def stored_answer(connection: Connection, repeat: Repeat) -> Answer | None:
    """Return the answer that this request got before, None if it is new; raise `KeyReused`."""
    row = connection.execute(
        select(REPEATS.c.request_hash, REPEATS.c.response).where(
            REPEATS.c.key == repeat.key,
            REPEATS.c.token_id == repeat.token_id,
            REPEATS.c.route == repeat.route,
        )
    ).first()
    if row is None:
        return None
    if row.request_hash != repeat.digest:
        raise KeyReused
    return Answer(None if row.response is None else row.response["body"])


def store_answer(connection: Connection, repeat: Repeat, body: Any, now: int) -> None:
    """Keep the answer to a request, in the transaction of what it did."""
    connection.execute(
        insert(REPEATS).values(
            key=repeat.key,
            token_id=repeat.token_id,
            route=repeat.route,
            request_hash=repeat.digest,
            status=200,
            response={"body": body},
            at=now,
        )
    )


def purge_repeats(connection: Connection, now: int, limit: int = 1000) -> int:
    """Forget answers older than a day, at most `limit` of them; return how many."""
    return purge_before(connection, now - KEPT_MS, limit)


def purge_before(connection: Connection, moment: int, limit: int = 1000) -> int:
    """Forget answers older than a moment, at most `limit` of them; return how many."""
    identity = (REPEATS.c.key, REPEATS.c.token_id, REPEATS.c.route)
    old = select(*identity).where(REPEATS.c.at < moment).limit(limit)
    keys = [tuple(row) for row in connection.execute(old)]
    if keys:
        connection.execute(delete(REPEATS).where(tuple_(*identity).in_(keys)))
    return len(keys)
