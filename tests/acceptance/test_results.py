"""Results: a signed report arrives at the RIS, a recalled one does not; failures are retried."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from hl7apy.consts import VALIDATION_LEVEL

from tests.acceptance.hospital import Hospital
from tests.acceptance.house import House
from tests.acceptance.orders import group_of, order
from tests.acceptance.radiologist import addendum
from tests.acceptance.wire import FS_CR, VT, Answer, Sink, accept, ack, control_id, sink
from tests.conformance.parsers import agree, structure_errors
from tests.eventually import PATIENCE, eventually


def test_sign_to_result(running: House, ris: Sink) -> None:
    """The result has the text, the order numbers of the RIS and the StudyInstanceUID."""
    running.send(order(4001))
    running.draft("M4001", "A4001", "Normal chest.\nNo nodule.")
    running.sign("M4001", "A4001")
    message = ris.about("|A4001|")[0].decode()
    assert "|P4001|F4001|" in message
    assert "Normal chest." in message
    assert "1.2.826.0.1.3680043.10.4002" in message


def test_recall_inside_the_sign_delay(tmp_path: Path) -> None:
    """A recalled report is not sent; after a second signature it is sent once."""
    house = House(tmp_path / "home", sign_delay=3)
    with sink() as receiver:
        house.destination("ris", receiver.port)
        house.make()
        house.start()
        try:
            number = next(number for number in range(2, 50) if recall(house, number))
            house.draft("M1", "A1", "Signed after it.")
            house.sign("M1", "A1")
            assert len(receiver.about("|A1|")) == 1
            assert not [message for message in receiver.received if b"|A%d|" % number in message]

            house.sign(f"M{number}", f"A{number}")
            assert len(receiver.about(f"|A{number}|")) == 1
        finally:
            house.kill()


def recall(house: House, number: int) -> bool:
    """Sign a report and recall it; return whether the recall was within the sign delay."""
    house.send(order(number))
    house.draft(f"M{number}", f"A{number}", "First thought.")
    house.sign(f"M{number}", f"A{number}")
    house.act("unsign", f"M{number}", f"A{number}", expect=None)
    identity = {"SiteID": "SITE1", "PatientMRN": f"M{number}", "Accession": f"A{number}"}
    (found,) = house.post("/api/report/status", {"clinicalInfo": [identity]})
    return bool(found["status"] == "Draft")


def negative(code: bytes) -> Answer:
    return lambda message, attempts: (
        VT + ack(message, code) + FS_CR if attempts < 2 else accept(message, attempts)
    )


FAILURES: dict[str, Answer] = {
    "AE": negative(b"AE"),
    "AR": negative(b"AR"),
    "CE": negative(b"CE"),
    "silence": lambda message, attempts: b"" if attempts < 1 else accept(message, attempts),
    "mismatch": lambda m, attempts: (
        VT + ack(m, about=b"OTHER") + FS_CR if attempts < 2 else accept(m, attempts)
    ),
    "garbage": lambda m, attempts: VT + b"what?" + FS_CR if attempts < 2 else accept(m, attempts),
    "noise": lambda m, attempts: b"\x00\xff" * 10 if attempts < 1 else accept(m, attempts),
    "half": lambda m, attempts: VT + ack(m)[:20] if attempts < 1 else accept(m, attempts),
    "cut": lambda message, attempts: None if attempts < 2 else accept(message, attempts),
}
REPORTS = 3


@dataclass(frozen=True, slots=True)
class Failing:
    """A service that has released reports to a destination of each failure, and to a good one."""

    house: House
    sinks: dict[str, Sink]
    sent_to_mute: int
    """Messages that the silent receiver had when the good one had all results."""


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failing]:
    house = House(tmp_path_factory.mktemp("failing") / "home")
    sinks = {name: Sink(answer) for name, answer in {**FAILURES, "good": accept}.items()}
    for name, item in sinks.items():
        house.destination(name, item.port, **({"ack_timeout": "1s"} if name in FAILURES else {}))
    house.destination("dead", 1)
    mute = Sink(lambda message, attempts: b"")
    house.destination("mute", mute.port, ack_timeout=f"{10 * PATIENCE:.0f}s")
    house.make()
    house.start()
    for number in range(REPORTS):
        house.send(order(number))
        house.draft(f"M{number}", f"A{number}", f"Text {number}.")
        house.sign(f"M{number}", f"A{number}")
    mute.wait(1)
    sinks["good"].wait(REPORTS)
    sent_to_mute = len(mute.received)
    addendum(house, "M0", "A0", "More.")
    yield Failing(house, sinks, sent_to_mute)
    house.kill()
    for receiver in [*sinks.values(), mute]:
        receiver.stop()


def test_a_dead_destination_delays_no_other(failing: Failing) -> None:
    """The good receiver has all results while the bridge waits for the failing ones."""
    assert failing.sent_to_mute == 1, "the bridge still waits for its first reply"
    assert len(failing.sinks["good"].wait(REPORTS + 1)) == REPORTS + 1


@pytest.mark.parametrize("failure", list(FAILURES))
def test_a_failure_is_retried_with_the_same_bytes(failing: Failing, failure: str) -> None:
    """The bridge repeats the same message until the receiver accepts it, in order."""
    receiver = failing.sinks[failure]
    eventually(lambda: len(set(receiver.acknowledged)) == REPORTS + 1)

    assert len(set(receiver.received)) == REPORTS + 1
    assert len({control_id(message) for message in receiver.received}) == REPORTS + 1
    assert all(receiver.received.count(message) >= 2 for message in set(receiver.received))
    of_one = [b"More." in message for message in receiver.received if b"|A0|" in message]
    assert of_one == sorted(of_one), "the final report before its addendum"


def test_what_was_delivered(failing: Failing) -> None:
    """A delivery is done when the receiver accepted it, and only then."""
    expected = sorted([name for name in failing.sinks for _ in range(REPORTS + 1)])

    def delivered() -> list[dict[str, str]]:
        listed = failing.house.bridge("deliveries", "list", "--limit", "200", "--json")
        rows: list[dict[str, str]] = json.loads(listed)
        done = sorted(row["destination"] for row in rows if row["state"] == "done")
        return rows if done == expected else []

    rows = eventually(delivered)
    assert sum(row["destination"] == "dead" for row in rows) == REPORTS + 1
    shown = httpx.get(f"{failing.house.url}/metrics", timeout=PATIENCE).text
    for failure in ("garbage", "mismatch"):
        assert f'destination="{failure}",outcome="postponed",reply="{failure}"' in shown


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
    """Results with any text and name are valid for hl7apy, and python-hl7 reads the same values."""
    text = list(TEXTS.values())[number]
    number_of_order = 4100 + number
    name = "O\\T\\BRIEN\\S\\X^山田\\F\\^Zoë"
    extra = f"NTE|1||Note \\F\\ {number}\rOBX|1|ST|W^Weight||80 \\S\\ 2|kg\r"
    running.send(order(number_of_order, name=name, title="CT \\T\\ MR \\S\\ Ü", extra=extra))
    running.draft(f"M{number_of_order}", f"A{number_of_order}", text)
    running.sign(f"M{number_of_order}", f"A{number_of_order}")
    addendum(running, f"M{number_of_order}", f"A{number_of_order}", "Later | seen ^ too 異常.")
    found = ris.about(f"|A{number_of_order}|", 2)

    assert len(found) == 2
    for message in found:
        assert not structure_errors(message, VALIDATION_LEVEL.STRICT), message
        assert agree(message)
        assert b"\rPID|1||M%d" % number_of_order in message
        assert message.count(b"\rMSH") == 0
        assert VT not in message


def test_linked_orders_get_a_result_each(running: House, ris: Sink) -> None:
    """A report of two orders is a result for each, with its own order numbers."""
    running.send(order(4201, extra=group_of(4202)))
    running.draft("M4201", "A4201", "Both.")
    running.sign("M4201", "A4202")
    one, two = ris.about("|A4201|")[0], ris.about("|A4202|")[0]

    assert b"|P4201|F4201|" in one
    assert b"|P4202|F4202|" in two
    assert all(b"Both." in message for message in (one, two))
    assert all(not structure_errors(message, VALIDATION_LEVEL.STRICT) for message in (one, two))


def test_other_destinations(running: House, hospital: Hospital) -> None:
    """A result goes over mutual TLS to the site's destination, and not to that of another site."""
    running.draft("M4301", "A4301", "Secure.")
    running.sign("M4301", "A4301")
    assert hospital.secure_sink.about("|A4301|")
    rows = json.loads(running.bridge("deliveries", "list", "--limit", "500", "--json"))

    assert {row["destination"] for row in rows} == {"ris", "secure"}


