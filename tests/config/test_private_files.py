"""Files are readable by their owner only, whatever the umask; what is wider is found and fixed."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.admin.data_directory import create_data_directory
from config.private_files import close, create_empty, make_folder, replace_all, wider, write


@pytest.fixture(params=[0o000, 0o022, 0o077])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    """Give the permission bits of a path."""
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


def test_an_existing_home_is_closed_by_init(tmp_path: Path) -> None:
    """The operator made the folder; init takes it over."""
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    create_data_directory(home)
    assert mode(home) == 0o700


def test_wider_modes_are_found_and_fixed(tmp_path: Path) -> None:
    """Each wider path is named, symbolic links and what is behind them are left alone."""
    outside = tmp_path / "outside"
    outside.mkdir()
    foreign = outside / "foreign"
    foreign.touch()
    foreign.chmod(0o644)
    home = tmp_path / "home"
    create_data_directory(home)
    assert not list(wider(home))

    home.chmod(0o755)
    token = home / "secrets" / "engine.token"
    token.chmod(0o640)
    (home / "hard").hardlink_to(foreign)
    (home / "soft").symlink_to(foreign)
    (home / "away").symlink_to(outside)
    os.mkfifo(home / "pipe")
    (home / "pipe").chmod(0o622)
    elsewhere = tmp_path / "bridge.db"
    elsewhere.touch()
    elsewhere.chmod(0o666)

    found = {each.path: each.fixable for each in wider(home, [elsewhere])}
    assert found == {
        home: True, token: True, home / "hard": False, home / "pipe": True, elsewhere: True,
    }  # fmt: skip
    left = close(list(wider(home, [elsewhere])))
    assert [each.path for each in left] == [home / "hard"]
    assert [each.path for each in wider(home, [elsewhere])] == [home / "hard"]
    assert [mode(each) for each in (home, token, foreign)] == [0o700, 0o600, 0o644]


def test_folders_above_that_others_can_write_to(tmp_path: Path) -> None:
    """Who can rename the data directory can replace it; the sticky bit prevents it."""
    home = tmp_path / "open" / "home"
    create_data_directory(home)
    home.parent.chmod(0o777)
    assert [(each.path, each.fixable) for each in wider(home)] == [(home.parent, False)]
    home.parent.chmod(0o1777)
    assert not list(wider(home))
