"""A signed report goes to a PACS: through the feed, the outbox and the association."""

import asyncio
import zipfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from pydicom import Dataset
from pydicom.tag import Tag
from pynetdicom import evt
from sqlalchemy import insert, text

from bridge.admin.background.jobs import JobKind, JobState
from bridge.admin.definitions.result_previews import ResultPreviews
from bridge.admin.orders import merges
from bridge.contract import OrderKey
from bridge.delivery.destination_settings import dicom_receiver, make_destination, make_sender
from bridge.delivery.destinations import CompiledDestination
from bridge.delivery.dicom_objects import read_documents
from bridge.delivery.dicom_sender import request_again
from bridge.dicom.answers import AnswerCounter
from bridge.dicom.objects import ObjectStore
from bridge.dicom.received_log import ReceivedLog
from bridge.dicom.storage import StorageService
from bridge.executors import close_all
from bridge.intake.process.scheduled_steps import StepWriter
from bridge.metrics import Metrics
from bridge.queue import operations
from bridge.queue.commitments import (
    MAX_FAILURES,
    MAX_REQUESTS,
    OUTSTANDING,
    Commitments,
    read_answer,
)
from bridge.queue.log_tables import pull_new
from bridge.queue.states import RetryPolicy
from bridge.store.database import Database
from bridge.store.records import patient_records
from bridge.store.records.identifier_changes import UndoChoice
from bridge.store.tables import SCHEDULED_STEPS
from config import Settings
from config.quantities import DicomAddress
from config.sections import DestinationSettings
from mllp.errors import NotConnected
from tests.bridge.admin.background.job_runs import JobRuns
from tests.bridge.delivery.fixtures import SITE
from tests.bridge.delivery.pacs import Pacs, orthanc, pacs, report_at_once
from tests.bridge.delivery.test_dicom_objects import GREEK
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.dicom.modality import Modality, report, serving, write_report
from tests.bridge.dicom.orders import applied, received_messages
from tests.bridge.intake.patients.test_merges import EVA, IDA, merge
from tests.bridge.intake.patients.test_merges import order as patient_order
from tests.bridge.intake.process.test_order_processor import group, message
from tests.eventually import eventually_async
from tests.mappings.definitions import SHIPPED
from tests.programs import ORTHANC

STUDY, OTHER_STUDY = "1.2.840.99.1", "1.2.840.99.2"
STATES = "SELECT state, code, detail FROM delivery ORDER BY id"


@pytest.fixture(autouse=True)
def pools() -> Any:
    yield
    close_all()


def section_of(address: str, **dicom: Any) -> DestinationSettings:
    return DestinationSettings.model_validate(
        {
            "name": "pacs",
            "address": address,
            "time_zone": "Europe/Athens",
            "ack_timeout": "5s",
            "retry_first": "10ms",
            "retry_max": "50ms",
            **({"dicom": dicom} if dicom else {}),
        }
    )


class PacsBridge:
    """A bridge whose destination is a PACS."""

    def __init__(self, folder: Path, database: Database, address: str, **dicom: Any) -> None:
        self.folder, self.database = folder, database
        self.settings = Settings(home=folder)
        self.section = section_of(address, **dicom)
        self.leap = 0
        self.hospital: Hospital

    @property
    def destination(self) -> CompiledDestination:
        return make_destination(self.settings, self.section, lambda _: SHIPPED)

    @asynccontextmanager
    async def open(self, **options: Any) -> AsyncIterator[Hospital]:
        commitments = self.commitments()
        sender = make_sender(self.settings, self.section, None, commitments=commitments)
        async with open_hospital(
            self.folder, self.database, self.destination, senders={"pacs": sender}, **options
        ) as hospital:
            self.hospital = hospital
            yield hospital

    def commitments(self) -> Commitments:
        return Commitments(self.database, lambda: self.hospital.time() + self.leap)

    def ask_again(self, *, is_lost: bool = False) -> int:
        """Repeat the late requests for commitment; return their number. Lost ones are not sent."""
        commitments, section = self.commitments(), self.section
        late = commitments.repeat_requests("pacs", 3600, RetryPolicy(60.0, 60.0))
        if late and not is_lost:
            assert isinstance(section.address, DicomAddress)
            receiver = dicom_receiver(self.settings, section, section.address)
            request_again(receiver, commitments, late)
        return len(late)

    async def settled(self, *states: str) -> None:
        """Wait until the deliveries have these states."""
        await eventually_async(
            lambda: tuple(state for state, *_ in self.hospital.rows(STATES)) == states
        )


