"""
Keep groups of arrivals, whatever the database says: the blocking half of the ledger.

A storage failure answers for its batch and leaves nothing open; one arrival that cannot be
stored answers for itself alone. Knows no loop, no thread and no waiting.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bridge.queue.arrivals import Arrival, Receipt
from bridge.queue.hot_path import HOT_PATHS
from bridge.queue.inserts import admit, admit_new
from bridge.queue.payload_blobs import PayloadBlobs
from bridge.store.database import Database
from bridge.store.errors import Conflict, Lost, StatementRefused, StoreError, StoreUnavailable
from bridge.workers.offload import LARGE

_TRIES = 3  # of a batch that lost a race against another node, or its connection

Answer = Sequence[Receipt] | BaseException


@dataclass(slots=True)
class Group:
    """Arrivals that are kept all or none, and who waits for them."""

    arrivals: Sequence[Arrival]
    settle: Callable[[Answer], object]
    size: int


class Keeper:
    """Writes batches, one at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._path = HOT_PATHS[database.dialect]
        self._writer = database.writer(urgent=True)
        self._blobs = PayloadBlobs(database)
        self.commit_took = 0.0
        """Seconds of the last commit."""
        self._in_one_statement = database.dialect == "postgresql"

    def close(self) -> None:
        """Let the database's connection go."""
        self._writer.close()
        self._blobs.close()

    def keep(self, groups: Sequence[Group]) -> Sequence[Answer]:
        """
        Store a batch; whatever goes wrong, nothing of it stays open and everyone is told.

        Gives an answer for each group. Never raises.
        """
        for _ in range(_TRIES):
            try:
                return self.keep_together(groups)
            except (Conflict, Lost):
                continue  # another node stored a copy meanwhile, or we did: now it will be found
            except StoreUnavailable as error:
                return [error] * len(groups)
            except Exception:  # noqa: BLE001  # one of them cannot be stored: find out which
                break
        try:
            return self._keep_apart(groups)
        except Exception as error:  # noqa: BLE001  # the thread must live, and the callers know
            return [_as_store_error(error)] * len(groups)

    def keep_large(self, group: Group) -> Answer:
        """Store one group beside all others: large contents in chunks, then rows. Never raises."""
        try:
            arrivals = [
                self._blobs.store(each) if len(each.payload) >= LARGE else each
                for each in group.arrivals
            ]
        except Exception as error:  # noqa: BLE001  # as above
            return _as_store_error(error)
        (answer,) = self.keep([replace(group, arrivals=arrivals)])
        return answer

    def keep_together(self, groups: Sequence[Group]) -> list[Answer]:
        """Store a batch in one transaction, or nothing of it. Raises what stood in the way."""
        arrivals = [arrival for group in groups for arrival in group.arrivals]
        receipts = self._keep_new(arrivals)
        if not receipts:
            with self._writer.transaction() as cursor:
                receipts = admit(self._path, cursor, arrivals)
                written = time.perf_counter()
            self.commit_took = time.perf_counter() - written
        return answers_of(groups, receipts)

    def _keep_new(self, arrivals: Sequence[Arrival]) -> list[Receipt]:
        """Let a server store what looks new in one statement; nothing where one is not new."""
        if not self._in_one_statement or not _differ(arrivals):
            return []
        began = time.perf_counter()
        with self._writer.single() as cursor:
            receipts = admit_new(cursor, arrivals)
        self.commit_took = time.perf_counter() - began
        return receipts

    def _keep_apart(self, groups: Sequence[Group]) -> list[Answer]:
        with self._database.write() as connection:
            return [self._keep_one(connection, group) for group in groups]

    def _keep_one(self, connection: Any, group: Group) -> Answer:
        try:
            with self._database.savepoint(connection):
                cursor = self._database.driver(connection).cursor()
                return admit(self._path, cursor, group.arrivals)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  # only this one is at fault
            return _as_store_error(error)


def answers_of(groups: Sequence[Group], receipts: Sequence[Receipt]) -> list[Answer]:
    """Give each group the receipts of its arrivals; they are in one order."""
    if len(receipts) == len(groups):  # nearly always: one each
        return [[receipt] for receipt in receipts]
    following = iter(receipts)
    return [[next(following) for _ in group.arrivals] for group in groups]


def _differ(arrivals: Sequence[Arrival]) -> bool:
    """Whether none of a batch can be a copy of another."""
    return len(arrivals) == 1 or len({each.identity for each in arrivals}) == len(arrivals)


def _as_store_error(error: Exception) -> StoreError:
    """Say no more of an unforeseen error than its kind: its words may quote the row."""
    return error if isinstance(error, StoreError) else StatementRefused(type(error).__name__)
