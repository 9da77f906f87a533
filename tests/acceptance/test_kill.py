"""kill -9 at any moment: what was acknowledged exists exactly once, and what was signed arrives."""

import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, Sink, control_id, sink

ORDERS = 600
PATIENTS = 40


class Feed(threading.Thread):
    """One sender that resends what was not acknowledged, as an interface engine does."""

    def __init__(self, port: int, numbers: range) -> None:
        super().__init__(daemon=True)
        self.port, self.numbers = port, numbers
        self.acknowledged: list[int] = []

    def run(self) -> None:
        """Send all, in order, each until its own positive acknowledgment came."""
        sender: Sender | None = None
        for number in self.numbers:
            message = order(number, mrn=f"M{number % PATIENTS}")
            while True:
                try:
                    sender = sender or Sender(self.port, timeout=5)
                    reply = sender.ask(message)
                except OSError:
                    reply = None
                if reply is not None and f"MSA|AA|C{number}\r".encode() in reply.replace(
                    b"|\r", b"\r"
                ):
                    self.acknowledged.append(number)
                    break
                if sender is not None:
                    sender.close()
                sender = None
                time.sleep(0.05)
        if sender is not None:
            sender.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kill_during_intake(tmp_path: Path) -> None:
    """Five kills amid 600 orders on four connections: each order stands exactly once."""
    house = House(tmp_path / "home")
    house.make()
    house.start()
    feeds = [Feed(house.mllp_port, range(start, ORDERS, 4)) for start in range(4)]
    for feed in feeds:
        feed.start()
    rng = random.Random(7)
    try:
        for _ in range(5):
            time.sleep(rng.uniform(0.2, 0.8))
            house.kill()
            house.start()
        for feed in feeds:
            feed.join(120)
        assert sorted(number for feed in feeds for number in feed.acknowledged) == list(
            range(ORDERS)
        )
        counts = settled(house, ORDERS)

        assert counts == {f"A{number}": 1 for number in range(ORDERS)}
    finally:
        house.kill()


def settled(house: House, count: int) -> Counter[str]:
    """Wait until so many orders stand on the worklist; count them by accession."""
    deadline = time.monotonic() + 60
    seen: Counter[str] = Counter()
    while time.monotonic() < deadline:
        seen = Counter(
            each["Accession"] for row in house.worklist() for each in row["clinicalInfo"]
        )
        if len(seen) >= count:
            break
        time.sleep(0.3)
    return seen


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kill_during_delivery(tmp_path: Path) -> None:
    """Kills between release and acknowledgment: each result at least once, under one control id."""
    house = House(tmp_path / "home")
    with sink() as ris:
        house.destination("ris", ris.port)
        house.make()
        house.start()
        try:
            for number in range(30):
                house.draft(f"M{number}", f"A{number}", f"Report {number}.")
                house.sign(f"M{number}", f"A{number}")
                if number % 10 == 5:
                    house.kill()
                    house.start()
            house.kill()
            house.start()
            by_text = arrived(ris, 30)
        finally:
            house.kill()

    assert len(by_text) == 30
    assert all(len(ids) == 1 for ids in by_text.values())


def arrived(ris: Sink, count: int) -> dict[str, set[bytes]]:
    """Wait for results of so many reports; control ids by report text."""
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        found: dict[str, set[bytes]] = {}
        for message in list(ris.received):
            text = message.decode().split("Report ", 1)[1].split(".", 1)[0]
            found.setdefault(text, set()).add(control_id(message))
        if len(found) >= count:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{len(ris.received)} results arrived")
