"""A DICOM port with a worklist, and the programs of others that ask it."""

import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydicom import Dataset, dcmread

from bridge.dicom.activity import Activity
from bridge.dicom.answers import AnswerCounter
from bridge.dicom.objects import ObjectStore
from bridge.dicom.performed import PerformedSteps
from bridge.dicom.received_log import ReceivedLog
from bridge.dicom.server import DicomServer
from bridge.dicom.storage import StorageService
from bridge.dicom.worklist import WorklistService
from bridge.metrics import Metrics
from bridge.store.database import Database
from config.dicom import DicomPeer, DicomSettings
from mllp.tls import HandshakeFailure, ReloadingOptions
from tests.programs import DCMTK

TITLE = "REPORT_BRIDGE"


@dataclass
class Port:
    """A running port on `database`; each peer may use this machine's addresses."""

    database: Database
    number: int
    server: DicomServer
    metrics: Metrics
    activity: Activity
    received: ReceivedLog
    refused: list[str] = field(default_factory=list)
    handshakes: list[str] = field(default_factory=list)

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


def open_port(
    database: Database,
    *peers: dict[str, Any],
    tls: ReloadingOptions | None = None,
    **settings: Any,
) -> Port:
    """Open a port for peers; without any, for CT1."""
    found = [
        DicomPeer(**({"addresses": ["127.0.0.0/8", "::1"]} | peer))
        for peer in peers or ({"ae_title": "CT1"},)
    ]
    chosen = DicomSettings(bind="127.0.0.1:0", peer=found, **settings)
    metrics, activity = Metrics(), Activity(database)
    refused, handshakes = list[str](), list[str]()

    def note_refusal(reason: str, address: str, title: str, is_peer: bool = True) -> None:
        activity.note_refusal(reason, address, title, is_peer)
        refused.append(reason)

    def note_handshake(_address: str, failure: HandshakeFailure) -> None:
        handshakes.append(failure.reason)

    received = ReceivedLog(database)
    answers = AnswerCounter(metrics, activity.note_request, note_refusal)
    server = DicomServer(
        chosen,
        [
            WorklistService(database, metrics, activity.note_request),
            PerformedSteps(received, chosen.max_object, answers),
            StorageService(ObjectStore(received, chosen.max_object), answers),
        ],
        metrics,
        tls,
        note_refusal,
        note_handshake,
        activity.note_association,
    )
    number = server.start()
    return Port(database, number, server, metrics, activity, received, refused, handshakes)


def run(*command: str, expect: int | None = 0) -> str:
    """Run a program; return what it prints."""
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    printed = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert expect is None or done.returncode == expect, printed
    return printed


def dcmtk(name: str, *arguments: str, expect: int | None = 0) -> str:
    """Run a program of DCMTK: pynetdicom has programs with the same names."""
    return run(str(Path(DCMTK.require()).parent / name), *arguments, expect=expect)


def echoscu(port: int, *options: str, calling: str = "CT1", called: str = TITLE) -> str:
    titles = ("-aet", calling, "-aec", called)
    return dcmtk("echoscu", *titles, *options, "127.0.0.1", str(port), expect=None)


def query_file(folder: Path, text: str) -> Path:
    """Make a query with dump2dcm; `text` is its dump in UTF-8."""
    dump, file = folder / "query.dump", folder / "query.wl"
    dump.write_text(text, "utf-8")
    dcmtk("dump2dcm", "+te", str(dump), str(file))
    return file


def findscu(
    port: int, query: str | Path, *options: str, calling: str = "CT1", expect: int | None = 0
) -> tuple[list[Dataset], str]:
    """Ask the worklist with dcmtk; return the answers, as files read by pydicom, and the output."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = query if isinstance(query, Path) else query_file(folder, query)
        titles = ("-aet", calling, "-aec", TITLE)
        output = dcmtk(
            *("findscu", "-W", "-v", "+sr", "-X", "-od", name, *titles, *options),
            *("127.0.0.1", str(port), str(file)),
            expect=expect,
        )
        files = sorted(folder.glob("rsp*.dcm"))
        return [dcmread(found) for found in files], output


STEP = """
(0040,0100) SQ
(fffe,e000) -
{keys}
(fffe,e00d) -
(fffe,e0dd) -
"""


def dump(*keys: str, step: Sequence[str] = ("(0008,0060) CS",)) -> str:
    """Return a query for dump2dcm: keys, and keys of the scheduled procedure step."""
    return "\n".join(keys) + STEP.format(keys="\n".join(step))


def ids(answers: Sequence[Dataset]) -> list[str]:
    return [str(answer.PatientID) for answer in answers]


def close(port: Port) -> None:
    with suppress(OSError):
        port.server.stop()
    port.received.close()
