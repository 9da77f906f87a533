"""Reports of other systems over real sockets: the night service, kills, and the commands."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.radiologist import Window, addendum
from tests.acceptance.wire import Sender, sink, verdict
from tests.eventually import PATIENCE, eventually
from tests.trust import TRUSTED

NIGHT = """include: outside-reports.yaml
accept:
  senders: [{application: NIGHTREADS}, {application: BRIDGE}]
"""
MAPPINGS = 'mappings = ["orders", "patients", "night"]'
PDF = b"%PDF-1.7\n%%EOF\n"


@pytest.fixture
def house(database_url: str, tmp_path: Path) -> Iterator[House]:
    """An installation whose listener takes the reports of the night service, not started."""
    url = "" if database_url.startswith("sqlite") else database_url
    house = House(tmp_path / "home", database=url)
    house.listener_extra = MAPPINGS
    house.make()
    (house.home / "mappings" / "night.yaml").write_text(NIGHT, "utf-8")
    yield house
    house.kill()


def result(
    number: int,
    text: str = "No acute finding.",
    *,
    sender: str = "NIGHTREADS",
    status: str = "F",
    hour: int = 3,
) -> bytes:
    """An ORU about the order of the same number, with a text and a PDF."""
    pdf = base64.b64encode(PDF).decode()
    return (
        f"MSH|^~\\&|{sender}|NORTH|BRIDGE|RAD|202601030{hour}0405||ORU^R01^ORU_R01|N{number}-{hour}|P|2.5.1\r"
        f"PID|1||M{number}^^^HOSP^MR||DOE^JANE||19700203|F\r"
        f"ORC|RE|P{number}|F{number}||CM\r"
        f"OBR|1|P{number}|F{number}|71250^CT chest^C4||||||||||||||A{number}||||||CT|{status}\r"
        f"OBX|1|TX|18748-4^Report^LN|1|{text}||||||{status}\r"
        f"OBX|2|ED|PDF^Report^L|1|^application^PDF^Base64^{pdf}||||||{status}\r"
    ).encode()


def call(house: House, window: Window, path: str) -> httpx.Response:
    return httpx.get(
        f"{house.url}/reporting/api/session/{path}",
        headers={"Authorization": f"Bearer {window.session}"},
        timeout=PATIENCE,
        verify=TRUSTED,
    )


def priors(house: House, number: int) -> list[dict[str, Any]]:
    """Return the outside reports on the page of a later order of the patient."""
    house.send(order(number + 500, mrn=f"M{number}"))
    window = Window(house, f"M{number}", f"A{number + 500}")
    listed = call(house, window, "priors").json()["priors"]
    return [call(house, window, f"priors/{prior['reportId']}").json() for prior in listed]


def test_the_night_service_has_read_it(house: House) -> None:
    """The unread order leaves the list, and the text is the prior of tomorrow, with its file."""
    house.start()
    house.send(order(1), order(2))
    house.send(result(1))
    assert [row["orders"][0]["Accession"] for row in house.worklist(status="Ordered")] == ["A2"]
    (prior,) = priors(house, 1)
    (version,) = prior["versions"]
    assert prior["outside"]["sender"] == "NIGHTREADS NORTH"
    assert version["document"]["content"][0]["content"][0]["text"] == "No acute finding."
    assert version["pdfs"] == 1
    shown = house.bridge("orders", "show", "A1")
    assert "Outside report, ORU^R01 from orders" in shown
    assert "not made here: NIGHTREADS NORTH" in shown
    assert "    No acute finding.\n" in shown

    def marks() -> list[str]:
        (row,) = house.worklist(Accession="A1")
        return [mark["status"] for mark in row["reportedElsewhere"]]

    assert marks() == ["F"]
    Window(house, "M1", "A1").do("unread")
    assert marks() == []
    words = "is reported elsewhere"
    eventually(lambda: words not in house.bridge("orders", "show", "A1"))
    house.send(result(1, "Corrected.", status="C", hour=4))
    assert words in house.bridge("orders", "show", "A1")
    assert marks() == ["C"]
    house.bridge("orders", "return-to-unread", "A1", "--reason", "second opinion")
    assert marks() == []
    with Sender(house.mllp_port) as sender:
        assert verdict(sender.ask(result(2, sender="OTHER")))[0] == "AR"
    (refused,) = json.loads(house.bridge("messages", "list", "--limit", "1", "--json"))
    assert refused["state"] == "refused"


def test_an_own_result_is_read_back(house: House) -> None:
    """
    The results of another installation are priors, with their text and their versions.

    The order that is signed here is not reported elsewhere, and nothing needs attention.
    """
    text = "Größe 5\u20137 mm | ^ & ~ \\\nKein Befund."
    with sink() as receiver:
        house.destination("ris", receiver.port)
        house.configure()
        house.start()
        house.send(order(1))
        house.draft("M1", "A1", text)
        house.sign("M1", "A1")
        addendum(house, "M1", "A1", "Compared by phone.")
        sent = receiver.wait(2)
    assert len(sent) == 2
    final, addended = sent
    house.send(addended, sent_earlier(final))
    (prior,) = [prior for prior in priors(house, 1) if prior.get("outside")]
    assert prior["outside"]["sender"] == "BRIDGE RAD"
    newest, oldest = (texts_of(version["document"]) for version in prior["versions"])
    assert oldest == text.split("\n")
    assert newest[:2] == oldest
    assert "Compared by phone." in newest
    (row,) = house.worklist(Accession="A1")
    assert (row["status"], row["reportedElsewhere"]) == ("Addendum", [])
    assert json.loads(house.bridge("exceptions", "list", "--json")) == []


def sent_earlier(message: bytes) -> bytes:
    """Return a message with a MSH-7 of a minute before."""
    fields = message.split(b"|")
    sent = datetime.strptime(fields[6][:14].decode(), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    fields[6] = f"{sent - timedelta(minutes=1):%Y%m%d%H%M%S}".encode() + fields[6][14:]
    return b"|".join(fields)


def texts_of(document: dict[str, Any]) -> list[str]:
    """Return the lines of a document."""
    return [
        "".join(text["text"] for text in block.get("content", ()))
        for block in document["content"]
        if block.get("content")
    ]


@pytest.mark.slow
def test_a_kill_after_the_acknowledgment_loses_nothing(house: House) -> None:
    """The process is killed while acknowledged reports wait; each is a prior after the start."""
    house.start()
    for first in (0, 20):
        with Sender(house.mllp_port) as sender:
            for number in range(first, first + 20):
                assert verdict(sender.ask(result(number)))[0] == "AA"
        house.kill()
        house.start()
    house.settle()
    listed = json.loads(house.bridge("messages", "list", "--state", "done", "--json"))
    assert sum(row["message_type"].startswith("ORU") for row in listed) == 40
    assert [len(priors(house, number)) for number in (0, 19, 20, 39)] == [1] * 4


def test_the_commands_know_the_kind(house: House, tmp_path: Path) -> None:
    """Check, try, diff, activate, history and rollback work as for orders."""
    sample = tmp_path / "night.hl7"
    sample.write_bytes(result(1))
    house.bridge("mapping", "check")
    tried = house.bridge("mapping", "try", "night", str(sample), "--listener", "orders")
    assert "No acute finding." in tried
    house.start()
    house.send(order(1))
    house.send(result(1))
    house.bridge("mapping", "activate", "night", "--reason", "first")
    file = house.home / "mappings" / "night.yaml"
    file.write_text(NIGHT + "report: {title: OBR-4.1}\n", "utf-8")
    assert "71250" in house.bridge("mapping", "diff", "night", "--last", "5", expect=None)
    assert "71250" not in house.bridge("mapping", "shadow", "night", expect=1)
    file.write_text(NIGHT + "report: {titel: OBR-4.1}\n", "utf-8")
    refused = house.bridge("mapping", "activate", "night", "--reason", "wrong", expect=1)
    assert "night.yaml:4:10" in refused
    file.write_text(NIGHT + "report: {title: OBR-4.1}\n", "utf-8")
    house.bridge("mapping", "activate", "night", "--reason", "the code is the title")
    house.send(result(2))
    assert "the code is the title" in house.bridge("mapping", "history", "night")
    house.bridge("mapping", "rollback", "night", "--reason", "back")
    eventually(lambda: "back" in house.bridge("mapping", "history", "night"))
