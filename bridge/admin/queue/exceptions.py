"""Exceptions and the report of the reconcile job, for commands."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bridge.admin.audit_events import audited
from bridge.audit.events import operator
from bridge.store.records import exceptions, reconcile_rounds
from bridge.store.records.exceptions import ExceptionSubject
from bridge.wiring.stores import bridge_database

_POLL_SECONDS: Final = 0.5
NEVER_COMPARED: Final = reconcile_rounds.NEVER_COMPARED
"""What the reconcile job does not compare."""


def list_exceptions(home: Path, limit: int) -> list[dict[str, Any]]:
    """List the exceptions that are not marked as seen, newest first."""
    with bridge_database(home) as database:
        return [asdict(each) for each in exceptions.list_unseen(database, limit)]


def mark_as_seen(
    home: Path, messages: Sequence[int], orders: Sequence[int], feeds: Sequence[int]
) -> int:
    """
    Mark the exceptions of these rows as seen, all of them if no row is given; audited.

    Return how many were marked.
    """
    chosen = [
        *((ExceptionSubject.MESSAGE, each) for each in messages),
        *((ExceptionSubject.ORDER, each) for each in orders),
        *((ExceptionSubject.FEED, each) for each in feeds),
    ]
    target = ("exceptions", str(len(chosen) or "all"))
    with bridge_database(home) as database, audited(home, database, "mark as seen", target):
        return exceptions.mark_seen(database, chosen or None, _now_ms(), operator())


def reconcile_report(home: Path) -> dict[str, Any]:
    """Return what the last complete round (`last`) and the current one (`running`) compared."""
    with bridge_database(home) as database, database.read() as connection:
        last = reconcile_rounds.last_round(connection)
        running = reconcile_rounds.current_round(connection, 0)
    return {
        "last": None if last is None else reconcile_rounds.round_summary(last),
        "running": reconcile_rounds.round_summary(running),
    }


def reconcile_now(home: Path, timeout: float) -> bool:
    """
    Request a complete round from the running service and wait for it, `timeout` seconds at most.

    Return whether it ended in time. It continues if not.
    """
    with bridge_database(home) as database:
        with database.write() as connection:
            reconcile_rounds.request_round(connection, _now_ms())
        until, waiting = time.monotonic() + timeout, True
        while waiting and time.monotonic() < until:
            time.sleep(min(_POLL_SECONDS, timeout))
            with database.read() as connection:
                waiting = bool(reconcile_rounds.requested_since(connection))
    return not waiting


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
