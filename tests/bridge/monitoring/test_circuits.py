"""Circuits of destinations are stored when they change, for the console."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from bridge.delivery.reply_policy import NO_PROBLEM, ReplyProblem
from bridge.metrics import Metrics
from bridge.monitoring.channels import read_channels
from bridge.runtime.delivery import CircuitRecorder
from bridge.runtime.schedule import Job, Schedule
from bridge.store.database import Database
from bridge.store.migration import upgrade
from config.sections import ChannelKind


@dataclass
class CourierState:
    circuit_status: tuple[int | None, int, int, ReplyProblem]


def run_job(circuits: CircuitRecorder, meanwhile: Callable[[], None]) -> None:
    async def run() -> None:
        schedule = Schedule(Metrics())
        step = schedule.periodic(Job.CIRCUITS, circuits.store, last=circuits.store)
        await step.start()
        meanwhile()
        await step.stop()

    asyncio.run(run())


def test_circuits_and_replies_are_stored(database: Database) -> None:
    """The job stores changes and replies. It closes a circuit left open by an earlier run."""
    upgrade(database)
    now = [1000]
    near, far = (
        CourierState((None, 0, 0, NO_PROBLEM)),
        CourierState((9000, 0, 0, ReplyProblem("tls", "the TLS handshake failed"))),
    )
    couriers = {"near": near, "far": far}

    def record_circuits() -> dict[str, tuple[int | None, int | None]]:
        def meanwhile() -> None:
            near.circuit_status = (
                near.circuit_status[0],
                near.circuit_status[1] + 1,
                near.circuit_status[2],
                NO_PROBLEM,
            )

        run_job(CircuitRecorder(database, couriers, lambda: now[0]), meanwhile)  # type: ignore[arg-type]  # its state alone
        found = read_channels(database, ChannelKind.DESTINATION)
        return {name: (found[name].open_until, found[name].active_at) for name in couriers}

    assert record_circuits() == {"near": (None, 1000), "far": (9000, None)}
    stored = read_channels(database, ChannelKind.DESTINATION)["far"]
    assert (stored.problem_code, stored.problem) == ("tls", "the TLS handshake failed")
    far.circuit_status, now[0] = (None, 0, 0, NO_PROBLEM), 2000
    assert record_circuits() == {"near": (None, 2000), "far": (None, None)}


def test_refusals_in_a_row_are_stored(database: Database) -> None:
    """The job stores the time of the first refusal until a message is accepted."""
    upgrade(database)
    courier = CourierState((None, 1, 0, NO_PROBLEM))

    def record_refusals(refused: int) -> int:
        def meanwhile() -> None:
            replies = courier.circuit_status[1] + 1
            courier.circuit_status = (None, replies, refused, NO_PROBLEM)

        run_job(CircuitRecorder(database, {"ris": courier}, lambda: 1000), meanwhile)  # type: ignore[dict-item]  # its state alone
        return read_channels(database, ChannelKind.DESTINATION)["ris"].refused

    assert [record_refusals(1), record_refusals(2), record_refusals(0)] == [1, 2, 0]
