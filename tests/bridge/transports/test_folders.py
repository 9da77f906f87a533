"""The folder sender writes files, and the folder listener reads them."""

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bridge.delivery.reply_policy import acknowledges
from bridge.transports import folders
from bridge.transports.folders import (
    MAX_ATTEMPTS,
    FileDisposition,
    Folder,
    FolderListener,
    FolderRules,
    FolderSender,
    complete_files,
    disposition_of,
    fit_name,
)
from mappings.hl7.acknowledgment import build_ack, read_ack
from mappings.hl7.batch import MAX_MESSAGES
from mappings.hl7.header import peek
from mappings.hl7.refusals import AckCode, InternalError, MessageRefusal, MissingField
from mllp.contract import Peer, ReplyCallback, ServerObserver
from mllp.errors import LossReason, NotConnected, ReplyLost
from mllp.framing import Frame
from tests.eventually import PATIENCE, eventually_async

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def result(number: str) -> bytes:
    return f"MSH|^~\\&|A|B|C|D|20261121||ORU^R01|{number}|P|2.5.1\r".encode()


def ack(message: bytes, code: AckCode, *refusals: MessageRefusal) -> bytes:
    return build_ack(peek(message), code, control_id="1", now=NOW, refusals=refusals)


def sender(folder: Path, answer_within: float | None = None) -> FolderSender:
    """A folder sender whose clock does not advance."""
    return FolderSender(
        Folder(folder), clock=lambda: NOW, answer_within=answer_within, matches=acknowledges
    )


async def send(to: FolderSender, message: bytes) -> bytes:
    return await to.send(message).asFuture(asyncio.get_running_loop())


