"""
The runner of background jobs: claims jobs, and works at them in turns, with pauses.

It holds few jobs at a time and gives each a slice of work in turn, so an export of an hour does not
delay a replay. Before each slice it reads whether the job is to stop, and the role of its creator:
a job ends when the role or the permission is gone. Blocking; one thread at a time.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bridge.admin.access import grants
from bridge.admin.background import jobs, pace
from bridge.admin.background.actions import BulkAction
from bridge.admin.background.deep_search import DeepSearch
from bridge.admin.background.exports import Export
from bridge.admin.background.jobs import BackgroundJob, JobKind, JobState, LeaseLost
from bridge.admin.background.work import JobContext, JobWork, log_failure
from bridge.admin.definitions.shadow import ShadowRun
from bridge.admin.examination.job import ExaminationWork
from bridge.admin.lists.definitions import MESSAGES
from bridge.admin.lists.listing import UNLIMITED, Access
from bridge.audit.events import code_of
from bridge.errors import BridgeError
from bridge.store.errors import StoreError

WORKS: Final[Mapping[JobKind, Callable[[JobContext, BackgroundJob], JobWork]]] = {
    **dict.fromkeys(
        (JobKind.REPLAY, JobKind.RETRY, JobKind.SKIP, JobKind.CANCEL, JobKind.ACKNOWLEDGE),
        BulkAction,
    ),
    JobKind.EXPORT: Export,
    JobKind.SEARCH: DeepSearch,
    JobKind.SHADOW: ShadowRun,
    JobKind.EXAMINE: ExaminationWork,
}
"""The kinds that a runner works at."""
AT_ONCE: Final = 4
"""Jobs that one process holds."""
_RENEW_SECONDS: Final = 10.0
_CLAIM_SECONDS: Final = 1.0
_ABANDONED_SECONDS: Final = 15.0


@dataclass(slots=True)
class _Held:
    """A job of this process; `renewed_at` is of the monotonic clock."""

    job: BackgroundJob
    work: JobWork
    renewed_at: float


class BackgroundJobs:
    """Runs the background jobs of a database, in one process of possibly several."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._held: deque[_Held] = deque()
        self._claimed_at = -_CLAIM_SECONDS
        self._abandoned_at = -_ABANDONED_SECONDS
        self._arrivals = pace.Arrivals()

    def step(self) -> float:
        """Work a slice at one job; return the seconds until the next one. Raises StoreError."""
        began = time.monotonic()
        self._claim(began)
        if not self._held:
            return pace.IDLE_PAUSE
        held = self._held.popleft()
        if self._slice(held, began):
            self._held.append(held)
        self._measure_arrivals()
        return pace.OF_JOBS.pause(time.monotonic() - began, self._arrivals)

    def close(self) -> None:
        """Leave the jobs to other processes; what was stored stays."""
        for held in self._held:
            held.work.close()
        self._held.clear()
        jobs.release(self._context.database, self._context.owner)

    def _claim(self, now: float) -> None:
        """Claim a job, if it is time to look for one and this process may hold another."""
        if len(self._held) >= AT_ONCE or now - self._claimed_at < _CLAIM_SECONDS:
            return
        database, moment = self._context.database, self._context.clock()
        if now - self._abandoned_at >= _ABANDONED_SECONDS:
            jobs.stop_abandoned(database, moment)
            self._abandoned_at = now
        ids = [held.job.id for held in self._held]
        job = jobs.claim(database, self._context.owner, list(WORKS), ids, moment)
        if job is None:
            self._claimed_at = now
            return
        try:
            work = make_work(self._context, job)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001  # other jobs continue
            known = isinstance(error, BridgeError)
            if not known:
                log_failure("job failed", job, error)
            result = {"error": code_of(error), "detail": str(error) if known else ""}
            jobs.finish(database, job, self._context.owner, JobState.FAILED, moment, result)
            return
        self._held.append(_Held(job, work, now))

    def _slice(self, held: _Held, began: float) -> bool:
        """Work at a job; False if this process does not hold it any more."""
        is_held = False
        try:
            is_held = self._worked(held, began)
        except LeaseLost:
            is_held = False
        finally:
            if not is_held:
                held.work.close()
        return is_held

    def _worked(self, held: _Held, began: float) -> bool:
        context, job = self._context, held.job
        state = jobs.held_state(context.database, job.id, context.owner)
        if began - held.renewed_at > _RENEW_SECONDS:
            jobs.renew(context.database, job.id, context.owner, context.clock())
            held.renewed_at = began
        if state is JobState.STOPPING:
            finish(context, held.job, held.work, JobState.STOPPED)
            return False
        access = access_of(context, job)
        if access is None:
            finish(context, job, held.work, JobState.FAILED, "not_permitted")
            return False
        return not run_step(context, job, held.work, access, began + pace.SLICE)

    def _measure_arrivals(self) -> None:
        """Measure the rate once a second."""
        now = time.monotonic()
        if now - self._arrivals.measured_at >= 1:
            with self._context.database.read() as connection:
                self._arrivals.measure(MESSAGES.newest_id(connection), now)


def make_work(context: JobContext, job: BackgroundJob) -> JobWork:
    """Return the work of a job, which continues where its stored progress ends."""
    return WORKS[job.kind](context, job)


def access_of(context: JobContext, job: BackgroundJob) -> Access | None:
    """
    Return what the creator of a job may see now, and could see when it was created.

    None if the role or a permission that the job needs is gone. Commands have all permissions.
    """
    if not job.account_id:
        return UNLIMITED
    grant = grants.active_grant_of(context.database, job.account_id)
    if grant is None or not job.permissions <= grant.permissions:
        return None
    now, then = grant.visible_sites, job.sites
    sites = now if then is None else then if now is None else now & then
    return Access(sites, grant.permissions)


def run_step(
    context: JobContext, job: BackgroundJob, work: JobWork, access: Access, until: float
) -> bool:
    """Work until about `until`; end a complete or failed job and return True."""
    try:
        if not work.step(access, until):
            return False
        finish(context, job, work, JobState.DONE)
    except (StoreError, LeaseLost):
        raise
    except BridgeError as failure:
        finish(context, job, work, JobState.FAILED, code_of(failure), str(failure))
    except Exception as error:  # noqa: BLE001  # other jobs continue
        log_failure("job failed", job, error)
        finish(context, job, work, JobState.FAILED, "internal_error")
    return True


def finish(
    context: JobContext,
    job: BackgroundJob,
    work: JobWork,
    state: JobState,
    code: str = "",
    detail: str = "",
) -> None:
    """End a job, with the code of its failure, if any. Raises LeaseLost."""
    result = dict(work.result())
    if code:
        result |= {"error": code, "detail": detail}
    jobs.finish(context.database, job, context.owner, state, context.clock(), result)
