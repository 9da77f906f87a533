"""Patients with conspicuous values go down every path of failure; no log or metric shows one."""

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


def rude(message: bytes, seen: int) -> bytes:
    """Refuse, and repeat what was sent in the refusal; garbage; then accept."""
    reply = ack(message, b"AE") + b"ERR|||207|E||||CANARYTEXT of CANARYNAME\r"
    return [
        VT + reply + FS_CR,
        VT + b"CANARYNAME is no reply" + FS_CR,
        VT + ack(message, about=b"CANARYID") + FS_CR,
        VT + ack(message) + FS_CR,
    ][min(seen, 3)]


def canary(number: int, **extra: str) -> bytes:
    """An order full of canaries."""
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
def sung(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, Sink]]:
    """A talkative house through which the canaries have gone."""
    house = House(tmp_path_factory.mktemp("canary") / "home")
    house.settings = '[log]\nlevel = "debug"\n'
    nowhere = house.listener("nowhere", site="NOSITE")
    stored = house.listener("stored", acknowledge="stored")
    with sink(rude) as ris:
        house.destination("ris", ris.port)
        house.destination("dead", 1)
        house.make()
        house.start()
        wrong(house, nowhere, stored)
        results(house, ris)
        refused_calls(house)
        house.settle()
        yield house, ris
    house.kill()


def wrong(house: House, nowhere: int, stored: int) -> None:
    """Messages that are good, refused, parked, cut, damaged, repeated, of patients and merges."""
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


def results(house: House, ris: Sink) -> None:
    """Reports that go out to a rude receiver and a dead one."""
    house.draft("CANARYMRN20", "CANARYACC20", "CANARYTEXT seen.", PatientName="CANARYNAME")
    house.sign("CANARYMRN20", "CANARYACC20")
    addendum(house, "CANARYMRN20", "CANARYACC20", "CANARYTEXT more.")
    ris.wait(5)


def refused_calls(house: House) -> None:
    """Calls that the engine refuses, with canaries in path, query and body."""
    house.act("sign", "CANARYMRN-none", "CANARYACC-none", expect=None)
    house.act("unsign", "CANARYMRN20", "CANARYACC20", expect=None)
    house.post("/api/report/launch/clinical", {"clinicalInfo": {"CANARYTEXT": 1}}, expect=None)
    house.call("GET", "/CANARYTEXT", expect=None, params={"PatientMRN": "CANARYMRN1"})
    house.call("GET", "/api/worklist", expect=None, params={"q": "CANARYNAME", "limit": "x"})
    house.call("POST", "/api/report/sign", expect=None, content=b'{"CANARYTEXT')
    with httpx.Client(base_url=house.url, timeout=PATIENCE) as stranger:
        stranger.get("/api/worklist?PatientMRN=CANARYMRN1", headers={"x-access-token": "CANARYID"})
        stranger.get("/launch-report/clinical?handle=CANARYTEXT")


@pytest.mark.parametrize("value", CANARIES)
def test_log(sung: tuple[House, Sink], value: str) -> None:
    """Nothing that the service printed, at its most talkative, names a patient."""
    house, _ = sung

    assert "level" in house.log() or "listening" in house.log()
    assert [line for line in house.log().splitlines() if value in line] == []


@pytest.mark.parametrize("value", CANARIES)
def test_metrics(sung: tuple[House, Sink], value: str) -> None:
    """No metric has a patient in a label."""
    house, _ = sung
    shown = httpx.get(f"{house.url}/metrics", timeout=PATIENCE).text

    assert "bridge_deliveries_total" in shown
    assert value not in shown


def test_lists_without_bodies(sung: tuple[House, Sink]) -> None:
    """What scripts list of messages and deliveries has no patient in it."""
    house, _ = sung
    messages = json.loads(house.bridge("messages", "list", "--limit", "200", "--json"))
    for row in messages:
        row.pop("message_type")  # MSH-9, where one sender wrote nonsense
    listed = str(messages) + house.bridge("deliveries", "list", "--limit", "200", "--json")

    assert messages
    assert [value for value in CANARIES if value in listed] == []


def test_files(sung: tuple[House, Sink]) -> None:
    """Besides the databases and what the operator wrote, no file of the home holds a patient."""
    house, _ = sung
    for file in house.home.rglob("*"):
        if file.is_file() and ".db" not in file.name:
            assert b"CANARY" not in file.read_bytes(), file.name


def test_the_canaries_were_there(sung: tuple[House, Sink]) -> None:
    """The test is no test of nothing: they did arrive, and did go out."""
    house, ris = sung

    assert any("CANARYACC1" in str(row) for row in house.worklist())
    assert any(b"CANARYTEXT" in message for message in ris.received)
    assert Path(house.home / "bridge.db").exists()
