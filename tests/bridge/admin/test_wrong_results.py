"""Results that went out under the wrong patient are listed, withdrawn, and sent again."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.admin.orders import merges
from bridge.admin.orders.wrong_results import Corrections, Receivers
from bridge.intake.process.scheduled_steps import StepWriter
from bridge.store.database import Database
from bridge.store.records import patient_records
from bridge.store.records.identifier_changes import UndoChoice, UndoneChange
from mappings.compiler import compile_sources
from mappings.hl7.message import Message
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultEvent
from tests.bridge.delivery.fixtures import SITE, destination
from tests.bridge.delivery.pacs import pacs
from tests.bridge.delivery.test_pacs_delivery import PacsBridge
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.patients.test_merges import EVA, IDA, REPAIRS, merge, order, patients
from tests.eventually import eventually_async
from tests.mappings.definitions import SHIPPED


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
        hospital.database, hospital.client, pointer, StepWriter(), UndoChoice(include_signed)
    )


RECEIVERS: Receivers = {"ris": frozenset(ResultEvent)}


async def accepted(hospital: Hospital, number: int) -> None:
    """Wait until receivers have accepted this many results."""
    done = "SELECT count(*) FROM delivery WHERE state = 'done'"
    await eventually_async(lambda: hospital.rows(done) == [(number,)])


async def describe(hospital: Hospital, receivers: Receivers = RECEIVERS) -> merges.MergeDetails:
    return await merges.describe(hospital.database, hospital.client, receivers, IDA.mrn, SITE)


def queue(
    hospital: Hospital, change: UndoneChange, receivers: Receivers = RECEIVERS
) -> Corrections:
    return merges.queue_corrections(hospital.database, receivers, change)


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
    await accepted(hospital, 1)
    assert identity(wrong) == (EVA.mrn, "SURVIVOR", EVA.birth, "F")

    shown = await describe(hospital)
    assert [(row.accession, row.stays) for row in shown.orders] == [("F1", "signed")]
    assert (shown.reports, shown.priors, shown.linked) == (1, 1, 0)
    sides = [(side.mrn, side.name, side.birth_date) for side in shown.patients]
    assert sides == [(IDA.mrn, IDA.name, IDA.birth), (EVA.mrn, EVA.name, EVA.birth)]
    assert [(row.destination, row.accession) for row in shown.results] == [("ris", "F1")]

    assert await undo(hospital, include_signed=True) == (1, 0)
    assert (await patients(hospital))["F1"] == (IDA.mrn, IDA.name)
    shown = await describe(hospital)
    assert [row.is_corrected for row in shown.results] == [False]

    change = merges.find_undone(hospital.database, IDA.mrn, SITE)
    assert [queue(hospital, change).queued for _ in range(2)] == [2, 0]
    for courier in hospital.couriers:
        courier.notify()
    _, withdrawn, right = await hospital.delivered(3)
    assert pid(withdrawn) == pid(wrong)
    assert b"withdrawn" in withdrawn
    assert identity(right)[:3] == (IDA.mrn, "FREED", IDA.birth)
    assert b"Normal." in right
    shown = await describe(hospital)
    assert [row.is_corrected for row in shown.results] == [True]


async def test_a_result_that_waits_during_the_undo(hospital: Hospital) -> None:
    """It is written afterwards, so it has the right patient, and needs no correction."""
    for number, patient in enumerate((EVA, IDA)):
        await hospital.send(order(patient, str(number)))
    await hospital.send(merge(EVA, IDA))
    hospital.couriers[0].pause()
    await hospital.read_and_sign("F1", "Normal.", EVA.mrn)
    await hospital.follow()
    await undo(hospital, include_signed=True)
    hospital.couriers[0].resume()
    (result,) = await hospital.delivered(1)
    assert identity(result) == (IDA.mrn, IDA.name.partition("^")[0], IDA.birth, "F")
    assert (await describe(hospital)).results == []
    assert queue(hospital, merges.find_undone(hospital.database, IDA.mrn, SITE)).queued == 0


async def test_results_of_orders_that_stay_are_corrected_when_they_return(
    hospital: Hospital,
) -> None:
    """A message cannot say whose they are. A person does so afterwards."""
    await hospital.send(order(IDA, "1"))
    await hospital.send(merge(EVA, IDA))
    await hospital.read_and_sign("F1", "Normal.", EVA.mrn)
    await hospital.follow()
    await accepted(hospital, 1)
    await hospital.send(REPAIRS["A43"])
    change = merges.find_undone(hospital.database, IDA.mrn, SITE)
    assert queue(hospital, change).queued == 0
    assert (await patients(hospital))["F1"][0] == EVA.mrn
    shown = await describe(hospital)
    assert [(row.accession, row.stays) for row in shown.orders] == [("F1", "signed")]

    left = merges.find_to_undo(hospital.database, IDA.mrn, SITE)
    parts = (hospital.database, hospital.client, left, StepWriter())
    assert await merges.undo_pointer(*parts) == (0, 1)
    choice = UndoChoice(include_signed=True)
    assert [await merges.undo_pointer(*parts, choice) for _ in range(2)] == [(1, 0), (0, 0)]
    assert (await patients(hospital))["F1"] == (IDA.mrn, IDA.name)
    change = merges.find_undone(hospital.database, IDA.mrn, SITE)
    assert queue(hospital, change).queued == 2


async def test_a_result_before_the_merge_needs_no_correction(hospital: Hospital) -> None:
    """It went out under the patient's own number."""
    await hospital.send(order(IDA, "1"))
    await hospital.read_and_sign("F1", "Normal.", IDA.mrn)
    await hospital.follow()
    await accepted(hospital, 1)
    hospital.time.leap += 60_000
    await hospital.send(merge(EVA, IDA))
    await hospital.send(REPAIRS["A43"])
    shown = await describe(hospital)
    assert [(row.accession, row.stays) for row in shown.orders] == [("F1", "")]
    assert shown.results == []
    change = merges.find_undone(hospital.database, IDA.mrn, SITE)
    assert queue(hospital, change).queued == 0


