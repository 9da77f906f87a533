"""How destinations are is written down as it changes, for whichever process shows it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from bridge.metrics import Metrics
from bridge.monitoring.channels import Kind, channels
from bridge.runtime.delivery import Circuits
from bridge.runtime.schedule import Job, Schedule
from bridge.store.database import Database
from bridge.store.migration import upgrade


@dataclass
class Heart:
    """A courier's state."""

    pulse: tuple[int | None, int, int]


def run_job(circuits: Circuits, meanwhile: Callable[[], None]) -> None:
    """Note from a start to a stop, as the service does."""

    async def run() -> None:
        schedule = Schedule(Metrics())
        await schedule.start()
        step = schedule.periodic(Job.CIRCUITS, circuits.note, last=circuits.note)
        await step.start()
        meanwhile()
        await step.stop()
        await schedule.stop()

    asyncio.run(run())


def test_an_open_circuit_and_the_last_reply_are_written_down(database: Database) -> None:
    """Open until when, closed again, answered when; what a former run left is closed at first."""
    upgrade(database)
    now = [1000]
    near, far = Heart((None, 0, 0)), Heart((9000, 0, 0))
    hearts = {"near": near, "far": far}

    def seen() -> dict[str, tuple[int | None, int | None]]:
        def meanwhile() -> None:
            near.pulse = (near.pulse[0], near.pulse[1] + 1, near.pulse[2])

        run_job(Circuits(database, hearts, lambda: now[0]), meanwhile)
        found = channels(database, Kind.DESTINATION)
        return {name: (found[name].open_until, found[name].active_at) for name in hearts}

    assert seen() == {"near": (None, 1000), "far": (9000, None)}
    far.pulse, now[0] = (None, 0, 0), 2000
    assert seen() == {"near": (None, 2000), "far": (None, None)}


def test_refusals_in_a_row_are_noted(database: Database) -> None:
    """From the first one on, and that a message was accepted again."""
    upgrade(database)
    heart = Heart((None, 1, 0))

    def noted(refused: int) -> int:
        def meanwhile() -> None:
            heart.pulse = (None, heart.pulse[1] + 1, refused)

        run_job(Circuits(database, {"ris": heart}, lambda: 1000), meanwhile)
        return channels(database, Kind.DESTINATION)["ris"].refused

    assert [noted(1), noted(2), noted(0)] == [1, 2, 0]
