"""
A ZIP file written in parts, which are stored in the database while an export runs.

In the order of the numbers of the parts: the files, then one file `index.csv` that grows with them,
then the central directory. Another process can continue with what `ZipState` says. `zipfile`
cannot: it keeps the whole directory in memory until the end.
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Final

INDEX: Final = 500_000_000
"""The number of the first part of the index."""
DIRECTORY: Final = 1_000_000_000
"""The number of the first part of the central directory."""
END: Final = 2_000_000_000
"""The number of the last part."""
PART_BYTES: Final = 256 * 1024
_LOCAL: Final = struct.Struct("<4s5H3L2H")
_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_END_64: Final = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64: Final = struct.Struct("<4sLQL")
_END: Final = struct.Struct("<4s4H2LH")
_VERSION, _UTF_8, _DEFLATED = 45, 0x800, 8
_DATE: Final = (1 << 5) | 1  # 1980-01-01: the times of the messages are in the index
_COMMON: Final = (_VERSION, _UTF_8, _DEFLATED, 0, _DATE)
_INDEX_NAME: Final = "index.csv"
_LAST_BLOCK: Final = b"\x03\x00"  # an empty block that ends the compressed data
_FULL_16, _FULL_32 = 0xFFFF, 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class ZipState:
    """
    What the stored parts contain.

    `size`: bytes of the files; `index_size` and `index_packed`: bytes of the index as it is and as
    it is stored; `directory`: bytes of the central directory.
    """

    files: int = 0
    size: int = 0
    parts: int = 0
    index_size: int = 0
    index_packed: int = 0
    index_crc: int = 0
    index_parts: int = 0
    directory: int = 0
    directory_parts: int = 0


NumberedPart = tuple[int, bytes]


class ZipParts:
    """The parts after `state`; they are in memory until `take`."""

    def __init__(self, state: ZipState) -> None:
        self._state = state
        self._files, self._size = state.files, state.size
        self._data = bytearray()
        self._index = bytearray()
        self._directory = bytearray()

    @property
    def size(self) -> int:
        """The bytes in memory."""
        return len(self._data) + len(self._index) + len(self._directory)

    @property
    def files(self) -> int:
        return self._files

    def add(self, name: str, content: bytes) -> None:
        """Add a file."""
        packer = zlib.compressobj(wbits=-15)
        packed = packer.compress(content) + packer.flush()
        sizes = (zlib.crc32(content), len(packed), len(content))
        self._directory += _entry(name, sizes, self._size)
        local = _local(name, sizes)
        self._data += local
        self._data += packed
        self._size += len(local) + len(packed)
        self._files += 1

    def add_to_index(self, text: str) -> None:
        self._index += text.encode()

    def take(self) -> tuple[list[NumberedPart], ZipState]:
        """Return the parts with their numbers, and the state after them; begin with new ones."""
        before = self._state
        packer = zlib.compressobj(wbits=-15)
        index = packer.compress(self._index) + packer.flush(zlib.Z_FULL_FLUSH)
        pieces = [_pieces(item) for item in (self._data, index, self._directory)]
        after = ZipState(
            files=self._files,
            size=self._size,
            parts=before.parts + len(pieces[0]),
            index_size=before.index_size + len(self._index),
            index_packed=before.index_packed + len(index),
            index_crc=zlib.crc32(self._index, before.index_crc),
            index_parts=before.index_parts + len(pieces[1]),
            directory=before.directory + len(self._directory),
            directory_parts=before.directory_parts + len(pieces[2]),
        )
        firsts = (before.parts, INDEX + before.index_parts, DIRECTORY + before.directory_parts)
        pairs = zip(pieces, firsts, strict=True)
        numbered = [part for some, first in pairs for part in enumerate(some, first)]
        self._state = after
        self._data, self._index, self._directory = bytearray(), bytearray(), bytearray()
        return numbered, after


def end_parts(state: ZipState) -> list[NumberedPart]:
    """Return the parts that complete the file, with their numbers."""
    sizes = (state.index_crc, state.index_packed + len(_LAST_BLOCK), state.index_size)
    head = _local(_INDEX_NAME, sizes)
    entry = _entry(_INDEX_NAME, sizes, state.size)
    size = state.size + len(head) + sizes[1]
    files, directory = state.files + 1, state.directory + len(entry)
    counts = (files, files, directory, size)
    wide = _END_64.pack(b"PK\x06\x06", _END_64.size - 12, _VERSION, _VERSION, 0, 0, *counts)
    locator = _LOCATOR_64.pack(b"PK\x06\x07", 0, size + directory, 1)
    shown = min(files, _FULL_16)
    end = _END.pack(
        *(b"PK\x05\x06", 0, 0, shown, shown),
        *(min(directory, _FULL_32), min(size, _FULL_32), 0),
    )
    is_large = files >= _FULL_16 or size + directory >= _FULL_32
    return [
        (INDEX - 1, head),
        (DIRECTORY - 1, _LAST_BLOCK),
        (DIRECTORY + state.directory_parts, entry),
        (END, wide + locator + end if is_large else end),
    ]


def _local(name: str, sizes: tuple[int, int, int]) -> bytes:
    """Return the head of a file; `sizes`: its CRC, and its size in the ZIP file and outside."""
    return _LOCAL.pack(b"PK\x03\x04", *_COMMON, *sizes, len(name.encode()), 0) + name.encode()


def _entry(name: str, sizes: tuple[int, int, int], offset: int) -> bytes:
    """Return the entry of a file in the central directory."""
    encoded = name.encode()
    numbers = (*sizes, len(encoded), 0, 0, 0, 0, 0, offset)
    return _ENTRY.pack(b"PK\x01\x02", _VERSION, *_COMMON, *numbers) + encoded


def _pieces(data: bytes | bytearray) -> list[bytes]:
    starts = range(0, len(data), PART_BYTES)
    return [bytes(data[start : start + PART_BYTES]) for start in starts]
