"""A signed report arrives at the RIS; a recalled one never does; no trouble makes us lie."""

import json
import time
from pathlib import Path

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import FS_CR, VT, Answer, Sender, accept, ack, control_id, sink


def ordered(house: House, number: int) -> None:
    """Send an order and wait until it stands on the worklist."""
    with Sender(house.mllp_port) as sender:
        reply = sender.ask(order(number))
    assert reply is not None
    assert b"MSA|AA" in reply
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline and f"A{number}" not in str(house.worklist()):
        time.sleep(0.05)


def test_sign_to_result(house: House) -> None:
    """Within two poll periods the RIS has the text, its own numbers and the Study UID back."""
    with sink() as ris:
        house.destination("ris", ris.port)
        house.make()
        house.start()
        ordered(house, 1)
        house.draft("M1", "A1", "Normal chest.\nNo nodule.")
        house.sign("M1", "A1")
        signed = time.monotonic()
        received = ris.wait(1)

        assert time.monotonic() - signed < 1.0 + 0.5, "two poll periods of 500 ms"
        message = received[0].decode()
        assert "|P1|F1|" in message
        assert "Normal chest." in message
        assert "1.2.826.0.1.3680043.10.2" in message
        assert "|A1|" in message
        assert house.stop() == 0


def test_recall_inside_the_sign_delay(tmp_path: Path) -> None:
    """Signed, recalled, and nothing is ever sent; signed again, and one result goes out."""
    house = House(tmp_path / "home", sign_delay=2)
    with sink() as ris:
        house.destination("ris", ris.port)
        house.make()
        house.start()
        try:
            ordered(house, 2)
            house.draft("M2", "A2", "First thought.")
            house.sign("M2", "A2")
            identity = {"SiteID": "SITE1", "PatientMRN": "M2", "Accession": "A2"}
            house.post("/api/report/unsign", {"clinicalInfo": identity})
            time.sleep(3.5)
            assert not ris.received

            house.sign("M2", "A2")
            assert len(ris.wait(1, timeout=10)) == 1
            time.sleep(1)
            assert len(ris.received) == 1
        finally:
            house.kill()


def negative(code: bytes) -> Answer:
    """Answer a code twice, then accept."""
    return lambda message, seen: (
        VT + ack(message, code) + FS_CR if seen < 2 else accept(message, seen)
    )


TROUBLE: dict[str, Answer] = {
    "AE": negative(b"AE"),
    "AR": negative(b"AR"),
    "silence": lambda message, seen: b"" if seen < 1 else accept(message, seen),
    "mismatch": lambda m, seen: (
        VT + ack(m, about=b"OTHER") + FS_CR if seen < 2 else accept(m, seen)
    ),
    "garbage": lambda m, seen: VT + b"what?" + FS_CR if seen < 2 else accept(m, seen),
    "cut": lambda message, seen: None if seen < 2 else accept(message, seen),
}


@pytest.mark.parametrize("trouble", list(TROUBLE))
def test_trouble_is_retried_with_the_same_bytes(house: House, trouble: str) -> None:
    """Whatever the receiver does, the same message comes again until it accepts."""
    with sink(TROUBLE[trouble]) as ris:
        house.destination("ris", ris.port)
        house.make()
        house.start()
        ordered(house, 3)
        house.draft("M3", "A3", "Text.")
        house.sign("M3", "A3")
        deadline = time.monotonic() + 20
        while not ris.acknowledged and time.monotonic() < deadline:
            time.sleep(0.05)

        assert len(set(ris.received)) == 1
        assert len({control_id(message) for message in ris.received}) == 1
        assert len(ris.received) >= 2
        assert delivered(house, 1)


def test_a_dead_destination_delays_no_other(house: House) -> None:
    """One receiver is down; the other has its result as fast as ever."""
    with sink() as ris:
        house.destination("dead", 1)
        house.destination("ris", ris.port)
        house.make()
        house.start()
        for number in range(4, 9):
            ordered(house, number)
            house.draft(f"M{number}", f"A{number}", "Text.")
            house.sign(f"M{number}", f"A{number}")
        began = time.monotonic()

        assert len(ris.wait(5, timeout=10)) == 5
        assert time.monotonic() - began < 3


def delivered(house: House, count: int) -> bool:
    """Whether so many deliveries are marked delivered."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        rows = json.loads(house.bridge("deliveries", "list", "--home", str(house.home), "--json"))
        if sum(row["state"] == "done" for row in rows) == count:
            return True
        time.sleep(0.2)
    return False
