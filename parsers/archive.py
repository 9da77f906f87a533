"""ZIP archives from users, unpacked in memory within limits."""

import stat
import zipfile
from collections.abc import Sequence
from io import BytesIO
from typing import Final

from parsers.errors import DocumentRefused
from parsers.limits import PACKAGE

_SYSTEM_FILES: Final = ("__MACOSX/", ".DS_Store")
# With other methods, the archive chooses how much memory its decompression needs.
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED: Final = 0x1
_CENTRAL_RECORD: Final = b"PK\x01\x02"
_MAX_RECORDS: Final = 10 * PACKAGE.count  # also counts folders and `_SYSTEM_FILES`


def unpack(data: bytes) -> dict[str, str]:
    """
    Return the texts of an archive's files by their names.

    Raises DocumentRefused if it is not a ZIP file, exceeds the limits `PACKAGE`, or contains
    repeated names, absolute names, `..`, links, encryption, a compression other than deflate, or
    files that are not UTF-8.
    """
    if data.count(_CENTRAL_RECORD) > _MAX_RECORDS:
        raise DocumentRefused(f"the ZIP has more than {PACKAGE.count} files")
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            entries = [each for each in archive.infolist() if _is_content(each)]
            _require_limits(entries)
            return {each.filename: _text(archive, each) for each in entries}
    except DocumentRefused:
        raise
    except Exception:  # noqa: BLE001  # zipfile raises many errors on malformed archives
        raise DocumentRefused("this is not a readable ZIP file") from None


def _is_content(entry: zipfile.ZipInfo) -> bool:
    return not entry.is_dir() and not any(mark in entry.filename for mark in _SYSTEM_FILES)


def _require_limits(entries: Sequence[zipfile.ZipInfo]) -> None:
    names = [each.filename for each in entries]
    if len(entries) > PACKAGE.count:
        raise DocumentRefused(f"the ZIP has more than {PACKAGE.count} files")
    if sum(each.file_size for each in entries) > PACKAGE.size:
        raise DocumentRefused(f"the ZIP has more than {PACKAGE.size:,} bytes")
    if len(set(names)) != len(names):
        raise DocumentRefused("the ZIP has a file twice")
    for each in entries:
        parts = each.filename.split("/")
        if len(parts) - 1 > PACKAGE.depth:
            raise DocumentRefused(f"the ZIP has more than {PACKAGE.depth} nested folders")
        if ".." in parts or "" in parts or "\\" in each.filename:
            raise DocumentRefused("the ZIP has a file name that points outside of it")
        if each.flag_bits & _ENCRYPTED:
            raise DocumentRefused("the ZIP is encrypted")
        if each.compress_type not in _METHODS:
            raise DocumentRefused("the ZIP uses a method other than deflate")
        if stat.S_ISLNK(each.external_attr >> 16):
            raise DocumentRefused("the ZIP has a link")


def _text(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> str:
    with archive.open(entry) as file:
        data = file.read(entry.file_size + 1)  # zipfile stops at the declared size
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DocumentRefused("a file of the ZIP is not UTF-8 text") from None