async def signed(hospital: Hospital, text: str = "Normal.", accession: str = "A1") -> Any:
    page = await hospital.read_and_sign(accession, text)
    await hospital.follow()
    return page


async def add(hospital: Hospital, page: Any, text: str) -> None:
    await page("addendum/create")
    await page("addendum/save", text=text)
    await page("addendum/sign")
    await hospital.follow()


def of_modality(archive: Pacs, modality: str) -> list[Dataset]:
    return [data for data in archive.stored if data.Modality == modality]


def texts_of(report: Dataset) -> str:
    found = []
    for item in report.ContentSequence:
        below = item.ContentSequence if "ContentSequence" in item else [item]
        found += [one.TextValue for one in below if "TextValue" in one]
    return "\n".join(found)


async def test_a_report_and_its_addendum(tmp_path: Path, database: Database) -> None:
    """The PACS gets PDF and SR of the report, then both with the addendum and predecessors."""
    with pacs() as archive:
        bridge = PacsBridge(tmp_path, database, f"dicom://PACS@127.0.0.1:{archive.port}")
        async with bridge.open() as hospital:
            await hospital.send(message(group("A1", uid=STUDY), name="ΠΑΠΠΑ^ΆΝΝΑ"))
            page = await signed(hospital, f"FINDINGS\n{GREEK}\nIMPRESSION\nNormal.")
            await bridge.settled("done")
            first = list(archive.stored)
            await add(hospital, page, "One more line.")
            await bridge.settled("done", "done")
    pdf, report = first
    assert pdf.EncapsulatedDocument.startswith(b"%PDF-")
    assert str(report.PatientName) == "ΠΑΠΠΑ^ΆΝΝΑ"
    assert (report.StudyInstanceUID, report.AccessionNumber) == (STUDY, "A1")
    assert GREEK in texts_of(report)
    assert report.ReferencedRequestSequence[0].PlacerOrderNumberImagingServiceRequest == "PA1"
    for before, after in zip(first, archive.stored[2:], strict=True):
        series = after.PredecessorDocumentsSequence[0].ReferencedSeriesSequence[0]
        assert series.ReferencedSOPSequence[0].ReferencedSOPInstanceUID == before.SOPInstanceUID
    assert "One more line." in texts_of(of_modality(archive, "SR")[1])


async def test_objects_that_the_pacs_routes_back(tmp_path: Path, database: Database) -> None:
    """They are ours: success, and neither a report nor a delivery nor an exception follows."""
    with pacs() as archive:
        bridge = PacsBridge(tmp_path, database, f"dicom://PACS@127.0.0.1:{archive.port}")
        async with bridge.open() as hospital:
            log = ReceivedLog(database)
            storage = StorageService(
                ObjectStore(log, 2**20),
                AnswerCounter(hospital.metrics, lambda *_: None, lambda *_: None),
            )
            with serving(storage) as port:
                router = Modality(port)
                await hospital.send(message(group("A1", uid=STUDY)))
                await signed(hospital)
                await bridge.settled("done")
                for data in list(archive.stored):
                    assert (await router.store(data)).Status == 0x0000
                await applied(hospital)
                (unknown,) = of_modality(archive, "SR")
                unknown.AccessionNumber = "A99"
                unknown.ReferencedRequestSequence[0].AccessionNumber = "A99"
                assert (await router.store(unknown)).Status == 0x0000
                await applied(hospital)
                (foreign,) = of_modality(archive, "DOC")
                foreign.InstanceCreatorUID = "1.2.3"
                answer = await router.store(foreign)
                assert (answer.Status, answer.OffendingElement) == (0x0122, Tag("SOPClassUID"))
            log.close()
            assert received_messages(hospital) == [
                (f"C-STORE {form}", "done", "object_own") for form in ("PDF", "SR", "SR")
            ]
            assert hospital.rows(EXCEPTIONS) == []
            await hospital.follow()
            await bridge.settled("done")
            with hospital.engine_database.read() as connection:
                files = text("SELECT count(*) FROM engine_report_file WHERE kind = 'dicomSR'")
                assert connection.scalar(files) == 0


ROUTING = """
function OnStoredInstance(instance, tags, metadata, origin)
  SendToModality(instance, "bridge")
end
"""


