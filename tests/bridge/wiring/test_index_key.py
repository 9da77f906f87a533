"""The index key of an installation: made once, the same for all that use a database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge import index_key
from bridge.admin.checks.checks import check_home
from bridge.admin.data_directory import create_data_directory
from bridge.store.errors import WrongIndexKey
from bridge.wiring import stores
from config import SettingsError, load
from config.private_files import write


@pytest.fixture(autouse=True)
def _own_key() -> Iterator[None]:
    yield
    index_key.use(bytes(range(index_key.KEY_BYTES)))


def found(home: Path) -> list[str]:
    """What `bridge check` says about the key."""
    return [each.message for each in check_home(home, reach=False) if "index.key" in each.place]


def test_an_upgrade_makes_the_key_and_nothing_else_replaces_it(tmp_path: Path) -> None:
    """Without a file: made where no row needs one, refused where rows have one."""
    home = tmp_path / "home"
    create_data_directory(home)
    key = home / "secrets" / "index.key"
    key.unlink()
    settings = load(home)
    stores.migrate_all(settings)
    made = key.read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600
    assert found(home) == []

    key.unlink()
    with pytest.raises(SettingsError, match="copy the file from another node"):
        stores.migrate_all(settings)
    assert not key.exists()
    assert len(found(home)) == 2

    write(key, b"A" * 43 + b"=\n")
    with pytest.raises(WrongIndexKey):
        stores.migrate_all(settings)
    assert "copy the file from another node" in found(home)[0]
    write(key, made)
    stores.migrate_all(settings)
    assert found(home) == []
