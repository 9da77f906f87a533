"""
Periodic jobs that serve no listener and no destination: audit relay, index, background jobs,
retention.

Each class runs its job once; `bridge.runtime.schedule` runs it again and again.
"""

import socket
import time
from collections.abc import Callable
from functools import partial

import structlog

from bridge.admin.audit_events import AuditRelay
from bridge.admin.background import pace
from bridge.admin.background.runner import BackgroundJobs
from bridge.admin.background.work import JobContext
from bridge.admin.installation.retention import prune_home
from bridge.admin.lists.deliveries import add_sites
from bridge.admin.messages.message_index import BATCH, MessageIndexer
from bridge.admin.messages.message_replay import MessageSubjects
from bridge.executors import Threads
from bridge.intake.process.scheduled_steps import StoredOrderSteps
from bridge.monitoring.alert_settings import make_alert_monitor, own_files_recorder
from bridge.monitoring.node_files import NodeAddress
from bridge.monitoring.statistics import read_backlogs, roll_up, store_backlogs
from bridge.runtime.context import Process
from bridge.runtime.membership import Membership
from bridge.runtime.schedule import Job, Run, Schedule, ServicePart, now_ms
from bridge.store.database import Database
from bridge.store.postgresql.partitions import create_ahead
from bridge.store.records import background_jobs
from bridge.workers.offload import Offload
from config import Settings

PARTITION_PATIENCE = 86_400_000
"""Milliseconds for which an expired row may wait until its whole partition is dropped."""


def audit_relay(schedule: Schedule, relay: AuditRelay) -> ServicePart:
    """Move audit events from the bridge's outbox to the audit trail; also at the stop."""

    async def move() -> None:
        await Threads.JOBS.run(relay.relay)

    async def end() -> None:
        try:
            await move()
        finally:
            relay.close()

    return schedule.periodic(Job.AUDIT_RELAY, move, last=end)


def background_work(schedule: Schedule, context: JobContext) -> ServicePart:
    """Work at background jobs in slices, with pauses between them."""
    running = BackgroundJobs(context)

    async def step() -> float:
        return await Threads.JOBS.run(running.step)

    async def end() -> None:
        await Threads.JOBS.run(running.close)

    return schedule.periodic(Job.BACKGROUND_JOBS, step, last=end)


class NumberIndex:
    """
    Indexes control ids, patient ids and order numbers for the console, off the ACK path.

    Reads a batch, then pauses; the pause depends on the rate at which messages arrive.
    """

    def __init__(self, database: Database, subjects_of: MessageSubjects, offload: Offload) -> None:
        """Read the numbers of large messages by `offload`."""
        self._indexer = MessageIndexer(
            database, subjects_of, now_ms, offload, subjects_of.absent_tags
        )
        self._arrivals = pace.Arrivals()

    async def step(self) -> float:
        """Index a batch; return the seconds until the next one."""
        return await Threads.JOBS.run(self._batch)

    def _batch(self) -> float:
        began = time.monotonic()
        read = self._indexer.index_batch()
        if read < BATCH:
            read += self._indexer.index_older_batch(BATCH - read)
        now = time.monotonic()
        self._arrivals.measure(self._indexer.newest, now)
        if read < BATCH and not self._arrivals.are_many:
            return pace.IDLE_PAUSE
        return pace.OF_INDEX.pause(now - began, self._arrivals)


def housekeeping(process: Process, membership: Membership) -> list[ServicePart]:
    """
    Return the jobs for a database that several processes share.

    The leader runs the alerts, stores the lengths of the queues, sums up statistics, creates the
    next partition, and runs retention, also of background jobs. Each other process stores the disk
    space and certificates of its node for the leader.
    """
    settings, database, schedule = process.settings, process.database, process.schedule
    every, leads = settings.alerts.every, membership.leads
    address = NodeAddress(process.node, socket.gethostname())
    save = own_files_recorder(settings, database, now_ms, address)
    own_files = schedule.periodic(Job.OWN_FILES, _only_if(lambda: not leads(), save), every=every)
    if not membership.may_lead:
        return [own_files]
    check = make_alert_monitor(settings, database, process.metrics, now_ms, address).check
    parts = [
        own_files,
        schedule.periodic(Job.ALERTS, _only_if(leads, check), every=every),
        schedule.periodic(Job.PARTITIONS, _only_if(leads, partial(create_ahead, database))),
    ]
    queues, sums = partial(_store_backlogs, database), lambda: roll_up(database, now_ms())
    parts.append(schedule.periodic(Job.QUEUE_STATISTICS, _only_if(leads, queues)))
    parts.append(schedule.periodic(Job.STATISTICS_SUMS, _only_if(leads, sums)))
    keep = round(settings.console.keep_exports * 1000)
    tidy = _only_if(leads, lambda: background_jobs.prune(database, now_ms(), keep))
    parts.append(schedule.periodic(Job.OLD_JOBS, tidy))
    steps = StoredOrderSteps(settings, database, now_ms)
    pause = None if settings.dicom.bind is not None else _WORKLIST_OFF
    compute = partial(_compute_steps, steps, leads, pause)
    parts.append(schedule.periodic(Job.SCHEDULED_STEPS, compute))
    parts.append(schedule.periodic(Job.DELIVERY_SITES, partial(_add_sites, database, leads)))
    retention = settings.retention
    if retention.keep or retention.max_size:
        prune = _only_if(leads, partial(_prune, settings))
        parts.append(schedule.periodic(Job.RETENTION, prune, every=retention.every))
    return parts


def _store_backlogs(database: Database) -> None:
    store_backlogs(database, read_backlogs(database), now_ms())


_NEXT_PAGE = 0.05  # seconds


_WORKLIST_OFF = 3600.0


async def _compute_steps(
    steps: StoredOrderSteps, leads: Callable[[], bool], pause: float | None
) -> float | None:
    """
    Compute the steps of stored orders page by page, with pauses for other writers; then take steps
    off the worklist that nobody ended.
    """
    if not leads():
        return None
    if not await Threads.JOBS.run(steps.run):
        return _NEXT_PAGE
    await Threads.JOBS.run(steps.expire)
    return pause


_ALL_HAVE_SITES = 3600.0  # seconds


async def _add_sites(database: Database, leads: Callable[[], bool]) -> float | None:
    """Add the sites of deliveries of earlier releases; seldom, after all have them."""
    if not leads():
        return None
    return None if await Threads.JOBS.run(add_sites, database) else _ALL_HAVE_SITES


def _only_if(condition: Callable[[], bool], work: Callable[[], object]) -> Run:
    """Make a job that runs blocking work on a thread while a condition holds."""

    async def run() -> None:
        if condition():
            await Threads.JOBS.run(work)

    return run


def _prune(settings: Settings) -> None:
    retention = settings.retention
    counts = prune_home(
        settings,
        retention.keep or None,
        max_size=retention.max_size,
        patience=PARTITION_PATIENCE,
        archive=None if retention.archive is None else settings.path(retention.archive),
    )
    structlog.get_logger("operations").info("pruned", count=sum(counts.values()))
