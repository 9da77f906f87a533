"""Programs of others report steps and send objects: dcmjs-dimse, highdicom, Orthanc."""

import asyncio
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from highdicom.sr import (
    CodedConcept,
    Comprehensive3DSR,
    ContainerContentItem,
    RelationshipTypeValues,
    TextContentItem,
)
from pydicom.sequence import Sequence
from pydicom.uid import generate_uid
from starlette.applications import Starlette
from starlette.routing import Mount

from bridge.dicom.answers import AnswerCounter
from bridge.dicom.objects import ObjectStore
from bridge.dicom.received_log import ReceivedLog
from bridge.dicom.stow import StoreWeb
from bridge.dicom.web import PATH, WorklistWeb
from config import Settings
from config.dicom import DicomSettings
from tests.acceptance.house import free_port
from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.dicom.conftest import MAX_SIZE
from tests.bridge.dicom.modality import CALLED, Modality, data_set, report, write_report
from tests.bridge.dicom.orders import (
    applied,
    await_examinations,
    new_order,
    order_states,
    received_messages,
)
from tests.bridge.dicom.test_storage import text_of
from tests.eventually import eventually
from tests.programs import ORTHANC

CLIENT = Path(__file__).with_name("modality_client.mjs")
TOKEN = "token-of-the-archive"


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def test_dcmjs(hospital: Hospital, modality: Modality, tmp_path: Path) -> None:
    """A JavaScript modality reports a step and stores a report."""
    await_examinations(hospital)
    await hospital.send(new_order())
    path = write_report(tmp_path, report())
    arguments = [str(modality.port), generate_uid(), "A1", "M1", str(path)]
    printed = await asyncio.to_thread(run, "node", str(CLIENT), *arguments)
    assert json.loads(printed.splitlines()[-1]) == {"statuses": [0, 0, 0], "errors": []}
    await applied(hospital)
    assert order_states(hospital) == ["ordered"]
    assert received_messages(hospital)[-1] == ("C-STORE SR", "done", "object_stored")


async def test_highdicom(hospital: Hospital, modality: Modality) -> None:
    """A report that highdicom writes becomes text of the report."""
    await hospital.send(new_order())
    image = data_set(
        SOPClassUID="1.2.840.10008.5.1.4.1.1.2",
        SOPInstanceUID=generate_uid(),
        StudyInstanceUID="1.2.840.99999.1",
        SeriesInstanceUID=generate_uid(),
        PatientID="M1",
        PatientName="TESTER^TILDA",
        PatientBirthDate="19700101",
        PatientSex="F",
        AccessionNumber="A1",
        StudyID="1",
        StudyDate="20261130",
        StudyTime="101500",
        ReferringPhysicianName="",
        Modality="CT",
    )
    root = ContainerContentItem(CodedConcept("126000", "DCM", "Imaging Measurement Report"))
    finding = TextContentItem(
        CodedConcept("121071", "DCM", "Finding"),
        "Nodule 8 mm",
        relationship_type=RelationshipTypeValues.CONTAINS,
    )
    root.ContentSequence = Sequence([finding])
    made = Comprehensive3DSR(
        evidence=[image],
        content=root,
        series_instance_uid=generate_uid(),
        series_number=1,
        sop_instance_uid=generate_uid(),
        instance_number=1,
        manufacturer="Tests",
    )
    assert (await modality.store(made)).Status == 0x0000
    await applied(hospital)
    assert received_messages(hospital) == [("C-STORE SR", "done", "object_stored")]
    assert await text_of(hospital) == "Finding: Nodule 8 mm"


@contextmanager
def web(hospital: Hospital, received: ReceivedLog, folder: Path) -> Iterator[int]:
    """Serve STOW-RS for Orthanc; yield the port."""
    (folder / "archive.token").write_text(TOKEN, "utf-8")
    peer = {"ae_title": "CT1", "addresses": ["127.0.0.1"], "may": ["store"]}
    settings = Settings(
        home=folder,
        dicom=DicomSettings.model_validate({"peer": [{**peer, "token_file": "archive.token"}]}),
    )
    found = WorklistWeb(
        settings, hospital.database, hospital.metrics, lambda *_: None, lambda *_: None
    )
    answers = AnswerCounter(hospital.metrics, lambda *_: None, lambda *_: None)
    store = StoreWeb(ObjectStore(received, MAX_SIZE), answers, found, MAX_SIZE)
    application = Starlette(routes=[Mount(PATH, found.router(*store.routes()))])
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(application, "127.0.0.1", port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started)
        yield port
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def orthanc(folder: Path, modality: Modality, web_port: int) -> Iterator[str]:
    """Run Orthanc with the bridge as a modality and as a DICOMweb server; yield its address."""
    http = free_port()
    bridge = {
        "Url": f"http://127.0.0.1:{web_port}{PATH}/",
        "HttpHeaders": {"Authorization": f"Bearer {TOKEN}"},
    }
    settings: dict[str, Any] = {
        "DicomAet": "CT1",
        "DicomServerEnabled": False,
        "HttpPort": http,
        "StorageDirectory": str(folder / "storage"),
        "IndexDirectory": str(folder / "storage"),
        "RemoteAccessAllowed": False,
        "DicomModalities": {"bridge": [CALLED, "127.0.0.1", modality.port]},
        "Plugins": ["/usr/share/orthanc/plugins"],
        "DicomWeb": {"Enable": True, "Servers": {"bridge": bridge}},
    }
    (folder / "orthanc.json").write_text(json.dumps(settings), "utf-8")
    with (folder / "log").open("wb") as log:
        program = subprocess.Popen(
            [ORTHANC.require(), str(folder / "orthanc.json")], stdout=log, stderr=log
        )
    address = f"http://127.0.0.1:{http}"
    try:
        eventually(lambda: answers(f"{address}/system"))
        yield address
    finally:
        program.terminate()
        program.wait()


def answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=10).status_code == 200
    except httpx.HTTPError:
        return False


def post(address: str, **options: Any) -> httpx.Response:
    response = httpx.post(address, timeout=60, **options)
    assert response.status_code == 200, response.text
    return response


@pytest.mark.needs(ORTHANC)
async def test_orthanc(
    hospital: Hospital, received: ReceivedLog, modality: Modality, tmp_path: Path
) -> None:
    """Orthanc sends by C-STORE and by STOW-RS."""
    for number in (1, 2):
        await hospital.send(new_order(number))
    paths = [write_report(tmp_path, report(accession=f"A{number}")) for number in (1, 2)]

    def send(address: str) -> None:
        ids = [post(f"{address}/instances", content=path.read_bytes()).json() for path in paths]
        stored = post(f"{address}/modalities/bridge/store", json=[ids[0]["ID"]])
        assert stored.json()["FailedInstancesCount"] == 0
        body = {"Resources": [ids[1]["ID"]], "Synchronous": True}
        post(f"{address}/dicom-web/servers/bridge/stow", json=body)

    with web(hospital, received, tmp_path) as port, orthanc(tmp_path, modality, port) as address:
        await asyncio.to_thread(send, address)
    await applied(hospital)
    assert received_messages(hospital) == [
        ("C-STORE SR", "done", "object_stored"),
        ("STOW-RS SR", "done", "object_stored"),
    ]
