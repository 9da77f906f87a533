"""
DICOM files (PS3.10): read within limits, and written around a data set that was received.

A file is not opened by `dcmread`, because that inflates a deflated file without a limit.
"""

import logging
import struct
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO
from typing import Final

from pydicom import config
from pydicom.datadict import dictionary_has_tag, dictionary_VR, keyword_dict
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.filebase import DicomBytesIO
from pydicom.filereader import read_dataset
from pydicom.filewriter import write_file_meta_info
from pydicom.tag import BaseTag
from pydicom.uid import (
    UID,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
)
from pydicom.valuerep import EXPLICIT_VR_LENGTH_32

from parsers.limits import (
    META_INFORMATION,
    STRUCTURED_REPORT,
    STRUCTURED_REPORT_ELEMENTS,
    STRUCTURED_REPORT_ITEMS,
    DocumentRefused,
)

PREAMBLE = 128
MAGIC = b"DICM"
ITEM_TAGS = (b"\xfe\xff\x00\xe0", b"\xff\xfe\xe0\x00")  # little and big endian
UNDEFINED_LENGTH = 0xFFFFFFFF
ITEM_GROUP = 0xFFFE  # items and delimiters
ITEM, ITEM_END, SEQUENCE_END = 0xE000, 0xE00D, 0xE0DD
ELEMENT_HEAD, LONG_HEAD = 8, 12  # bytes: tag, VR and a length of two bytes, or of four
LONG_VRS = frozenset(vr.encode() for vr in EXPLICIT_VR_LENGTH_32)
"""VRs whose length has four bytes (PS3.5 §7.1.2)."""
VR_BYTES = 2
SEQUENCES = frozenset(tag for tag in keyword_dict.values() if dictionary_VR(tag) == "SQ")
META_GROUP = 0x0002
IDENTIFYING_GROUP = 0x0008

# A report with an invalid value is still readable.
config.settings.reading_validation_mode = config.IGNORE
# The lines and warnings of pydicom quote values. `catch_warnings` is not for threads: the end of
# one would end that of another.
logging.getLogger("pydicom").setLevel(logging.CRITICAL + 1)
warnings.filterwarnings("ignore", module="pydicom")


class DicomFault(StrEnum):
    """Why a file is refused."""

    NOT_DICOM = "it is no DICOM file"
    TOO_LARGE = "it is too large"
    TOO_MANY = "it has too many elements or items"
    MALFORMED = "it is malformed or truncated"


class DicomRefused(DocumentRefused):
    """A DICOM file that is not read; no part of it is used."""

    def __init__(self, fault: DicomFault) -> None:
        self.fault = fault
        super().__init__(fault.value)


@dataclass(frozen=True, slots=True)
class DicomLimits:
    """Limits of one file; `max_depth` counts levels of the content tree."""

    max_bytes: int = STRUCTURED_REPORT.size
    max_items: int = STRUCTURED_REPORT_ITEMS
    max_depth: int = STRUCTURED_REPORT.depth
    max_elements: int = STRUCTURED_REPORT.count
    max_nested_elements: int = STRUCTURED_REPORT_ELEMENTS
    """Elements of all levels; repeated elements count, of which pydicom keeps the last."""


def read_file(data: bytes, limits: DicomLimits, *, last: int | None = None) -> Dataset:
    """
    Return the data set; raise `DicomRefused`, and pydicom's own errors too.

    `last` is the tag of the last element that is read, by default all are.
    """
    if len(data) > limits.max_bytes:
        raise DicomRefused(DicomFault.TOO_LARGE)
    syntax, body = _split(data)
    if syntax == DeflatedExplicitVRLittleEndian:
        body = _inflate(body, limits.max_bytes)
    if max(body.count(tag) for tag in ITEM_TAGS) > limits.max_items:
        raise DicomRefused(DicomFault.TOO_MANY)
    implicit, little = syntax == ImplicitVRLittleEndian, syntax != ExplicitVRBigEndian
    check_structure(body, limits.max_nested_elements, little=little)
    return read_dataset(
        BytesIO(body),
        is_implicit_VR=implicit,
        is_little_endian=little,
        stop_when=_element_limit(limits.max_elements, last),
    )


def check_structure(body: bytes, max_elements: int, *, little: bool) -> None:
    """Raise `DicomRefused` if a length does not fit, or there are more elements, on any level."""
    _Structure(body, little=little).check(max_elements)


@dataclass(slots=True)
class _Level:
    """A data set, an item, or a sequence (`has_items`) whose elements are being checked."""

    end: int
    is_undefined: bool
    is_implicit: bool
    has_items: bool = False


