"""Orders that arrive after their visit has moved."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.store.database import Database
from bridge.store.migration import upgrade
from bridge.store.records import visit_transfers
from bridge.store.records.visit_transfers import VisitReference, VisitTransfer
from config.listeners import MergedPatients
from mappings.hl7.message import Message
from tests.bridge.delivery.fixtures import SITE, destination, inbound
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.patients.test_visits import adt, known, order

pytestmark = pytest.mark.anyio

EARLY, MOVED, LATE = "20261121100000", "20261121110000", "20261121120000"


@pytest.fixture
async def hospital(tmp_path: Path, database: Database) -> AsyncIterator[Hospital]:
    """A bridge with a real engine and one receiver."""
    async with open_hospital(tmp_path, database, destination()) as made:
        yield made


def at(time: str, message: bytes) -> bytes:
    """Say when a message was sent."""
    return message.replace(b"|20261121||", b"|%s||" % time.encode(), 1)


def a45(to: str = "M2", of: str = "M1", visit: str = "V1", number: str = "V9") -> bytes:
    """Move a visit to another patient."""
    return at(MOVED, adt("A45", to, f"{of}||||{visit}", visit=number))


def last(hospital: Hospital) -> tuple[str, str]:
    """Return state and code of the last message."""
    ((state, code),) = hospital.rows("SELECT state, code FROM message ORDER BY id DESC LIMIT 1")
    return state, code


async def test_an_order_that_comes_late_is_the_new_patients(hospital: Hospital) -> None:
    """Name, number and visit are those of the move, in the report engine and in the result."""
    await hospital.send(a45())
    await hospital.send(at(EARLY, order("A1")))
    assert last(hospital) == ("done", "")
    await hospital.send(at(EARLY, order("A2", visit="V2")))
    assert await known(hospital) == {"A1": ("M2", "V9", "AMB 1"), "A2": ("M1", "V2", "AMB 1")}
    await hospital.read_and_sign("A1", "Read.", "M2")
    await hospital.follow()
    (oru,) = await hospital.delivered(1)
    message = Message.parse(oru)
    said = [message.value(path) for path in ("PID-3.1", "PID-5.1", "PV1-19.1")]
    assert said == ["M2", "MOVER", "V9"]


async def test_who_contradicts_the_move_later_is_told_to_people(hospital: Hospital) -> None:
    """An order that was sent after the move is redirected too, with an exception."""
    await hospital.send(a45())
    await hospital.send(at(LATE, order("A1")))
    assert last(hospital) == ("done", "other_patient")
    assert await known(hospital) == {"A1": ("M2", "V9", "AMB 1")}


async def test_a_cancellation_that_names_no_visit_reaches_the_order(hospital: Hospital) -> None:
    """A known order is found at its new patient."""
    await hospital.send(at(EARLY, order("A1")))
    await hospital.send(a45())
    cancel = at(LATE, order("A1")).replace(b"ORC|NW", b"ORC|CA").replace(b"|V1^^^MAIN", b"|")
    await hospital.send(cancel)
    assert await known(hospital) == {}


async def test_what_could_not_move_is_spoken_of_as_before(hospital: Hospital) -> None:
    """A report that was begun stays, and so do changes of its order; other orders move."""
    await hospital.send(at(EARLY, order("A1")))
    page = await hospital.page("A1")
    await page("save", text="Begun.")
    await hospital.send(a45())
    await hospital.send(at(EARLY, order("A2")))
    await hospital.send(at(LATE, order("A1", name="TESTER^TILDA")).replace(b"ORC|NW", b"ORC|XO"))
    owners = {acc: whose for acc, (whose, _, _) in (await known(hospital)).items()}
    assert owners == {"A1": "M1", "A2": "M2"}


async def test_a_listener_that_redirects_nobody_parks_it(hospital: Hospital) -> None:
    """As with messages about merged patients."""
    listening = replace(ListenerPolicy("ris", inbound(), site=SITE), merged=MergedPatients.REFUSE)
    hospital.adopt(listening)
    await hospital.send(a45())
    await hospital.send(at(EARLY, order("A1")))
    assert last(hospital) == ("parked", "other_patient")
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
    """The move that was sent later takes precedence, in any order of arrival."""
    await hospital.send(at(EARLY, order("A1")))
    await hospital.send(at(LATE, adt("A45", "M3", "M2||||V2", visit="V3")))
    await hospital.send(a45("M2", "M1", "V1", "V2"))
    assert (await known(hospital))["A1"][:2] == ("M3", "V3")


async def test_a_move_of_somebody_who_was_merged(hospital: Hospital) -> None:
    """MRG-1 has the former number: the visit is the survivor's."""
    await hospital.send(at(EARLY, order("A1")))
    await hospital.send(at(EARLY, adt("A40", "M4", "M1")))
    await hospital.send(a45())
    assert (await known(hospital))["A1"][:2] == ("M2", "V9")


async def test_there_and_back(hospital: Hospital) -> None:
    """The row that remains of a moved order is not a cancelled order."""
    await hospital.send(at("20261121090000", order("A1")))
    for minute, control in ((b"01", b"HD"), (b"02", b"RL")):
        message = at(f"202611210930{minute.decode()}", order("A1"))
        await hospital.send(message.replace(b"ORC|NW", b"ORC|" + control))
    await hospital.send(a45())
    await hospital.send(at(LATE, adt("A45", "M1", "M2||||V9", visit="V1")))
    assert (await known(hospital))["A1"][:2] == ("M1", "V1")


async def test_an_order_that_was_changed_under_the_number_it_moves_to(hospital: Hospital) -> None:
    """A change that was sent after the move and arrived before it remains, and so does a hold."""
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


async def test_a_move_that_is_refused_takes_nothing_away(hospital: Hospital) -> None:
    """The other patient has another name: the order stays, with an exception."""
    await hospital.send(at(EARLY, order("A1")))
    await hospital.send(at(EARLY, order("A2", "M2", "V2", "OTHER^OLGA")))
    await hospital.send(a45())
    assert last(hospital) == ("parked", "patient_name_mismatch")
    owners = {acc: whose for acc, (whose, _, _) in (await known(hospital)).items()}
    assert owners == {"A1": "M1", "A2": "M2"}
    await hospital.send(at(MOVED, adt("A08", "M2")))
    owners = {acc: whose for acc, (whose, _, _) in (await known(hospital)).items()}
    assert owners == {"A1": "M2", "A2": "M2"}


def test_moves_are_forgotten_with_their_patients_orders(database: Database) -> None:
    """Old moves without orders are removed."""
    upgrade(database)
    old, new = (
        VisitReference("S", "A", "VisitNumber", "1"),
        VisitReference("S", "A", "VisitNumber", "2"),
    )
    with database.write() as connection:
        visit_transfers.add(connection, old, VisitTransfer(old._replace(mrn="B"), 1))
        visit_transfers.add(connection, new, VisitTransfer(new._replace(mrn="B"), 10))
    visit_transfers.delete_old(database, 5)
    with database.read() as connection:
        _, moves = visit_transfers.find_merges_and_transfers(connection, {("S", "A")})
    assert set(moves) == {new}
