"""The images of a disk follow the rules of a journaling file system."""

import random
from pathlib import Path

import pytest

from tests.power.filesystem import Change
from tests.power.images import SECTOR, Disk

SEEDS = range(40)


def images(tmp_path: Path, *changes: Change) -> list[dict[str, bytes]]:
    """Build many images of the moment after some changes; give name and content of the files."""
    initial = tmp_path / "initial"
    initial.mkdir()
    (initial / "old").write_bytes(b"old")
    start = Change(0, "initial", file=1, path="old")
    found = []
    for seed in SEEDS:
        disk = Disk(initial, [start, *changes])
        disk.replay(1)
        target = tmp_path / f"image{seed}"
        disk.write(target, random.Random(seed))
        found.append({each.name: each.read_bytes() for each in target.iterdir() if each.is_file()})
    return found


def written(file: int, offset: int, data: bytes) -> Change:
    """A write."""
    return Change(0, "write", file=file, offset=offset, data=data)


def test_what_is_synced_stays(tmp_path: Path) -> None:
    """A synced write is in every image; the name of a new file with it."""
    create, sync = Change(0, "create", file=2, path="new"), Change(0, "sync", file=2)
    found = images(tmp_path, create, written(2, 0, b"data"), sync)
    assert all(each["new"] == b"data" for each in found)


def test_what_is_not_synced_may_be_lost_or_torn(tmp_path: Path) -> None:
    """Sectors survive each by itself; later ones also without earlier ones."""
    data = b"a" * SECTOR + b"b" * SECTOR
    found = {each["old"] for each in images(tmp_path, written(1, 0, data))}
    assert found >= {b"old", data, bytes(SECTOR)[:0] + b"old" + bytes(SECTOR - 3) + b"b" * SECTOR}


@pytest.mark.parametrize("synced", [True, False])
def test_a_renamed_file(synced: bool, tmp_path: Path) -> None:
    """A new name is sure once its folder is synced."""
    rename = Change(0, "rename", path="old", target="new")
    more = [Change(0, "sync names", path="")] if synced else []
    names = {tuple(each) for each in images(tmp_path, rename, *more)}
    assert names == ({("new",)} if synced else {("new",), ("old",)})


def test_names_reach_the_disk_in_their_order(tmp_path: Path) -> None:
    """A file that is there makes the removal before it durable."""
    removed = Change(0, "unlink", path="old")
    created = Change(0, "create", file=2, path="new")
    found = images(tmp_path, removed, created)
    assert {tuple(sorted(each)) for each in found} == {("old",), (), ("new",)}
