"""The modules that get the bytes of an order and of its result are documented, and few."""

import json
import re
import signal
from pathlib import Path

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.traced import FILE, TEXTS, traced
from tests.acceptance.wire import sink
from tests.eventually import eventually

ROOT = Path(__file__).resolve().parents[2]
MOST = 12
"""Modules of a way."""
WAYS = {
    "frame": ("until its acknowledgment", "from its claim to the report engine"),
    "result": ("from the composer to the receiver",),
}
BACKGROUND = ("bridge/console/", "bridge/admin/")
"""The message index reads each message once more, after its acknowledgment."""


def documented(way: str) -> list[str]:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    (row,) = re.findall(rf"^\| {re.escape(way)} \|(.*)\|$", page, re.MULTILINE)
    return re.findall(r"`([\w/]+\.py)`", row)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The modules that got the bytes of one order and of its result."""
    folder = tmp_path_factory.mktemp("ways")
    file = folder / "modules.json"
    texts = {"frame": ("|ORDER-CONTROL-ID|", "ZDS|"), "result": ("|ORU^R01", "Zebra crossing")}
    house = House(folder / "home", program=traced)
    try:
        with sink() as receiver:
            house.destination("ris", receiver.port)
            house.make()
            service = house.start(env={FILE: str(file), TEXTS: json.dumps(texts)})
            service.process.send_signal(signal.SIGUSR1)
            eventually(file.exists)
            house.send(order(7, msh10="ORDER-CONTROL-ID"))
            house.draft("M7", "A7", "Zebra crossing.")
            house.sign("M7", "A7")
            receiver.wait(1)
            assert house.stop() == 0
    finally:
        house.kill()
    modules: dict[str, list[str]] = json.loads(file.read_text("utf-8"))
    return modules


@pytest.mark.parametrize("message", WAYS)
def test_the_documents_name_the_modules_of_each_way(
    found: dict[str, list[str]], message: str
) -> None:
    """A table names each module that gets the bytes, and no other."""
    named = {module for way in WAYS[message] for module in documented(way)}
    assert {each for each in found[message] if not each.startswith(BACKGROUND)} == named


@pytest.mark.parametrize("way", [way for ways in WAYS.values() for way in ways])
def test_a_way_has_few_modules(way: str) -> None:
    """No way has more than twelve modules."""
    assert 0 < len(documented(way)) <= MOST
