"""The folder listener: one node at a time, files in their order, and patience after errors."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.transports import folder_files
from bridge.transports.folder_files import Folder
from bridge.transports.folder_listener import MAX_ATTEMPTS, FolderListener, FolderRules
from mappings.hl7.batch import MAX_MESSAGES
from mappings.hl7.refusals import InternalError
from mappings.hl7.tables import AckCode
from mllp.contract import Peer, ReplyCallback, ServerObserver
from mllp.framing import Frame
from tests.bridge.transports.test_folders import ack, result

LIMIT = 1000


class Inbox:
    """A folder with a listener; `answer` returns the acknowledgment of each message."""

    def __init__(self, path: Path, answer: Callable[[bytes], bytes], limit: int = LIMIT) -> None:
        self.path, self.folder = path, Folder(path)
        self.handled: list[bytes] = []
        self._answer = answer
        rules = FolderRules(
            scan_interval=1, max_scan_interval=60, max_file=limit, answer_files=True
        )
        self.listener = FolderListener(
            "files", self.folder, self._handle, lambda *_: None, rules, ServerObserver()
        )

    def _handle(self, frame: Frame, _peer: Peer, reply: ReplyCallback) -> None:
        self.handled.append(frame.payload)
        reply([self._answer(frame.payload)])

    async def scan(self) -> float:
        """Scan until the present files count as complete and were processed."""
        await self.listener.scan()
        return await self.listener.scan()


def accepted(message: bytes) -> bytes:
    return ack(message, AckCode.ACCEPT)


def failing(message: bytes) -> bytes:
    return ack(message, AckCode.ERROR, InternalError())


async def test_one_node_reads_a_folder(tmp_path: Path) -> None:
    """While another node has the lock, no file is read."""
    inbox = Inbox(tmp_path, accepted)
    await inbox.listener.prepare()
    (tmp_path / "a.hl7").write_bytes(result("A"))
    with Folder(tmp_path).lock() as locked:
        assert locked
        await inbox.scan()
        assert inbox.handled == []
    await inbox.scan()
    assert inbox.handled == [result("A")]


async def test_later_files_wait_for_one_that_fails(tmp_path: Path) -> None:
    """After an internal error the file is read again, less and less often, before later ones."""
    inbox = Inbox(tmp_path, failing)
    await inbox.listener.prepare()
    for name in "AB":
        (tmp_path / f"{name}.hl7").write_bytes(result(name))
    waits = [await inbox.scan()] + [await inbox.listener.scan() for _ in range(2)]
    assert waits == [2, 4, 8]
    assert inbox.handled == [result("A")] * 3


async def test_later_messages_wait_for_one_that_fails(tmp_path: Path) -> None:
    """The second message about an order is not accepted before the first one."""
    outage = [True]

    def answer(message: bytes) -> bytes:
        return failing(message) if message == result("B") and outage else accepted(message)

    inbox = Inbox(tmp_path, answer)
    await inbox.listener.prepare()
    (tmp_path / "a.hl7").write_bytes(result("A") + result("B") + result("C"))
    await inbox.scan()
    assert inbox.handled == [result("A"), result("B")]
    outage.clear()
    await inbox.listener.scan()
    assert inbox.handled[2:] == [result("A"), result("B"), result("C")]
    assert (tmp_path / "done" / "a.hl7").exists()


async def test_a_message_that_always_fails(tmp_path: Path) -> None:
    """The last attempt passes on the messages after it, before the file is moved to `failed`."""

    def answer(message: bytes) -> bytes:
        return failing(message) if message == result("B") else accepted(message)

    inbox = Inbox(tmp_path, answer)
    await inbox.listener.prepare()
    (tmp_path / "a.hl7").write_bytes(result("A") + result("B") + result("C"))
    await inbox.listener.scan()
    for _ in range(MAX_ATTEMPTS):
        assert result("C") not in inbox.handled
        await inbox.listener.scan()
    assert inbox.handled[-3:] == [result("A"), result("B"), result("C")]
    assert (tmp_path / "failed" / "a.hl7").exists()


async def test_a_file_that_grows_after_it_was_listed(tmp_path: Path) -> None:
    """A file beyond the limit is refused, also if it was smaller when it was listed."""

    def grow(message: bytes) -> bytes:
        (tmp_path / "B.hl7").write_bytes(result("B") + b"x" * LIMIT)
        return accepted(message)

    inbox = Inbox(tmp_path, grow)
    await inbox.listener.prepare()
    for name in "AB":
        (tmp_path / f"{name}.hl7").write_bytes(result(name))
    await inbox.scan()
    assert inbox.handled == [result("A")]


async def test_the_acknowledgment_precedes_the_move(tmp_path: Path) -> None:
    """A file is not done before its sender can see the acknowledgment."""
    inbox = Inbox(tmp_path, accepted)
    await inbox.listener.prepare()
    (tmp_path / "done").rmdir()
    (tmp_path / "done").symlink_to(tmp_path / "acks")  # the move fails
    (tmp_path / "a.hl7").write_bytes(result("A"))
    await inbox.scan()
    assert (tmp_path / "acks" / "a.hl7.ack").read_bytes() == accepted(result("A"))
    assert (tmp_path / "a.hl7").exists()


async def test_a_file_with_too_many_messages_is_not_split(tmp_path: Path) -> None:
    """The handler gets it whole and refuses it; 16 MiB could hold three million messages."""
    inbox = Inbox(tmp_path, accepted, limit=2**20)
    await inbox.listener.prepare()
    many = b"MSH|^~\\&|A\r" * (MAX_MESSAGES + 1)
    (tmp_path / "a.hl7").write_bytes(many)
    await inbox.scan()
    assert inbox.handled == [many]


async def test_a_sender_with_the_name_of_a_segment(tmp_path: Path) -> None:
    """Only the messages of a file are counted, not the values in them."""
    inbox = Inbox(tmp_path, accepted, limit=2**20)
    await inbox.listener.prepare()
    many = b"MSH|^~\\&|MSH|MSH||||||%d\r"
    numbers = range(MAX_MESSAGES // 2)
    (tmp_path / "a.hl7").write_bytes(b"".join(many % number for number in numbers))
    await inbox.scan()
    assert inbox.handled == [many % number for number in numbers]


def test_files_that_arrive_faster_than_they_are_read(tmp_path: Path) -> None:
    """A scan lists the oldest files only, so that its memory does not grow with the folder."""
    for number in range(5):
        (tmp_path / f"{number}.hl7").write_bytes(b"x")
        os.utime(tmp_path / f"{number}.hl7", (100 - number, 100 - number))
    assert [each.name for each in Folder(tmp_path).waiting_files(2)] == ["4.hl7", "3.hl7"]


def test_a_sender_that_uses_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of names that are tried does not grow with the number of files."""
    tried: list[str] = []
    exists = folder_files._exists

    def count(folder: int, name: str) -> bool:
        tried.append(name)
        return exists(folder, name)

    monkeypatch.setattr(folder_files, "_exists", count)
    for _ in range(120):
        tried.clear()
        (tmp_path / "order.hl7").write_bytes(b"x")
        Folder(tmp_path).move("order.hl7", "done")
    assert len(tried) < 110
    assert len(list((tmp_path / "done").iterdir())) == 120
