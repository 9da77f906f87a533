"""
Write files so that nobody finds half of one: beside, to the disk, and then put in their place.

Whoever is killed leaves `.NAME.new`, which the next one writes over. No room or no right leaves all
as it was; what is raised names the file.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from config.private_files import make_folder, open_private


def replace_all(files: Mapping[Path, bytes]) -> None:
    """
    Put files in place, and make the folders they are in; all of them, or none where one fails.

    Each file is readable by its owner only, whatever it was before. Raises OSError.
    """
    beside: dict[Path, Path] = {}
    try:
        for path, data in files.items():
            make_folder(path.parent)
            beside[path] = _beside(path, data)
        for path, fresh in beside.items():
            fresh.replace(path)
    finally:
        for fresh in beside.values():
            fresh.unlink(missing_ok=True)
    for folder in {path.parent for path in files}:
        _sync(folder)


def write_new(path: Path, data: bytes) -> bool:
    """Make a file that does not exist yet, whole; False where it does. Raises OSError."""
    fresh = _beside(path, data)
    try:
        os.link(fresh, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        if path.exists():
            return False
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    _sync(path.parent)
    return True


def _beside(path: Path, data: bytes) -> Path:
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.unlink(missing_ok=True)
        descriptor = open_private(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            left = memoryview(data)
            while left:
                left = left[file.write(left) or 0 :]
            os.fsync(descriptor)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    return fresh


def _sync(folder: Path) -> None:
    """Make sure that a new file's name outlasts a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
