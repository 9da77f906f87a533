"""Files of the data directory: modes that exclude other accounts, and atomic writes."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridge.admin.installation.data_directory import create_data_directory
from config.private_files import (
    create_empty,
    find_exposures,
    make_folder,
    remove_exposures,
    replace_all,
    write,
    write_new,
)


@pytest.fixture(params=[0o000, 0o022, 0o077])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.mark.usefixtures("_umask")
def test_every_way_of_writing_is_private(tmp_path: Path) -> None:
    """Files are 0600 and folders 0700, also those that existed with wider modes."""
    home = tmp_path / "above" / "home"
    create_data_directory(home)
    make_folder(home / "archive" / "year")
    create_empty(home / "bridge.db")
    (home / "wide").touch(mode=0o666)
    write(home / "wide", b"x")
    replace_all({home / "mappings" / "new" / "b.yaml": b"b"})
    for path in [home, *home.rglob("*")]:
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path
    assert mode(home.parent) == 0o700


def test_init_restricts_an_existing_folder(tmp_path: Path) -> None:
    """The operator created the folder before `bridge init`."""
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    create_data_directory(home)
    assert mode(home) == 0o700


def test_wider_modes_are_found_and_fixed(tmp_path: Path) -> None:
    """Each path with a wider mode is reported. Symbolic links and their targets are not touched."""
    outside = tmp_path / "outside"
    outside.mkdir()
    foreign = outside / "foreign"
    foreign.touch()
    foreign.chmod(0o644)
    home = tmp_path / "home"
    create_data_directory(home)
    assert not list(find_exposures(home))

    home.chmod(0o755)
    token = home / "secrets" / "engine.token"
    token.chmod(0o640)
    (home / "hard").hardlink_to(foreign)
    (home / "soft").symlink_to(foreign)
    (home / "away").symlink_to(outside)
    os.mkfifo(home / "pipe")
    (home / "pipe").chmod(0o622)
    other = tmp_path / "bridge.db"
    other.touch()
    other.chmod(0o666)

    found = {exposure.path: exposure.fixable for exposure in find_exposures(home, [other])}
    assert found == {
        home: True, token: True, home / "hard": False, home / "pipe": True, other: True,
    }  # fmt: skip
    left = remove_exposures(list(find_exposures(home, [other])))
    assert [item.path for item in left] == [home / "hard"]
    assert [exposure.path for exposure in find_exposures(home, [other])] == [home / "hard"]
    assert [mode(item) for item in (home, token, foreign)] == [0o700, 0o600, 0o644]


def test_a_parent_folder_that_other_accounts_can_write_to(tmp_path: Path) -> None:
    """An account that can rename the data directory can replace it; the sticky bit prevents it."""
    home = tmp_path / "open" / "home"
    create_data_directory(home)
    home.parent.chmod(0o777)
    assert [(exposure.path, exposure.fixable) for exposure in find_exposures(home)] == [
        (home.parent, False)
    ]
    home.parent.chmod(0o1777)
    assert not list(find_exposures(home))


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let writes beyond this size fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_several_files_are_replaced_together_or_not_at_all(tmp_path: Path) -> None:
    """
    Without room for the second file, the first one is unchanged, and no temporary file remains.

    The error names the file. The replaced file is private, also if the old one was not.
    """
    first, second = tmp_path / "a.yaml", tmp_path / "mappings" / "b.yaml"
    first.write_text("before")
    first.chmod(0o640)
    with file_size_limit(100), pytest.raises(OSError, match=r"File too large.*b\.yaml"):
        replace_all({first: b"after", second: b"x" * 101})
    assert first.read_text() == "before"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [first]

    replace_all({first: b"after", second: b"x" * 101})
    assert (first.read_text(), mode(first)) == ("after", 0o600)
    assert second.stat().st_size == 101


def test_init_after_a_full_disk(tmp_path: Path) -> None:
    """The next `init` writes the incomplete files again and removes temporary files."""
    (tmp_path / ".bridge.toml.new").write_text("half")
    with file_size_limit(1000), pytest.raises(OSError, match=r"bridge\.toml"):
        create_data_directory(tmp_path)
    written, kept = create_data_directory(tmp_path)
    assert tmp_path / "bridge.toml" in written
    assert kept == []
    assert mode(tmp_path / "secrets" / "engine.token") == 0o600
    assert not list(tmp_path.rglob(".*.new"))


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    """A file that another process creates during the write is not overwritten either."""
    file = tmp_path / "engine.token"
    file.write_text("theirs")
    assert not write_new(file, b"ours")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["theirs"]