@pytest.mark.needs(ORTHANC)
@pytest.mark.parametrize("way", ["dicom", "dicomweb"])
async def test_orthanc_routes_objects(tmp_path: Path, database: Database, way: str) -> None:
    """
    Orthanc sends all that it stores on to the bridge. Reports of ours change nothing. Those of
    others are matched; one of another patient, and images, are in no report.
    """
    log = ReceivedLog(database)
    with (
        serving(
            StorageService(
                ObjectStore(log, 2**20),
                AnswerCounter(Metrics(), lambda *_: None, lambda *_: None),
            )
        ) as port,
        orthanc(tmp_path / "orthanc", port, script=ROUTING) as archive,
    ):
        address = (
            f"dicom://PACS@127.0.0.1:{archive.dicom_port}"
            if way == "dicom"
            else f"dicomweb+{archive.dicomweb}"
        )
        bridge = PacsBridge(tmp_path, database, address)
        async with bridge.open() as hospital:
            await hospital.send(message(group("A1", uid=STUDY), name="TESTER^TILDA"))
            await hospital.send(message(group("A2", uid=OTHER_STUDY), name="TESTER^TILDA"))
            page = await signed(hospital)
            await add(hospital, page, "More.")
            await bridge.settled("done", "done")
            image = report(sop_class="1.2.840.10008.5.1.4.1.1.7")
            for data in (report(accession="A2"), report(accession="A2", mrn="M9"), image):
                path = write_report(tmp_path, data)
                posted = await asyncio.to_thread(
                    archive.http.post, "/instances", content=path.read_bytes()
                )
                assert posted.status_code == 200
            await eventually_async(lambda: _all_received(hospital, 6))
            await applied(hospital)
            await hospital.follow()
            await bridge.settled("done", "done")
            assert sorted(received_messages(hospital)) == [
                *[("C-STORE PDF", "done", "object_own")] * 2,
                ("C-STORE SR", "done", "object_own"),
                ("C-STORE SR", "done", "object_own"),
                ("C-STORE SR", "done", "object_stored"),
                ("C-STORE SR", "parked", "patient_conflict"),
            ]
    log.close()


def _all_received(hospital: Hospital, count: int) -> bool:
    pull_new(hospital.database)
    return len(received_messages(hospital)) == count


async def test_linked_orders_of_two_studies(tmp_path: Path, database: Database) -> None:
    """Each study gets the report once."""
    with pacs() as archive:
        bridge = PacsBridge(
            tmp_path, database, f"dicom://PACS@127.0.0.1:{archive.port}", forms=["sr"]
        )
        async with bridge.open() as hospital:
            await hospital.send(message(group("A1", uid=STUDY), group("A2", uid=OTHER_STUDY)))
            await signed(hospital)
            await bridge.settled("done")
    assert [data.StudyInstanceUID for data in archive.stored] == [STUDY, OTHER_STUDY]
    assert all(len(data.ReferencedRequestSequence) == 2 for data in archive.stored)


async def test_the_study_of_the_worklist(tmp_path: Path, database: Database) -> None:
    """An order without a StudyInstanceUID has that of its scheduled step; without one it waits."""
    with pacs() as archive:
        bridge = PacsBridge(
            tmp_path, database, f"dicom://PACS@127.0.0.1:{archive.port}", forms=["sr"]
        )
        async with bridge.open() as hospital:
            await hospital.send(message(group("A1")))
            await signed(hospital)
            await bridge.settled("parked")
            ((_, code, _),) = hospital.rows(STATES)
            assert code == "no_study"
            with database.write() as connection:
                connection.execute(insert(SCHEDULED_STEPS).values(_step("A1", OTHER_STUDY)))
            operations.retry_delivery(database, 1)
            hospital.couriers[0].notify()
            await bridge.settled("done")
    assert [data.StudyInstanceUID for data in archive.stored] == [OTHER_STUDY]
    (request,) = archive.stored[0].ReferencedRequestSequence
    assert request.RequestedProcedureID == "RP-7"


async def test_another_study_on_the_worklist(tmp_path: Path, database: Database) -> None:
    """The report goes into the study that the modality got, not into that of the order message."""
    with pacs() as archive:
        bridge = PacsBridge(
            tmp_path, database, f"dicom://PACS@127.0.0.1:{archive.port}", forms=["sr"]
        )
        async with bridge.open() as hospital:
            await hospital.send(message(group("A1", uid=STUDY)))
            with database.write() as connection:
                connection.execute(insert(SCHEDULED_STEPS).values(_step("A1", OTHER_STUDY)))
            await signed(hospital)
            await bridge.settled("done")
    assert [data.StudyInstanceUID for data in archive.stored] == [OTHER_STUDY]


