"""Files are there whole or as they were, whatever becomes of the disk or of who writes."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridge.admin.data_directory import create_data_directory
from config.private_files import replace_all, write_new


@contextmanager
def little_room(size: int) -> Iterator[None]:
    """Let no file become larger: the system refuses, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_all_or_none(tmp_path: Path) -> None:
    """
    No room for the second leaves the first as it was, and nothing beside; the file is named.

    What is replaced is readable by its owner only, whatever it was before.
    """
    first, second = tmp_path / "a.yaml", tmp_path / "mappings" / "b.yaml"
    first.write_text("before")
    first.chmod(0o640)
    with little_room(100), pytest.raises(OSError, match=r"File too large.*b\.yaml"):
        replace_all({first: b"after", second: b"x" * 101})
    assert first.read_text() == "before"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [first]

    replace_all({first: b"after", second: b"x" * 101})
    assert (first.read_text(), first.stat().st_mode & 0o777) == ("after", 0o600)
    assert second.stat().st_size == 101


def test_a_home_without_room_is_made_later(tmp_path: Path) -> None:
    """No half of a file is kept for a whole one by the next `init`, nor what was left beside."""
    (tmp_path / ".bridge.toml.new").write_text("half")
    with little_room(1000), pytest.raises(OSError, match=r"bridge\.toml"):
        create_data_directory(tmp_path)
    written, kept = create_data_directory(tmp_path)
    assert tmp_path / "bridge.toml" in written
    assert kept == []
    assert (tmp_path / "secrets" / "engine.token").stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.rglob(".*.new"))


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    """Not even where somebody was faster than the look."""
    file = tmp_path / "engine.token"
    file.write_text("theirs")
    assert not write_new(file, b"ours")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["theirs"]
