"""PACSs for tests: Orthanc, DCMTK's storescp, and two that fail as they are told."""

import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
from pydicom import Dataset
from pydicom.uid import ExplicitVRLittleEndian
from pynetdicom import AE, build_role, evt
from pynetdicom.association import Association
from pynetdicom.sop_class import (  # type: ignore[attr-defined]  # the module makes its names
    BasicTextSRStorage,
    EncapsulatedPDFStorage,
    KeyObjectSelectionDocumentStorage,
    StorageCommitmentPushModel,
    StorageCommitmentPushModelInstance,
    Verification,
)
from typing_extensions import override

from bridge.delivery.dicom_objects import read_documents
from tests.eventually import eventually
from tests.mllp.certificates import Certificates
from tests.programs import DCMTK, ORTHANC, find_program

STORED_CLASSES = (EncapsulatedPDFStorage, BasicTextSRStorage, KeyObjectSelectionDocumentStorage)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def accepts_connections(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Pacs:
    """
    A PACS. `status` returns the status of an object, and may raise or wait.

    `requests` are the Action Informations of requests for commitment, also of refused ones;
    `events` the Event Informations that it has prepared for the others.
    """

    port: int = 0
    stored: list[Dataset] = field(default_factory=list)
    status: Callable[[Dataset, evt.Event], int] = lambda data, event: 0x0000
    action_status: int = 0x0000
    report: Callable[[evt.Event, Dataset], None] = lambda event, information: None
    events: list[Dataset] = field(default_factory=list)
    requests: list[Dataset] = field(default_factory=list)
    classes: tuple[str, ...] = STORED_CLASSES
    offending: tuple[int, ...] = ()
    """The Offending Elements of a refused object."""
    commits: bool = True
    lost: Callable[[str], bool] = lambda instance: False
    """Whether it says that it does not keep an instance."""
    tls: ssl.SSLContext | None = None

    def instances(self) -> list[str]:
        return [str(data.SOPInstanceUID) for data in self.stored]


def _information(request: Dataset, lost: Callable[[str], bool]) -> Dataset:
    answer = Dataset()
    answer.TransactionUID = request.TransactionUID
    objects: dict[bool, list[Dataset]] = {False: [], True: []}
    for item in request.ReferencedSOPSequence:
        objects[lost(str(item.ReferencedSOPInstanceUID))].append(item)
    for item in objects[True]:
        item.FailureReason = 0x0112
    if objects[True]:
        answer.FailedSOPSequence = objects[True]
    if objects[False]:
        answer.ReferencedSOPSequence = objects[False]
    return answer


class Sockets:
    """Closes the sockets of associations: pynetdicom does not close one that its peer has reset."""

    def __init__(self) -> None:
        self._opened: dict[Association, socket.socket] = {}

    def handlers(self) -> list[Any]:
        return [(evt.EVT_CONN_OPEN, self._note), (evt.EVT_CONN_CLOSE, self._close)]

    def _note(self, event: evt.Event) -> None:
        connection = event.assoc.dul.socket
        if connection is not None and connection.socket is not None:
            self._opened[event.assoc] = connection.socket

    def _close(self, event: evt.Event) -> None:
        if (connection := self._opened.pop(event.assoc, None)) is not None:
            connection.close()


@contextmanager
def pacs(**changes: Any) -> Iterator[Pacs]:
    """A PACS at a free port, with the AE title PACS."""
    found = Pacs(**changes)

    def store(event: evt.Event) -> int | Dataset:
        data = event.dataset
        data.file_meta = event.file_meta
        status = found.status(data, event)
        if status >> 12 == 0xB or status == 0:
            found.stored.append(data)
        elif found.offending:
            answer = Dataset()
            answer.Status, answer.OffendingElement = status, list(found.offending)
            return answer
        return status

    def act(event: evt.Event) -> tuple[int, None]:
        found.requests.append(event.action_information)
        if found.action_status == 0:
            information = _information(event.action_information, found.lost)
            found.events.append(information)
            found.report(event, information)
        return found.action_status, None

    entity = AE("PACS")
    entity.require_called_aet = True
    for sop_class in found.classes:
        entity.add_supported_context(sop_class, ExplicitVRLittleEndian)
    if found.commits:
        entity.add_supported_context(StorageCommitmentPushModel)
    entity.add_supported_context(Verification)
    handlers = [(evt.EVT_C_STORE, store), (evt.EVT_N_ACTION, act), *Sockets().handlers()]
    address = ("127.0.0.1", found.port)
    server = entity.start_server(address, block=False, evt_handlers=handlers, ssl_context=found.tls)
    assert server is not None
    found.port = server.server_address[1]
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def stow_service(status: Callable[[Dataset], int]) -> Iterator[int]:
    """A DICOMweb service; `status` returns that of an object, and may wait. Yields its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer: dict[str, dict[str, Any]] = {}
            for data in read_documents(body):
                sequence, code = ("00081198", status(data))
                item = {"00081155": {"vr": "UI", "Value": [data.SOPInstanceUID]}}
                if code:
                    item["00081197"] = {"vr": "US", "Value": [code]}
                else:
                    sequence = "00081199"
                answer.setdefault(sequence, {"vr": "SQ", "Value": []})["Value"].append(item)
            text = json.dumps(answer).encode()
            self.send_response(202 if "00081198" in answer else 200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        @override
        def log_message(self, *_: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def report_at_once(event: evt.Event, information: Dataset) -> None:
    """Answer a request for commitment on its own association, after the response."""
    association = event.assoc

    def send(_: evt.Event) -> None:
        association.unbind(evt.EVT_DIMSE_SENT, send)
        send_report(association, information)

    association.bind(evt.EVT_DIMSE_SENT, send)


def send_report(association: Association, information: Dataset) -> int:
    """Send the N-EVENT-REPORT of an answer; return the status of the response."""
    kind = 2 if "FailedSOPSequence" in information else 1
    status, _ = association.send_n_event_report(
        information, kind, StorageCommitmentPushModel, StorageCommitmentPushModelInstance
    )
    return int(status.Status)


def report_later(port: int, information: Dataset, title: str = "REPORT_BRIDGE") -> int:
    """Answer a request for commitment on a new association, as SCP; return the status."""
    entity = AE("PACS")
    entity.add_requested_context(StorageCommitmentPushModel)
    role = build_role(StorageCommitmentPushModel, scp_role=True)
    association = entity.associate(
        "127.0.0.1", port, ae_title=title, ext_neg=[role], evt_handlers=Sockets().handlers()
    )
    assert association.is_established
    try:
        return send_report(association, information)
    finally:
        association.release()


@contextmanager
def storescp(folder: Path, *options: str) -> Iterator[int]:
    """DCMTK's storescp, which writes files into a folder; yields its port."""
    DCMTK.require()
    port, program = free_port(), find_program("storescp")
    assert program
    command = [program, *options, "--output-directory", str(folder), str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: accepts_connections(port))
        yield port
    finally:
        process.kill()
        process.wait()


@dataclass
class Orthanc:
    dicom_port: int
    http: httpx.Client

    @property
    def dicomweb(self) -> str:
        return f"{self.http.base_url}/dicom-web"

    def instances(self) -> list[dict[str, Any]]:
        """Return the tags of the stored objects."""
        return [
            self.http.get(f"/instances/{name}/simplified-tags").json()
            for name in self.http.get("/instances").json()
        ]


@contextmanager
def orthanc(
    folder: Path,
    bridge_port: int = 0,
    certificates: Certificates | None = None,
    script: str = "",
) -> Iterator[Orthanc]:
    """
    Orthanc as PACS; `bridge_port` is where it sends answers to requests for commitment.

    A `script` in Lua is run by it. With certificates its DICOM port speaks TLS, and requires the
    certificate of its peer.
    """
    program = ORTHANC.require()
    web, dicom = free_port(), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "Name": "PACS",
        "StorageDirectory": str(folder / "store"),
        "IndexDirectory": str(folder / "store"),
        "Plugins": ["/usr/share/orthanc/plugins/libOrthancDicomWeb.so"],
        "HttpPort": web,
        "DicomPort": dicom,
        "DicomAet": "PACS",
        "RemoteAccessAllowed": False,
        "AuthenticationEnabled": False,
        "DicomModalities": {"bridge": ["REPORT_BRIDGE", "127.0.0.1", bridge_port or 1]},
        "DicomCheckCalledAet": True,
    }
    if certificates is not None:
        settings |= {
            "DicomTlsEnabled": True,
            "DicomTlsCertificate": certificates.certificate,
            "DicomTlsPrivateKey": certificates.key,
            "DicomTlsTrustedCertificates": certificates.ca,
            "DicomTlsRemoteCertificateRequired": True,
        }
    if script:
        (folder / "routing.lua").write_text(script)
        settings["LuaScripts"] = [str(folder / "routing.lua")]
    (folder / "orthanc.json").write_text(json.dumps(settings))
    process = subprocess.Popen(
        [program, str(folder / "orthanc.json")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: accepts_connections(web) and accepts_connections(dicom))
        with httpx.Client(base_url=f"http://127.0.0.1:{web}", trust_env=False) as http:
            yield Orthanc(dicom, http)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def silent_peer() -> Iterator[int]:
    """A peer that accepts connections, and neither reads nor writes; yields its port."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]