class _Structure:
    """
    The lengths of a data set, in sequences too (PS3.5 §7.1, §7.5).

    pydicom parses items later, when nothing can stop it, and shortens a value of an item that is
    longer than the item. Elements are recognized as pydicom does it: an item may have implicit VR,
    and a sequence without VR has a known tag or begins with an item.
    """

    def __init__(self, body: bytes, *, little: bool) -> None:
        self._body = body
        order = "<" if little else ">"
        self._tag_at = struct.Struct(f"{order}HH").unpack_from
        self._short_at = struct.Struct(f"{order}H").unpack_from
        self._long_at = struct.Struct(f"{order}L").unpack_from
        self._sequence_end = struct.pack(f"{order}HHL", ITEM_GROUP, SEQUENCE_END, 0)
        self._levels: list[_Level] = []
        self._place = 0

    def check(self, limit: int) -> None:
        end = len(self._body)
        self._levels.append(_Level(end, False, self._is_implicit(0, end)))
        while self._levels:
            level = self._levels[-1]
            left = level.end - self._place
            if not left:
                if level.is_undefined:
                    raise DicomRefused(DicomFault.MALFORMED)
                self._levels.pop()
            elif len(self._levels) == 1 and self._is_padding():
                return
            elif left < ELEMENT_HEAD:
                raise DicomRefused(DicomFault.MALFORMED)
            elif level.has_items:
                self._begin_item(level)
            elif self._tag_at(self._body, self._place) == (ITEM_GROUP, ITEM_END):
                self._end(level)
            else:
                limit -= 1
                if limit < 0:
                    raise DicomRefused(DicomFault.TOO_MANY)
                self._pass_element(level)

    def _is_padding(self) -> bool:
        """True if only zeros are left, fewer than an element has."""
        rest = self._body[self._place : self._place + ELEMENT_HEAD]
        return len(rest) < ELEMENT_HEAD and not rest.strip(b"\0")

    def _is_implicit(self, place: int, end: int) -> bool:
        vr = self._body[place + 4 : min(end, place + 6)]
        return len(vr) == VR_BYTES and not (vr.isalpha() and vr.isupper())

    def _begin_item(self, sequence: _Level) -> None:
        group, number = self._tag_at(self._body, self._place)
        if (group, number) == (ITEM_GROUP, SEQUENCE_END):
            self._end(sequence)
        elif (group, number) == (ITEM_GROUP, ITEM):
            (length,) = self._long_at(self._body, self._place + 4)
            self._place += ELEMENT_HEAD
            is_implicit = sequence.is_implicit or self._is_implicit(self._place, sequence.end)
            self._enter(sequence, length, is_implicit=is_implicit, has_items=False)
        else:
            raise DicomRefused(DicomFault.MALFORMED)

    def _end(self, level: _Level) -> None:
        """End a level at its delimiter, which those of defined length may have too."""
        self._place = self._place + ELEMENT_HEAD if level.is_undefined else level.end
        self._levels.pop()

    def _enter(self, outer: _Level, length: int, *, is_implicit: bool, has_items: bool) -> None:
        is_undefined = length == UNDEFINED_LENGTH
        end = outer.end if is_undefined else self._place + length
        if end > outer.end:
            raise DicomRefused(DicomFault.MALFORMED)
        self._levels.append(_Level(end, is_undefined, is_implicit, has_items))

    def _pass_element(self, level: _Level) -> None:
        """Pass an element with its value, or begin its sequence."""
        group, number = self._tag_at(self._body, self._place)
        vr = self._body[self._place + 4 : self._place + 6]
        if level.is_implicit or not (vr.isalpha() and vr.isupper()):
            vr = b""
            (length,) = self._long_at(self._body, self._place + 4)
            self._place += ELEMENT_HEAD
        elif vr in LONG_VRS:
            if level.end - self._place < LONG_HEAD:
                raise DicomRefused(DicomFault.MALFORMED)
            (length,) = self._long_at(self._body, self._place + 8)
            self._place += LONG_HEAD
        else:
            (length,) = self._short_at(self._body, self._place + 6)
            self._place += ELEMENT_HEAD
        is_undefined = length == UNDEFINED_LENGTH
        tag = group << 16 | number
        has_items = vr == b"SQ" or (vr in {b"", b"UN"} and tag in SEQUENCES)
        if is_undefined and vr == b"" and not dictionary_has_tag(tag):
            has_items = self._body[self._place : self._place + 4] in ITEM_TAGS
        if has_items or (is_undefined and vr == b"UN"):
            self._enter(level, length, is_implicit=level.is_implicit, has_items=True)
            return
        if is_undefined:
            found = self._body.find(self._sequence_end, self._place, level.end)
            if found < 0:
                raise DicomRefused(DicomFault.MALFORMED)
            length = found + ELEMENT_HEAD - self._place
        self._place += length
        if self._place > level.end:
            raise DicomRefused(DicomFault.MALFORMED)


