"""Whose turn it is, where messages of several lanes are about one patient: after a merge.

Lanes keep a patient's messages apart by the identifier that they name, so that two of them may be
in hand at once. Lives on the event loop; holds nothing while it waits.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from bridge.intake.process.addressing import Patient
from bridge.intake.process.jobs import Job


def patients_of(job: Job) -> frozenset[Patient]:
    """Give everybody whom a job is about, survivors in place of who was merged."""
    return frozenset(
        (each.site, mrn) for each in job.events for mrn in (each.mrn, each.prior_mrn) if mrn
    )


def _subjects_of(job: Job) -> frozenset[Patient]:
    """
    Give whom and what a job is about: patients, and accessions whichever patient they are said of.

    A message that names another patient for an order waits for the one that brings the order.
    """
    orders = {(each.site, f"order {each.accession}") for each in job.events if each.accession}
    return patients_of(job) | orders


class Turns:
    """Patients in hand, and who was let go since a batch was begun to be read."""

    def __init__(self) -> None:
        self._held: set[Patient] = set()
        self._let_go: deque[tuple[int, frozenset[Patient]]] = deque()
        self._now = 0
        self._begun: Counter[int] = Counter()
        self._bell = asyncio.Event()

    def begin(self) -> int:
        """Note that a batch is read from now on; give the moment, for `take`."""
        self._begun[self._now] += 1
        return self._now

    def take(self, jobs: Sequence[Job], begun: int) -> tuple[list[Job], list[Job]]:
        """
        Hold the patients of the jobs that can be applied; the others have to be read again.

        Not those, oldest first, about whom another is in hand, or was since they were read.
        """
        stale = frozenset[Patient]().union(*(own for at, own in self._let_go if at > begun))
        busy = self._held | stale
        now: list[Job] = []
        later: list[Job] = []
        for job in sorted(jobs, key=lambda each: each.claimed.message_id):
            own = _subjects_of(job)
            (now if busy.isdisjoint(own) else later).append(job)
            busy |= own
        self._held |= _everybody(now)
        return now, later

    def end(self, jobs: Sequence[Job], begun: int) -> None:
        """Let the patients of jobs go."""
        own = _everybody(jobs)
        self._held -= own
        self._now += 1
        self._let_go.append((self._now, own))
        self._begun[begun] -= 1
        if not self._begun[begun]:
            del self._begun[begun]
        oldest = min(self._begun, default=self._now)
        while self._let_go and self._let_go[0][0] <= oldest:
            self._let_go.popleft()
        self._bell.set()

    async def wait(self, jobs: Sequence[Job]) -> None:
        """Wait until none of the jobs' patients is in hand."""
        own = _everybody(jobs)
        while not self._held.isdisjoint(own):
            self._bell.clear()
            await self._bell.wait()


def _everybody(jobs: Iterable[Job]) -> frozenset[Patient]:
    return frozenset[Patient]().union(*map(_subjects_of, jobs))
