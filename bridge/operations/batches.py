"""
The batches of an archive's file: gzip members one after the other, RFC 1952 §2.2.

A run that died while it wrote leaves half a member, or zeros, behind the whole ones. Readers stop
there with an error, so it is cut off.
"""

import os
import zlib
from pathlib import Path
from typing import BinaryIO, Final

NEAR: Final = 256 * 1024
TAIL: Final = 64 * 1024 * 1024
"""Bytes at the end of a file in which its last batch is looked for: first, and at most."""

_BEGINNING: Final = b"\x1f\x8b\x08"  # of a member, RFC 1952 §2.3.1
_PIECE: Final = 1024 * 1024


def last_batch(file: Path) -> bytes:
    """
    Give what the last whole member of a file holds, and leave nothing behind it.

    A file without one goes. What is damaged otherwise stays as it is. Raises OSError.
    """
    with file.open("r+b") as opened:
        found = _at_the_end(opened)
        if found is not None:
            return found
        end, last = _walked(opened)
        if end is not None:
            opened.truncate(end)
            os.fsync(opened.fileno())
    if end == 0:
        file.unlink()
    return last


def _at_the_end(file: BinaryIO) -> bytes | None:
    """Give the last member, or None where something else may end the file."""
    size = file.seek(0, os.SEEK_END)
    reach = min(size, NEAR)
    while reach:
        file.seek(size - reach)
        end = file.read(reach)
        begin = end.rfind(_BEGINNING)
        while begin >= 0:
            member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
            try:
                batch = member.decompress(memoryview(end)[begin:])
            except zlib.error:  # it only looked like a beginning
                begin = end.rfind(_BEGINNING, 0, begin)
            else:
                return batch if member.eof and not member.unused_data else None
        if reach == min(size, TAIL):
            break
        reach = min(size, TAIL, 4 * reach)
    return None


def _walked(file: BinaryIO) -> tuple[int | None, bytes]:
    """
    Go through all members; give where the last whole one ends, and what it holds.

    None for the end where what follows is neither half a member nor zeros.
    """
    size, end, last = file.seek(0, os.SEEK_END), 0, b""
    while end < size:
        file.seek(end)
        member, pieces = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16), []
        try:
            while not member.eof and (piece := file.read(_PIECE)):
                pieces.append(member.decompress(piece))
        except zlib.error:
            return (end if _only_zeros(file, end) else None), last
        if not member.eof:
            break
        end, last = file.tell() - len(member.unused_data), b"".join(pieces)
    return end, last


def _only_zeros(file: BinaryIO, begin: int) -> bool:
    file.seek(begin)
    while piece := file.read(_PIECE):
        if any(piece):
            return False
    return True
