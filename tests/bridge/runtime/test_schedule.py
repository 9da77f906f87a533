"""Periodic jobs run again after failures, do not overlap, and end with their part."""

import asyncio
import time

from prometheus_client import generate_latest
from structlog.testing import capture_logs

from bridge.metrics import Metrics
from bridge.runtime.schedule import AsyncAction, Job, Run, Schedule, ServicePart, do_nothing
from tests.eventually import PATIENCE

SOON = PATIENCE
OFTEN = 0.01


class Runs:
    def __init__(self) -> None:
        self.count = 0
        self._changed = asyncio.Condition()

    async def one(self) -> None:
        async with self._changed:
            self.count += 1
            self._changed.notify_all()

    async def reached(self, count: int) -> None:
        async with asyncio.timeout(SOON), self._changed:
            await self._changed.wait_for(lambda: self.count >= count)


class Process:
    def __init__(self) -> None:
        self.metrics = Metrics()
        self.schedule = Schedule(self.metrics)

    async def begin(
        self, run: Run, job: Job = Job.CIRCUITS, last: AsyncAction = do_nothing
    ) -> ServicePart:
        step = self.schedule.periodic(job, run, every=OFTEN, last=last)
        await step.start()
        return step

    def metric(self, name: str, job: Job = Job.CIRCUITS) -> float:
        start = f'{name}{{name="{job.label}"}} '
        lines = generate_latest(self.metrics.registry).decode().splitlines()
        return next(float(line.removeprefix(start)) for line in lines if line.startswith(start))


async def test_a_failing_job_runs_again() -> None:
    """Equal failures are logged once, without the text of the error, and so is the recovery."""
    runs = Runs()

    async def fails_three_times() -> None:
        await runs.one()
        if runs.count <= 3:
            raise ValueError("DOE^JANE")

    with capture_logs() as lines:
        process = Process()
        step = await process.begin(fails_three_times)
        await runs.reached(5)
        await step.stop()
        assert process.metric("bridge_job_failures_total") == 3
        assert abs(process.metric("bridge_job_last_run_timestamp_seconds") - time.time()) < 3600
        assert process.metric("bridge_job_last_run_seconds") >= 0

    assert [(line["event"], line["job"]) for line in lines] == [
        ("job failed", "circuits"),
        ("job recovered", "circuits"),
    ]
    assert "DOE" not in str(lines)


async def test_runs_do_not_overlap() -> None:
    """A run longer than its period delays the next one. Other jobs run."""
    slow, fast, release = Runs(), Runs(), asyncio.Event()

    async def waits() -> None:
        await slow.one()
        await release.wait()

    process = Process()
    held = await process.begin(waits)
    other = await process.begin(fast.one, Job.ALERTS)
    await fast.reached(10)
    assert slow.count == 1
    release.set()
    await slow.reached(2)
    await held.stop()
    await other.stop()


async def test_a_stop_ends_the_current_run_first() -> None:
    """The stop waits for the run, then calls `last`, and starts no run after it."""
    runs, release, done = Runs(), asyncio.Event(), []

    async def run() -> None:
        await runs.one()
        await release.wait()
        done.append("run")

    async def last() -> None:
        done.append("last")

    process = Process()
    step = await process.begin(run, last=last)
    await runs.reached(1)
    stopping = asyncio.ensure_future(step.stop())
    asyncio.get_running_loop().call_soon(release.set)
    await stopping
    other = Runs()
    proof = await process.begin(other.one, Job.ALERTS)
    await other.reached(5)
    await proof.stop()

    assert done == ["run", "last"]


async def test_a_stop_cancels_jobs_without_drain() -> None:
    """A job that waits for the network does not delay the stop, and does not count as failed."""
    runs, ended = Runs(), []

    async def run() -> None:
        await runs.one()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    with capture_logs() as lines:
        process = Process()
        step = await process.begin(run, Job.STATUS_POLL)
        await runs.reached(1)
        await asyncio.wait_for(step.stop(), SOON)

    assert ended == ["cancelled"]
    assert lines == []


async def test_a_job_sets_its_next_run() -> None:
    """A run that returns zero is followed by the next one at once."""
    runs = Runs()

    async def run() -> float:
        await runs.one()
        return 0.0

    process = Process()
    step = process.schedule.periodic(Job.NUMBER_INDEX, run, every=3600.0)
    await step.start()
    await runs.reached(3)
    await step.stop()


async def test_last_runs_without_a_start() -> None:
    """`last` closes the resources of a part also if an earlier part failed to start."""
    done = []

    async def last() -> None:
        done.append("last")

    process = Process()
    await process.schedule.periodic(Job.AUDIT_RELAY, do_nothing, last=last).stop()

    assert done == ["last"]
