"""Orders that arrive after their visit has moved."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.orders.visits import VisitReference, VisitTransfer
from bridge.store.database import Database
from bridge.store.migration import upgrade
from bridge.store.records import patient_records
from config.listeners import MergedPatients
from mappings.hl7.message import Message
from tests.bridge.delivery.fixtures import SITE, destination, inbound
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.patients.test_visits import adt, known, order

EARLY, MOVED, LATE = "20261121100000", "20261121110000", "20261121120000"


@pytest.fixture
async def hospital(tmp_path: Path, database: Database) -> AsyncIterator[Hospital]:
    """A bridge with a real engine and one receiver."""
    async with open_hospital(tmp_path, database, destination()) as made:
        yield made


def at(time: str, message: bytes) -> bytes:
    return message.replace(b"|20261121||", b"|%s||" % time.encode(), 1)


def a45(to: str = "M2", of: str = "M1", visit: str = "V1", number: str = "V9") -> bytes:
    return at(MOVED, adt("A45", to, f"{of}||||{visit}", visit=number))


async def test_a_late_order_belongs_to_the_new_patient(hospital: Hospital) -> None:
    """A late order gets name, number and visit of the move, in the engine and in the result."""
    await hospital.send(a45())
    await hospital.send(at(EARLY, order("A1")))
    assert hospital.last_message() == ("done", "")
    await hospital.send(at(EARLY, order("A2", visit="V2")))
    assert await known(hospital) == {"A1": ("M2", "V9", "AMB 1"), "A2": ("M1", "V2", "AMB 1")}
    await hospital.read_and_sign("A1", "Read.", "M2")
    await hospital.follow()
    (oru,) = await hospital.delivered(1)
    message = Message.parse(oru)
    fields = [message.value(path) for path in ("PID-3.1", "PID-5.1", "PV1-19.1")]
    assert fields == ["M2", "MOVER", "V9"]


async def test_an_order_that_contradicts_the_move(hospital: Hospital) -> None:
    """An order sent after the move is redirected too, with an exception."""
    await hospital.send(a45())
    await hospital.send(at(LATE, order("A1")))
    assert hospital.last_message() == ("done", "other_patient")
    assert await known(hospital) == {"A1": ("M2", "V9", "AMB 1")}


async def test_a_cancellation_that_names_no_visit_reaches_the_order(hospital: Hospital) -> None:
    await hospital.send(at(EARLY, order("A1")))
    await hospital.send(a45())
    cancel = at(LATE, order("A1")).replace(b"ORC|NW", b"ORC|CA").replace(b"|V1^^^MAIN", b"|")
    await hospital.send(cancel)
    assert await known(hospital) == {}


async def test_a_started_report_stays(hospital: Hospital) -> None:
    """A started report and changes of its order stay with the patient. Other orders move."""
    await hospital.send(at(EARLY, order("A1")))
    page = await hospital.page("A1")
    await page("save", text="Begun.")
    await hospital.send(a45())
    await hospital.send(at(EARLY, order("A2")))
    await hospital.send(at(LATE, order("A1", name="TESTER^TILDA")).replace(b"ORC|NW", b"ORC|XO"))
    owners = {acc: whose for acc, (whose, _, _) in (await known(hospital)).items()}
    assert owners == {"A1": "M1", "A2": "M2"}


async def test_a_listener_without_redirects(hospital: Hospital) -> None:
    """A listener without redirects parks the late order."""
    listening = replace(ListenerPolicy("ris", inbound(), site=SITE), merged=MergedPatients.REFUSE)
    hospital.use(listening)
    await hospital.send(a45())
    await hospital.send(at(EARLY, order("A1")))
    assert hospital.last_message() == ("parked", "other_patient")
    assert await known(hospital) == {}


async def test_a_visit_moves_on(hospital: Hospital) -> None:
    """A late order follows moves and a merge, also back."""
    await hospital.send(a45("M2", "M1", "V1", "V2"))
    await hospital.send(a45("M3", "M2", "V2", "V3"))
    await hospital.send(at(MOVED, adt("A40", "M4", "M3")))
    await hospital.send(at(EARLY, order("A1")))
    assert (await known(hospital))["A1"][:2] == ("M4", "V3")
    await hospital.send(a45("M1", "M4", "V3", "V1"))
    await hospital.send(at(EARLY, order("A2")))
    owners = {acc: (whose, visit) for acc, (whose, visit, _) in (await known(hospital)).items()}
    assert owners == {"A1": ("M1", "V1"), "A2": ("M1", "V1")}


async def test_moves_that_overtake_each_other(hospital: Hospital) -> None:
    """The move sent later takes precedence, in any order of arrival."""
    await hospital.send(at(EARLY, order("A1")))
    await hospital.send(at(LATE, adt("A45", "M3", "M2||||V2", visit="V3")))
    await hospital.send(a45("M2", "M1", "V1", "V2"))
    assert (await known(hospital))["A1"][:2] == ("M3", "V3")


async def test_a_move_of_a_merged_patient(hospital: Hospital) -> None:
    """MRG-1 has the former number, and the visit is the survivor's."""
    await hospital.send(at(EARLY, order("A1")))
    await hospital.send(at(EARLY, adt("A40", "M4", "M1")))
    await hospital.send(a45())
    assert (await known(hospital))["A1"][:2] == ("M2", "V9")


