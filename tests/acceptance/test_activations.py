"""Mapping activation while messages arrive: all processes switch, no message is lost or refused."""

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, verdict
from tests.eventually import eventually

pytestmark = pytest.mark.slow

FOLLOWS_AFTER = 2.0
"""Seconds within which all nodes follow an activation."""

NUMBERS = count(7100)
BY_CONTROL_ID = """
    SELECT id, state, mapping_version FROM message JOIN message_body ON message_id = id
    WHERE CAST(payload AS TEXT) LIKE ?
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = House(tmp_path_factory.mktemp("activations") / "home")
    made.make()
    folder = made.home / "mappings"
    (folder / "orders.yaml").rename(folder / "shipped.yaml")
    write(made, "about: as shipped")
    made.start()
    yield made
    made.stop()


def write(house: House, text: str) -> None:
    file = house.home / "mappings" / "orders.yaml"
    file.write_text(f"include: shipped.yaml\n{text}\n", "utf-8")


def row(house: House, number: int) -> tuple[int, str, str]:
    """Wait until an order's message is finished; return its id, state and mapping version."""

    def finished() -> tuple[int, str, str] | None:
        with closing(sqlite3.connect(house.home / "bridge.db")) as stored:
            found = stored.execute(BY_CONTROL_ID, (f"%|C{number}|%",)).fetchall()
        assert len(found) <= 1
        waits = not found or found[0][1] in ("queued", "claimed")
        return None if waits else (found[0][0], found[0][1], found[0][2])

    found = eventually(finished)
    assert found is not None
    return found


def send(house: House, number: int) -> tuple[str, str]:
    with Sender(house.mllp_port) as sender:
        return verdict(sender.ask(order(number)))


def version(house: House) -> str:
    """Send an order and return the version of the mapping that read it."""
    number = next(NUMBERS)
    assert send(house, number) == ("AA", f"C{number}")
    return row(house, number)[2]


def activate(house: House, *more: str) -> str:
    """Activate the files on disk, wait until the service uses them; return their version."""
    output = house.bridge("mapping", "activate", "orders", *more)
    (activated,) = re.findall(r"^orders: version ([0-9a-f]{16}) is active", output)
    follow(house, activated)
    return str(activated)


def follow(house: House, wanted: str) -> None:
    """Wait until the service reads orders with a version; it accepts every order meanwhile."""
    eventually(lambda: version(house) == wanted)


def test_an_activation_is_followed_and_rolled_back(house: House) -> None:
    """The service uses the new version, and the old one after a rollback. It never uses a draft."""
    first = version(house)
    write(house, "tags: {Notes: {const: new}}")
    assert version(house) == first, "not active yet"
    assert activate(house, "--reason", "a trial") != first
    house.bridge("mapping", "rollback", "orders")
    follow(house, first)


def test_a_bad_mapping_changes_nothing(house: House) -> None:
    """The command names the mistake, and the service keeps the active version."""
    before = version(house)
    write(house, "tags: {PatientMRN: PDI-3}")
    assert "did you mean" in house.bridge("mapping", "activate", "orders", expect=1)
    time.sleep(FOLLOWS_AFTER)  # nothing is followed, however long one waits
    assert version(house) == before


def test_a_hook_that_hangs_parks_its_own_message(house: House) -> None:
    """Other messages are processed meanwhile. A replay with the repaired hook succeeds."""
    hooks = house.home / "mappings" / "h.py"
    hooks.write_text("def f(message):\n    while 'C7012' in str(message): pass\n", "utf-8")
    write(house, "tags: {Notes: {hook: 'h:f'}}")
    activate(house)
    with Sender(house.mllp_port) as sender:
        sender.post(order(7011), order(7012), order(7013))
        answers = [verdict(sender.reply()) for _ in range(3)]
    assert answers == [("AA", f"C{number}") for number in (7011, 7012, 7013)]
    states = {number: row(house, number)[1] for number in (7011, 7012, 7013)}
    assert states == {7011: "done", 7012: "parked", 7013: "done"}
    hooks.write_text("def f(message):\n    return 'repaired'\n", "utf-8")
    activate(house)
    house.bridge("messages", "replay", str(row(house, 7012)[0]))
    assert row(house, 7012)[1] == "done"
