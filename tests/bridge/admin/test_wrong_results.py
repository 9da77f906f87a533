"""Results that went out under the wrong patient are listed, withdrawn, and sent again."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.admin.orders import merges
from bridge.intake.process.scheduled_steps import StepWriter
from bridge.store.database import Database
from bridge.store.records import patient_records
from mappings.hl7.message import Message
from tests.bridge.delivery.fixtures import SITE, destination
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.patients.test_merges import EVA, IDA, REPAIRS, merge, order, patients


@pytest.fixture
async def hospital(tmp_path: Path, database: Database) -> AsyncIterator[Hospital]:
    """A bridge with a real engine and one receiver."""
    async with open_hospital(tmp_path, database, destination()) as made:
        yield made


def identity(payload: bytes) -> tuple[str, str, str, str]:
    """Return number, family name, birth date and status of a result."""
    message = Message.parse(payload)
    first, family, birth, status = (
        message.value(path) for path in ("PID-3.1", "PID-5.1", "PID-7.1", "OBR-25.1")
    )
    return first, family, birth, status


def pid(payload: bytes) -> bytes:
    """Return the patient's segment with all identifiers and their authorities."""
    (line,) = (line for line in payload.split(b"\r") if line.startswith(b"PID"))
    return line


async def undo(hospital: Hospital, *, include_signed: bool) -> tuple[int, int]:
    with hospital.database.read() as connection:
        (pointer,) = patient_records.merge_pointers(connection, [(SITE, IDA.mrn)]).values()
    return await merges.undo_pointer(
        hospital.database, hospital.client, pointer, StepWriter(), include_signed=include_signed
    )


async def test_a_result_under_the_wrong_patient_is_corrected(hospital: Hospital) -> None:
    """
    It was signed while the numbers were merged. The receiver gets a withdrawal under the survivor's
    number, then the result under the patient's own. Repeated, nothing is sent.
    """
    await hospital.send(order(EVA, "0"))
    await hospital.send(order(IDA, "1"))
    await hospital.send(merge(EVA, IDA))
    await hospital.read_and_sign("F1", "Normal.", EVA.mrn)
    await hospital.follow()
    (wrong,) = await hospital.delivered(1)
    assert identity(wrong) == (EVA.mrn, "SURVIVOR", EVA.birth, "F")

    shown = await merges.describe(hospital.database, hospital.client, IDA.mrn, SITE)
    assert [(row.accession, row.stays) for row in shown.orders] == [("F1", "signed")]
    assert (shown.reports, shown.priors, shown.linked) == (1, 1, 0)
    sides = [(side.mrn, side.name, side.birth_date) for side in shown.patients]
    assert sides == [(IDA.mrn, IDA.name, IDA.birth), (EVA.mrn, EVA.name, EVA.birth)]
    assert [(row.destination, row.accession) for row in shown.results] == [("ris", "F1")]

    assert await undo(hospital, include_signed=True) == (1, 0)
    assert (await patients(hospital))["F1"] == (IDA.mrn, IDA.name)
    shown = await merges.describe(hospital.database, hospital.client, IDA.mrn, SITE)
    assert [row.is_corrected for row in shown.results] == [False]

    change = merges.find_undone(hospital.database, IDA.mrn, SITE)
    assert [merges.queue_corrections(hospital.database, change) for _ in range(2)] == [2, 0]
    for courier in hospital.couriers:
        courier.notify()
    _, withdrawn, right = await hospital.delivered(3)
    assert pid(withdrawn) == pid(wrong)
    assert b"withdrawn" in withdrawn
    assert identity(right)[:3] == (IDA.mrn, "FREED", IDA.birth)
    assert b"Normal." in right
    shown = await merges.describe(hospital.database, hospital.client, IDA.mrn, SITE)
    assert [row.is_corrected for row in shown.results] == [True]


async def test_results_of_orders_that_stay_are_not_corrected(hospital: Hospital) -> None:
    """A person has not said whose they are."""
    await hospital.send(order(IDA, "1"))
    await hospital.send(merge(EVA, IDA))
    await hospital.read_and_sign("F1", "Normal.", EVA.mrn)
    await hospital.follow()
    await hospital.delivered(1)
    await hospital.send(REPAIRS["A43"])
    change = merges.find_undone(hospital.database, IDA.mrn, SITE)
    assert merges.queue_corrections(hospital.database, change) == 0
    assert (await patients(hospital))["F1"][0] == EVA.mrn


async def test_a_result_before_the_merge_needs_no_correction(hospital: Hospital) -> None:
    """It went out under the patient's own number."""
    await hospital.send(order(IDA, "1"))
    await hospital.read_and_sign("F1", "Normal.", IDA.mrn)
    await hospital.follow()
    await hospital.delivered(1)
    hospital.time.leap += 60_000
    await hospital.send(merge(EVA, IDA))
    await hospital.send(REPAIRS["A43"])
    shown = await merges.describe(hospital.database, hospital.client, IDA.mrn, SITE)
    assert [(row.accession, row.stays) for row in shown.orders] == [("F1", "")]
    assert shown.results == []
    change = merges.find_undone(hospital.database, IDA.mrn, SITE)
    assert merges.queue_corrections(hospital.database, change) == 0
