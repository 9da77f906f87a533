"""
Retention: remove finished messages and deliveries, changes, links, sessions and stored answers.

It keeps queued and parked rows, and changes that the bridge has not read. It always keeps reports,
releases, the audit trail and the marks of deleted reports.
"""

import time
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import text

from bridge import active_settings
from bridge.admin.progress import NOT_SHOWN, Report
from bridge.admin.report_engine import internal_engine
from bridge.audit import outbox
from bridge.audit.events import command_event
from bridge.monitoring.archive import Archive
from bridge.queue.payload_blobs import delete_orphans
from bridge.queue.retention.policy import find_size_cutoff, prune
from bridge.store.database import Database
from bridge.store.databases import bridge_database_of
from bridge.store.records import patient_demographics, visit_transfers
from config import Settings


def prune_home(
    settings: Settings,
    older_than: float | None,
    *,
    max_size: int = 0,
    patience: int = 0,
    archive: Path | None = None,
    report: Report = NOT_SHOWN,
) -> dict[str, int]:
    """
    Remove rows older than `older_than` seconds; return the number of removed rows by kind.

    `older_than` None: remove nothing because of its age.
    `max_size`: also remove the oldest messages and deliveries until the others need at most so many
    bytes; 0: no limit.
    `patience`: milliseconds that old rows may wait for their whole partition (`retention.prune`).
    `archive`: a folder to which removed rows are written first. Raises OSError if this fails.
    """
    now = time.time_ns() // 1_000_000
    before = 0 if older_than is None else now - round(older_than * 1000)
    keep = None if archive is None else Archive(archive, datetime.now(UTC)).add
    prunes_engine = settings.engine.is_internal and older_than is not None
    with bridge_database_of(settings) as bridge:
        too_large_before = find_size_cutoff(bridge, max_size) if max_size else 0
        end = max(before, too_large_before)
        patience = patience if before >= too_large_before else 0
        removing = _Batches("removing messages and deliveries", report)
        found = prune(bridge, end, archive=keep, patience=patience, pause=removing.pause)
        counts = asdict(found)
        delete_orphans(bridge, now)
        patient_demographics.delete_old(bridge, before)
        visit_transfers.delete_old(bridge, before)
        event = command_event("prune", target=("retention", str(end)), after=counts)
        if prunes_engine:
            report("removing changes, sessions and links", 0, 0)
            read_to = _feed_position(bridge)
            if read_to is None and active_settings.current(settings, bridge).destination:
                read_to = 0  # the delivery role has read nothing yet: keep all changes
            counts |= _prune_engine(settings, before, read_to)
            event = command_event(
                "prune",
                target=("retention", str(before)),
                details={"before": before, **counts},
                after=counts,
            )
        with bridge.write() as connection:
            outbox.add(connection, event, time.time_ns() // 1_000_000)
    return counts


class _Batches:
    """Reports the batches of a removal."""

    def __init__(self, step: str, report: Report) -> None:
        self._step, self._report, self._count = step, report, 0

    def pause(self, seconds: float) -> None:
        """Yield to others between two batches."""
        self._count += 1
        self._report(self._step, self._count, 0)
        time.sleep(seconds)


def _feed_position(bridge: Database) -> int | None:
    """Return the lowest cursor of the bridge in the change feed; None before the first read."""
    with bridge.read() as connection:
        found: int | None = connection.execute(
            text("SELECT MIN(cursor) FROM feed_cursor")
        ).scalar_one()
    return found


def _prune_engine(settings: Settings, before: int, read_to: int | None) -> dict[str, int]:
    """Remove rows in small transactions, so that other work is not delayed; return how many."""
    counts: Counter[str] = Counter()
    body = {"before": before, "upTo": read_to}
    with internal_engine(settings) as engine:
        while True:
            removed = engine.call("POST", "operator", "prune", body=body)
            counts.update(removed)
            if not any(removed.values()):
                return dict(counts)