def test_a_delivered_result_is_audited(running: House, ris: Sink) -> None:
    """Signatures and deliveries are AuditEvents about the same report."""
    running.send(order(4700))
    running.draft("M4700", "A4700", "Normal.")
    running.sign("M4700", "A4700")
    assert ris.about("|A4700|")
    row = running.row("A4700")
    assert row is not None
    report = row["reportId"]

    lines = running.bridge("audit", "export", "--report", report).splitlines()
    events = [json.loads(line) for line in lines]

    assert {event["resourceType"] for event in events} == {"AuditEvent"}
    sent = [event for event in events if event["id"].startswith("delivery-")]
    assert sent, "one for each destination that accepted it"
    assert {event["outcome"] for event in sent} == {"0"}
    assert len(events) > len(sent), "launch and signature"
    assert "M4700" not in "\n".join(lines)
    only = running.bridge("audit", "export", "--report", report, "--action", "sent")
    assert [json.loads(line)["id"] for line in only.splitlines()] == [
        message["id"] for message in sent
    ]


TEXT = "FINDINGS:\nNo nodule.\n\nIMPRESSION: normal."
FORMATS: dict[str, dict[str, Any]] = {
    "old": {"version": "2.3", "interpreter": "xcn", "times": "local"},
    "block": {"version": "2.3.1", "layout": "formatted", "addenda": "newest"},
    "sections": {"version": "2.4", "sections": "loinc", "layout": "repetitions"},
    "codes": {"sections": "dicom", "echo": "whole", "time_zone": "Europe/Zurich"},
    "child": {"addenda": "child"},
    "files": {"content": ["text", "pdf", "rtf"], "metadata": {"*": "NTE", "Extra": "OBR-21"}},
    "combined": {"orders": "combined"},
    "grouped": {"orders": "grouped"},
}


