"""
Group commit: pieces of work that wait at the same moment share one transaction.

Each stands behind a savepoint of its own, so that one that fails is undone alone. What they
announce is appended once, at the end. Whoever lost a race is told to try again alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from bridge.engine.service.work import Actor, Minutes, Work, events_of, part
from bridge.store.database import Database
from bridge.store.errors import Busy, Conflict, StoreUnavailable

PATIENCE_MS, LITTLE_PATIENCE_MS = 200, 10
"""
How long a shared transaction waits for a lock, at first and after it has waited in vain.

Then the piece that wants the lock goes alone, where it may wait as long as ever.
"""


@dataclass(frozen=True, slots=True)
class Piece:
    """A use case that waits for its transaction: who does it, when, and what."""

    actor: Actor
    now: int
    deed: Callable[[Work], Any]


class TryAlone(Exception):  # noqa: N818  # named for what to do
    """The piece was undone because of others: in a transaction of its own it may succeed."""


def share(database: Database, pieces: Sequence[Piece]) -> tuple[list[Any], frozenset[str]]:
    """
    Carry out pieces in one transaction, in their order; return a result or an error for each.

    And which kinds of events they announced.
    Raise StoreUnavailable when nothing was kept, or nobody knows whether it was.
    """
    try:
        return _in_one(database, pieces)
    except StoreUnavailable as error:
        if not isinstance(error, Busy):
            raise
    except Exception:  # noqa: BLE001, S110  # whose fault it was shows when each goes alone
        pass
    return [TryAlone() for _ in pieces], frozenset()


def _in_one(database: Database, pieces: Sequence[Piece]) -> tuple[list[Any], frozenset[str]]:
    minutes, outcomes = Minutes(), []
    with database.write() as connection:
        database.be_patient(connection, PATIENCE_MS)
        for piece in pieces:
            outcomes.append(outcome := _attempt(database, connection, minutes, piece))
            if isinstance(outcome, TryAlone):
                database.be_patient(connection, LITTLE_PATIENCE_MS)
        database.be_patient(connection, None)
        minutes.append(connection, database)
    return outcomes, events_of(minutes.announced)


def _attempt(database: Database, connection: Connection, minutes: Minutes, piece: Piece) -> Any:
    try:
        with database.savepoint(connection), part(connection, piece.actor, piece.now) as work:
            result = piece.deed(work)
    except (Conflict, Busy):
        return TryAlone()
    except StoreUnavailable:
        raise
    except Exception as error:  # noqa: BLE001  # it is this piece's answer, not its neighbours'
        return error
    minutes.take(work)
    return result