def sent(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.hl7"))


def everything(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_names_sort_in_the_order_of_sending(tmp_path: Path) -> None:
    """File names sort in sending order, also with a stopped clock and after a restart."""
    numbers = ["Z", "A", "M/../x", "B"]
    for number in numbers:
        reply = read_ack(await send(sender(tmp_path / "out"), result(number)))
        assert reply.code is AckCode.COMMIT_ACCEPT
    names = sent(tmp_path / "out")
    assert [name.split("-")[1] for name in names] == ["Z.hl7", "A.hl7", "M_.._x.hl7", "B.hl7"]


async def test_a_repetition_replaces_its_file(tmp_path: Path) -> None:
    """A repeated message replaces its unread file, and never exists half written."""
    for _ in range(2):
        await send(sender(tmp_path), result("A"))
    await send(sender(tmp_path), result("B"))
    assert len(sent(tmp_path)) == len(everything(tmp_path)) == 2


async def test_names_of_other_programs(tmp_path: Path) -> None:
    """Files that the sender did not name neither stop it nor are replaced."""
    names = ["²-A.hl7", "000000000000009-X-A.hl7", "9-A.hl7", "notes.hl7"]
    for name in names:
        (tmp_path / name).write_bytes(b"other")
    await send(sender(tmp_path), result("A"))
    assert [(tmp_path / name).read_bytes() for name in names] == [b"other"] * len(names)
    assert len(sent(tmp_path)) == len(names) + 1


async def test_acknowledgment_of_the_reader(tmp_path: Path) -> None:
    """With replies enabled, the acknowledgment of this message decides."""
    waiting = asyncio.create_task(send(sender(tmp_path, PATIENCE), result("A")))
    files = await eventually_async(lambda: sent(tmp_path))
    acknowledgment = tmp_path / "acks" / f"{files[0]}.ack"
    acknowledgment.write_bytes(ack(result("OTHER"), AckCode.ACCEPT))
    await asyncio.sleep(0.3)  # the sender looks several times
    assert not waiting.done()
    acknowledgment.write_bytes(ack(result("A"), AckCode.ERROR, MissingField("PID-3")))
    assert read_ack(await waiting).code is AckCode.ERROR


async def test_acknowledgment_of_an_earlier_attempt(tmp_path: Path) -> None:
    """An acknowledgment that is left from an earlier attempt does not count for a repetition."""
    waiting = asyncio.create_task(send(sender(tmp_path, PATIENCE), result("A")))
    files = await eventually_async(lambda: sent(tmp_path))
    acknowledgment = tmp_path / "acks" / f"{files[0]}.ack"
    acknowledgment.write_bytes(ack(result("A"), AckCode.ERROR))
    assert read_ack(await waiting).code is AckCode.ERROR
    waiting = asyncio.create_task(send(sender(tmp_path, PATIENCE), result("A")))
    await eventually_async(lambda: waiting.done() or not acknowledgment.exists())
    acknowledgment.write_bytes(ack(result("A"), AckCode.ACCEPT))
    assert read_ack(await waiting).code is AckCode.ACCEPT


async def test_two_nodes_write_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that writes leaves the unfinished file of another node as it is."""
    fsync, begun, finish = os.fsync, threading.Event(), threading.Event()

    def slow_once(descriptor: int) -> None:
        if not begun.is_set():
            begun.set()
            assert finish.wait(PATIENCE)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", slow_once)
    first = asyncio.create_task(send(sender(tmp_path), result("A")))
    await eventually_async(begun.is_set)
    await send(sender(tmp_path), result("B"))
    finish.set()
    await first
    assert [path.read_bytes() for path in sorted(everything(tmp_path))] == [
        result("A"),
        result("B"),
    ]


async def test_no_reply_and_no_folder(tmp_path: Path) -> None:
    """A missing reply is a time-out. A file that cannot be written was not sent."""
    with pytest.raises(ReplyLost) as lost:
        await send(sender(tmp_path, 0.1), result("A"))
    assert lost.value.reason is LossReason.TIMEOUT
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotConnected):
        await send(sender(tmp_path / "file"), result("A"))


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ([], FileDisposition.DONE),
        ([ack(result("A"), AckCode.ACCEPT)], FileDisposition.DONE),
        (
            [ack(result("A"), AckCode.ACCEPT), ack(result("B"), AckCode.REJECT)],
            FileDisposition.FAILED,
        ),
        ([ack(result("A"), AckCode.ERROR, MissingField("PID-3"))], FileDisposition.FAILED),
        ([ack(result("A"), AckCode.ERROR, InternalError())], FileDisposition.RETRY),
        ([b"hello"], FileDisposition.FAILED),
        (
            [b"BHS|^~\\&\r" + ack(result("A"), AckCode.ERROR, InternalError()) + b"BTS|1\r"],
            FileDisposition.RETRY,
        ),
    ],
)
def test_dispositions(replies: list[bytes], expected: FileDisposition) -> None:
    """A batch is accepted, has a refused message, or fails with an internal error."""
    assert disposition_of(replies) is expected


def test_a_file_goes_to_another_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener moves a file also if `done` is another file system or was removed."""
    rename = os.rename

    def cross_device(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        if src_dir_fd != dst_dir_fd:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", cross_device)
    for content in (b"one", b"two"):
        (tmp_path / "a.hl7").write_bytes(content)
        Folder(tmp_path).move("a.hl7", "done")
    assert [path.name for path in everything(tmp_path)] == ["done"]
    found = {path.name: path.read_bytes() for path in everything(tmp_path / "done")}
    assert found == {"a.hl7": b"one", "a.2.hl7": b"two"}


async def test_a_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender removes a partial file, also one of a killed process."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / ".000000000000001-A.hl7.tmp").write_bytes(b"half")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(NotConnected):
            await send(sender(tmp_path), result("A"))
    assert everything(tmp_path) == []
    await send(sender(tmp_path), result("A"))
    assert len(everything(tmp_path)) == 1


def test_the_longest_names(tmp_path: Path) -> None:
    """A file name derived from a long name stays within the limit of the file system."""
    name = "N" * 255
    for _ in range(2):
        (tmp_path / name).write_bytes(b"x")
        Folder(tmp_path).move(name, "done")
    Folder(tmp_path).put(f"done/{fit_name(name, '.ack')}", b"y")
    Folder(tmp_path).put(f"done/{name}", b"z")
    assert len(everything(tmp_path / "done")) == 3


def test_removed_folders(tmp_path: Path) -> None:
    """The listener creates missing child folders. The folder itself may be unmounted."""
    folder = Folder(tmp_path / "in")
    with pytest.raises(FileNotFoundError):
        folder.put("acks/A.ack", b"x")
    folder.prepare()
    folder.put("acks/A.ack", b"x")
    assert (tmp_path / "in" / "acks" / "A.ack").read_bytes() == b"x"


def test_later_files_wait_for_a_growing_file() -> None:
    """A file is complete if it did not change since the last scan. Later files wait for it."""
    first = [("a", 1, 10), ("b", 5, 11), ("c", 5, 12)]
    ready, state = complete_files({}, first)
    assert ready == []
    ready, state = complete_files(state, [("a", 1, 10), ("b", 9, 11), ("c", 5, 12)])
    assert ready == ["a"]
    assert complete_files(state, [("b", 9, 11), ("c", 5, 12)])[0] == ["b", "c"]


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    file = tmp_path / "outside" / "secret"
    file.parent.mkdir()
    file.write_bytes(b"secret")
    return file


@pytest.fixture
def drop(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "drop")
    folder.prepare("done", "failed", "acks")
    return folder


def test_only_plain_files_are_listed_and_read(drop: Folder, foreign: Path) -> None:
    """Links, pipes, sockets, folders and names with control characters are ignored."""
    (drop.path / "soft.hl7").symlink_to(foreign)
    (drop.path / "hard.hl7").hardlink_to(foreign)
    os.mkfifo(drop.path / "pipe.hl7")
    (drop.path / "folder.hl7").mkdir()
    (drop.path / "line\nbreak.hl7").touch()
    (drop.path / "turned\u202elh7.hl7").touch()
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(drop.path / "socket.hl7"))
        assert drop.waiting_files() == []
        assert drop.count_ignored() == 6
    for name in ("soft.hl7", "hard.hl7", "pipe.hl7"):
        with pytest.raises(OSError, match=r"symbolic links|regular file"):
            drop.read(name, 100)


def test_a_file_replaced_after_the_scan(drop: Folder, foreign: Path) -> None:
    """The listener checks the opened file, and reads a growing one up to the limit."""
    (drop.path / "a.hl7").write_bytes(b"0123456789")
    assert [file.name for file in drop.waiting_files()] == ["a.hl7"]
    assert drop.read("a.hl7", 4) == b"0123"
    (drop.path / "a.hl7").unlink()
    (drop.path / "a.hl7").symlink_to(foreign)
    with pytest.raises(OSError, match="symbolic links"):
        drop.read("a.hl7", 100)
    drop.move("a.hl7", "done")
    assert (drop.path / "done" / "a.hl7").is_symlink()  # the link itself, not its target
    assert foreign.read_bytes() == b"secret"


@pytest.mark.parametrize("child", ["done", "failed", "acks"])
def test_a_link_instead_of_a_child_folder(drop: Folder, foreign: Path, child: str) -> None:
    """A link instead of a child folder is an error, and its target stays unchanged."""
    (drop.path / child).rmdir()
    (drop.path / child).symlink_to(foreign.parent)
    (drop.path / "a.hl7").write_bytes(b"x")
    with pytest.raises(OSError, match=r"directory|symbolic links"):
        drop.move("a.hl7", child)
    with pytest.raises(OSError, match=r"directory|symbolic links"):
        drop.put(f"{child}/a.ack", b"x")
    with pytest.raises(OSError, match=r"directory|symbolic links"):
        drop.prepare(child)
    assert [path.name for path in foreign.parent.iterdir()] == ["secret"]


def test_nothing_is_written_through_links(drop: Folder, foreign: Path) -> None:
    """The sender does not follow links prepared under predictable names."""
    for name in (".a.ack.tmp", "a.ack"):
        (drop.path / "acks" / name).symlink_to(foreign)
    (drop.path / ".b.hl7.tmp").hardlink_to(foreign)
    drop.put("acks/a.ack", b"answer")
    drop.put("b.hl7", b"message")
    assert foreign.read_bytes() == b"secret"
    assert (drop.path / "acks" / "a.ack").read_bytes() == b"answer"
    assert not (drop.path / "acks" / "a.ack").is_symlink()
    (drop.path / ".lock").symlink_to(foreign.parent / "new")
    with pytest.raises(OSError, match="symbolic links"), drop.lock():
        pass
    assert not (foreign.parent / "new").exists()


def test_a_link_instead_of_the_folder(tmp_path: Path, foreign: Path) -> None:
    """A folder replaced by a link is neither read nor written."""
    (tmp_path / "link").symlink_to(foreign.parent)
    folder = Folder(tmp_path / "link")
    for refused in (folder.waiting_files, folder.prepare, folder.probe):
        with pytest.raises(OSError, match=r"directory|symbolic links"):
            refused()


async def test_answers_are_not_read_through_links(tmp_path: Path, foreign: Path) -> None:
    """The acknowledgment of the reader must be a plain file of limited size."""
    acknowledgment = ack(result("A"), AckCode.ACCEPT)
    await asyncio.to_thread(foreign.write_bytes, acknowledgment)
    waiting = asyncio.create_task(send(sender(tmp_path / "out", 1), result("A")))
    files = await eventually_async(lambda: sent(tmp_path / "out"))
    (tmp_path / "out" / "acks" / f"{files[0]}.ack").symlink_to(foreign)
    with pytest.raises(ReplyLost):
        await waiting


async def test_the_longest_control_id(tmp_path: Path) -> None:
    """A message with a long control id is sent under a shortened name."""
    await send(sender(tmp_path), result("A/\u202e" * 500))
    (name,) = sent(tmp_path)
    assert len(name) < 200


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


async def test_a_paused_folder_keeps_its_files(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path, accepted)
    await inbox.listener.prepare()
    (tmp_path / "a.hl7").write_bytes(result("A"))
    inbox.listener.pause()
    await inbox.scan()
    assert inbox.handled == []
    inbox.listener.resume()
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
    assert [file.name for file in Folder(tmp_path).waiting_files(2)] == ["4.hl7", "3.hl7"]


def test_a_sender_that_uses_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of names that are tried does not grow with the number of files."""
    tried: list[str] = []
    exists = folders._exists

    def count(folder: int, name: str) -> bool:
        tried.append(name)
        return exists(folder, name)

    monkeypatch.setattr(folders, "_exists", count)
    for _ in range(120):
        tried.clear()
        (tmp_path / "order.hl7").write_bytes(b"x")
        Folder(tmp_path).move("order.hl7", "done")
    assert len(tried) < 110
    assert len(list((tmp_path / "done").iterdir())) == 120