def _element_limit(limit: int, last: int | None) -> Callable[[BaseTag, str | None, int], bool]:
    """Return a `stop_when` that ends after a tag, and raises if there are too many elements."""
    left = iter(range(limit))

    def stops(tag: BaseTag, vr: str | None, length: int) -> bool:
        if last is not None and tag > last:
            return True
        if next(left, None) is None:
            raise DicomRefused(DicomFault.TOO_MANY)
        return False

    return stops


def _split(data: bytes) -> tuple[str, bytes]:
    """Return the transfer syntax and the bytes of the data set (DICOM PS3.10 §7.1)."""
    if not is_dicom(data):
        return _guess_syntax(data), data
    meta, body = _meta_and_body(data)
    syntax = str(meta.get("TransferSyntaxUID", ""))
    return syntax or _guess_syntax(body), body


def is_dicom(data: bytes) -> bool:
    """True if data has the prefix of a DICOM file."""
    return data[PREAMBLE : PREAMBLE + len(MAGIC)] == MAGIC


def _meta_and_body(data: bytes) -> tuple[Dataset, bytes]:
    begin = PREAMBLE + len(MAGIC)
    stream = BytesIO(data[begin : begin + META_INFORMATION])
    meta = read_dataset(stream, is_implicit_VR=False, is_little_endian=True, stop_when=_after_meta)
    if stream.tell() >= META_INFORMATION:
        raise DicomRefused(DicomFault.TOO_LARGE)
    return meta, data[begin + stream.tell() :]


@dataclass(frozen=True, slots=True)
class FileMeta:
    """The file meta information; `sender` is an AE title, '' if unknown."""

    sop_class: str
    sop_instance: str
    transfer_syntax: str
    sender: str = ""


IMPLEMENTATION_CLASS: Final = "2.25.275415404173804545037515546567209834443"
IMPLEMENTATION_VERSION: Final = "REPORT_BRIDGE"
"""Implementation Class UID and Version Name, of files and associations (PS3.7 D.3.3.2)."""


def read_meta(data: bytes) -> tuple[FileMeta, bytes]:
    """
    Return the file meta information of a file, and the bytes of its data set.

    Raises `DicomRefused`, and pydicom's own errors too.
    """
    if not is_dicom(data):
        raise DicomRefused(DicomFault.NOT_DICOM)
    meta, body = _meta_and_body(data)
    names = (
        *("MediaStorageSOPClassUID", "MediaStorageSOPInstanceUID", "TransferSyntaxUID"),
        "SourceApplicationEntityTitle",
    )
    values = (str(meta.get(name) or "").strip(" \0") for name in names)
    return FileMeta(*values), body


def write_file(meta: FileMeta, body: bytes) -> bytes:
    """Return a file around the bytes of a data set; equal arguments give equal files."""
    group = FileMetaDataset()
    group.MediaStorageSOPClassUID = UID(meta.sop_class)
    group.MediaStorageSOPInstanceUID = UID(meta.sop_instance)
    group.TransferSyntaxUID = UID(meta.transfer_syntax)
    group.ImplementationClassUID = UID(IMPLEMENTATION_CLASS)
    group.ImplementationVersionName = IMPLEMENTATION_VERSION
    if meta.sender:
        group.SourceApplicationEntityTitle = meta.sender
    stream = DicomBytesIO()
    write_file_meta_info(stream, group, enforce_standard=True)
    return b"".join((bytes(PREAMBLE), MAGIC, stream.getvalue(), body))


def _after_meta(tag: BaseTag, vr: str | None, length: int) -> bool:
    return tag.group != META_GROUP


def _guess_syntax(body: bytes) -> str:
    """Return the transfer syntax of a data set without preamble, by its first element."""
    if len(body) < struct.calcsize("<HH2s"):
        raise DicomRefused(DicomFault.NOT_DICOM)
    group, _, vr = struct.unpack_from("<HH2s", body)
    if group != IDENTIFYING_GROUP:
        raise DicomRefused(DicomFault.NOT_DICOM)
    explicit = vr.isalpha() and vr.isupper()
    return str(ExplicitVRLittleEndian if explicit else ImplicitVRLittleEndian)


def _inflate(body: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    plain = inflater.decompress(body, limit)
    if inflater.unconsumed_tail:
        raise DicomRefused(DicomFault.TOO_LARGE)
    return plain
