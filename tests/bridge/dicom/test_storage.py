"""Modalities store structured reports, dose reports and key objects: kept, matched, attached."""

import asyncio
import subprocess
from pathlib import Path

import pytest
from pydicom.dataset import Dataset
from pydicom.tag import Tag
from pydicom.uid import (
    UID,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    generate_uid,
)
from pynetdicom import _config
from sqlalchemy import text

from bridge.contract import OrderKey
from bridge.dicom.answers import AnswerCounter
from bridge.dicom.objects import ObjectStore
from bridge.dicom.performed import PerformedSteps
from bridge.dicom.received_log import ReceivedLog
from bridge.dicom.storage import StorageService
from bridge.orders.received_objects import KEY_OBJECTS
from bridge.queue.log_tables import pull_new
from parsers.dicom_file import FileMeta, write_file
from tests.bridge.delivery.fixtures import SITE
from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.dicom.conftest import MAX_SIZE
from tests.bridge.dicom.modality import (
    CALLED,
    DOSE_REPORT,
    Modality,
    data_set,
    encoded,
    ended,
    meta_of,
    new_step,
    report,
    serving,
    write_report,
)
from tests.bridge.dicom.orders import (
    applied,
    await_examinations,
    exceptions,
    new_order,
    order_states,
    received_messages,
)
from tests.programs import DCMTK

STORED = ("C-STORE SR", "done", "object_stored")
needs_dcmtk = pytest.mark.needs(DCMTK)


async def text_of(hospital: Hospital, accession: str = "A1") -> str:
    """Return the text with which a report begins."""
    await hospital.page(accession)
    return await hospital.client.content(OrderKey(SITE, "M1", accession))


def files(hospital: Hospital) -> list[tuple[str, str]]:
    """Return kind and SOP instance of the files of reports."""
    with hospital.engine_database.read() as connection:
        rows = connection.execute(
            text("SELECT kind, sop_instance_uid FROM engine_report_file ORDER BY pk")
        )
        return [tuple(row) for row in rows]


@pytest.mark.parametrize(
    "syntax", [ImplicitVRLittleEndian, ExplicitVRLittleEndian, ExplicitVRBigEndian]
)
async def test_a_report_is_attached_to_its_order(
    hospital: Hospital, modality: Modality, syntax: UID
) -> None:
    await hospital.send(new_order())
    modality.syntax = str(syntax)
    made = report()
    assert (await modality.store(made)).Status == 0x0000
    await applied(hospital)
    assert received_messages(hospital) == [STORED]
    assert files(hospital) == [("dicomSR", made.SOPInstanceUID)]
    assert await text_of(hospital) == "Finding: Nodule 8 mm"


async def test_the_same_object_is_stored_once(hospital: Hospital, modality: Modality) -> None:
    """A retransmit is answered with success; nothing is stored or attached twice."""
    await hospital.send(new_order())
    made = report()
    for _ in range(3):
        assert (await modality.store(made)).Status == 0x0000
        await applied(hospital)
    assert received_messages(hospital) == [STORED]
    assert len(files(hospital)) == 1


async def test_an_object_before_its_order(hospital: Hospital, modality: Modality) -> None:
    """It is kept and an exception, and is attached when the order arrives."""
    assert (await modality.store(report())).Status == 0x0000
    await applied(hospital)
    assert received_messages(hospital) == [("C-STORE SR", "parked", "object_without_order")]
    assert exceptions(hospital) == ["object_without_order"]
    await hospital.send(new_order())
    await applied(hospital)
    assert received_messages(hospital) == [STORED]
    assert exceptions(hospital) == []
    assert len(files(hospital)) == 1


async def test_an_object_of_another_patient(hospital: Hospital, modality: Modality) -> None:
    """It is never attached, whatever its accession number is."""
    await hospital.send(new_order())
    await modality.store(report(mrn="M2"))
    await applied(hospital)
    assert received_messages(hospital) == [("C-STORE SR", "parked", "patient_conflict")]
    assert exceptions(hospital) == ["patient_conflict"]
    assert files(hospital) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        (
            {"PatientName": "OTHER^PERSON", "PatientBirthDate": "19500101"},
            "dicom_sr_other_patient",
        ),
        ({}, "dicom_sr_second_version"),
    ],
    ids=["other patient", "second version"],
)
async def test_an_object_that_is_set_aside(
    hospital: Hospital, modality: Modality, changes: dict[str, str], code: str
) -> None:
    """Its numbers fit and its patient or its UID does not: it is not used, and an exception."""
    await hospital.send(new_order())
    first, second = report(), report(text="Nodule 9 mm")
    for keyword, value in changes.items():
        setattr(second, keyword, value)
    if not changes:
        second.SOPInstanceUID = first.SOPInstanceUID
    for made in (first, second):
        await modality.store(made)
        await applied(hospital)
    assert received_messages(hospital) == [STORED, ("C-STORE SR", "done", code)]
    assert exceptions(hospital) == [code]
    assert files(hospital) == [
        ("dicomSR", first.SOPInstanceUID),
        ("setAside", second.SOPInstanceUID),
    ]
    assert await text_of(hospital) == "Finding: Nodule 8 mm"


