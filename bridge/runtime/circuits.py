"""
Note how the destinations of one process are: left alone until when, refusing, last answered.

So that the console, which may be another process, can tell. The database may be away: what has
changed is written down the next time.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from bridge.executors import Threads
from bridge.operations.channels import Circuit, Kind, note_activity, note_circuits
from bridge.store.database import Database

Pulse = tuple[int | None, int, int]


class Beating(Protocol):
    """What has a circuit."""

    @property
    def pulse(self) -> Pulse:
        """Until when it is open (ms); how many were answered; how many refused in a row."""


class Circuits:
    """Writes down what is not as it was. All are closed at the start, or new."""

    def __init__(
        self, database: Database, couriers: Mapping[str, Beating], clock: Callable[[], int]
    ) -> None:
        self._database = database
        self._couriers = couriers
        self._clock = clock
        self._noted: dict[str, Circuit] = {}
        self._replies: dict[str, int] = {}

    async def note(self) -> None:
        """Write down what is not as it was."""
        pulses = {name: courier.pulse for name, courier in self._couriers.items()}
        changed = {
            name: circuit
            for name, (until, _, refused) in pulses.items()
            if self._noted.get(name) != (circuit := Circuit(until, refused))
        }
        now = self._clock()
        active = {
            (Kind.DESTINATION, name): now
            for name, (_, replies, _) in pulses.items()
            if replies > self._replies.get(name, 0)
        }
        self._noted = {name: noted for name, noted in self._noted.items() if name in pulses}
        self._replies = {
            n: r for n, r in self._replies.items() if n in pulses and r <= pulses[n][1]
        }
        if not changed and not active:
            return
        await Threads.LEASES.run(note_circuits, self._database, changed)
        await Threads.LEASES.run(note_activity, self._database, active)
        self._noted |= changed
        self._replies = {name: replies for name, (_, replies, _) in pulses.items()}
