"""A signed report arrives at the RIS; a recalled one never does; no trouble makes us lie."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from hl7apy.consts import VALIDATION_LEVEL

from tests.acceptance.hospital import Hospital
from tests.acceptance.house import House
from tests.acceptance.orders import group_of, order
from tests.acceptance.radiologist import addendum
from tests.acceptance.test_order_control import send
from tests.acceptance.wire import FS_CR, VT, Answer, Sink, accept, ack, control_id, sink
from tests.conformance.parsers import agree, structure_errors
from tests.eventually import PATIENCE, eventually


def test_sign_to_result(running: House, ris: Sink) -> None:
    """The RIS has the text, its own numbers and the Study UID back."""
    send(running, order(4001))
    running.draft("M4001", "A4001", "Normal chest.\nNo nodule.")
    running.sign("M4001", "A4001")
    message = ris.about("|A4001|")[0].decode()
    assert "|P4001|F4001|" in message
    assert "Normal chest." in message
    assert "1.2.826.0.1.3680043.10.4002" in message


def test_recall_inside_the_sign_delay(tmp_path: Path) -> None:
    """Recalled: a report that is signed later is sent before it. Signed again: it is sent once."""
    house = House(tmp_path / "home", sign_delay=8)  # enough to recall on a slow machine
    with sink() as receiver:
        house.destination("ris", receiver.port)
        house.make()
        house.start()
        try:
            send(house, order(2))
            house.draft("M2", "A2", "First thought.")
            house.sign("M2", "A2")
            house.act("unsign", "M2", "A2")
            house.draft("M3", "A3", "Signed after it.")
            house.sign("M3", "A3")
            assert [b"|A3|" in each for each in receiver.wait(1)] == [True]

            house.sign("M2", "A2")
            assert [b"|A2|" in each for each in receiver.wait(2)] == [False, True]
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
    "CE": negative(b"CE"),
    "silence": lambda message, seen: b"" if seen < 1 else accept(message, seen),
    "mismatch": lambda m, seen: (
        VT + ack(m, about=b"OTHER") + FS_CR if seen < 2 else accept(m, seen)
    ),
    "garbage": lambda m, seen: VT + b"what?" + FS_CR if seen < 2 else accept(m, seen),
    "noise": lambda m, seen: b"\x00\xff" * 10 if seen < 1 else accept(m, seen),
    "half": lambda m, seen: VT + ack(m)[:20] if seen < 1 else accept(m, seen),
    "cut": lambda message, seen: None if seen < 2 else accept(message, seen),
}
TOLD = 3
MUTE = 150  # seconds for which one that never answers is waited for


@dataclass(frozen=True, slots=True)
class Troubled:
    """A house with a destination of each trouble, two dead ones and a good one; all were told."""

    house: House
    sinks: dict[str, Sink]
    seconds: float
    """From the last signature to the good one's last result."""


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubled]:
    """Some reports and an addendum, released to receivers in trouble."""
    house = House(tmp_path_factory.mktemp("troubled") / "home")
    sinks = {name: Sink(answer) for name, answer in {**TROUBLE, "good": accept}.items()}
    for name, each in sinks.items():
        house.destination(name, each.port, ack_timeout="1s")
    house.destination("dead", 1)
    mute = Sink(lambda message, seen: b"")
    house.destination("mute", mute.port, ack_timeout=f"{MUTE}s")
    house.make()
    house.start()
    for number in range(TOLD):
        send(house, order(number))
        house.draft(f"M{number}", f"A{number}", f"Text {number}.")
        house.sign(f"M{number}", f"A{number}")
    began = time.monotonic()
    sinks["good"].wait(TOLD)
    seconds = time.monotonic() - began
    addendum(house, "M0", "A0", "More.")
    yield Troubled(house, sinks, seconds)
    house.kill()
    for each in [*sinks.values(), mute]:
        each.stop()


def test_a_dead_destination_delays_no_other(troubled: Troubled) -> None:
    """Receivers are down, silent and rude; the good one has all while those are waited for."""
    assert troubled.seconds < MUTE / 2
    assert len(troubled.sinks["good"].wait(TOLD + 1)) == TOLD + 1


