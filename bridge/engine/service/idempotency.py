"""
Idempotency keys: a repeated request gets the response of the first one.

Only successful responses are stored; a refused request can be sent again as a new one. A response
may contain a token or a link, and a request a password. Both are therefore stored sealed by the key
ring; `reseal` moves them to a new key.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select, tuple_, update

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.links import Binding, KeyRing, LinkError, Purpose, Sealed, handle_hash
from bridge.engine.records.tables import metadata

REPEATS = metadata.tables["engine_idempotency"]
_SEALED = "sealed"  # placeholder in the digest column: the digest is sealed with the response

KEPT_MS = 24 * 3600 * 1000
"""How long a response is stored."""


@dataclass(frozen=True, slots=True)
class RepeatableRequest:
    """A request with an Idempotency-Key; `digest` is that of its body."""

    key: str
    token_id: int
    route: str
    digest: str

    @property
    def binding(self) -> Binding:
        """The binding of the sealed response."""
        return _binding(self.token_id, self.route, self.key)

    @property
    def name(self) -> str:
        """The name of the lock that serializes concurrent requests with the same key."""
        return f"repeat {self.token_id} {self.route} {self.key}"


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response: its body, None for none, and its header `X-Warnings`, empty for none."""

    body: Any
    warnings: str = ""


def find_response(
    connection: Connection, keys: KeyRing, repeat: RepeatableRequest
) -> StoredResponse | None:
    """Return the stored response of a request, None for a new request; raise `key_reused`."""
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
        stored = json.loads(keys.open(_from_json(row.response), repeat.binding))
    except LinkError:  # the sealing key was removed: the request must not run twice
        raise EngineError(ErrorCode.KEY_REUSED) from None
    if stored["digest"] != repeat.digest:
        raise EngineError(ErrorCode.KEY_REUSED)
    return StoredResponse(stored["body"], stored.get("warnings", ""))


def store_response(
    connection: Connection,
    keys: KeyRing,
    repeat: RepeatableRequest,
    response: StoredResponse,
    now: int,
) -> None:
    members = {"digest": repeat.digest, "body": response.body, "warnings": response.warnings}
    stored = json.dumps(members).encode()
    connection.execute(
        insert(REPEATS).values(
            key=repeat.key,
            token_id=repeat.token_id,
            route=repeat.route,
            request_hash=_SEALED,
            status=200,
            response=_to_json(keys.seal(stored, repeat.binding)),
            at=now,
        )
    )


def seal_unsealed(connection: Connection, keys: KeyRing) -> int:
    """Seal the responses that releases before 2026-11-24 stored in clear; return their number."""
    rows = connection.execute(select(REPEATS).where(REPEATS.c.request_hash != _SEALED)).all()
    for row in rows:
        body = None if row.response is None else row.response["body"]
        stored = json.dumps({"digest": row.request_hash, "body": body}).encode()
        _replace(connection, row, keys.seal(stored, _binding(row.token_id, row.route, row.key)))
    return len(rows)


def reseal(connection: Connection, keys: KeyRing) -> tuple[int, int]:
    """Move responses to the newest key; return the numbers of moved and unreadable ones."""
    moved = unreadable = 0
    for row in connection.execute(select(REPEATS).where(REPEATS.c.request_hash == _SEALED)).all():
        try:
            binding = _binding(row.token_id, row.route, row.key)
            fresh = keys.reseal(_from_json(row.response), binding)
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
    connection.execute(statement.values(request_hash=_SEALED, response=_to_json(sealed)))


def _binding(token_id: int, route: str, key: str) -> Binding:
    return Binding(handle_hash(f"{token_id} {route} {key}"), "", Purpose.REPEAT)


def _to_json(sealed: Sealed) -> dict[str, str]:
    return {"key_id": sealed.key_id, "sealed": base64.b64encode(sealed.data).decode("ascii")}


def _from_json(stored: dict[str, str]) -> Sealed:
    return Sealed(stored["key_id"], base64.b64decode(stored["sealed"]))


def purge_responses(connection: Connection, now: int, limit: int = 1000) -> int:
    """Delete responses older than a day, at most `limit`; return their number."""
    return purge_before(connection, now - KEPT_MS, limit)


def purge_before(connection: Connection, moment: int, limit: int = 1000) -> int:
    """Delete responses older than a moment, at most `limit`; return their number."""
    identity = (REPEATS.c.key, REPEATS.c.token_id, REPEATS.c.route)
    old = select(*identity).where(REPEATS.c.at < moment).limit(limit)
    keys = [tuple(row) for row in connection.execute(old)]
    if keys:
        connection.execute(delete(REPEATS).where(tuple_(*identity).in_(keys)))
    return len(keys)
