"""No room left: a refusal or silence, never a false AA; and when there is room, all goes on."""

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
from sqlalchemy import text

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, verdict

# Nothing that a database could compress.
PADDING = "".join(f"NTE|{n}||{random.Random(n).randbytes(250).hex()}\r" for n in range(60))
MOST = 400
ROOM = 3 * 2**20


def fill(house: House, first: int) -> tuple[list[int], int]:
    """Send until something is not accepted; give what was, and the number that was not."""
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
    raise AssertionError("there was room for everything")


def recovered(house: House, accepted: list[int], refused: int) -> None:
    """What was refused is accepted now, and all that was ever accepted stands, once."""
    with Sender(house.mllp_port) as sender:
        assert verdict(sender.ask(order(refused, extra=PADDING))) == ("AA", f"C{refused}")
    house.settle()
    standing = [each["Accession"] for row in house.worklist() for each in row["clinicalInfo"]]

    assert sorted(standing) == sorted(f"A{number}" for number in [*accepted, refused])


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """Mount a small file system, where we may."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = os.geteuid() == 0 and subprocess.run(command, check=False, capture_output=True)
    if not done or done.returncode:
        pytest.skip("no right to mount a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MiB."""
    with mounted(tmp_path / "small", "12m") as folder:
        yield folder


def crowd(folder: Path) -> Callable[[], None]:
    """Leave little room on a file system; gives how to make room again."""
    ballast = folder / "ballast"
    stat = os.statvfs(folder)
    ballast.write_bytes(b"\0" * max(0, stat.f_bavail * stat.f_frsize - ROOM))
    return ballast.unlink


@pytest.fixture
def small_tablespace(postgres_server: str) -> Iterator[tuple[str, Path]]:
    """A PostgreSQL database whose tables stand on a small file system, and where that is."""
    # Not below pytest's own folder: the server is another user where we are root.
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


@pytest.mark.slow
@pytest.mark.postgres
def test_tablespace_full(small_tablespace: tuple[str, Path], tmp_path: Path) -> None:
    """PostgreSQL without room for its tables: the same."""
    address, disk = small_tablespace
    house = House(tmp_path / "home", database=address)
    try:
        house.make()
        house.start()
        make_room = crowd(disk)
        accepted, refused = fill(house, 1)
        make_room()

        recovered(house, accepted, refused)
        assert house.stop() == 0
    finally:
        house.kill()


@pytest.mark.slow
def test_file_system_full(small_disk: Path) -> None:
    """ENOSPC: refused, not lied about; after space returns everything is there."""
    house = House(small_disk / "home")
    try:
        house.make()
        house.start()
        make_room = crowd(small_disk)
        accepted, refused = fill(house, 1)
        make_room()

        recovered(house, accepted, refused)
        assert house.stop() == 0
    finally:
        house.kill()


@pytest.mark.slow
def test_files_may_not_grow(house: House) -> None:
    """EFBIG: the same, for a limit on files instead of a full disk; killed and started amid it."""
    house.make()
    service = house.start()
    pid = service.process.pid
    sizes = [file.stat().st_size for file in house.home.glob("*.db*")]
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (max(sizes) + 2**20, hard))
    accepted, refused = fill(house, 1)
    house.kill()
    house.start()

    recovered(house, accepted, refused)
