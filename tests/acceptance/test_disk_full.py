"""No room left: a refusal or silence, never a false AA; and when there is room, all goes on."""

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, verdict

PADDING = "".join(f"NTE|{n}||{'x' * 500}\r" for n in range(60))
MOST = 400


def fill(house: House, first: int) -> tuple[list[int], int]:
    """Send until something is not accepted; give what was, and the number that was not."""
    accepted: list[int] = []
    for number in range(first, first + MOST):
        try:
            with Sender(house.mllp_port, timeout=20) as sender:
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
    with Sender(house.mllp_port, timeout=30) as sender:
        assert verdict(sender.ask(order(refused, extra=PADDING))) == ("AA", f"C{refused}")
    house.settle(60)
    standing = [each["Accession"] for row in house.worklist() for each in row["clinicalInfo"]]

    assert sorted(standing) == sorted(f"A{number}" for number in [*accepted, refused])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MiB, where we may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = os.geteuid() == 0 and (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)],
            check=False,
            capture_output=True,
        ).returncode
        == 0
    )
    if not mounted:
        pytest.skip("no right to mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_file_system_full(small_disk: Path) -> None:
    """ENOSPC: refused, not lied about; after space returns everything is there."""
    house = House(small_disk / "home")
    try:
        house.make()
        house.start()
        ballast = small_disk / "ballast"
        free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
        ballast.write_bytes(b"\0" * max(0, free - 3 * 2**20))
        accepted, refused = fill(house, 1)
        ballast.unlink()

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
