"""
The folders that listeners empty and destinations fill: never the installation's own.

A listener reads every file of its folder and moves it, a destination writes there. An operator of
the console can set both, and must not reach secrets, databases, mappings or archives that way.
Files of the settings, such as those with an Authorization header, may not be our own keys.
"""

from pathlib import Path

from bridge.errors import BridgeError
from bridge.transports.folders.files import Folder
from config import Settings
from config.addresses import FolderAddress

_OWN_FOLDERS = ("secrets", "mappings", "run")


class ProtectedPath(BridgeError):  # noqa: N818  # named for what is there
    """A path that belongs to the installation itself."""

    def __init__(self, owner: str, path: Path) -> None:
        super().__init__(f"{owner}: {path} belongs to the installation; use another path")


def folder_at(settings: Settings, owner: str, address: FolderAddress) -> Folder:
    """Give the folder of a listener or destination. Raises ProtectedPath."""
    folder = settings.path(Path(address.path))
    real = folder.resolve()
    for own in _own(settings):
        if real.is_relative_to(own) or own.is_relative_to(real):
            raise ProtectedPath(owner, folder)
    return Folder(folder)


def require_foreign_secret(settings: Settings, owner: str, file: Path | None) -> Path | None:
    """Give the file of a peer's secret, resolved; None for none. Raises ProtectedPath."""
    if file is None:
        return None
    path = settings.path(file)
    engine = settings.engine
    own = [*engine.tokens.values(), engine.token_file, engine.link_keys_file]
    own.append(settings.database.index_key_file)
    assistance, provider = settings.assistance, settings.sign_in.oidc
    others = [assistance.transcription_key_file, assistance.placing_key_file]
    others.append(None if provider is None else provider.client_secret_file)
    own += [each for each in others if each is not None]
    if path.resolve() in {settings.path(each).resolve() for each in own}:
        raise ProtectedPath(owner, path)
    return path


def _own(settings: Settings) -> list[Path]:
    found = [settings.home / each for each in _OWN_FOLDERS]
    if settings.retention.archive is not None:
        found.append(settings.path(settings.retention.archive))
    for url in (settings.database_url(), settings.engine_database_url()):
        if url.startswith("sqlite:///"):
            found.append(Path(f"{url.removeprefix('sqlite:///')}-large"))
            found.append(Path(url.removeprefix("sqlite:///")))
    return [each.resolve() for each in found]