async def test_an_order_that_gets_another_study(tmp_path: Path, database: Database) -> None:
    """The addendum goes into the new study, and a note rejects what is in the former one."""
    with pacs() as archive:
        bridge = PacsBridge(tmp_path, database, f"dicom://PACS@127.0.0.1:{archive.port}")
        async with bridge.open() as hospital:
            await hospital.send(message(group("A1", uid=STUDY)))
            page = await signed(hospital)
            await bridge.settled("done")
            await hospital.send(message(group("A1", "XO", uid=OTHER_STUDY), sent="20261121130000"))
            await add(hospital, page, "More.")
            await bridge.settled("done", "done")
            await add(hospital, page, "And more.")
            await bridge.settled("done", "done", "done")
    (note,) = of_modality(archive, "KO")
    assert note.StudyInstanceUID == STUDY
    assert rejected(note) == archive.instances()[:2]
    later = [data for data in archive.stored[2:] if data is not note]
    assert [(data.Modality, data.StudyInstanceUID) for data in later] == [
        ("DOC", OTHER_STUDY),
        ("SR", OTHER_STUDY),
    ] * 2


def _step(accession: str, study: str) -> dict[str, Any]:
    texts = dict.fromkeys(("step_id", "modality", "stations", "location", "time"), "")
    return {
        **texts,
        "site": SITE,
        "accession": accession,
        "mrn": "M1",
        "position": 0,
        "study_uid": study,
        "status": "SCHEDULED",
        "item": '{"00401001": {"vr": "SH", "Value": ["RP-7"]}}',
        "changed_at": 0,
    }


async def test_a_withdrawn_report(tmp_path: Path, database: Database) -> None:
    """What the PACS has is rejected when the report is recalled; the next version follows."""
    with pacs() as archive:
        bridge = PacsBridge(tmp_path, database, f"dicom://PACS@127.0.0.1:{archive.port}")
        async with bridge.open(sign_delay=60) as hospital:
            await hospital.send(message(group("A1", uid=STUDY)))
            page = await hospital.read_and_sign("A1", "Wrong.")
            await page("addendum/create")
            await page("addendum/save", text="More.")
            await page("addendum/sign")
            await hospital.client.release_addendum(OrderKey(SITE, "M1", "A1"))
            await hospital.follow()
            await bridge.settled("done")
            await page("unsign")
            await hospital.follow()
            await bridge.settled("done", "done")
            (note,) = of_modality(archive, "KO")
            assert rejected(note) == archive.instances()[:2]
            assert "Wrong." not in texts_of(of_modality(archive, "SR")[-1])


async def test_previews_and_exports(tmp_path: Path, database: Database) -> None:
    """
    A preview has the objects that the PACS got, with their UIDs, and stores and sends nothing.

    A raw export has the bytes that were sent; one without patient data leaves them out.
    """
    with pacs() as archive:
        bridge = PacsBridge(tmp_path, database, f"dicom://PACS@127.0.0.1:{archive.port}")
        async with bridge.open() as hospital:
            await hospital.send(message(group("A1", uid=STUDY)))
            await signed(hospital)
            await bridge.settled("done")
            settings = Settings(home=tmp_path, destination=[bridge.section])
            previews = ResultPreviews(settings, database, hospital.client)
            (preview,) = await previews.compose("results", SHIPPED)
            assert hospital.rows("SELECT count(*) FROM delivery") == [(1,)]
            runs = JobRuns(database, tmp_path)
            runs.grant_role()
            raw = await asyncio.to_thread(_export, runs, "raw")
            deidentified = await asyncio.to_thread(_export, runs, "deidentified")
            ((payload,),) = hospital.rows("SELECT payload FROM delivery_body")
    sent = [(data.SOPInstanceUID, data.PatientID) for data in archive.stored]
    assert [
        (data.SOPInstanceUID, data.PatientID) for data in read_documents(preview.payload)
    ] == sent
    assert "Basic Text SR Storage" in preview.text
    files, _ = raw
    assert files == {"1.mime": bytes(payload)}
    files, left_out = deidentified
    assert (files, left_out) == ({}, ["not_deidentified"])


def _export(runs: JobRuns, kind: str) -> tuple[dict[str, bytes], list[str]]:
    """Export all deliveries; return the files without the index, and why rows were left out."""
    job = runs.finish(runs.create(JobKind.EXPORT, {}, list_name="deliveries", format=kind))
    assert job.state is JobState.DONE
    archive = zipfile.ZipFile(BytesIO(runs.file(job)))
    names = set(archive.namelist()) - {"index.csv"}
    return {name: archive.read(name) for name in names}, [row.outcome for row in runs.rows(job)]


