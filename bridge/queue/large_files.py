"""
Contents of large messages that releases until 2026-11-23 wrote as files beside SQLite's own file.

They are read and removed here, and no new one is written. Blocking; raises StoreUnavailable.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bridge.store.errors import StoreUnavailable

_NAME: Final = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}(\..*\.part)?")
_WORD: Final = 2**64


def folder_of(database: Path) -> Path:
    """Name the folder that belongs to SQLite's file."""
    return database.with_name(f"{database.name}-large")


def name_of(identity: int, digest: int) -> str:
    """Name the content of the message with these numbers of 64 bits, signed."""
    return f"{identity % _WORD:016x}-{digest % _WORD:016x}"


class LargeFiles:
    """The files of one database, each under a name by `name_of`."""

    def __init__(self, database: Path) -> None:
        self._folder = folder_of(database)

    def has(self, name: str, size: int) -> bool:
        """Tell whether a content of this size is there."""
        with _explained():
            try:
                return (self._folder / name).stat().st_size == size
            except FileNotFoundError:
                return False

    def get(self, name: str, size: int) -> bytes:
        """
        Give a content; empty where it does not exist, or has another size: then it is lost.

        Raises StoreUnavailable where that is unknown, because the file cannot be read now.
        """
        with _explained():
            try:
                found = (self._folder / name).read_bytes()
            except FileNotFoundError:
                return b""
        return found if len(found) == size else b""

    def keep_only(self, names: set[str]) -> None:
        """Remove all other files that we wrote, half-written ones too, and an empty folder."""
        if not self._folder.is_dir():
            return
        with _explained():
            for each in list(self._folder.iterdir()):
                if each.name not in names and _NAME.fullmatch(each.name):
                    each.unlink(missing_ok=True)
        with suppress(OSError):  # it still has files
            self._folder.rmdir()


@contextmanager
def _explained() -> Iterator[None]:
    """Raise what the system refuses as the storage failure that it is."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(errno.errorcode.get(error.errno or 0, "OSError")) from None
