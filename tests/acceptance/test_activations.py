"""Definitions exchanged while messages come in: all processes follow, none is lost or refused."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, verdict

FOLLOW_WITHIN = 2.0  # seconds


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A service whose definitions are changed."""
    made = House(tmp_path_factory.mktemp("activations") / "home")
    made.make()
    folder = made.home / "mappings"
    (folder / "orders.yaml").rename(folder / "shipped.yaml")
    write(made, "about: as shipped")
    made.start()
    yield made
    made.stop()


def write(house: House, text: str) -> None:
    """Lay something over the shipped definition."""
    file = house.home / "mappings" / "orders.yaml"
    file.write_text(f"include: shipped.yaml\n{text}\n", "utf-8")


def row(house: House, number: int) -> dict[str, Any]:
    """Give the stored message of an order, once it is finished."""
    for _ in range(100):
        rows = json.loads(house.bridge("messages", "list", "--json"))
        found: dict[str, Any] = next(
            each
            for each in rows
            if f"C{number}|"
            in json.loads(house.bridge("messages", "show", str(each["id"]), "--json"))["payload"]
        )
        if found["state"] not in ("queued", "claimed"):
            return found
        time.sleep(0.2)
    raise AssertionError("not finished")


def send(house: House, number: int) -> tuple[str, str]:
    """Send an order and give its acknowledgment."""
    with Sender(house.mllp_port) as sender:
        return verdict(sender.ask(order(number)))


def test_an_activation_is_followed_and_rolled_back(house: House) -> None:
    """Within two seconds the service reads with the new version, and then with the old one."""
    assert send(house, 7001) == ("AA", "C7001")
    first = row(house, 7001)
    write(house, "tags: {Notes: {const: new}}")
    assert send(house, 7002) == ("AA", "C7002")
    assert row(house, 7002)["mapping_version"] == first["mapping_version"], "not active yet"
    told = house.bridge("mapping", "activate", "orders", "--reason", "a trial")
    time.sleep(FOLLOW_WITHIN)
    assert send(house, 7003) == ("AA", "C7003")
    version = row(house, 7003)["mapping_version"]
    assert version in told
    assert version != first["mapping_version"]
    house.bridge("mapping", "rollback", "orders")
    time.sleep(FOLLOW_WITHIN)
    assert send(house, 7004) == ("AA", "C7004")
    assert row(house, 7004)["mapping_version"] == first["mapping_version"]


def test_a_bad_mapping_changes_nothing(house: House) -> None:
    """The command says why, and the service goes on as before."""
    before = row(house, 7004)["mapping_version"]
    write(house, "tags: {PatientMRN: PDI-3}")
    assert "did you mean" in house.bridge("mapping", "activate", "orders", expect=1)
    time.sleep(FOLLOW_WITHIN)
    assert send(house, 7005) == ("AA", "C7005")
    assert row(house, 7005)["mapping_version"] == before


def test_a_hook_that_hangs_parks_its_own_message(house: House) -> None:
    """The others of the same time are done; the repaired mapping finishes it after a replay."""
    hooks = house.home / "mappings" / "h.py"
    hooks.write_text("def f(message):\n    while 'C7012' in str(message): pass\n", "utf-8")
    write(house, "tags: {Notes: {hook: 'h:f'}}")
    house.bridge("mapping", "activate", "orders")
    time.sleep(FOLLOW_WITHIN)
    with Sender(house.mllp_port) as sender:
        sender.post(order(7011), order(7012), order(7013))
        answers = [verdict(sender.reply(20)) for _ in range(3)]
    assert answers == [("AA", f"C{number}") for number in (7011, 7012, 7013)]
    states = {number: row(house, number)["state"] for number in (7011, 7012, 7013)}
    assert states == {7011: "done", 7012: "parked", 7013: "done"}
    hooks.write_text("def f(message):\n    return 'repaired'\n", "utf-8")
    house.bridge("mapping", "activate", "orders")
    time.sleep(FOLLOW_WITHIN)
    house.bridge("messages", "replay", str(row(house, 7012)["id"]))
    assert row(house, 7012)["state"] == "done"
