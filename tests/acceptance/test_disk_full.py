"""Disk full: the service refuses or is silent, never answers a false AA, and recovers."""

import os
import random
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import sqlalchemy
from pydicom.dataset import Dataset
from pydicom.uid import generate_uid
from sqlalchemy import text

from tests.acceptance.house import House, free_port
from tests.acceptance.orders import order
from tests.acceptance.test_received_objects import rows
from tests.acceptance.wire import Sender, verdict
from tests.bridge.dicom.modality import Modality, new_step, report, scheduled
from tests.eventually import eventually
from tests.programs import RIGHT_TO_MOUNT

# Random, so that the database cannot compress it.
PADDING = "".join(f"NTE|{n}||{random.Random(n).randbytes(250).hex()}\r" for n in range(60))
MOST = 400
ROOM = 3 * 2**20


def fill(house: House, first: int) -> tuple[list[int], int]:
    accepted: list[int] = []
    for number in range(first, first + MOST):
        try:
            with Sender(house.mllp_port) as sender:
                reply = sender.ask(order(number, extra=PADDING))
        except OSError:
            reply = None
        if reply is None or verdict(reply)[0] != "AA":
            assert reply is None or verdict(reply) in {("AE", f"C{number}"), ("AR", f"C{number}")}
            return accepted, number
        accepted.append(number)
    raise AssertionError("the disk did not become full")


def recovered(house: House, accepted: list[int], refused: int) -> None:
    """Check that the refused order is accepted now, and that each accepted order exists once."""
    with Sender(house.mllp_port) as sender:
        assert verdict(sender.ask(order(refused, extra=PADDING))) == ("AA", f"C{refused}")
    house.settle()
    listed_orders = [
        listed["Accession"] for row in house.worklist() for listed in row["clinicalInfo"]
    ]

    assert sorted(listed_orders) == sorted(f"A{number}" for number in [*accepted, refused])


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """Mount a small file system; skip the test without the right to mount."""
    RIGHT_TO_MOUNT.require()
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB: the message log and the queue both have each message for a time."""
    with mounted(tmp_path / "small", "24m") as folder:
        yield folder


def fill_disk(folder: Path) -> Callable[[], None]:
    """Fill a file system except for `ROOM` bytes; return the function that frees the space."""
    ballast = folder / "ballast"
    stat = os.statvfs(folder)
    ballast.write_bytes(b"\0" * max(0, stat.f_bavail * stat.f_frsize - ROOM))
    return ballast.unlink


@pytest.fixture
def small_tablespace(postgres_server: str) -> Iterator[tuple[str, Path]]:
    """A PostgreSQL database whose tables are on a small file system, and its path."""
    # Not below pytest's folder: the server may run as a user who cannot read it.
    with TemporaryDirectory() as home, mounted(Path(home) / "small", "64m") as disk:
        Path(home).chmod(0o755)
        space = disk / "space"
        space.mkdir()
        engine = sqlalchemy.create_engine(postgres_server, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            data = Path(connection.execute(text("SHOW data_directory")).scalar_one()).stat()
            os.chown(space, data.st_uid, data.st_gid)
            connection.execute(text(f"CREATE TABLESPACE small LOCATION '{space}'"))
            connection.execute(text("CREATE DATABASE crowded TABLESPACE small"))
        address = sqlalchemy.make_url(postgres_server).set(database="crowded")
        yield address.render_as_string(hide_password=False), disk
        with engine.connect() as connection:
            connection.execute(text("DROP DATABASE crowded WITH (FORCE)"))
            connection.execute(text("DROP TABLESPACE small"))
        engine.dispose()


def fill_with_objects(modality: Modality) -> tuple[list[Dataset], Dataset]:
    """Store objects until one is refused; return those with success, and the refused one."""
    accepted: list[Dataset] = []
    for number in range(MOST):
        # Every second one is stored in chunks before its row.
        content = random.Random(number).randbytes(20_000 if number % 2 else 300_000).hex()
        made = report(accession="A1", mrn="M1", text=content)
        status = modality.store_now(made).Status
        if status != 0x0000:
            assert status == 0xA700
            return accepted, made
        accepted.append(made)
    raise AssertionError("the disk did not become full")


def stored_objects(house: House) -> object:
    """Return the number of messages of modalities."""
    ((count,),) = rows(house, "SELECT count(*) FROM message WHERE listener = 'dicom'")
    return count


def check_full_disk(house: House, disk: Path) -> None:
    """
    Fill the disk of an installation, free it, and check that the service recovers.

    Objects and performed steps are refused with A700 and 0110 while it is full, and accepted and
    stored once afterwards.
    """
    port = free_port()
    house.settings = f"""
[dicom]
bind = "127.0.0.1:{port}"
[[dicom.peer]]
ae_title = "CT1"
addresses = ["127.0.0.1"]
may = ["performed", "store"]
"""
    modality, uid = Modality(port), generate_uid()
    step = new_step(scheduled("A1"), mrn="M1", CommentsOnThePerformedProcedureStep="x" * 100_000)
    try:
        house.make()
        house.start()
        make_room = fill_disk(disk)
        objects, refused_object = fill_with_objects(modality)
        created = modality.create_now(uid, step).Status  # a small message may still fit
        assert created in {0x0000, 0x0110}
        accepted, refused = fill(house, 1)
        make_room()

        recovered(house, accepted, refused)
        assert modality.store_now(refused_object).Status == 0x0000
        assert modality.create_now(uid, step).Status == (0x0000 if created else 0x0111)
        eventually(lambda: stored_objects(house) == len(objects) + 2)
        assert house.stop() == 0
    finally:
        house.kill()


@pytest.mark.slow
@pytest.mark.postgres
def test_tablespace_full(small_tablespace: tuple[str, Path], tmp_path: Path) -> None:
    """The service refuses when PostgreSQL's tablespace is full, and recovers."""
    address, disk = small_tablespace
    check_full_disk(House(tmp_path / "home", database=address), disk)


@pytest.mark.slow
def test_file_system_full(small_disk: Path) -> None:
    """ENOSPC: the service refuses, and recovers when there is space."""
    check_full_disk(House(small_disk / "home"), small_disk)


@pytest.mark.slow
def test_files_may_not_grow(house: House) -> None:
    """EFBIG: the service refuses at a file size limit, and recovers after kill -9 and a restart."""
    house.make()
    service = house.start()
    sizes = [file.stat().st_size for file in house.home.glob("*.db*")]
    for pid in service.processes():
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (max(sizes) + 2**20, hard))
    accepted, refused = fill(house, 1)
    house.kill()
    house.start()

    recovered(house, accepted, refused)
