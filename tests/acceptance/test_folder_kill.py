"""kill -9 while the service reads a folder: no file is lost, and none becomes two orders."""

import random
import time
from pathlib import Path

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.test_transports import content_of


@pytest.mark.slow
def test_kill_while_a_folder_is_read(tmp_path: Path) -> None:
    """After kills at random moments, every file is in done/ and every order exists exactly once."""
    house = House(tmp_path / "home")
    house.listener("files", bind="folder:inbox", scan_every="50ms")
    house.make()
    inbox = house.home / "inbox"
    inbox.mkdir()
    count = 150
    for number in range(count):
        (inbox / f"{number:04d}.hl7").write_bytes(order(number, mrn=f"M{number % 7}"))
    rng = random.Random(11)
    for _ in range(3):
        house.start()
        time.sleep(rng.uniform(0.1, 0.5))
        house.kill()
    house.start()
    try:
        content_of(inbox / "done" / f"{count - 1:04d}.hl7")
        house.settle()
        assert len(list((inbox / "done").iterdir())) == count
        found = [listed["Accession"] for row in house.worklist() for listed in row["orders"]]
        assert sorted(found) == sorted(f"A{number}" for number in range(count))
    finally:
        house.kill()