async def test_a_report_under_the_wrong_patient(tmp_path: Path, database: Database) -> None:
    """
    It was signed while two patients were merged by mistake. After the undo, the PACS gets a note
    and a version that withdraw it under the wrong patient, then the report under the right one.
    """
    with pacs() as archive:
        bridge = PacsBridge(tmp_path, database, f"dicom://PACS@127.0.0.1:{archive.port}")
        async with bridge.open() as hospital:
            await hospital.send(patient_order(EVA, "0"))
            await hospital.send(patient_order(IDA, "1") + f"ZDS|{STUDY}^RIS\r".encode())
            await hospital.send(merge(EVA, IDA))
            await hospital.read_and_sign("F1", "Normal.", EVA.mrn)
            await hospital.follow()
            await bridge.settled("done")
            await _undo(hospital)
            _correct(bridge)
            await bridge.settled("done", "done", "done")
    wrong, rest = archive.stored[:2], archive.stored[2:]
    note, withdrawn, *right = rest
    assert rejected(note) == [data.SOPInstanceUID for data in wrong]
    for data in (*wrong, note, withdrawn):
        assert (data.PatientID, str(data.PatientName)) == (EVA.mrn, EVA.name)
    assert "Normal." not in texts_of(withdrawn)
    assert [data.Modality for data in right] == ["DOC", "SR"]
    for data in right:
        assert (data.PatientID, str(data.PatientName)) == (IDA.mrn, IDA.name)
        assert data.PatientBirthDate == IDA.birth
        assert data.StudyInstanceUID == STUDY
        assert "PredecessorDocumentsSequence" not in data
    assert "Normal." in texts_of(right[1])


async def test_a_result_that_waited_during_an_undo(tmp_path: Path, database: Database) -> None:
    """It goes out under the right patient, in the study that the modality got."""
    with pacs() as archive:
        bridge = PacsBridge(
            tmp_path, database, f"dicom://PACS@127.0.0.1:{archive.port}", forms=["sr"]
        )
        async with bridge.open() as hospital:
            await hospital.send(patient_order(EVA, "0"))
            await hospital.send(patient_order(IDA, "1") + f"ZDS|{STUDY}^RIS\r".encode())
            with database.write() as connection:
                step = {**_step("F1", OTHER_STUDY), "mrn": IDA.mrn}
                connection.execute(insert(SCHEDULED_STEPS).values(step))
            await hospital.send(merge(EVA, IDA))
            hospital.couriers[0].pause()
            await hospital.read_and_sign("F1", "Normal.", EVA.mrn)
            await hospital.follow()
            await _undo(hospital)
            hospital.couriers[0].resume()
            await bridge.settled("done")
            _correct(bridge)
            assert len(hospital.rows(STATES)) == 1
    (found,) = archive.stored
    assert (found.PatientID, str(found.PatientName)) == (IDA.mrn, IDA.name)
    assert (found.PatientBirthDate, found.StudyInstanceUID) == (IDA.birth, OTHER_STUDY)


async def test_a_refused_result_that_waited_during_an_undo(
    tmp_path: Path, database: Database
) -> None:
    """It may be known under the survivor, so it is repeated as it is; the correction follows it."""
    with pacs(status=lambda *_: 0xA700) as archive:
        bridge = PacsBridge(
            tmp_path, database, f"dicom://PACS@127.0.0.1:{archive.port}", forms=["sr"]
        )
        async with bridge.open() as hospital:
            await hospital.send(patient_order(EVA, "0"))
            await hospital.send(patient_order(IDA, "1") + f"ZDS|{STUDY}^RIS\r".encode())
            await hospital.send(merge(EVA, IDA))
            await hospital.read_and_sign("F1", "Normal.", EVA.mrn)
            await hospital.follow()
            await eventually_async(lambda: hospital.rows("SELECT 1 FROM delivery_attempt"))
            await _undo(hospital)
            _correct(bridge)
            archive.status = lambda *_: 0x0000
            await bridge.settled("done", "done", "done")
    wrong, note, withdrawn, right = archive.stored
    assert [data.PatientID for data in archive.stored] == [EVA.mrn] * 3 + [IDA.mrn]
    assert rejected(note) == [wrong.SOPInstanceUID]
    assert "Normal." not in texts_of(withdrawn)
    assert "Normal." in texts_of(right)


