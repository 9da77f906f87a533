"""An order and its result enter few modules."""

import json
import os
import signal

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.traced import ACKNOWLEDGED, APPLIED, FILE, SENT, TEXT, traced
from tests.acceptance.wire import sink
from tests.eventually import eventually

MOST = {ACKNOWLEDGED: 40, APPLIED: 52, SENT: 54}
"""
Modules of each way: 35, 49 and 49 when this was written. The goals are 28, 45 and 40.

A delivery has the hash of its sites since then, and a report its events: 53.

What the tasks of a way start counts, other work at the same time does not.
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The modules that one order and its result enter."""
    folder = tmp_path_factory.mktemp("ways")
    file = folder / "modules.json"
    house = House(folder / "home", program=traced)
    try:
        with sink() as receiver:
            house.destination("ris", receiver.port)
            house.make()
            service = house.start(env={FILE: str(file), TEXT: "|ORDER-CONTROL-ID|"})
            for process in (service.process.pid, service.child()):
                os.kill(process, signal.SIGUSR1)
            eventually(lambda: len([*folder.glob("modules.json.*")]) == 2)
            house.send(order(7, msh10="ORDER-CONTROL-ID"))
            house.draft("M7", "A7", "Zebra crossing.")
            house.sign("M7", "A7")
            receiver.wait(1)
            assert house.stop() == 0
    finally:
        house.kill()
    ways: dict[str, list[str]] = {}
    for written in folder.glob("modules.json.*"):
        ways |= json.loads(written.read_text("utf-8"))
    return ways


@pytest.mark.parametrize("way", MOST)
def test_a_way_has_few_modules(found: dict[str, list[str]], way: str) -> None:
    """A module counts if any of its functions runs; the report engine's own modules do not."""
    assert 0 < len(found[way]) <= MOST[way], found[way]
