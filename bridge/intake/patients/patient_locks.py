"""Patient locks: messages of several lanes about one patient are applied one after the other.

Lanes separate messages by the identifier that they name. After a merge, two lanes may have
messages about one patient. Runs on the event loop.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from bridge.intake.process.jobs import MessageJob
from bridge.orders.order import Patient


def patients_of_job(job: MessageJob) -> frozenset[Patient]:
    """Return the patients of a job, survivors in place of merged identifiers."""
    return frozenset(
        (each.site, mrn) for each in job.events for mrn in (each.mrn, each.prior_mrn) if mrn
    )


def _subjects(job: MessageJob) -> frozenset[Patient]:
    """
    Return patients and accessions of a job.

    A message that names another patient for an order waits for the message with the order.
    """
    orders = {(each.site, f"order {each.accession}") for each in job.events if each.accession}
    return patients_of_job(job) | orders


class PatientLocks:
    """The locked patients, and those released while a batch is read."""

    def __init__(self) -> None:
        self._locked: set[Patient] = set()
        self._released: deque[tuple[int, frozenset[Patient]]] = deque()
        self._now = 0
        self._reads: Counter[int] = Counter()
        self._changed = asyncio.Event()

    def begin_read(self) -> int:
        """Record the start of reading a batch; return its logical time for `lock` and `release`."""
        self._reads[self._now] += 1
        return self._now

    def lock(
        self, jobs: Sequence[MessageJob], begun: int
    ) -> tuple[list[MessageJob], list[MessageJob]]:
        """
        Lock the patients of jobs that can be applied; the others must be read again.

        A job must wait, oldest first, if another job of its patients is in progress or has been
        applied since the read began.
        """
        stale = frozenset[Patient]().union(*(own for at, own in self._released if at > begun))
        busy = self._locked | stale
        ready: list[MessageJob] = []
        deferred: list[MessageJob] = []
        for job in sorted(jobs, key=lambda each: each.claimed.message_id):
            own = _subjects(job)
            (ready if busy.isdisjoint(own) else deferred).append(job)
            busy |= own
        self._locked |= _all_subjects(ready)
        return ready, deferred

    def release(self, jobs: Sequence[MessageJob], begun: int) -> None:
        own = _all_subjects(jobs)
        self._locked -= own
        self._now += 1
        self._released.append((self._now, own))
        self._reads[begun] -= 1
        if not self._reads[begun]:
            del self._reads[begun]
        oldest = min(self._reads, default=self._now)
        while self._released and self._released[0][0] <= oldest:
            self._released.popleft()
        self._changed.set()

    async def wait(self, jobs: Sequence[MessageJob]) -> None:
        own = _all_subjects(jobs)
        while not self._locked.isdisjoint(own):
            self._changed.clear()
            await self._changed.wait()


def _all_subjects(jobs: Iterable[MessageJob]) -> frozenset[Patient]:
    return frozenset[Patient]().union(*map(_subjects, jobs))