def rejected(note: Dataset) -> list[str]:
    """Return the instances that a rejection note names."""
    found = [item.ReferencedSOPSequence[0] for item in note.ContentSequence]
    return [str(reference.ReferencedSOPInstanceUID) for reference in found]


async def _undo(hospital: Hospital) -> None:
    """Undo the merge of IDA, with the signed reports."""
    with hospital.database.read() as connection:
        found = patient_records.merge_pointers(connection, [(SITE, IDA.mrn)])
    (pointer,) = found.values()
    choice = UndoChoice(include_signed=True)
    await merges.undo_pointer(hospital.database, hospital.client, pointer, StepWriter(), choice)


def _correct(bridge: PacsBridge) -> None:
    """Queue the corrections of the undone merge."""
    events = {event for one in bridge.destination.mappings for event in one.events}
    change = merges.find_undone(bridge.database, IDA.mrn, SITE)
    merges.queue_corrections(bridge.database, {"pacs": events}, change)
    bridge.hospital.couriers[0].notify()


@pytest.mark.parametrize("status", [0xA700, 0x0110])
async def test_a_pacs_that_refuses_for_a_while(
    tmp_path: Path, database: Database, status: int
) -> None:
    """The same objects are sent until the PACS has them; the delivery shows what it replied."""
    attempts: list[str] = []

    def refuse_twice(data: Dataset, _: evt.Event) -> int:
        attempts.append(str(data.SOPInstanceUID))
        return status if len(attempts) <= 4 else 0x0000

    with pacs(status=refuse_twice) as archive:
        bridge = PacsBridge(tmp_path, database, f"dicom://PACS@127.0.0.1:{archive.port}")
        async with bridge.open() as hospital:
            await hospital.send(message(group("A1", uid=STUDY)))
            await signed(hospital)
            await bridge.settled("done")
            details = hospital.rows("SELECT DISTINCT code, detail FROM delivery_attempt")
            assert details == [("dicom", f"{status:04X}")]
    assert len(attempts) == 6
    assert attempts[:2] == attempts[2:4] == attempts[4:] == archive.instances()


@pytest.mark.parametrize("status", [0xC000, 0xA900])
async def test_a_pacs_that_cannot_understand(
    tmp_path: Path, database: Database, status: int
) -> None:
    """The delivery is parked at once with status and element; a retry sends the same objects."""
    elements = (0x00100020, 0x0040A370)
    with pacs(status=lambda *_: status, offending=elements) as archive:
        bridge = PacsBridge(tmp_path, database, f"dicom://PACS@127.0.0.1:{archive.port}")
        async with bridge.open() as hospital:
            await hospital.send(message(group("A1", uid=STUDY)))
            await signed(hospital)
            await bridge.settled("parked")
            assert hospital.rows(STATES) == [("parked", "dicom", f"{status:04X}")]
            ((reply,),) = hospital.rows("SELECT reply FROM delivery")
            assert bytes(reply).count(b", element (0010,0020), (0040,A370): ") == 2
            archive.status = lambda *_: 0x0000
            operations.retry_delivery(database, 1)
            hospital.couriers[0].notify()
            await bridge.settled("done")
    assert len(archive.stored) == 2


# pynetdicom leaves the socket of a refused connection to the garbage collector, and has no event
# for it.
UNCLOSED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@UNCLOSED
async def test_a_pacs_that_is_down(tmp_path: Path, database: Database) -> None:
    """Nothing is counted as an attempt; the report goes out when the PACS is there."""
    with pacs() as archive:
        port = archive.port
    bridge = PacsBridge(tmp_path, database, f"dicom://PACS@127.0.0.1:{port}")
    async with bridge.open(poll=0.01) as hospital:
        await hospital.send(message(group("A1", uid=STUDY)))
        await signed(hospital)
        await eventually_async(
            lambda: ("queued", "not_connected") in {row[:2] for row in hospital.rows(STATES)}
        )
        with pacs(port=port) as archive:
            await bridge.settled("done")
    assert len(archive.stored) == 2


async def has_states(hospital: Hospital, count: int) -> None:
    await eventually_async(lambda: len(_states(hospital)) >= count)


