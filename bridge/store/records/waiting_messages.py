"""
The messages that wait for an order: by keyed hashes of the numbers that will recognize it.

A message waits from the transaction that stores its outcome on, until an order with one of its
numbers is stored. The keys are those of `bridge.orders.received_objects.order_keys`.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from bridge.store.columns import one_of
from bridge.store.postgresql.connection import lock_key
from bridge.store.tables import WAITING_MESSAGES

_WAITING: Final = WAITING_MESSAGES.c
_BY_KEY: Final = select(_WAITING.message_id).where(one_of(_WAITING.key, "keys"))
_ANY: Final = select(_WAITING.message_id).limit(1)
_DELETE: Final = delete(WAITING_MESSAGES).where(one_of(_WAITING.message_id, "ids"))

_LOCK: Final = lock_key("waiting messages")


def lock(connection: Connection, *, waits: bool) -> None:
    """
    Lock until the end of the transaction, before a message waits or waiting messages are found.

    A transaction that lets a message wait and one that stores its order would each miss what the
    other has not committed yet. SQLite has one writer at a time.
    """
    if connection.dialect.name == "postgresql":
        take = func.pg_advisory_xact_lock if waits else func.pg_advisory_xact_lock_shared
        connection.execute(select(take(_LOCK)))


def add(connection: Connection, waiting: Mapping[int, Iterable[int]]) -> None:
    """Let messages wait for an order with one of these keys."""
    rows = [
        {"key": key, "message_id": message_id}
        for message_id, keys in sorted(waiting.items())
        for key in sorted(set(keys))
    ]
    if rows:
        connection.execute(insert(WAITING_MESSAGES).on_conflict_do_nothing(), rows)


def exist(connection: Connection) -> bool:
    """True if any message waits."""
    return connection.scalar(_ANY) is not None


def find(connection: Connection, keys: Collection[int]) -> list[int]:
    """Return the messages that wait for one of these keys, oldest first."""
    if not keys:
        return []
    return sorted(set(connection.scalars(_BY_KEY, {"keys": sorted(keys)})))


def forget(connection: Connection, message_ids: Collection[int]) -> None:
    """Let messages wait no longer."""
    if message_ids:
        connection.execute(_DELETE, {"ids": sorted(message_ids)})
