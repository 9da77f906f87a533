"""Idempotency keys: a request that is sent again gets the first response.

Only successes are stored; a refused request may be tried again as if it were new. An answer may
hold a token or a link, and a request a password: both are stored sealed by the key ring, and
`reseal` moves them to a new key.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select, tuple_, update

from bridge.engine.errors import StateConflict
from bridge.engine.links import Binding, KeyRing, LinkError, Purpose, Sealed, handle_hash
from bridge.engine.records.tables import metadata

REPEATS = metadata.tables["engine_idempotency"]
_SEALED = "sealed"  # in the column of the digest, which is sealed too

KEPT_MS = 24 * 3600 * 1000
"""How long an answer is kept."""


class KeyReused(StateConflict):
    """The Idempotency-Key was used for another request."""

    code = "key_reused"
    text = "the Idempotency-Key was used for another request"


@dataclass(frozen=True, slots=True)
class RepeatableRequest:
    """What makes a request the same one: key, token and route; `digest` is of its body."""

    key: str
    token_id: int
    route: str
    digest: str

    @property
    def binding(self) -> Binding:
        """What the sealed answer belongs to."""
        return _binding(self.token_id, self.route, self.key)

    @property
    def name(self) -> str:
        """What those serialize on that bring this key at once: the second finds the answer."""
        return f"repeat {self.token_id} {self.route} {self.key}"


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """A stored answer; `body` is None where there was none."""

    body: Any


def stored_answer(
    connection: Connection, keys: KeyRing, repeat: RepeatableRequest
) -> StoredAnswer | None:
    """Return the answer that this request got before, None if it is new; raise `KeyReused`."""
    row = connection.execute(
        select(REPEATS.c.response).where(
            REPEATS.c.key == repeat.key,
            REPEATS.c.token_id == repeat.token_id,
            REPEATS.c.route == repeat.route,
        )
    ).first()
    if row is None:
        return None
    try:
        kept = json.loads(keys.open(_sealed(row.response), repeat.binding))
    except LinkError:  # its key was dropped: nothing may be done twice
        raise KeyReused from None
    if kept["digest"] != repeat.digest:
        raise KeyReused
    return StoredAnswer(kept["body"])


def store_answer(
    connection: Connection, keys: KeyRing, repeat: RepeatableRequest, body: Any, now: int
) -> None:
    """Keep the answer to a request, in the transaction of what it did."""
    kept = json.dumps({"digest": repeat.digest, "body": body}).encode()
    connection.execute(
        insert(REPEATS).values(
            key=repeat.key,
            token_id=repeat.token_id,
            route=repeat.route,
            request_hash=_SEALED,
            status=200,
            response=_stored(keys.seal(kept, repeat.binding)),
            at=now,
        )
    )


def seal_clear(connection: Connection, keys: KeyRing) -> int:
    """Seal the answers that a release before 2026-11-24 stored in clear; return how many."""
    rows = connection.execute(select(REPEATS).where(REPEATS.c.request_hash != _SEALED)).all()
    for row in rows:
        body = None if row.response is None else row.response["body"]
        kept = json.dumps({"digest": row.request_hash, "body": body}).encode()
        _replace(connection, row, keys.seal(kept, _binding(row.token_id, row.route, row.key)))
    return len(rows)


def reseal(connection: Connection, keys: KeyRing) -> tuple[int, int]:
    """Move all answers to the newest key of the ring; return how many were moved, and not."""
    moved = unreadable = 0
    for row in connection.execute(select(REPEATS).where(REPEATS.c.request_hash == _SEALED)).all():
        try:
            fresh = keys.reseal(_sealed(row.response), _binding(row.token_id, row.route, row.key))
        except LinkError:
            unreadable += 1
            continue
        if fresh is not None:
            _replace(connection, row, fresh)
            moved += 1
    return moved, unreadable


def _replace(connection: Connection, row: Any, sealed: Sealed) -> None:
    statement = update(REPEATS).where(
        REPEATS.c.key == row.key, REPEATS.c.token_id == row.token_id, REPEATS.c.route == row.route
    )
    connection.execute(statement.values(request_hash=_SEALED, response=_stored(sealed)))


def _binding(token_id: int, route: str, key: str) -> Binding:
    return Binding(handle_hash(f"{token_id} {route} {key}"), "", Purpose.REPEAT)


def _stored(sealed: Sealed) -> dict[str, str]:
    return {"key_id": sealed.key_id, "sealed": base64.b64encode(sealed.data).decode("ascii")}


def _sealed(stored: dict[str, str]) -> Sealed:
    return Sealed(stored["key_id"], base64.b64decode(stored["sealed"]))


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