async def test_a_move_that_overtook_its_merge(hospital: Hospital) -> None:
    """An order that a late merge brings to the survivor follows its visit, which moved since."""
    await hospital.send(at(EARLY, order("A1")))
    await hospital.send(a45(of="M4"))
    await hospital.send(at("20261121103000", adt("A40", "M4", "M1")))
    assert (await known(hospital))["A1"][:2] == ("M2", "V9")


async def test_there_and_back(hospital: Hospital) -> None:
    """The remaining row of a moved order does not count as a cancelled order."""
    await hospital.send(at("20261121090000", order("A1")))
    for minute, control in ((b"01", b"HD"), (b"02", b"RL")):
        message = at(f"202611210930{minute.decode()}", order("A1"))
        await hospital.send(message.replace(b"ORC|NW", b"ORC|" + control))
    await hospital.send(a45())
    await hospital.send(at(LATE, adt("A45", "M1", "M2||||V9", visit="V1")))
    assert (await known(hospital))["A1"][:2] == ("M1", "V1")


async def test_a_change_that_arrives_before_its_move(hospital: Hospital) -> None:
    """A change or hold that was sent after the move and arrived before it remains."""
    for accession in ("A1", "A2"):
        await hospital.send(at(EARLY, order(accession)))
        change = at(LATE, order(accession, "M2", "V9", "MOVER^MIRA")).replace(b"NW", b"XO")
        await hospital.send(change.replace(b"CT Head", b"MR Head"))
    await hospital.send(at("20261121103000", order("A2")).replace(b"ORC|NW", b"ORC|HD"))
    await hospital.send(a45())
    (row,) = (await hospital.client.worklist(SITE)).items
    (tags,) = row["orders"]
    assert (tags["Accession"], tags["PatientMRN"]) == ("A1", "M2")
    assert tags["StudyDescription"] == "MR Head"


async def test_a_refused_move(hospital: Hospital) -> None:
    """If the other patient has another name, the order stays, with an exception."""
    await hospital.send(at(EARLY, order("A1")))
    await hospital.send(at(EARLY, order("A2", "M2", "V2", "OTHER^OLGA")))
    await hospital.send(a45())
    assert hospital.last_message() == ("parked", "patient_name_mismatch")
    owners = {acc: whose for acc, (whose, _, _) in (await known(hospital)).items()}
    assert owners == {"A1": "M1", "A2": "M2"}
    await hospital.send(at(MOVED, adt("A08", "M2")))
    owners = {acc: whose for acc, (whose, _, _) in (await known(hospital)).items()}
    assert owners == {"A1": "M2", "A2": "M2"}


def test_old_moves_are_removed(database: Database) -> None:
    """Retention removes old moves without orders."""
    upgrade(database)
    old, new = (
        VisitReference("S", "A", "VisitNumber", "1"),
        VisitReference("S", "A", "VisitNumber", "2"),
    )
    with database.write() as connection:
        patient_records.add_transfer(connection, old, VisitTransfer(old._replace(mrn="B"), 1))
        patient_records.add_transfer(connection, new, VisitTransfer(new._replace(mrn="B"), 10))
    patient_records.delete_old(database, 5)
    with database.read() as connection:
        _, moves = patient_records.find_merges_and_transfers(connection, {("S", "A")})
    assert set(moves) == {new}