class TestCommitment:
    """Storage commitment."""

    async def test_an_answer_on_the_same_association(
        self, tmp_path: Path, database: Database
    ) -> None:
        """The answer is stored as a further reply of the delivery, which was done before."""
        with pacs(report=report_at_once) as archive:
            bridge = asking(tmp_path, database, archive, ["pdf", "sr"])
            async with bridge.open() as hospital:
                await hospital.send(message(group("A1", uid=STUDY)))
                await signed(hospital)
                await bridge.settled("done")
                await eventually_async(lambda: _states(hospital) == ["committed"])
                assert hospital.rows("SELECT kind, code FROM delivery_attempt") == [
                    ("reply", "committed")
                ]
                assert bridge.commitments().repeat_failed("pacs") == 0

    async def test_objects_that_are_not_kept(self, tmp_path: Path, database: Database) -> None:
        """They are sent again, and after some failures the result needs attention."""
        with pacs(report=report_at_once, lost=lambda _: True) as archive:
            bridge = asking(tmp_path, database, archive)
            async with bridge.open() as hospital:
                commitments = bridge.commitments()
                await hospital.send(message(group("A1", uid=STUDY)))
                await signed(hospital)
                for number in range(1, MAX_FAILURES + 1):
                    await eventually_async(lambda: _states(hospital)[-1:] == ["failed"])
                    await bridge.settled("done")
                    assert len(archive.stored) == number
                    repeated = commitments.repeat_failed("pacs")
                    assert repeated == (number < MAX_FAILURES)
                    hospital.couriers[0].notify()
                    if repeated:
                        await has_states(hospital, number + 1)
                assert len(set(archive.instances())) == 1
                assert hospital.rows(EXCEPTIONS) == [(1, "not_committed")]
                assert _states(hospital) == ["resent"] * (MAX_FAILURES - 1) + ["given_up"]

    async def test_one_object_that_is_not_kept(self, tmp_path: Path, database: Database) -> None:
        """It alone is sent again and asked for; a person who sends the delivery again sends all."""
        with pacs(report=report_at_once) as archive:
            bridge = asking(tmp_path, database, archive, ["pdf", "sr"])
            async with bridge.open() as hospital:
                commitments = bridge.commitments()
                archive.lost = lambda instance: instance == archive.instances()[-1]  # the SR
                await hospital.send(message(group("A1", uid=STUDY)))
                await signed(hospital)
                await eventually_async(lambda: _states(hospital) == ["failed"])
                await bridge.settled("done")
                pdf, report = archive.instances()
                archive.lost = lambda _: False
                assert commitments.repeat_failed("pacs") == 1
                hospital.couriers[0].notify()
                await eventually_async(lambda: _states(hospital) == ["resent", "committed"])
                await bridge.settled("done")
                assert archive.instances() == [pdf, report, report]
                assert asked(archive) == [[pdf, report], [report]]
                operations.retry_delivery(database, 1)
                hospital.couriers[0].notify()
                await eventually_async(lambda: _states(hospital)[2:] == ["committed"])
                assert archive.instances()[3:] == [pdf, report]

    async def test_no_answer(self, tmp_path: Path, database: Database) -> None:
        """
        The PACS is asked again after the intervals of the outbox, with new transaction UIDs; then
        the result needs attention, until an answer to any of the requests comes.
        """
        with pacs() as archive:
            bridge = asking(tmp_path, database, archive)
            async with bridge.open() as hospital:
                commitments = bridge.commitments()
                await hospital.send(message(group("A1", uid=STUDY)))
                page = await signed(hospital)
                await bridge.settled("done")
                assert bridge.ask_again() == 0
                bridge.leap = HOUR
                assert bridge.ask_again() == 1
                assert bridge.ask_again() == 0
                for _ in range(MAX_REQUESTS - 2):
                    bridge.leap += MINUTE
                    assert bridge.ask_again(is_lost=True) == 1
                assert hospital.rows(EXCEPTIONS) == []
                bridge.leap += MINUTE
                assert bridge.ask_again() == 0
                assert hospital.rows(EXCEPTIONS) == [(1, OUTSTANDING)]
                bridge.leap += HOUR
                assert bridge.ask_again() == 0
                assert len({request.TransactionUID for request in archive.requests}) == 2
                assert asked(archive) == [archive.instances()] * 2
                assert len(archive.stored) == 1
                await add(hospital, page, "More.")
                await bridge.settled("done", "done")
                answer = read_answer(archive.events[0])
                assert commitments.record(answer)
                assert commitments.record(answer)
                assert hospital.rows(EXCEPTIONS) == []
                assert sorted(_states(hospital)[-2:]) == ["committed", "waiting"]
                assert commitments.record(read_answer(archive.events[1]))

    async def test_a_refused_request(self, tmp_path: Path, database: Database) -> None:
        """The objects are stored, so the delivery is done, and the request alone is repeated."""
        with pacs(action_status=0x0110, report=report_at_once) as archive:
            bridge = asking(tmp_path, database, archive)
            async with bridge.open() as hospital:
                await hospital.send(message(group("A1", uid=STUDY)))
                await signed(hospital)
                await bridge.settled("done")
                bridge.leap = MINUTE
                assert bridge.ask_again() == 1
                archive.action_status = 0x0000
                bridge.leap += MINUTE
                assert bridge.ask_again() == 1
                await eventually_async(lambda: _states(hospital)[-1:] == ["committed"])
                codes = "SELECT code, detail FROM delivery_attempt ORDER BY id"
                assert hospital.rows(codes) == [("commitment_refused", "0110"), ("committed", "")]
                assert len(archive.stored) == 1

    @pytest.mark.parametrize("is_known", [True, False])
    async def test_a_pacs_without_commitment(
        self, tmp_path: Path, database: Database, *, is_known: bool
    ) -> None:
        """After the last request the result needs attention; nothing was sent again."""
        with pacs(action_status=0x0112, commits=is_known) as archive:
            bridge = asking(tmp_path, database, archive)
            async with bridge.open() as hospital:
                await hospital.send(message(group("A1", uid=STUDY)))
                await signed(hospital)
                await bridge.settled("done")
                for _ in range(MAX_REQUESTS - 1):
                    bridge.leap += MINUTE
                    assert bridge.ask_again() == 1
                bridge.leap += MINUTE
                assert bridge.ask_again() == 0
                assert hospital.rows(EXCEPTIONS) == [(1, "commitment_refused")]
                details = hospital.rows("SELECT DISTINCT detail FROM delivery_attempt")
                assert details == [("0112" if is_known else "0122",)]
                assert len(archive.stored) == 1

    @UNCLOSED
    async def test_a_pacs_that_is_down_when_it_is_asked_again(
        self, tmp_path: Path, database: Database
    ) -> None:
        """The request follows when the PACS is there again."""
        with pacs() as archive:
            port = archive.port
            bridge = asking(tmp_path, database, archive)
            opened = bridge.open()
            hospital = await opened.__aenter__()
            await hospital.send(message(group("A1", uid=STUDY)))
            await signed(hospital)
            await bridge.settled("done")
        try:
            bridge.leap = HOUR
            with pytest.raises(NotConnected):
                bridge.ask_again()
            with pacs(port=port, report=report_at_once) as archive:
                bridge.leap += MINUTE
                assert bridge.ask_again() == 1
                await eventually_async(lambda: _states(hospital)[-1:] == ["committed"])
                assert archive.stored == []
        finally:
            await opened.__aexit__(None, None, None)


