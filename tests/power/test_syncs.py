"""Data whose storage was confirmed survives a power cut directly after the confirmation."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text
from typing_extensions import override

from bridge.admin.installation.retention import Archive, last_lines
from bridge.queue.arrivals import Arrival
from bridge.queue.message_log import MessageLog
from bridge.queue.outbox import Outbox
from bridge.queue.queries import message
from bridge.store.database import Database
from bridge.transports.folders import DONE, Folder
from config import private_files
from tests.bridge.queue.conftest import accept
from tests.bridge.queue.samples import NOW, arrival, release
from tests.databases import fresh_file
from tests.power.change_log import Change, changes
from tests.power.drill import copy, recording_disk
from tests.power.images import Disk
from tests.programs import FUSE

pytestmark = pytest.mark.needs(*FUSE)

LARGE = arrival(content="x" * 700_000)
SMALL = arrival()


class Worst(random.Random):
    """The worst case: no unsynced data survives; with `names` all changes of names survive."""

    def __init__(self, *, names: bool) -> None:
        super().__init__()
        self._names = names

    @override
    def randint(self, a: int, b: int) -> int:
        return b if self._names else a

    @override
    def choice(self, seq: Sequence[float]) -> float:  # type: ignore[override]
        """Return the share of unsynced data that is on the disk."""
        return min(seq)


def _image(
    target: Path,
    initial: Path,
    log: Sequence[Change],
    moment: int,
    *,
    names: bool,
    posix: bool = False,
) -> Path:
    disk = Disk(initial, log, posix=posix)
    disk.replay(moment)
    disk.write(target, Worst(names=names))
    return target


def cut_after(act: Callable[[Path, ExitStack], object], folder: Path) -> list[Path]:
    """
    Cut the power when an action has returned; return possible images of the disk.

    The databases of the action are closed after the cut, because closing a database syncs it.
    """
    disk, log = folder / "disk", folder / "log"
    disk.mkdir()
    fresh_file(disk / "bridge.db")
    copy(disk, folder / "initial")
    with recording_disk(disk, log) as mounted, ExitStack() as later:
        act(mounted.path, later)
        moment = time.monotonic_ns()
    disks = {"least": (False, False), "names": (True, False), "posix": (False, True)}
    return [
        _image(folder / kind, folder / "initial", changes(log), moment, names=names, posix=posix)
        for kind, (names, posix) in disks.items()
    ]


@contextmanager
def opened(folder: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{folder / 'bridge.db'}")
    yield database
    database.dispose()


@pytest.mark.parametrize("new", [SMALL, LARGE], ids=["small", "large"])
def test_a_message(new: Arrival, tmp_path: Path) -> None:
    """A stored message is on the disk before its acknowledgment leaves."""

    def store(disk: Path, later: ExitStack) -> None:
        database = later.enter_context(opened(disk))
        runner = later.enter_context(asyncio.Runner())
        log = MessageLog(database)
        log.start(runner.get_loop())
        later.callback(lambda: runner.run(log.stop()))

        async def receive() -> None:
            await accept(log, new)

        runner.run(receive())

    for image in cut_after(store, tmp_path):
        with opened(image) as database:
            assert message(database, 1).payload == new.payload


def _write_after_unsynced(disk: Path, later: ExitStack) -> None:
    database = later.enter_context(opened(disk))
    with database.write_without_sync() as connection:
        connection.execute(text("UPDATE lane_watermark SET message_id = 1"))
    with database.delete_without_sync() as connection:
        connection.execute(text("DELETE FROM alert"))
    with database.write() as connection:
        connection.execute(text("UPDATE lane_watermark SET message_id = 2"))


def test_a_write_after_one_without_sync(tmp_path: Path) -> None:
    """A write transaction is on the disk when it returns, also after unsynced writes."""
    for image in cut_after(_write_after_unsynced, tmp_path):
        with opened(image) as database, database.read() as connection:
            stored = connection.execute(text("SELECT message_id FROM lane_watermark")).scalar()
        assert stored == 2


def _compose(disk: Path, later: ExitStack) -> None:
    database = later.enter_context(opened(disk))
    outbox = Outbox(database, "node-1")
    with database.write() as connection:
        outbox.enqueue(connection, [release("K1")], NOW)
    (claimed,) = outbox.claim("ris-results", NOW, 1)
    assert outbox.store_payloads({claimed.delivery_id: (b"ORU", "ID1")}) == {1: b"ORU"}


def test_a_result_before_it_is_sent(tmp_path: Path) -> None:
    """A repetition after the power cut has the same bytes and the same control id."""
    for image in cut_after(_compose, tmp_path):
        with opened(image) as database:
            outbox = Outbox(database, "node-1")
            assert outbox.requeue_expired_claims(NOW, include_own=True) == 1
            (claimed,) = outbox.claim("ris-results", NOW, 1)
        assert (claimed.payload, claimed.control_id) == (b"ORU", "ID1")


def test_a_file_that_was_sent(tmp_path: Path) -> None:
    """A file under its final name is complete; its folder has the name."""
    for image in cut_after(lambda disk, _: Folder(disk).put("1.hl7", b"ORU"), tmp_path):
        assert (image / "1.hl7").read_bytes() == b"ORU"


def _move(disk: Path, _: ExitStack) -> None:
    folder = Folder(disk)
    folder.put("1.hl7", b"ORM")
    folder.prepare(DONE)
    folder.move("1.hl7", DONE)


def test_a_file_that_was_processed(tmp_path: Path) -> None:
    for image in cut_after(_move, tmp_path):
        assert not (image / "1.hl7").exists()
        assert (image / DONE / "1.hl7").read_bytes() == b"ORM"


def _replace(disk: Path, _: ExitStack) -> None:
    private_files.replace_all({disk / "keys": b"old"})
    private_files.replace_all({disk / "keys": b"new"})


def test_a_replaced_file(tmp_path: Path) -> None:
    """A key ring that was written is on the disk before links are sealed with its new key."""
    for image in cut_after(_replace, tmp_path):
        assert (image / "keys").read_bytes() == b"new"


def test_a_new_file(tmp_path: Path) -> None:
    for image in cut_after(lambda disk, _: private_files.write_new(disk / "key", b"1"), tmp_path):
        assert (image / "key").read_bytes() == b"1"


def _archive(disk: Path, _: ExitStack) -> None:
    archive = Archive(disk / "archive", datetime.fromtimestamp(0, UTC))
    for number in (1, 2):
        archive.add("message", [{"id": number}])


def test_an_archived_row(tmp_path: Path) -> None:
    for image in cut_after(_archive, tmp_path):
        assert last_lines(image / "archive", "message") == {'{"id": 2}\n'}


def test_a_file_moved_to_another_disk(tmp_path: Path) -> None:
    """At no moment of a move between disks is the file on neither of them."""
    logs = [tmp_path / "inbox.log", tmp_path / "done.log"]
    empty, disk = tmp_path / "empty", tmp_path / "inbox"
    empty.mkdir()
    disk.mkdir()
    with recording_disk(disk, logs[0]) as inbox:
        folder = Folder(inbox.path)
        folder.prepare("other")
        folder.put("1.hl7", b"ORM")
        with recording_disk(inbox.path / "other", logs[1]) as other:
            begun = time.monotonic_ns()
            folder.move("1.hl7", other.path.name)
    log, other_log = map(changes, logs)
    moments = [item.at + 1 for item in (*log, *other_log) if item.at > begun]
    assert moments
    for moment in moments:
        before, after = tmp_path / f"inbox {moment}", tmp_path / f"done {moment}"
        _image(before, empty, log, moment, names=True)
        _image(after, empty, other_log, moment, names=False)
        assert b"ORM" in {path.read_bytes() for path in (*before.glob("1.*"), *after.glob("1.*"))}