@pytest.mark.parametrize(
    ("sent", "issuer", "state"),
    [
        ("M1^^^HOSP^MR", "CLINIC", "parked"),
        ("M1^^^HOSP^MR", "HOSP", "done"),
        ("M1^^^HOSP&1.2.3&ISO^MR", "1.2.3", "done"),
        ("X9^^^CLINIC~M1^^^HOSP^MR", "CLINIC", "parked"),
        ("M1^^^HOSP^MR", "", "done"),
        ("M1", "CLINIC", "done"),
    ],
)
async def test_an_object_of_another_authority(
    hospital: Hospital, modality: Modality, sent: str, issuer: str, state: str
) -> None:
    """One number of two authorities is two patients; a side without an issuer is not compared."""
    await hospital.send(new_order(mrn=sent))
    await modality.store(report(IssuerOfPatientID=issuer))
    await applied(hospital)
    assert [row[1] for row in received_messages(hospital)] == [state]
    assert len(files(hospital)) == (1 if state == "done" else 0)


async def test_an_object_of_an_awaited_order(hospital: Hospital, modality: Modality) -> None:
    """A dose report arrives before the step is completed: it is attached then."""
    await_examinations(hospital)
    await hospital.send(new_order())
    await modality.store(report(sop_class=DOSE_REPORT))
    await applied(hospital)
    assert received_messages(hospital) == [("C-STORE SR", "done", "object_awaits_order")]
    assert exceptions(hospital) == []
    await modality.create(uid := generate_uid(), new_step())
    await modality.set(uid, ended())
    await applied(hospital)
    assert order_states(hospital) == ["ordered"]
    assert received_messages(hospital)[0] == STORED
    assert len(files(hospital)) == 1


async def test_an_object_of_a_cancelled_order(hospital: Hospital, modality: Modality) -> None:
    """It is kept and an exception, and is attached when the order is placed again."""
    await hospital.send(new_order())
    await hospital.send(new_order(control="CA"))
    await modality.store(report())
    await applied(hospital)
    assert received_messages(hospital) == [("C-STORE SR", "done", "order_cancelled")]
    assert exceptions(hospital) == ["order_cancelled"]
    await hospital.send(new_order())
    await applied(hospital)
    assert received_messages(hospital) == [STORED]
    assert exceptions(hospital) == []
    assert len(files(hospital)) == 1


async def test_an_object_of_several_orders(hospital: Hospital, modality: Modality) -> None:
    """The requests that a report fulfils name its orders."""
    for number in (1, 2):
        await hospital.send(new_order(number))
    requests = [data_set(AccessionNumber=f"A{number}") for number in (1, 2)]
    await modality.store(report(accession="", ReferencedRequestSequence=requests))
    await applied(hospital)
    assert received_messages(hospital) == [STORED]
    assert len(files(hospital)) == 2


async def test_a_key_object(hospital: Hospital, modality: Modality) -> None:
    await hospital.send(new_order())
    made = report(sop_class=KEY_OBJECTS, text="Image 3")
    made.Modality = "KO"
    assert (await modality.store(made)).Status == 0x0000
    await applied(hospital)
    assert received_messages(hospital) == [("C-STORE KO", "done", "object_stored")]


async def test_a_signed_report_gets_no_object(hospital: Hospital, modality: Modality) -> None:
    """The object is kept, and a person decides."""
    await hospital.send(new_order())
    await hospital.read_and_sign("A1", "Normal.")
    await modality.store(report())
    await applied(hospital)
    ((_, state, code),) = received_messages(hospital)
    assert (state, code) == ("parked", "report_signed")