@pytest.mark.parametrize("trouble", list(TROUBLE))
def test_trouble_is_retried_with_the_same_bytes(troubled: Troubled, trouble: str) -> None:
    """Whatever the receiver does, the same message comes again until it accepts, in order."""
    receiver = troubled.sinks[trouble]
    eventually(lambda: len(set(receiver.acknowledged)) == TOLD + 1)

    assert len(set(receiver.received)) == TOLD + 1
    assert len({control_id(message) for message in receiver.received}) == TOLD + 1
    assert all(receiver.received.count(message) >= 2 for message in set(receiver.received))
    of_one = [b"More." in message for message in receiver.received if b"|A0|" in message]
    assert of_one == sorted(of_one), "the final until it is accepted, then its addendum"


def test_what_was_delivered(troubled: Troubled) -> None:
    """Deliveries are marked done where they were accepted, and only there."""
    expected = sorted([name for name in troubled.sinks for _ in range(TOLD + 1)])
    deadline = time.monotonic() + 60
    done: list[str] = []
    rows: list[dict[str, str]] = []
    while done != expected and time.monotonic() < deadline:
        listed = troubled.house.bridge("deliveries", "list", "--limit", "200", "--json")
        rows = json.loads(listed)
        done = sorted(row["destination"] for row in rows if row["state"] == "done")

    assert done == expected
    assert sum(row["destination"] == "dead" for row in rows) == TOLD + 1
    shown = httpx.get(f"{troubled.house.url}/metrics", timeout=PATIENCE).text
    for trouble in ("garbage", "mismatch"):
        assert f'destination="{trouble}",outcome="postponed",reply="{trouble}"' in shown


TEXTS = {
    "plain": "All well.",
    "delimiters": "a|b ^ c ~ d \\ e & f \\F\\ \\.br\\ \\X0D\\",
    "lines": "One\nTwo\n\nFour   with blanks",
    "cjk": "胸部CT:異常なし。\n정상입니다 Schädel ✓ 𠀋",
    "controls": "tab\there\x0bthere",
    "header": "MSH|^~\\&|NOT|A|HEADER\nPID|1||X",
}


@pytest.mark.parametrize("number", range(len(TEXTS)), ids=list(TEXTS))
def test_results_are_valid(running: House, ris: Sink, number: int) -> None:
    """Any text, name and Metadata: hl7apy finds the structure valid, python-hl7 reads the same."""
    text = list(TEXTS.values())[number]
    mine = 4100 + number
    name = "O\\T\\BRIEN\\S\\X^山田\\F\\^Zoë"
    extra = f"NTE|1||Note \\F\\ {number}\rOBX|1|ST|W^Weight||80 \\S\\ 2|kg\r"
    send(running, order(mine, name=name, title="CT \\T\\ MR \\S\\ Ü", extra=extra))
    running.draft(f"M{mine}", f"A{mine}", text)
    running.sign(f"M{mine}", f"A{mine}")
    addendum(running, f"M{mine}", f"A{mine}", "Later | seen ^ too 異常.")
    found = ris.about(f"|A{mine}|", 2)

    assert len(found) == 2
    for message in found:
        assert not structure_errors(message, VALIDATION_LEVEL.STRICT), message
        assert agree(message)
        assert b"\rPID|1||M%d" % mine in message
        assert message.count(b"\rMSH") == 0
        assert VT not in message


def test_linked_orders_get_a_result_each(running: House, ris: Sink) -> None:
    """A report of two orders goes back for both, each under its own numbers."""
    send(running, order(4201, extra=group_of(4202)))
    running.draft("M4201", "A4201", "Both.")
    running.sign("M4201", "A4202")
    one, two = ris.about("|A4201|")[0], ris.about("|A4202|")[0]

    assert b"|P4201|F4201|" in one
    assert b"|P4202|F4202|" in two
    assert all(b"Both." in message for message in (one, two))
    assert all(not structure_errors(message, VALIDATION_LEVEL.STRICT) for message in (one, two))


def test_other_destinations(running: House, hospital: Hospital) -> None:
    """A result goes over mutual TLS to whom it is for, and not to another site's receiver."""
    running.draft("M4301", "A4301", "Secure.")
    running.sign("M4301", "A4301")
    assert hospital.secure_sink.about("|A4301|")
    rows = json.loads(running.bridge("deliveries", "list", "--limit", "500", "--json"))

    assert {row["destination"] for row in rows} == {"ris", "secure"}
