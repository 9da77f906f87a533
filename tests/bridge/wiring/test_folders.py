"""Folder transports cannot use the installation's folders, nor peers get its secrets."""

from pathlib import Path

import pytest

from bridge.admin.data_directory import create_data_directory
from bridge.wiring.ports import ProtectedPath, authorization_path, folder_at
from config import Settings, load
from config.addresses import FolderAddress


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of a new data directory."""
    create_data_directory(tmp_path / "home")
    (tmp_path / "home" / "away").symlink_to(tmp_path / "home" / "secrets")
    return load(tmp_path / "home")


@pytest.mark.parametrize(
    "path",
    ["secrets", "secrets/x", ".", "..", "/", "mappings", "inbox/../mappings/hooks", "run", "away"],
)
def test_own_folders_are_refused(settings: Settings, path: str) -> None:
    """The folders of the installation, their children and their parents are refused."""
    with pytest.raises(ProtectedPath, match="listener files"):
        folder_at(settings, "listener files", FolderAddress(f"folder:{path}"))


@pytest.mark.parametrize("path", ["inbox", "../outside", "results/street"])
def test_others_are_allowed(settings: Settings, path: str) -> None:
    """Other folders in the data directory and elsewhere are allowed."""
    assert folder_at(settings, "listener files", FolderAddress(f"folder:{path}"))


def test_files_that_the_settings_name_are_protected(tmp_path: Path) -> None:
    """Every file that belongs to no connection, wherever it lies, with the folders around it."""
    home, other = tmp_path / "home", tmp_path / "other/deep"
    create_data_directory(home)
    other.mkdir(parents=True)
    (home / "bridge.toml").write_text(
        f"""
[engine]
tokens = {{ SITE1 = "{other}/site1.token" }}
[alerts]
mail = {{ host = "h", from = "a@b.de", to = ["c@d.de"], password_file = "mail.password" }}
webhook = {{ url = "https://h.test/", authorization_file = "{other}/webhook.auth" }}
[[destination]]
name = "street"
address = "https://h.test/"
authorization_file = "{other}/street.auth"
""",
        "utf-8",
    )
    settings = load(home)
    for own in (f"{other}/site1.token", f"{other}/webhook.auth", "mail.password"):
        with pytest.raises(ProtectedPath):
            authorization_path(settings, "destination street", Path(own))
    assert authorization_path(settings, "destination street", other / "street.auth")
    for folder in (other, tmp_path / "other"):
        with pytest.raises(ProtectedPath):
            folder_at(settings, "listener files", FolderAddress(f"folder:{folder}"))


def test_own_secrets_are_not_sent_to_peers(settings: Settings) -> None:
    """The service token and the key ring cannot be an Authorization header."""
    for own in ("secrets/engine.token", "away/link.keys", "secrets/index.key"):
        with pytest.raises(ProtectedPath):
            authorization_path(settings, "destination street", Path(own))
    assert authorization_path(settings, "destination street", Path("secrets/street.auth"))
    assert authorization_path(settings, "destination street", None) is None
