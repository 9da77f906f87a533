"""kill -9 at any moment: acknowledged orders exist exactly once, and signed reports arrive."""

import random
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from typing_extensions import override

from tests.acceptance.house import House
from tests.acceptance.observations import delivered, listed, release
from tests.acceptance.orders import order
from tests.acceptance.radiologist import addendum
from tests.acceptance.wire import Sender, Sink, control_id, sink, verdict
from tests.eventually import eventually
from tests.history import Event, Kind, violations

PATIENTS = {"sqlite": 500, "postgresql": 100}
ORDERS_EACH = 6
CONNECTIONS = 10
KILLS = 4
STEPS = {"NW": 1, "XO": 3, "CA": 6}
"""Each order is new; every third is changed, and half of those are cancelled afterwards."""


@pytest.fixture
def house(database_url: str, tmp_path: Path) -> Iterator[House]:
    """An installation on each database, not started yet."""
    url = "" if database_url.startswith("sqlite") else database_url
    house = House(tmp_path / "home", database=url)
    yield house
    house.kill()


def course(patient: int) -> list[tuple[str, bytes]]:
    messages = []
    for control, every in STEPS.items():
        for place in range(0, ORDERS_EACH, every):
            number = patient * ORDERS_EACH + place
            name = f"K{number}-{control}"
            messages.append(
                (name, order(number, mrn=f"M{patient}", control=control, title=control, msh10=name))
            )
    return messages


def expected(patients: int) -> list[tuple[str, str, str]]:
    """The final worklist: MRN, accession, the order's last state."""
    return sorted(
        (f"M{number // ORDERS_EACH}", f"A{number}", "NW" if number % STEPS["XO"] else "XO")
        for number in range(patients * ORDERS_EACH)
        if number % STEPS["CA"]
    )


class Feed(threading.Thread):
    """A sender that resends each message until it is acknowledged, as an interface engine does."""

    def __init__(self, port: int, patients: range) -> None:
        super().__init__(daemon=True)
        self.port = port
        courses = [course(patient) for patient in patients]
        self.messages = [action for step in zip(*courses, strict=True) for action in step]
        self.acknowledged = 0
        self.events: list[Event] = []

    @override
    def run(self) -> None:
        """Send all messages in order, each until its positive acknowledgment arrives."""
        sender: Sender | None = None
        for name, message in self.messages:
            self._record(Kind.SENT, name)
            while True:
                try:
                    sender = sender or Sender(self.port, timeout=20)
                    if verdict(sender.ask(message)) == ("AA", name):
                        break
                except (OSError, AssertionError):
                    pass
                if sender is not None:
                    sender.close()
                sender = None
                time.sleep(0.05)
            self._record(Kind.ACKNOWLEDGED, name)
            self.acknowledged += 1
        if sender is not None:
            sender.close()

    def _record(self, kind: Kind, name: str) -> None:
        number, control = name.removeprefix("K").split("-")
        step = list(STEPS).index(control)
        self.events.append(Event(kind, f"A{number}", step, removes=control == "CA"))


def broken_promises(house: House, feeds: list[Feed]) -> list[str]:
    steps = {control: step for step, control in enumerate(STEPS)}
    events = [event for feed in feeds for event in feed.events]
    return violations([*events, *listed(house, steps)])


def has_sent(feeds: list[Feed], count: int) -> bool:
    """True if `count` messages of all feeds are acknowledged."""
    return sum(feed.acknowledged for feed in feeds) >= count


@pytest.mark.slow
def test_kill_during_intake(house: House) -> None:
    """
    Kills at random moments: the worklist shows the last state of each order, once.

    3,000 orders on SQLite; 600 on PostgreSQL, on which `test_cluster.py` kills as well.
    """
    patients = PATIENTS["postgresql" if house.database else "sqlite"]
    house.make()
    house.start()
    feeds = [
        Feed(house.mllp_port, range(start, patients, CONNECTIONS)) for start in range(CONNECTIONS)
    ]
    for feed in feeds:
        feed.start()
    total = sum(len(feed.messages) for feed in feeds)
    seed = random.randrange(2**32)
    for moment in sorted(random.Random(seed).sample(range(total), KILLS)):
        eventually(partial(has_sent, feeds, moment))
        house.kill()
        house.start()
    for feed in feeds:
        feed.join()
    house.kill()  # all messages are acknowledged, and many not applied yet
    house.start()
    assert [feed.acknowledged for feed in feeds] == [len(feed.messages) for feed in feeds]
    house.settle()
    found = sorted(
        (item["PatientMRN"], item["Accession"], item["StudyDescription"])
        for row in house.worklist()
        for item in row["orders"]
    )

    assert found == expected(patients), f"seed {seed}"
    assert broken_promises(house, feeds) == [], f"seed {seed}"


@pytest.mark.slow
def test_kill_during_delivery(house: House) -> None:
    """Kills between release and ACK: each result arrives at least once, in order, under one id."""
    with sink() as ris:
        house.destination("ris", ris.port)
        house.make()
        house.start()
        for number in range(12):
            house.draft(f"M{number}", f"A{number}", f"Report {number}.")
            house.sign(f"M{number}", f"A{number}")
            addendum(house, f"M{number}", f"A{number}", f"More on {number}.")
            if number % 5 == 2:
                house.kill()
                house.start()
        releases = arrived(ris, 24)

    released = [Event(Kind.RELEASED, f"A{number}", step) for number in range(12) for step in (1, 2)]
    assert violations([*released, *delivered(ris.received)]) == []
    assert len(releases) == 24
    assert all(len(ids) == 1 for ids in releases.values())
    for number in range(12):
        final, amended = (first(ris, f"A{number}", status) for status in "FC")
        assert final < amended


def first(ris: Sink, accession: str, status: str) -> int:
    """The position of a release's first arrival."""
    return [release(message) for message in ris.received].index((accession, status))


def arrived(ris: Sink, count: int) -> dict[tuple[str, str], set[bytes]]:
    """Wait for `count` releases; return their control ids."""
    found: dict[tuple[str, str], set[bytes]] = {}

    def all_arrived() -> bool:
        for message in list(ris.received):
            found.setdefault(release(message), set()).add(control_id(message))
        return len(found) >= count

    eventually(all_arrived)
    return found