def without_withdrawal() -> OutboundMapping:
    """The results of a receiver that knows no message that withdraws one."""
    text = re.sub(
        r"^  (retraction|cancellation):.*\n", "", SHIPPED["results.yaml"], flags=re.MULTILINE
    )
    compiled = compile_sources({**SHIPPED, "results.yaml": text}, "results")
    assert isinstance(compiled, OutboundMapping)
    return compiled


async def test_receivers_that_cannot_be_corrected_fully(tmp_path: Path, database: Database) -> None:
    """
    One gets withdrawal and result, one the result only, and one that was removed gets nothing.

    The list of results says so before, the correction afterwards, and nothing is parked.
    """
    others = (destination("old", mappings=(without_withdrawal(),)), destination("gone"))
    async with open_hospital(tmp_path, database, destination(), *others) as hospital:
        await hospital.send(order(IDA, "1"))
        await hospital.send(merge(EVA, IDA))
        await hospital.read_and_sign("F1", "Normal.", EVA.mrn)
        await hospital.follow()
        await accepted(hospital, 3)
        await undo(hospital, include_signed=True)
        receivers: Receivers = {**RECEIVERS, "old": without_withdrawal().events}
        shown = await describe(hospital, receivers)
        found = {row.destination: row.correction for row in shown.results}
        assert found == {"ris": "both", "old": "result_only", "gone": "nothing"}
        change = merges.find_undone(hospital.database, IDA.mrn, SITE)
        assert queue(hospital, change, receivers) == Corrections(3, ["old"], ["gone"])
        for courier in hospital.couriers:
            courier.notify()
        await accepted(hospital, 6)
        assert queue(hospital, change, receivers).queued == 0
        sent = {name: receiver.sent for name, receiver in hospital.receivers.items()}
        assert {name: len(payloads) for name, payloads in sent.items()} == {
            "ris": 3, "old": 2, "gone": 1,
        }  # fmt: skip
        assert [identity(payload)[0] for payload in sent["old"]] == [EVA.mrn, IDA.mrn]
        shown = await describe(hospital, receivers)
        corrected = {row.destination for row in shown.results if row.is_corrected}
        assert corrected == {"ris", "old"}


async def test_a_pacs_is_corrected(tmp_path: Path, database: Database) -> None:
    """Its objects of the survivor are rejected, and it gets new ones of the patient."""
    with pacs() as archive:
        bridge = PacsBridge(tmp_path, database, f"dicom://PACS@127.0.0.1:{archive.port}")
        async with bridge.open() as hospital:
            study = b"ZDS|1.2.840.99.1^RIS^Application^DICOM\r"
            await hospital.send(order(IDA, "1") + study)
            await hospital.send(merge(EVA, IDA))
            await hospital.read_and_sign("F1", "Normal.", EVA.mrn)
            await hospital.follow()
            await accepted(hospital, 1)
            wrong = list(archive.stored)
            await undo(hospital, include_signed=True)
            change = merges.find_undone(hospital.database, IDA.mrn, SITE)
            events = {event for one in bridge.destination.mappings for event in one.events}
            assert queue(hospital, change, {"pacs": events}).queued == 2
            hospital.couriers[0].notify()
            await accepted(hospital, 3)
    assert {data.PatientID for data in wrong} == {EVA.mrn}
    (note,) = [data for data in archive.stored if data.Modality == "KO"]
    rejected = [
        item.ReferencedSOPSequence[0].ReferencedSOPInstanceUID for item in note.ContentSequence
    ]
    assert (note.PatientID, rejected) == (EVA.mrn, [data.SOPInstanceUID for data in wrong])
    right = archive.stored[-2:]
    assert {(data.PatientID, str(data.PatientName)) for data in right} == {(IDA.mrn, IDA.name)}
    assert {data.SOPInstanceUID for data in right}.isdisjoint(archive.instances()[:-2])
    assert not any("PredecessorDocumentsSequence" in data for data in right)
    series = [{data.SeriesInstanceUID for data in some} for some in (wrong, right)]
    assert series[0].isdisjoint(series[1])  # a series belongs to one patient
