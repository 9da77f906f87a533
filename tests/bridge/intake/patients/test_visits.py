"""Visits are moved, merged or renumbered with their orders."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bridge.store.database import Database
from mappings.hl7.message import Message
from tests.bridge.delivery.fixtures import SITE, destination
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital

NUMBERS = count(1)


@pytest.fixture
async def hospital(tmp_path: Path, database: Database) -> AsyncIterator[Hospital]:
    """A bridge with a real engine and one receiver."""
    async with open_hospital(tmp_path, database, destination()) as made:
        yield made


def order(acc: str, mrn: str = "M1", visit: str = "V1", name: str = "TESTER^TILDA") -> bytes:
    return (
        f"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121||ORM^O01|V{next(NUMBERS)}|P|2.5.1\r"
        f"PID|1||{mrn}||{name}||19700101|F\rPV1|1|O|AMB^1||||||||||||||||{visit}^^^MAIN\r"
        f"ORC|NW|P{acc}|{acc}\rOBR|1|P{acc}|{acc}|X^CT Head^L||||||||||||||{acc}||||||CT\r"
    ).encode()


def adt(event: str, mrn: str = "M1", merge: str = "", place: str = "W^2", visit: str = "") -> bytes:
    return (
        f"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121||ADT^{event}|V{next(NUMBERS)}|P|2.5.1\r"
        f"EVN|{event}|20261121\rPID|1||{mrn}||{'MOVER^MIRA' if mrn == 'M2' else 'TESTER^TILDA'}"
        f"||19700101|F\r{merge and f'MRG|{merge}' + chr(13)}"
        f"PV1|1|I|{place}||||||||||||||||{visit}\r"
    ).encode()


async def known(hospital: Hospital) -> dict[str, tuple[str, str, str]]:
    rows: list[Any] = [
        listed for row in (await hospital.client.worklist(SITE)).items for listed in row["orders"]
    ]
    found = {
        row["Accession"]: (
            row["PatientMRN"],
            row["Metadata"].get("VisitNumber", ""),
            row["Metadata"].get("PatientLocation", ""),
        )
        for row in rows
    }
    index = hospital.rows("SELECT accession, mrn FROM bridge_order WHERE state = 'ordered'")
    assert sorted((acc, whose) for acc, (whose, _, _) in found.items()) == sorted(index)
    return found


async def test_an_update_reaches_the_orders_of_its_visit(hospital: Hospital) -> None:
    """A transfer changes the location of the patient for the orders of this visit only."""
    await hospital.send(order("A1"))
    await hospital.send(order("A2", visit="V2"))
    await hospital.send(adt("A02", visit="V1"))
    assert await known(hospital) == {"A1": ("M1", "V1", "W 2"), "A2": ("M1", "V2", "AMB 1")}


def at(hour: int, message: bytes) -> bytes:
    return message.replace(b"|20261121||", b"|20261121%02d0000||" % hour, 1)


@pytest.mark.parametrize("event", ["A01", "A02", "A08", "A31"])
async def test_an_update_that_an_order_overtook(hospital: Hospital, event: str) -> None:
    """An older update does not replace what a newer order has, and is an exception."""
    await hospital.send(at(10, order("A1")))
    await hospital.send(at(9, adt(event, visit="V1")))
    assert await known(hospital) == {"A1": ("M1", "V1", "AMB 1")}
    assert hospital.last_message() == ("done", "superseded")
    await hospital.send(at(11, adt(event, visit="V1")))
    assert await known(hospital) == {"A1": ("M1", "V1", "W 2")}
    await hospital.send(at(12, order("A1").replace(b"AMB^1", b"AMB^2").replace(b"NW", b"XO")))
    assert await known(hospital) == {"A1": ("M1", "V1", "AMB 2")}


async def test_an_older_update_adds_what_an_order_does_not_have(hospital: Hospital) -> None:
    """Demographics and a location that the newer order lacks are added; others stay."""
    bare = order("A1").replace(b"AMB^1", b"").replace(b"19700101|F", b"|F")
    await hospital.send(at(10, bare))
    late = adt("A08", visit="V1").replace(b"TESTER^TILDA", b"OLDER^TILDA")
    await hospital.send(at(9, late))
    assert await known(hospital) == {"A1": ("M1", "V1", "W 2")}
    (row,) = (await hospital.client.worklist(SITE)).items
    (tags,) = row["orders"]
    assert (tags["PatientName"], tags["PatientBirthDate"]) == ("TESTER^TILDA", "19700101")
    assert hospital.last_message() == ("done", "superseded")


async def test_times_of_other_senders_are_not_compared(hospital: Hospital) -> None:
    """An update of another sender counts when it arrives, whatever its clock says."""
    await hospital.send(at(10, order("A1")))
    await hospital.send(at(9, adt("A02", visit="V1")).replace(b"|RIS|MAIN|", b"|HIS|MAIN|"))
    assert await known(hospital) == {"A1": ("M1", "V1", "W 2")}


@pytest.mark.parametrize("event", ["A01", "A02", "A08"])
async def test_an_update_that_was_overtaken(hospital: Hospital, event: str) -> None:
    """Of two updates the one sent later counts, and the other one is an exception."""
    await hospital.send(order("A1"))
    for name, place, hour in (("A02", "W^3", b"11"), (event, "W^2", b"10"), ("A02", "W^4", b"12")):
        update = adt(name, place=place, visit="V1")
        await hospital.send(update.replace(b"|20261121||ADT", b"|20261121%b0000||ADT" % hour))
        assert await known(hospital) == {"A1": ("M1", "V1", "W 4" if hour == b"12" else "W 3")}
    codes = hospital.rows("SELECT code FROM message ORDER BY id")
    assert [code for (code,) in codes] == ["", "", "superseded", ""]


@pytest.mark.parametrize("event", ["A42", "A45", "A50"])
async def test_a_visit_gets_another_number(hospital: Hospital, event: str) -> None:
    """Its orders have the new number in Metadata and results."""
    await hospital.send(order("A1"))
    await hospital.send(adt(event, merge="M1||||V1", visit="V9"))
    assert (await known(hospital))["A1"][:2] == ("M1", "V9")
    await hospital.read_and_sign("A1", "Read.")
    await hospital.follow()
    (oru,) = await hospital.delivered(1)
    assert Message.parse(oru).value("PV1-19.1") == "V9"


@pytest.mark.parametrize("number", ["V9", "V1"])
async def test_a_visit_moves_to_another_patient(hospital: Hospital, number: str) -> None:
    """A45 moves the orders of the visit to the other patient. Orders of other visits stay."""
    await hospital.send(order("A1"))
    await hospital.send(order("A2", visit="V2"))
    await hospital.send(adt("A45", "M2", "M1||||V1", visit=number))
    assert await known(hospital) == {"A1": ("M2", number, "W 2"), "A2": ("M1", "V2", "AMB 1")}
    (row,) = [
        listed
        for row in (await hospital.client.worklist(SITE)).items
        for listed in row["orders"]
        if listed["Accession"] == "A1"
    ]
    assert "MIRA" in row["PatientName"]


async def test_a_started_report_stays(hospital: Hospital) -> None:
    """A started report does not move, and the message is an exception."""
    await hospital.send(order("A1"))
    page = await hospital.page("A1")
    await page("save", text="Begun.")
    await hospital.send(adt("A45", "M2", "M1||||V1", visit="V1"))
    assert hospital.rows("SELECT state, code FROM message ORDER BY id DESC LIMIT 1") == [
        ("done", "report_kept")
    ]
    ((message_id,),) = hospital.rows("SELECT max(id) FROM message")
    assert hospital.rows("SELECT kind, row_id, code FROM exception") == [
        ("message", message_id, "report_kept")
    ]
    record = await hospital.report("A1", "M1")
    assert record is not None
    assert await hospital.report("A1", "M2") is None


async def test_a_name_that_was_corrected_stays(hospital: Hospital) -> None:
    """An update of the visit does not restore a name from before a correction."""
    await hospital.send(order("A1", name="TESTER^TILDE"))
    await hospital.send(adt("A08"))
    await hospital.send(adt("A02", visit="V1"))
    assert hospital.states() == {"done"}
    (row,) = (await hospital.client.worklist(SITE)).items
    assert "TILDA" in row["orders"][0]["PatientName"]


async def test_a_moved_order_has_no_old_demographics(hospital: Hospital) -> None:
    """A moved order has only demographics of the event, and the age that follows from them."""
    dated = order("A1").replace(b"X^CT Head^L||||", b"X^CT Head^L|||20260301|")
    await hospital.send(dated.replace(b"|19700101|F", b"|19700101|F||2106-3^White"))
    move = adt("A45", "M2", "M1||||V1", visit="V1")
    await hospital.send(move.replace(b"|19700101|F", b"|19960101|F"))
    (row,) = (await hospital.client.worklist(SITE)).items
    (tags,) = row["orders"]
    assert (tags["PatientBirthDate"], tags["PatientAge"]) == ("19960101", "030Y")
    assert "Race" not in tags


async def test_a_cancellation_that_arrives_before_its_move(
    hospital: Hospital,
) -> None:
    """A cancellation that was sent after the move and arrived before it counts."""
    cancel = order("A1", "M2", name="MOVER^MIRA").replace(b"ORC|NW", b"ORC|CA")
    await hospital.send(cancel.replace(b"|20261121||ORM", b"|20261121130000||ORM"))
    await hospital.send(order("A1").replace(b"|20261121||ORM", b"|20261121100000||ORM"))
    await hospital.send(adt("A45", "M2", "M1||||V1", visit="V1"))
    assert (await hospital.client.worklist(SITE)).items == ()