@pytest.fixture
def _send_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pynetdicom send the bytes of files as they are."""
    monkeypatch.setattr(_config, "STORE_SEND_CHUNKED_DATASET", True)


class TestRefusals:
    async def test_a_class_that_is_not_accepted(self, modality: Modality) -> None:
        """No presentation context is accepted for images."""
        with pytest.raises(AssertionError):
            await asyncio.to_thread(modality.associate, "1.2.840.10008.5.1.4.1.1.2")

    @pytest.mark.parametrize(
        ("keyword", "value", "status"),
        [
            ("SOPClassUID", DOSE_REPORT, 0xA900),
            ("SOPInstanceUID", "1.2.3", 0xA900),
            ("StudyInstanceUID", "", 0xC000),
        ],
    )
    @pytest.mark.usefixtures("_send_files")
    async def test_a_data_set_that_contradicts(
        self,
        hospital: Hospital,
        modality: Modality,
        tmp_path: Path,
        keyword: str,
        value: str,
        status: int,
    ) -> None:
        """The answer has the offending element."""
        made = report()
        meta = meta_of(made)
        setattr(made, keyword, value)
        answer = await asyncio.to_thread(send, modality, meta, encoded(made), tmp_path)
        assert answer.Status == status
        assert answer.OffendingElement == Tag(keyword)
        assert received_messages(hospital) == []

    @pytest.mark.usefixtures("_send_files")
    async def test_a_truncated_data_set(
        self, hospital: Hospital, modality: Modality, tmp_path: Path
    ) -> None:
        made = report()
        whole = encoded(made)
        for length in (len(whole) - 1, len(whole) // 2, 7):
            body = whole[:length]
            answer = await asyncio.to_thread(send, modality, meta_of(made), body, tmp_path)
            assert answer.Status in {0xC000, 0xA900}
        assert received_messages(hospital) == []

    async def test_a_large_object(self, hospital: Hospital, modality: Modality) -> None:
        modality.syntax = str(ImplicitVRLittleEndian)
        answer = await modality.store(report(text="x" * 2**20))
        assert answer.Status == 0xA700
        assert received_messages(hospital) == []

    async def test_too_many_items(self, hospital: Hospital, modality: Modality) -> None:
        """Items are counted before they are parsed."""
        answer = await modality.store(report(ReferencedRequestSequence=[Dataset()] * 30_000))
        assert answer.Status == 0xA700
        assert received_messages(hospital) == []


def send(modality: Modality, meta: FileMeta, body: bytes, folder: Path) -> Dataset:
    """Send a C-STORE with these bytes as its data set."""
    path = folder / "object.dcm"
    path.write_bytes(write_file(meta, body))
    association = modality.associate(meta.sop_class)
    status = association.send_c_store(path)
    association.release()
    return status


@needs_dcmtk
@pytest.mark.parametrize("program", ["storescu", "dcmsend"])
async def test_dcmtk_stores(
    hospital: Hospital, modality: Modality, tmp_path: Path, program: str
) -> None:
    """DCMTK's programs report success, and the reports are attached."""
    for number in (1, 2):
        await hospital.send(new_order(number))
    paths = [
        write_report(tmp_path, report(accession=f"A{number}"), syntax)
        for number, syntax in ((1, ExplicitVRLittleEndian), (2, ImplicitVRLittleEndian))
    ]
    titles = ["-aet", "CT1", "-aec", CALLED]
    command = [program, *titles, "127.0.0.1", str(modality.port), *map(str, paths)]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    await applied(hospital)
    assert received_messages(hospital) == [STORED, STORED]
    assert len(files(hospital)) == 2


async def test_the_process_that_applies_messages_is_told(hospital: Hospital) -> None:
    """Each message that is stored is reported after its commit; one that is known is not."""
    reported: list[int] = []

    def note() -> None:
        pull_new(hospital.database)
        ((count,),) = hospital.rows("SELECT count(*) FROM message WHERE listener = 'dicom'")
        reported.append(count)

    received = ReceivedLog(hospital.database, note)
    answers = AnswerCounter(hospital.metrics, lambda *_: None, lambda *_: None)
    services = (
        StorageService(ObjectStore(received, MAX_SIZE), answers),
        PerformedSteps(received, MAX_SIZE, answers),
    )
    with serving(*services) as port:
        modality, made, uid = Modality(port), report(), generate_uid()
        await modality.store(made)
        await modality.store(made)
        await modality.create(uid, new_step())
        await modality.set(uid, ended())
    received.close()
    assert reported == [1, 2, 3]


async def test_refusals_are_counted(hospital: Hospital, received: ReceivedLog) -> None:
    """Answers by peer, request and status; refusals are noted, repetitions are not."""
    refused: list[tuple[str, ...]] = []
    answers = AnswerCounter(hospital.metrics, lambda *_: None, lambda *found: refused.append(found))
    services = (
        StorageService(ObjectStore(received, MAX_SIZE), answers),
        PerformedSteps(received, MAX_SIZE, answers),
    )
    with serving(*services) as port:
        modality = Modality(port)
        await modality.store(report())
        await modality.store(report(text="x" * MAX_SIZE))
        await modality.create(uid := generate_uid(), new_step())
        await modality.create(uid, new_step())
    assert refused == [("C-STORE A700", "127.0.0.1", "CT1")]
    counted = hospital.metrics.registry.get_sample_value
    for request, status in (
        ("C-STORE", "0000"),
        ("C-STORE", "A700"),
        ("N-CREATE", "0000"),
        ("N-CREATE", "0111"),
    ):
        labels = {"peer": "CT1", "request": request, "status": status}
        assert counted("bridge_dicom_requests_total", labels) == 1
    labels = {"listener": "dicom", "outcome": "accepted"}
    assert counted("bridge_messages_received_total", labels) == 2
