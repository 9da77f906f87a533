"""Under load the service launches on another processor too; whatever ends it, no order is lost."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.house import House
from tests.acceptance.test_kill import course, expected
from tests.acceptance.wire import Sender, verdict

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PATIENTS = 200
"""So many at a time; each has nine messages."""
AT_ONCE = 300
WITHIN = 60.0
READY, ENDED = "second engine ready", "second engine ended"


@pytest.fixture
def house(database_url: str, tmp_path: Path) -> Iterator[House]:
    """A house on each database, in which a second engine always runs."""
    made = House(
        tmp_path / "home", database="" if database_url.startswith("sqlite") else database_url
    )
    made.settings = '[engine]\nsecond_process = "always"\n'
    made.make()
    made.start()
    yield made
    made.kill()


class Day:
    """What was sent so far, and acknowledged."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.patients = 0

    def load(self) -> None:
        """Send all messages of some more patients as fast as they are taken, each step in order."""
        courses = [course(each) for each in range(self.patients, self.patients + PATIENTS)]
        messages = [each for step in zip(*courses, strict=True) for each in step]
        with Sender(self.house.mllp_port) as sender:
            for start in range(0, len(messages), AT_ONCE):
                some = messages[start : start + AT_ONCE]
                sender.post(*(message for _, message in some))
                assert [verdict(sender.reply()) for _ in some] == [("AA", name) for name, _ in some]
        self.patients += PATIENTS

    def stands(self) -> bool:
        """Whether every order is at its last word, and none stands twice."""
        self.house.settle(120)
        found = [
            (each["PatientMRN"], each["Accession"], row["orders"][0].get("StudyDescription"))
            for row in self.house.worklist()
            for each in row["clinicalInfo"]
        ]
        return sorted(found) == expected(self.patients)


def second(house: House, begun: int = 1) -> int:
    """Wait until so many have begun to work; give the number of the process that does."""
    assert house.service is not None
    until = time.monotonic() + WITHIN
    while house.log().count(READY) < begun and time.monotonic() < until:
        time.sleep(0.05)
    main = Path(f"/proc/{house.service.process.pid}")
    (found,) = (
        int(child)
        for task in (main / "task").iterdir()
        for child in (task / "children").read_text("ascii").split()
        if b"second_engine" in Path(f"/proc/{child}/cmdline").read_bytes()
    )
    return found


def ends(pid: int) -> bool:
    """Wait until a process has ended."""
    until = time.monotonic() + 20
    while runs(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not runs(pid)


def runs(pid: int) -> bool:
    """Tell whether a process runs; one whose end nobody has asked for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_it_is_killed(house: House) -> None:
    """In the middle of what it does: the service does the rest."""
    day, pid = Day(house), second(house)
    day.load()
    os.kill(pid, signal.SIGKILL)
    day.load()
    assert ends(pid)
    assert day.stands()
    assert ENDED in house.log()


def test_it_goes_with_the_service(house: House) -> None:
    """
    Told to stop, or killed; what was in hand is applied after the next start.

    One that is held up goes too: woken later it would apply what was overtaken meanwhile.
    """
    day, pid = Day(house), second(house)
    day.load()
    assert house.stop() == 0
    assert ends(pid)
    assert ENDED not in house.log()
    house.start()
    pid = second(house, 2)
    day.load()
    os.kill(pid, signal.SIGSTOP)
    house.kill()
    assert ends(pid)
    house.start()
    assert day.stands()


def test_it_can_be_forbidden(tmp_path: Path) -> None:
    """By one setting: where memory is short, or the processors are others'."""
    house = House(tmp_path / "home")
    house.settings = '[engine]\nsecond_process = "never"\n'
    house.make()
    try:
        house.start()
        day = Day(house)
        for _ in range(2):
            day.load()
            house.settle()
        assert day.stands()
        assert "second engine" not in house.log()
    finally:
        house.kill()
