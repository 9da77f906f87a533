"""
Fail the k-th call on the disk, for every k of a scenario, with each error.

The service runs on the disk of `tests.power`, which fails one call and then works again. After each
fault the service continues, or it is restarted and must start. At the end every acknowledged
message is applied once, every release is delivered, and no database is damaged.
"""

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import httpx

from tests.acceptance.house import House, bridge
from tests.acceptance.wire import Sender, verdict
from tests.eventually import PATIENCE
from tests.history import Event, Kind, violations
from tests.power.drill import Mounted, RecordingReceiver, Run, change_addresses, recording_disk
from tests.sweep.scenarios import SCENARIOS, Observations
from tests.trust import TRUSTED

ERRORS = ("EIO", "ENOSPC", "EINTR", "SHORT")


@dataclass
class Swept:
    """The result of a scenario: faults, restarts, and problems."""

    calls: int = 0
    faults: int = 0
    restarts: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass
class Installation:
    """A running service on a disk that can fail."""

    house: House
    disk: Mounted
    ris: RecordingReceiver

    def processes(self) -> list[int]:
        assert self.house.service is not None
        return self.house.service.processes()

    def revive(self) -> bool:
        """Start the service again unless it is ready; tell whether it had ended."""
        service = self.house.service
        assert service is not None
        if service.process.poll() is None and self._is_ready():
            return False
        self.house.kill()
        self.house.start()
        return True

    def _is_ready(self) -> bool:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                if (
                    httpx.get(f"{self.house.url}/readyz", timeout=5, verify=TRUSTED).status_code
                    == 200
                ):
                    return True
            except httpx.HTTPError:
                pass
            time.sleep(0.05)
        return False


@contextmanager
def installed(folder: Path) -> Iterator[Installation]:
    """Run an installation whose data directory is on a disk that can fail."""
    disk = folder / "disk"
    disk.mkdir()
    with RecordingReceiver() as ris:
        house = House(disk / "home")
        house.destination("ris", ris.sink.port)
        house.make()
        with recording_disk(disk, Path("/dev/null")) as mounted:
            house.home = mounted.path / "home"
            change_addresses(house, ris.sink.port, "")
            ris.run = Run(disk)
            try:
                house.start()
                yield Installation(house, mounted, ris)
            finally:
                mounted.fail(0, "-")
                house.kill()


def sweep_migration(folder: Path, step: int = 1) -> Swept:
    """Fail each call of `bridge migrate` on a new data directory; the next one must succeed."""
    swept, disk = Swept(), folder / "disk"
    disk.mkdir()
    with recording_disk(disk, Path("/dev/null")) as mounted:
        calls, error = 1, 0
        for call in count(0, step):
            if call > calls:
                break
            home = mounted.path / f"home{call}"
            bridge("init", str(home))
            mounted.fail(call, ERRORS[error % len(ERRORS)])
            bridge("migrate", "--home", str(home), expect=None)
            if call == 0:
                calls = mounted.fail(0, "-")
                continue
            mounted.fail(0, "-")
            swept.faults, error = swept.faults + 1, error + 1
            try:
                bridge("migrate", "--home", str(home))
                bridge("site", "add", "SITE1", "--home", str(home))
            except AssertionError as problem:
                swept.wrong.append(f"call {call}: {str(problem)[-800:]}")
            shutil.rmtree(home)
    swept.calls = calls
    return swept


def sweep(installation: Installation, scenario: str, first: int, step: int = 1) -> Swept:
    """Run a scenario once for each call and error; `step` leaves calls out."""
    swept, observed, house = Swept(), Observations(), installation.house
    run_scenario = SCENARIOS[scenario]
    installation.disk.fail(0, "-")
    run_scenario(house, observed, first)
    house.settle()
    swept.calls = installation.disk.fail(0, "-")
    number = first
    for call in range(1, swept.calls + 1, step):
        for error in ERRORS:
            number += 1
            installation.disk.fail(call, error)
            run_scenario(house, observed, number)
            installation.disk.fail(0, "-")
            swept.faults += 1
            try:
                swept.restarts += installation.revive()
            except AssertionError as problem:
                swept.wrong.append(f"{error} at call {call}: {str(problem)[-800:]}")
                return swept
    repeat(house, observed)
    swept.wrong += broken_promises(installation, observed)
    return swept


def repeat(house: House, observed: Observations) -> None:
    """Send unacknowledged messages again, as every sender does."""
    for message in observed.refused:
        with Sender(house.mllp_port) as sender:
            code, _ = verdict(sender.ask(message))
            assert code == "AA", message[:200]


def broken_promises(installation: Installation, observed: Observations) -> list[str]:
    """Wait until all work is done; return the guarantees that were violated."""
    house = installation.house
    released = {(e.order, e.step) for e in observed.events if e.kind is Kind.RELEASED}
    deadline = time.monotonic() + PATIENCE
    assert installation.ris.run is not None
    while time.monotonic() < deadline:
        delivered = [event for _, event in list(installation.ris.run.events)]
        if released <= {(item.order, item.step) for item in delivered}:
            break
        time.sleep(0.1)
    house.settle()
    listed, wrong = [], []
    orders = {event.order for event in observed.events}
    for row in house.worklist():
        for order in row["orders"]:
            accession = order["Accession"]
            step = 2 if order.get("StudyDescription") == "STEP 2" else 1
            if accession in orders:
                listed.append(Event(Kind.LISTED, accession, step))
            if observed.merged.get(accession, order["PatientMRN"]) != order["PatientMRN"]:
                wrong.append(f"{accession} is still of patient {order['PatientMRN']}")
    wrong += damaged_databases(house.home)
    delivered = [item for item in delivered if item.order in orders]
    return wrong + violations([*observed.events, *delivered, *listed])


def damaged_databases(home: Path) -> list[str]:
    """Return a line for each database file of a data directory that is damaged."""
    found = []
    for file in sorted(home.glob("*.db")):
        with closing(sqlite3.connect(file)) as connection:
            (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if result != "ok":
            found.append(f"{file.name} is damaged: {result}")
    return found
