"""
SQLite's log as a file: how long it is, and room in it before anybody needs it.

By SQLite's file format (sqlite.org/walformat.html). The file beside it, where SQLite has these
numbers itself, must not be opened: closing it would let go all locks that this process holds there.
"""

import os
from pathlib import Path
from typing import NamedTuple

_HEAD, _FRAME_HEAD = 32, 24  # bytes before the first page of a log, and before each
_PAGE_SIZE, _SALTS = slice(8, 12), slice(16, 24)  # of its head; salts are new when it begins anew
_FRAME_SALTS = slice(8, 16)
_SPARE = 20  # times as much must be free
_AT_ONCE = 256 * 2**10  # bytes of room: the commit that comes next waits for the disk to have them


class LogFile(NamedTuple):
    """A log, which need not be there."""

    path: Path

    def is_long(self, pages: int) -> bool:
        """Tell whether it has so many pages since it began anew; the file never gets shorter."""
        try:
            with self.path.open("rb", buffering=0) as file:
                head = file.read(_HEAD)
                file.seek(_offset(head, pages - 1))
                frame = file.read(_FRAME_HEAD)
        except OSError:  # nobody has written yet, or the last has closed the database
            return False
        return len(frame) == _FRAME_HEAD and frame[_FRAME_SALTS] == head[_SALTS]

    def make_room(self, pages: int) -> bool:
        """
        Write zeros behind its end, a part of what so many pages need; say whether all is there.

        Or nothing, where the disk has no room to spare: what is left is for those who commit.
        For whoever has SQLite's writing transaction: nobody else writes there then. SQLite takes
        them for what an earlier round has left behind its frames, which it does not read.
        Raises OSError, such as for a full disk.
        """
        with self.path.open("r+b", buffering=0) as file:
            missing = _offset(file.read(_HEAD), pages) - file.seek(0, os.SEEK_END)
            if missing > 0 and not _is_to_spare(missing, file.fileno()):
                return True
            if missing > 0:
                missing -= file.write(bytes(min(missing, _AT_ONCE)))
        return missing <= 0


def _is_to_spare(size: int, file: int) -> bool:
    disk = os.fstatvfs(file)
    return disk.f_bavail * disk.f_frsize > _SPARE * size


def _offset(head: bytes, pages: int) -> int:
    """Give where so many pages end."""
    return _HEAD + pages * (_FRAME_HEAD + int.from_bytes(head[_PAGE_SIZE], "big"))
