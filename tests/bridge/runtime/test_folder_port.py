"""A job scans a folder. Scans become less frequent while a file fails."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bridge.metrics import Metrics
from bridge.runtime.receiving import FolderPort
from bridge.runtime.schedule import Schedule
from bridge.transports.folder_files import DONE, Folder
from bridge.transports.folder_listener import FolderListener, FolderRules
from mappings.hl7.acknowledgment import build_ack
from mappings.hl7.header import peek
from mappings.hl7.refusals import InternalError
from mappings.hl7.tables import AckCode
from mllp.contract import ReplyCallback, ServerObserver
from mllp.framing import Frame
from tests.bridge.transports.test_folders import NOW, result
from tests.eventually import eventually_async

SOON = 20.0  # seconds
EVERY = 0.01


class RecordingHandler:
    def __init__(self, code: AckCode = AckCode.ACCEPT) -> None:
        self.code = code
        self.payloads: list[bytes] = []

    def __call__(self, frame: Frame, _peer: Any, reply: ReplyCallback) -> None:
        self.payloads.append(frame.payload)
        refusals = () if self.code.positive else (InternalError(),)
        header = peek(frame.payload)
        ack = build_ack(header, self.code, control_id="1", now=NOW, refusals=refusals)
        reply([ack])


@asynccontextmanager
async def served(folder: Path, handled: RecordingHandler) -> AsyncIterator[FolderPort]:
    schedule = Schedule(Metrics())
    rules = FolderRules(scan_interval=EVERY)
    listener = FolderListener(
        "files", Folder(folder), handled, lambda *_: None, rules, ServerObserver()
    )
    port = FolderPort(listener, schedule, every=EVERY)
    await port.start()
    try:
        yield port
    finally:
        await port.stop()


async def test_files_are_handled_in_order(tmp_path: Path) -> None:
    """Files are handled in order and moved after acceptance. After the stop no file is handled."""
    for number in ("1", "2"):
        (tmp_path / f"{number}.hl7").write_bytes(result(number))
    handled = RecordingHandler()
    async with served(tmp_path, handled):
        await eventually_async((tmp_path / DONE / "2.hl7").exists)
    assert handled.payloads == [result("1"), result("2")]
    (tmp_path / "3.hl7").write_bytes(result("3"))
    assert len(handled.payloads) == 2


async def test_a_paused_folder_keeps_its_files(tmp_path: Path) -> None:
    handled = RecordingHandler()
    listener = FolderListener(
        "files", Folder(tmp_path), handled, lambda *_: None, FolderRules(), ServerObserver()
    )
    await listener.prepare()
    (tmp_path / "1.hl7").write_bytes(result("1"))
    listener.pause()
    for _ in range(3):
        await listener.scan()
    assert not handled.payloads
    listener.resume()
    for _ in range(2):  # a file is complete if it did not change since the last scan
        await listener.scan()
    assert handled.payloads == [result("1")]


async def test_a_file_that_cannot_be_stored(tmp_path: Path) -> None:
    """While storage fails (AE 207), each scan doubles the time until the next one."""
    (tmp_path / "1.hl7").write_bytes(result("1"))
    rules = FolderRules(scan_interval=1.0, max_scan_interval=6.0)
    handled = RecordingHandler(AckCode.ERROR)
    listener = FolderListener(
        "files", Folder(tmp_path), handled, lambda *_: None, rules, ServerObserver()
    )
    await listener.prepare()
    assert [await listener.scan() for _ in range(5)] == [1.0, 2.0, 4.0, 6.0, 6.0]
    handled.code = AckCode.ACCEPT
    assert await listener.scan() == 1.0
    assert (tmp_path / DONE / "1.hl7").exists()