HOUR, MINUTE = 3_700_000, 61_000  # ms
EXCEPTIONS = "SELECT row_id, code FROM exception"


def asking(
    folder: Path, database: Database, archive: Pacs, forms: Sequence[str] = ("sr",)
) -> PacsBridge:
    """A bridge that asks a PACS for commitment."""
    address = f"dicom://PACS@127.0.0.1:{archive.port}"
    return PacsBridge(folder, database, address, commitment=True, forms=list(forms))


def asked(archive: Pacs) -> list[list[str]]:
    """Return the instances of each request for commitment."""
    return [
        [str(item.ReferencedSOPInstanceUID) for item in request.ReferencedSOPSequence]
        for request in archive.requests
    ]


def _states(hospital: Hospital) -> list[str]:
    rows = hospital.rows("SELECT state FROM storage_commitment ORDER BY requested_at, requests")
    return [state for (state,) in rows]


@pytest.mark.needs(ORTHANC)
@pytest.mark.parametrize("way", ["dicom", "dicomweb"])
async def test_orthanc(tmp_path: Path, database: Database, way: str) -> None:
    """Orthanc shows report and addendum in the study, whichever way they came."""
    with orthanc(tmp_path / "orthanc") as archive:
        address = (
            f"dicom://PACS@127.0.0.1:{archive.dicom_port}"
            if way == "dicom"
            else f"dicomweb+{archive.dicomweb}"
        )
        bridge = PacsBridge(tmp_path, database, address)
        async with bridge.open() as hospital:
            await hospital.send(message(group("A1", uid=STUDY)))
            page = await signed(hospital)
            await add(hospital, page, "More.")
            await bridge.settled("done", "done")
        found = archive.instances()
    assert len(found) == 4
    assert {one["StudyInstanceUID"] for one in found} == {STUDY}
    assert len({one["SeriesInstanceUID"] for one in found}) == 2
