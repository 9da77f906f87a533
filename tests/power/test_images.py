"""The images of a disk follow the rules of a journaling file system."""

import random
from pathlib import Path

import pytest

from tests.power.change_log import Change
from tests.power.images import SECTOR, Disk

SEEDS = range(40)


def images(tmp_path: Path, *changes: Change) -> list[dict[str, bytes]]:
    """Build images of the moment after some changes; return names and contents of the files."""
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
        found.append({path.name: path.read_bytes() for path in target.iterdir() if path.is_file()})
    return found


def written(file: int, offset: int, data: bytes) -> Change:
    return Change(0, "write", file=file, offset=offset, data=data)


def test_synced_data_is_durable(tmp_path: Path) -> None:
    create, sync = Change(0, "create", file=2, path="new"), Change(0, "sync", file=2)
    found = images(tmp_path, create, written(2, 0, b"data"), sync)
    assert all(row["new"] == b"data" for row in found)


def test_unsynced_data_may_be_lost_or_torn(tmp_path: Path) -> None:
    """Each sector may survive alone; a later one also without an earlier one."""
    data = b"a" * SECTOR + b"b" * SECTOR
    found = {image["old"] for image in images(tmp_path, written(1, 0, data))}
    assert found >= {b"old", data, bytes(SECTOR)[:0] + b"old" + bytes(SECTOR - 3) + b"b" * SECTOR}


@pytest.mark.parametrize("synced", [True, False])
def test_a_renamed_file(synced: bool, tmp_path: Path) -> None:
    """A new name is durable after a sync of its folder."""
    rename = Change(0, "rename", path="old", target="new")
    more = [Change(0, "sync names", path="")] if synced else []
    names = {tuple(image) for image in images(tmp_path, rename, *more)}
    assert names == ({("new",)} if synced else {("new",), ("old",)})


def test_changes_of_names_are_ordered(tmp_path: Path) -> None:
    """If a new file is durable, an earlier removal is durable too."""
    removed = Change(0, "unlink", path="old")
    created = Change(0, "create", file=2, path="new")
    found = images(tmp_path, removed, created)
    assert {tuple(sorted(item)) for item in found} == {("old",), (), ("new",)}
