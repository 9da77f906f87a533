"""Private files: modes 0600 and 0700 whatever the umask, and atomic replacement.

The data directory contains patient data and secrets, so only the service's account may read it. All
modules write files through these functions. `find_exposures` finds files that other accounts can
access, such as copies, and `remove_exposures` corrects their modes.

A killed process leaves `.NAME.new`, which the next write replaces. If a write fails, the old file
stays unchanged, and the error names the file.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
_FOR_OTHERS: Final = 0o077
_WRITABLE_FOR_OTHERS: Final = 0o022
_BEYOND_OWNER: Final = stat.S_ISUID | stat.S_ISGID | _FOR_OTHERS


@dataclass(frozen=True, slots=True)
class Exposure:
    """A path that other accounts can access; `fixable`: `remove_exposures` can correct it."""

    path: Path
    problem: str
    fixable: bool


def make_folder(path: Path) -> None:
    """Create a folder and missing parents with mode 0700. Raises OSError."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another process created it
            folder.mkdir(mode=FOLDER_MODE)


def open_private(path: Path, flags: int) -> int:
    """
    Open a file with `os.open` flags; return the descriptor. A new file gets mode 0600.

    Symbolic links are not followed. Raises OSError.
    """
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)


def create_empty(path: Path) -> None:
    """
    Create an empty file with mode 0600 for a library that opens it afterwards.

    An existing path is left as it is. Errors are ignored, because the library reports them.
    """
    with suppress(OSError):
        os.close(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))


def write(path: Path, data: bytes) -> None:
    """Write a file with mode 0600, not atomically. Raises OSError."""
    descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, FILE_MODE)
        file.write(data)


def find_exposures(home: Path, others: Iterable[Path] = ()) -> Iterator[Exposure]:
    """
    Find paths in `home` and `others` that other accounts than the owner of `home` can access.

    The paths include parent folders in which other accounts can replace `home`. Symbolic links are
    not followed. `others` are files and folders outside of `home`, such as databases; a folder is
    searched too.
    """
    try:
        owner = home.stat().st_uid
    except OSError:
        return
    yield from _exposed_parents(home, owner)
    yield from _exposures_below(home, owner)
    inside = home.resolve()
    for path in others:
        if not path.resolve().is_relative_to(inside):
            yield from _exposures_below(path, owner)


def remove_exposures(exposures: Iterable[Exposure]) -> list[Exposure]:
    """Remove the permissions of other accounts; return what is still exposed."""
    left = []
    for exposure in exposures:
        try:
            if not exposure.fixable or not _restrict_mode(exposure.path):
                left.append(exposure)
        except OSError as error:
            reason = f"{exposure.problem}; not corrected: {error.strerror}"
            left.append(Exposure(exposure.path, reason, fixable=False))
    return left


def _exposed_parents(home: Path, owner: int) -> Iterator[Exposure]:
    """Find parent folders in which other accounts can replace `home`."""
    for folder in home.resolve().parents:
        found = folder.stat()
        if found.st_uid not in (0, owner):
            yield Exposure(folder, f"belongs to user {found.st_uid}, who can replace {home}", False)
        if found.st_mode & _WRITABLE_FOR_OTHERS and not found.st_mode & stat.S_ISVTX:
            problem = f"other users can write to it ({_octal(found)}) and replace {home}"
            yield Exposure(folder, problem, fixable=False)


def _exposures_below(path: Path, owner: int) -> Iterator[Exposure]:
    found = _lstat(path)
    if found is None:
        return
    yield from _exposures(path, found, owner)
    if not stat.S_ISDIR(found.st_mode):
        return
    try:
        inside = sorted(path.iterdir())
    except OSError as error:
        yield Exposure(path, f"cannot be listed: {error.strerror}", fixable=False)
        return
    for entry in inside:
        yield from _exposures_below(entry, owner)


def _exposures(path: Path, found: os.stat_result, owner: int) -> Iterator[Exposure]:
    if stat.S_ISLNK(found.st_mode):
        return
    if found.st_uid != owner:
        problem = f"belongs to user {found.st_uid}, not to user {owner}"
        yield Exposure(path, problem, fixable=False)
    if found.st_mode & _BEYOND_OWNER:
        is_folder = stat.S_ISDIR(found.st_mode)
        linked = not is_folder and found.st_nlink > 1
        problem = f"other users can access it: mode {_octal(found)}, wanted "
        problem += f"{FOLDER_MODE if is_folder else FILE_MODE:04o}"
        if linked:
            problem += "; it has other names (hard links), change it by hand"
        yield Exposure(path, problem, fixable=found.st_uid == owner and not linked)


def _restrict_mode(path: Path) -> bool:
    """
    Remove the permissions of other accounts from a path.

    Return False if the path is gone, is a symbolic link, or is a file with hard links.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        found = _lstat(path)
        if found is None or stat.S_ISLNK(found.st_mode):
            return False
        if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
            raise
        path.chmod(stat.S_IMODE(found.st_mode) & ~_BEYOND_OWNER)  # a socket cannot be opened
        return True
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISDIR(found.st_mode) and found.st_nlink > 1:
            return False
        os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & ~_BEYOND_OWNER)
    finally:
        os.close(descriptor)
    return True


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _octal(found: os.stat_result) -> str:
    return f"{stat.S_IMODE(found.st_mode):04o}"


def replace_all(files: Mapping[Path, bytes]) -> None:
    """
    Replace files and create their folders; if preparing one fails, none is replaced.

    Each file gets mode 0600. Raises OSError.
    """
    temporary: dict[Path, Path] = {}
    try:
        for path, data in files.items():
            make_folder(path.parent)
            temporary[path] = _write_temporary(path, data)
        for path, replacement in temporary.items():
            replacement.replace(path)
    finally:
        for replacement in temporary.values():
            replacement.unlink(missing_ok=True)
    for folder in {path.parent for path in files}:
        sync_folder(folder)


def write_new(path: Path, data: bytes) -> bool:
    """Create a file atomically; return False if it exists. Raises OSError."""
    temporary = _write_temporary(path, data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:  # the file system has no hard links
        if path.exists():
            return False
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)
    return True


def _write_temporary(path: Path, data: bytes) -> Path:
    """Write and flush `.NAME.new` in the folder of a path. An OSError names the path itself."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.unlink(missing_ok=True)
        descriptor = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            left = memoryview(data)
            while left:
                left = left[file.write(left) or 0 :]
            os.fsync(descriptor)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    return temporary


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk: the names of new, renamed and deleted files."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
