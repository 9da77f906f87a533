"""
The home folder of an installation: settings, mappings, secrets.

`create` makes what is missing and never overwrites. Only the owner may read any of it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from config.example import fresh
from config.private_files import FOLDER_MODE, make_folder
from config.settings import FILE_NAME
from config.writing import write_new


def create(
    home: Path, mappings: Mapping[str, bytes], secrets: Mapping[str, Callable[[], bytes]]
) -> tuple[list[Path], list[Path]]:
    """
    Make HOME with its files; return (written, kept) paths.

    `mappings` are file names and contents for HOME/mappings; `secrets` name files of
    HOME/secrets and how to make each, called only where the file does not exist yet.
    """
    written: list[Path] = []
    kept: list[Path] = []
    wanted: dict[Path, Callable[[], bytes]] = {home / FILE_NAME: lambda: fresh().encode()}
    wanted |= {home / "mappings" / name: _constant(data) for name, data in mappings.items()}
    for folder in (home, home / "secrets"):
        make_folder(folder)
        folder.chmod(FOLDER_MODE)  # the operator may have made it
    for path, make in wanted.items():
        make_folder(path.parent)
        (written if _write_new(path, make) else kept).append(path)
    for name, make in secrets.items():
        path = home / "secrets" / name
        (written if _write_new(path, make) else kept).append(path)
    return written, kept


def _constant(data: bytes) -> Callable[[], bytes]:
    return lambda: data


def _write_new(path: Path, make: Callable[[], bytes]) -> bool:
    return False if path.exists() else write_new(path, make())
