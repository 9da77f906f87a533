"""Patient data with conspicuous values takes every failure path; no log or metric contains it."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import adt, group_of, order
from tests.acceptance.radiologist import addendum
from tests.acceptance.wire import FS_CR, VT, Sender, Sink, ack, sink
from tests.eventually import PATIENCE

CANARIES = (
    "CANARYNAME",
    "CANARYMRN",
    "CANARYACC",
    "CANARYTEXT",
    "CANARYID",
    "CANARYNOTE",
    "4711.42",
)


def refuse_with_patient_data(message: bytes, attempts: int) -> bytes:
    reply = ack(message, b"AE") + b"ERR|||207|E||||CANARYTEXT of CANARYNAME\r"
    return [
        VT + reply + FS_CR,
        VT + b"CANARYNAME is no reply" + FS_CR,
        VT + ack(message, about=b"CANARYID") + FS_CR,
        VT + ack(message) + FS_CR,
    ][min(attempts, 3)]


def canary(number: int, **extra: str) -> bytes:
    given = {
        "mrn": f"CANARYMRN{number}",
        "accession": f"CANARYACC{number}",
        "name": "CANARYNAME^CANARYNAME",
        "msh10": f"CANARYID{number}",
        "study": f"1.2.4711.42.{number}",
        "extra": "NTE|1||CANARYNOTE\rZCA|CANARYTEXT\r",
    }
    return order(number, **{**given, **extra})


@pytest.fixture(scope="module")
def processed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, Sink]]:
    """A service with log level debug after it processed the canary messages."""
    house = House(tmp_path_factory.mktemp("canary") / "home")
    house.settings = '[log]\nlevel = "debug"\n'
    nowhere = house.listener("nowhere", site="NOSITE")
    stored = house.listener("stored", acknowledge="stored")
    with sink(refuse_with_patient_data) as ris:
        house.destination("ris", ris.port)
        house.destination("dead", 1)
        house.make()
        house.start()
        send_messages(house, nowhere, stored)
        release_reports(house, ris)
        send_refused_requests(house)
        house.settle()
        yield house, ris
    house.kill()


def send_messages(house: House, nowhere: int, stored: int) -> None:
    messages = [
        canary(1),
        canary(2, extra=group_of(3, accession="CANARYACC3")),
        canary(4, control="QQ"),
        canary(5).replace(b"PID|1||CANARYMRN5", b"PID|1||"),
        canary(6).replace(b"ORM^O01", b"CANARYTEXT^CANARYNAME"),
        canary(7).replace(b"|2.5.1|", b"|CANARYTEXT|"),
        canary(8) + canary(9),
        canary(10).replace(b"CANARYNAME", b"CANARYNAME\xff\xfe"),
        canary(1, name="OTHER^CANARYNAME"),
        canary(11).replace(b"\r", b"\r\rnonsense CANARYTEXT\r", 1),
        b"CANARYTEXT is not HL7",
        adt("A08", 12, "CANARYMRN1", "CANARYNAME^NEW"),
        adt("A40", 13, "CANARYMRN1B", "CANARYNAME^NEW", "CANARYMRN1"),
        b"BHS|^~\\&|A\r" + canary(14) + canary(15, control="QQ") + b"BTS|2\r",
    ]
    for port in (house.mllp_port, nowhere, stored):
        for message in messages:
            with Sender(port) as sender:
                sender.ask(message)
    with Sender(house.mllp_port) as sender:
        sender.raw(VT + canary(16)[:100] + VT + canary(17) + FS_CR + b"CANARYTEXT noise")


def release_reports(house: House, ris: Sink) -> None:
    """Release reports to a receiver that refuses them and to one that is down."""
    house.draft("CANARYMRN20", "CANARYACC20", "CANARYTEXT seen.", PatientName="CANARYNAME")
    house.sign("CANARYMRN20", "CANARYACC20")
    addendum(house, "CANARYMRN20", "CANARYACC20", "CANARYTEXT more.")
    ris.wait(5)


def send_refused_requests(house: House) -> None:
    house.act("sign", "CANARYMRN-none", "CANARYACC-none", expect=None)
    house.act("unsign", "CANARYMRN20", "CANARYACC20", expect=None)
    house.post("/api/report/launch/clinical", {"clinicalInfo": {"CANARYTEXT": 1}}, expect=None)
    house.call("GET", "/CANARYTEXT", expect=None, params={"PatientMRN": "CANARYMRN1"})
    house.call("GET", "/api/worklist", expect=None, params={"q": "CANARYNAME", "limit": "x"})
    house.call("POST", "/api/report/sign", expect=None, content=b'{"CANARYTEXT')
    with httpx.Client(base_url=house.url, timeout=PATIENCE) as unauthenticated:
        unauthenticated.get(
            "/api/worklist?PatientMRN=CANARYMRN1", headers={"x-access-token": "CANARYID"}
        )
        unauthenticated.get("/launch-report/clinical?handle=CANARYTEXT")


@pytest.mark.parametrize("value", CANARIES)
def test_log(processed: tuple[House, Sink], value: str) -> None:
    """The log at level debug contains no patient data."""
    house, _ = processed

    assert "level" in house.log() or "listening" in house.log()
    assert [line for line in house.log().splitlines() if value in line] == []


@pytest.mark.parametrize("value", CANARIES)
def test_metrics(processed: tuple[House, Sink], value: str) -> None:
    """No metric contains patient data."""
    house, _ = processed
    shown = httpx.get(f"{house.url}/metrics", timeout=PATIENCE).text

    assert "bridge_deliveries_total" in shown
    assert value not in shown


def test_lists_without_bodies(processed: tuple[House, Sink]) -> None:
    """The JSON lists of messages and deliveries contain no patient data."""
    house, _ = processed
    messages = json.loads(house.bridge("messages", "list", "--limit", "200", "--json"))
    for row in messages:
        row.pop("message_type")  # MSH-9; one of the messages has a canary there
    listed = str(messages) + house.bridge("deliveries", "list", "--limit", "200", "--json")

    assert messages
    assert [value for value in CANARIES if value in listed] == []


def test_files(processed: tuple[House, Sink]) -> None:
    """No file of HOME except the databases contains patient data."""
    house, _ = processed
    for file in house.home.rglob("*"):
        if file.is_file() and ".db" not in file.name:
            assert b"CANARY" not in file.read_bytes(), file.name


def test_the_canaries_were_there(processed: tuple[House, Sink]) -> None:
    """The canaries reached the worklist and the receiver."""
    house, ris = processed

    assert any("CANARYACC1" in str(row) for row in house.worklist())
    assert any(b"CANARYTEXT" in message for message in ris.received)
    assert Path(house.home / "bridge.db").exists()
