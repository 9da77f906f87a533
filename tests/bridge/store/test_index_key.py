"""The index key of an installation is created once and shared by all nodes of a database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge import index_key
from bridge.admin.checks.checks import check_home
from bridge.admin.installation.data_directory import create_data_directory
from bridge.store import databases
from bridge.store.errors import WrongIndexKey
from config import SettingsError, load
from config.private_files import write


@pytest.fixture(autouse=True)
def _own_key() -> Iterator[None]:
    yield
    index_key.install(bytes(range(index_key.KEY_BYTES)))


def key_findings(home: Path) -> list[str]:
    """The findings of `bridge check` about the key."""
    return [finding.message for finding in check_home(home) if "index.key" in finding.place]


def test_the_key_is_created_once(tmp_path: Path) -> None:
    """A missing key is created if no row needs it, and is an error if rows do."""
    home = tmp_path / "home"
    create_data_directory(home)
    key = home / "secrets" / "index.key"
    key.unlink()
    settings = load(home)
    databases.migrate_all(settings)
    made = key.read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600
    assert key_findings(home) == []

    key.unlink()
    with pytest.raises(SettingsError, match="copy the file from another node"):
        databases.migrate_all(settings)
    assert not key.exists()
    assert len(key_findings(home)) == 2

    write(key, b"A" * 43 + b"=\n")
    with pytest.raises(WrongIndexKey):
        databases.migrate_all(settings)
    assert "copy the file from another node" in key_findings(home)[0]
    write(key, made)
    databases.migrate_all(settings)
    assert key_findings(home) == []
