"""C-STORE and STOW-RS to PACSs that others wrote, and to one that fails as it is told."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydicom import Dataset, dcmread
from pynetdicom import evt

from bridge.delivery.dicom_objects import sent_objects
from bridge.delivery.dicom_replies import statuses_of
from bridge.delivery.dicom_sender import DicomReceiver, DicomSender
from bridge.delivery.reply_policy import ReplyKind, decide, read_reply
from bridge.delivery.stow_sender import StowSender
from bridge.errors import FailureKind
from bridge.executors import close_all
from bridge.queue.states import QueueEvent
from bridge.transports.http_sender import HttpReceiver
from mllp.errors import LossReason, NotConnected, ReplyLost
from tests.bridge.delivery.pacs import free_port, orthanc, pacs, silent_peer, storescp
from tests.bridge.delivery.test_dicom_objects import PDF, written
from tests.programs import DCMTK, ORTHANC, find_program

pytestmark = pytest.mark.anyio
PAYLOAD = written()
OBJECTS = [one.sop_instance for one in sent_objects(PAYLOAD)]


@pytest.fixture(autouse=True)
def pools() -> Iterator[None]:
    yield
    close_all()


def sender(port: int, *, called: str = "PACS", seconds: float = 20.0) -> DicomSender:
    return DicomSender(DicomReceiver("127.0.0.1", port, called, "REPORT_BRIDGE", 5.0, seconds))


async def send(port: int, **changes: Any) -> bytes:
    return await sender(port, **changes).send(PAYLOAD).asFuture(asyncio.get_running_loop())


async def test_a_pacs_stores_the_objects() -> None:
    with pacs() as archive:
        reply = await send(archive.port)
    assert archive.instances() == OBJECTS
    assert statuses_of(reply) == ["0000", "0000"]
    assert b"C-STORE 0000 Success: Encapsulated PDF Storage" in reply
    assert b"Yamada" not in reply
    assert archive.stored[0].EncapsulatedDocument[: len(PDF)] == PDF


@pytest.mark.needs(DCMTK)
@pytest.mark.parametrize("syntax", ["+x=", "+xi"])
async def test_dcmtk_stores_readable_files(tmp_path: Path, syntax: str) -> None:
    """Storescp writes what dsrdump reads, in either transfer syntax."""
    with storescp(tmp_path, syntax) as port:
        assert statuses_of(await send(port)) == ["0000", "0000"]
    assert "胸部異常なし" in dumped(tmp_path)


def dumped(folder: Path) -> str:
    """Return the SR of a folder as dsrdump shows it."""
    (report,) = [file for file in folder.iterdir() if dcmread(file).Modality == "SR"]
    command = [find_program("dsrdump") or "", "+Pl", str(report)]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode()


@pytest.mark.needs(ORTHANC)
async def test_orthanc_stores_the_objects_by_both_ways(tmp_path: Path) -> None:
    """Orthanc has the same two objects after C-STORE, its repetition, and STOW-RS."""
    with orthanc(tmp_path) as archive:
        for _ in range(2):
            assert statuses_of(await send(archive.dicom_port)) == ["0000", "0000"]
        stow = StowSender(HttpReceiver(f"{archive.dicomweb}/studies", 5.0, 30.0))
        reply = await stow.send(PAYLOAD).asFuture(asyncio.get_running_loop())
        assert statuses_of(reply) == ["0000", "0000"]
        found = archive.instances()
        (pdf,) = [one for one in archive.http.get("/instances").json() if _is_pdf(archive, one)]
        assert archive.http.get(f"/instances/{pdf}/pdf").content.startswith(PDF)
    assert sorted(one["SOPInstanceUID"] for one in found) == sorted(OBJECTS)
    assert {one["PatientName"] for one in found} == {"Yamada^Tarou=山田^太郎=やまだ^たろう"}


def _is_pdf(archive: Any, name: str) -> bool:
    return bool(archive.http.get(f"/instances/{name}/metadata/SopClassUid").text.endswith("104.1"))


@pytest.mark.parametrize(
    ("status", "event", "failure"),
    [
        (0xB000, QueueEvent.ACCEPTED, None),
        (0xB007, QueueEvent.ACCEPTED, None),
        (0x0111, QueueEvent.ACCEPTED, None),
        (0xA700, QueueEvent.POSTPONED, FailureKind.PERMANENT),
        (0xA900, QueueEvent.GIVEN_UP, FailureKind.PERMANENT),
        (0xC001, QueueEvent.GIVEN_UP, FailureKind.PERMANENT),
        (0x0110, QueueEvent.POSTPONED, FailureKind.PERMANENT),
        (0x0124, QueueEvent.POSTPONED, FailureKind.PERMANENT),
    ],
)
async def test_statuses(status: int, event: QueueEvent, failure: FailureKind | None) -> None:
    """The worst status of the objects decides; all objects are sent."""
    seen: list[str] = []

    def answer(data: Dataset, _: evt.Event) -> int:
        seen.append(str(data.SOPInstanceUID))
        return status if len(seen) == 1 else 0x0000

    with pacs(status=answer) as archive:
        reply = await send(archive.port)
    assert seen == OBJECTS
    assert statuses_of(reply) == [f"{status:04X}", "0000"]
    kind, detail = read_reply(reply, {})
    decision = decide(kind, {}, 1, detail)
    assert (kind, decision.event, decision.failure) == (ReplyKind.DICOM, event, failure)


def test_rules_of_the_destination() -> None:
    """The most specific rule decides, before the defaults."""
    rules = {"dicom A700": "skip", "dicom Axxx": "park", "dicom": "pause"}
    assert decide(ReplyKind.DICOM, rules, 1, "A700").event is QueueEvent.IGNORED
    assert decide(ReplyKind.DICOM, rules, 1, "A701").event is QueueEvent.GIVEN_UP
    assert decide(ReplyKind.DICOM, rules, 1, "0110").pause
    assert decide(ReplyKind.DICOM, {}, 10_000, "A701").event is QueueEvent.POSTPONED


async def test_a_class_that_the_pacs_does_not_accept() -> None:
    """The other objects are stored; the refused one has the status SOP class not supported."""
    with pacs(classes=("1.2.840.10008.5.1.4.1.1.104.1",)) as archive:
        reply = await send(archive.port)
    assert archive.instances() == OBJECTS[:1]
    assert statuses_of(reply) == ["0000", "0122"]


async def test_a_wrong_title() -> None:
    with pacs() as archive, pytest.raises(NotConnected, match=r"[Cc]alled AE"):
        await send(archive.port, called="OTHER")


# pynetdicom leaves the socket of a refused connection to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_nobody_listens() -> None:
    with pytest.raises(NotConnected, match="ConnectionRefused"):
        await send(free_port())


async def test_an_unknown_host() -> None:
    unknown = DicomSender(DicomReceiver("pacs.invalid", 104, "A", "B", 5.0, 5.0))
    with pytest.raises(NotConnected, match="DNSLookup"):
        await unknown.send(PAYLOAD).asFuture(asyncio.get_running_loop())


async def test_a_peer_that_never_answers() -> None:
    """The association is given up after the time-out; nothing was sent."""
    with silent_peer() as port, pytest.raises(NotConnected, match="no association"):
        await send(port, seconds=0.5)


async def test_a_pacs_that_dies_during_the_transfer() -> None:
    """The state is unknown, so the delivery is repeated as a whole."""

    def die(_: Dataset, event: evt.Event) -> int:
        event.assoc.abort()
        return 0x0000

    with pacs(status=die) as archive, pytest.raises(ReplyLost) as lost:
        await send(archive.port)
    assert lost.value.reason is LossReason.CLOSED


async def test_a_slow_pacs() -> None:
    """A PACS that does not answer in time does not occupy the destination for ever."""
    released = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait(_: Dataset, event: evt.Event) -> int:
        asyncio.run_coroutine_threadsafe(released.wait(), loop).result()
        return 0x0000

    with pacs(status=wait) as archive:
        try:
            with pytest.raises(ReplyLost) as lost:
                await send(archive.port, seconds=0.5)
        finally:
            released.set()
    assert lost.value.reason is LossReason.TIMEOUT
