"""
Contents of large messages as files, in a folder beside SQLite's own file.

In the database 16 MiB would be written twice, into its log and into its file, and whoever commits
meanwhile would wait until the disk has them. A file under its name is whole and outlasts a power
cut. Blocking; whoever keeps, looks or forgets may get StoreUnavailable.
"""

import errno
import math
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bridge.store.errors import StoreUnavailable
from bridge.store.folders import sync_folder
from config.private_files import make_folder

PIECE: Final = 256 * 2**10
"""Bytes that the disk is waited for at a time."""
LONGEST_REST: Final = 0.02
"""Seconds after a piece: where a piece takes longer, it is because others have their turns."""
_UNFINISHED: Final = ".part"
_NAME: Final = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}")
_WORD: Final = 2**64

Rest = Callable[[float], object]


def folder_of(database: Path) -> Path:
    """Name the folder that belongs to SQLite's file."""
    return database.with_name(f"{database.name}-large")


def name_of(identity: int, digest: int) -> str:
    """Name the content of the message with these numbers of 64 bits, signed."""
    return f"{identity % _WORD:016x}-{digest % _WORD:016x}"


def numbers_of(name: str) -> tuple[int, int]:
    """Give the numbers of a name."""
    identity, digest = (int.from_bytes(bytes.fromhex(e), signed=True) for e in name.split("-"))
    return identity, digest


class LargeFiles:
    """The contents of one database's large messages, each under a name by `name_of`."""

    def __init__(self, database: Path) -> None:
        self._folder = folder_of(database)

    def put(self, name: str, content: bytes, rest: Rest = time.sleep) -> None:
        """
        Keep a content durably, if it is not there yet.

        `rest` is given the seconds that each piece took, up to a limit: others write meanwhile.
        """
        with _told():
            if not self.has(name, len(content)):
                self._write(name, content, rest)
            sync_folder(self._folder)  # also what another process has named and not synced yet

    def has(self, name: str, size: int) -> bool:
        """Tell whether a content of this size is there."""
        with _told():
            try:
                return (self._folder / name).stat().st_size == size
            except FileNotFoundError:
                return False

    def get(self, name: str, size: int) -> bytes:
        """
        Give a content; empty where it does not exist, or has another size: then it is lost.

        Raises StoreUnavailable where that is unknown, because the file cannot be read now.
        """
        with _told():
            try:
                found = (self._folder / name).read_bytes()
            except FileNotFoundError:
                return b""
        return found if len(found) == size else b""

    def forget(self, name: str) -> None:
        """Remove a content, if it is there."""
        with _told():
            (self._folder / name).unlink(missing_ok=True)

    def older_than(self, moment: float) -> list[str]:
        """
        Give the names of what was written before a time (s).

        What was begun before it and never finished is removed.
        """
        with _told():
            old = [each for each in self._listed() if _written(each) < moment]
            for each in old:
                if each.name.endswith(_UNFINISHED):
                    each.unlink(missing_ok=True)
            return [each.name for each in old if _NAME.fullmatch(each.name)]

    def _listed(self) -> list[Path]:
        try:
            return list(self._folder.iterdir())
        except FileNotFoundError:  # nothing large has come yet
            return []

    def _write(self, name: str, content: bytes, rest: Rest) -> None:
        if not self._folder.is_dir():
            make_folder(self._folder)
            sync_folder(self._folder.parent)
        # A name of its own: another process may get the same message at the same time.
        descriptor, unfinished = tempfile.mkstemp(_UNFINISHED, f"{name}.", self._folder)
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                _write_slowly(file.fileno(), memoryview(content), rest)
            Path(unfinished).rename(self._folder / name)
        except BaseException:
            Path(unfinished).unlink(missing_ok=True)
            raise


def _write_slowly(descriptor: int, content: memoryview, rest: Rest) -> None:
    """Write it piece by piece; at the end the disk has all of it."""
    for start in range(0, len(content), PIECE):
        began = time.perf_counter()
        left = content[start : start + PIECE]
        while left:
            left = left[os.write(descriptor, left) :]
        os.fdatasync(descriptor)
        rest(min(time.perf_counter() - began, LONGEST_REST))


def _written(file: Path) -> float:
    """Give when a file was written (s); infinity for one that has just been given its name."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return math.inf


@contextmanager
def _told() -> Iterator[None]:
    """Say of what the system refuses what it means for whoever wanted to store."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(errno.errorcode.get(error.errno or 0, "OSError")) from None