@dataclass(frozen=True, slots=True)
class Receivers:
    house: House
    sinks: dict[str, Sink]


@pytest.fixture(scope="module")
def receivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receivers]:
    """A service that has released a report with an addendum and a report of two orders."""
    house = House(tmp_path_factory.mktemp("renderings") / "home")
    sinks = {name: Sink() for name in FORMATS}
    for name, settings in FORMATS.items():
        house.destination(name, sinks[name].port, **settings)
    house.make()
    house.start()
    house.send(order(1, extra="NTE|1||Allergic\r"))
    house.draft("M1", "A1", TEXT, Metadata={"Extra": "seven"})
    house.sign("M1", "A1")
    addendum(house, "M1", "A1", "One more thing.")
    house.send(order(2, extra=group_of(3)))
    house.draft("M2", "A2", TEXT)
    house.sign("M2", "A2")
    yield Receivers(house, sinks)
    house.kill()
    for receiver in sinks.values():
        receiver.stop()


@pytest.mark.parametrize("name", FORMATS)
def test_the_preview_is_what_is_sent(receivers: Receivers, name: str) -> None:
    """`mapping try` composes the releases of a destination again; only MSH-7 differs."""
    sent = {control_id(message): message for message in receivers.sinks[name].about("|A1|", 2)}
    for message in sent.values():
        assert not structure_errors(message)
        assert agree(message)
    options = ("--destination", name, "--last", "20", "--json")
    previews = json.loads(receivers.house.bridge("mapping", "try", "results", *options))

    composed = [text.encode() for preview in previews for text in preview["hl7"]]
    again = {control_id(item.replace(b"\n", b"\r")): item for item in composed}
    assert sent.keys() <= again.keys()
    for number, message in sent.items():
        expected = message.strip(b"\r").replace(b"\r", b"\n")
        if name != "files":  # a PDF has the time at which it was made
            assert _without_time(again[number]) == _without_time(expected)
        else:
            assert again[number].count(b"\nOBX|") == expected.count(b"\nOBX|")
            assert b"Base64^JVBERi0" in again[number]


def _without_time(message: bytes) -> list[bytes]:
    """Return the fields of the header without MSH-7, and the other segments."""
    header, *others = message.split(b"\n")
    fields = header.split(b"|")
    return [*fields[:6], *fields[7:], *others]
