"""
DICOM files (PS3.10): read within limits, and written around a data set that was received.

A file is not opened by `dcmread`, because that inflates a deflated file without a limit.
"""

import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO
from typing import Final

from pydicom import config
from pydicom.datadict import dictionary_VR, keyword_dict
from pydicom.dataelem import RawDataElement
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
ELEMENT_HEAD, LONG_HEAD = 8, 12  # bytes: tag, VR and a length of two bytes, or of four
SHORT_VRS = frozenset(re.findall(rb"..", b"AEASATCSDADSDTFLFDISLOLTPNSHSLSSSTTMUIULUS"))
"""VRs whose length has two bytes (PS3.5 §7.1.2)."""
SEQUENCES = frozenset(tag for tag in keyword_dict.values() if dictionary_VR(tag) == "SQ")
META_GROUP = 0x0002
IDENTIFYING_GROUP = 0x0008

# A report with an invalid value is still readable.
config.settings.reading_validation_mode = config.IGNORE


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
    if _has_more_elements(body, limits.max_nested_elements, implicit=implicit, little=little):
        raise DicomRefused(DicomFault.TOO_MANY)
    data_set = read_dataset(
        BytesIO(body),
        is_implicit_VR=implicit,
        is_little_endian=little,
        stop_when=_element_limit(limits.max_elements, last),
    )
    _refuse_truncated(data_set)
    return data_set


def _has_more_elements(body: bytes, limit: int, *, implicit: bool, little: bool) -> bool:
    """
    True if a data set has more elements than a limit, in sequences too (PS3.5 §7.1, §7.5).

    pydicom parses the items of sequences later, and then nothing can stop it. In a data set with
    implicit VR it recognizes a sequence by its known tag only. Other sequences are not parsed and
    are not counted here.
    """
    order = "<" if little else ">"
    tag_at = struct.Struct(f"{order}HH").unpack_from
    short_at, long_at = struct.Struct(f"{order}H"), struct.Struct(f"{order}L")
    place, end = 0, len(body) - ELEMENT_HEAD
    while place <= end:
        group, number = tag_at(body, place)
        if group == ITEM_GROUP:
            place += ELEMENT_HEAD
            continue
        limit -= 1
        if limit < 0:
            return True
        vr = body[place + 4 : place + 6]
        if implicit:
            (length,) = long_at.unpack_from(body, place + 4)
            place += ELEMENT_HEAD
            nested = (group << 16 | number) in SEQUENCES
        elif vr in SHORT_VRS:
            (length,) = short_at.unpack_from(body, place + 6)
            place += ELEMENT_HEAD
            nested = False
        elif place + LONG_HEAD <= len(body):
            (length,) = long_at.unpack_from(body, place + 8)
            place += LONG_HEAD
            nested = vr == b"SQ"
        else:
            return False
        if not nested and length != UNDEFINED_LENGTH:
            place += length
    return False


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


def _refuse_truncated(data_set: Dataset) -> None:
    """Refuse a truncated file: pydicom would accept the rest of a cut value."""
    for tag in data_set.keys():  # noqa: SIM118  # iterating a data set parses its values
        element = data_set.get_item(tag)
        if not isinstance(element, RawDataElement) or element.length == UNDEFINED_LENGTH:
            continue
        if len(element.value or b"") != element.length:
            raise DicomRefused(DicomFault.MALFORMED)


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
