"""
The home folder of an installation: settings, mappings, secrets.

`create` makes what is missing and never overwrites; secrets are readable by their owner only.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from config.example import fresh
from config.settings import FILE_NAME
from config.writing import write_new

SECRET_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700


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
    home.mkdir(parents=True, exist_ok=True)
    (home / "secrets").mkdir(mode=FOLDER_MODE, exist_ok=True)
    for path, make in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        (written if _write_new(path, make, 0o644) else kept).append(path)
    for name, make in secrets.items():
        path = home / "secrets" / name
        (written if _write_new(path, make, SECRET_MODE) else kept).append(path)
    return written, kept


def _constant(data: bytes) -> Callable[[], bytes]:
    return lambda: data


def _write_new(path: Path, make: Callable[[], bytes], mode: int) -> bool:
    return False if path.exists() else write_new(path, make(), mode)
