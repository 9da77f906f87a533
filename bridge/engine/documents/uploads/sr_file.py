"""
Parser of a DICOM file to a pydicom data set, within limits.

The file is not opened by `dcmread`, because that inflates a deflated file without a limit.
"""

import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO

from pydicom import config
from pydicom.datadict import dictionary_VR, keyword_dict
from pydicom.dataelem import RawDataElement
from pydicom.dataset import Dataset
from pydicom.filereader import read_dataset
from pydicom.tag import BaseTag
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
)

from bridge.contract.errors import ErrorCode
from bridge.engine.documents.errors import BadStructuredReport
from parsers.limits import (
    META_INFORMATION,
    STRUCTURED_REPORT,
    STRUCTURED_REPORT_ELEMENTS,
    STRUCTURED_REPORT_ITEMS,
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


@dataclass(frozen=True, slots=True)
class SrLimits:
    """Limits of one file; `max_depth` counts levels of the content tree."""

    max_bytes: int = STRUCTURED_REPORT.size
    max_items: int = STRUCTURED_REPORT_ITEMS
    max_depth: int = STRUCTURED_REPORT.depth
    max_elements: int = STRUCTURED_REPORT.count
    max_nested_elements: int = STRUCTURED_REPORT_ELEMENTS
    """Elements of all levels; repeated elements count, of which pydicom keeps the last."""


def read_file(data: bytes, limits: SrLimits) -> Dataset:
    """Return the data set, or raise `BadStructuredReport`; may raise pydicom's own errors too."""
    if len(data) > limits.max_bytes:
        raise BadStructuredReport(ErrorCode.SR_TOO_LARGE)
    syntax, body = _split(data)
    if syntax == DeflatedExplicitVRLittleEndian:
        body = _inflate(body, limits.max_bytes)
    if max(body.count(tag) for tag in ITEM_TAGS) > limits.max_items:
        raise BadStructuredReport(ErrorCode.SR_TOO_MANY_ITEMS)
    implicit, little = syntax == ImplicitVRLittleEndian, syntax != ExplicitVRBigEndian
    if _has_more_elements(body, limits.max_nested_elements, implicit=implicit, little=little):
        raise BadStructuredReport(ErrorCode.SR_TOO_MANY_ITEMS)
    data_set = read_dataset(
        BytesIO(body),
        is_implicit_VR=implicit,
        is_little_endian=little,
        stop_when=_element_limit(limits.max_elements),
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


def _element_limit(limit: int) -> Callable[[BaseTag, str | None, int], bool]:
    """Return a `stop_when` that raises for a data set with too many elements."""
    left = iter(range(limit))

    def stops(tag: BaseTag, vr: str | None, length: int) -> bool:
        if next(left, None) is None:
            raise BadStructuredReport(ErrorCode.SR_TOO_MANY_ITEMS)
        return False

    return stops


def _refuse_truncated(data_set: Dataset) -> None:
    """Refuse a truncated file: pydicom would accept the rest of a cut value."""
    for tag in data_set.keys():  # noqa: SIM118  # iterating a data set parses its values
        element = data_set.get_item(tag)
        if not isinstance(element, RawDataElement) or element.length == UNDEFINED_LENGTH:
            continue
        if len(element.value or b"") != element.length:
            raise BadStructuredReport(ErrorCode.SR_MALFORMED)


def _split(data: bytes) -> tuple[str, bytes]:
    """Return the transfer syntax and the bytes of the data set (DICOM PS3.10 §7.1)."""
    if data[PREAMBLE : PREAMBLE + len(MAGIC)] != MAGIC:
        return _guess_syntax(data), data
    begin = PREAMBLE + len(MAGIC)
    stream = BytesIO(data[begin : begin + META_INFORMATION])
    meta = read_dataset(stream, is_implicit_VR=False, is_little_endian=True, stop_when=_after_meta)
    if stream.tell() >= META_INFORMATION:
        raise BadStructuredReport(ErrorCode.SR_TOO_LARGE)
    syntax = str(meta.get("TransferSyntaxUID", ""))
    body = data[begin + stream.tell() :]
    return syntax or _guess_syntax(body), body


def _after_meta(tag: BaseTag, vr: str | None, length: int) -> bool:
    return tag.group != META_GROUP


def _guess_syntax(body: bytes) -> str:
    """Return the transfer syntax of a data set without preamble, by its first element."""
    if len(body) < struct.calcsize("<HH2s"):
        raise BadStructuredReport(ErrorCode.SR_NOT_DICOM)
    group, _, vr = struct.unpack_from("<HH2s", body)
    if group != IDENTIFYING_GROUP:
        raise BadStructuredReport(ErrorCode.SR_NOT_DICOM)
    explicit = vr.isalpha() and vr.isupper()
    return str(ExplicitVRLittleEndian if explicit else ImplicitVRLittleEndian)


def _inflate(body: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    plain = inflater.decompress(body, limit)
    if inflater.unconsumed_tail:
        raise BadStructuredReport(ErrorCode.SR_TOO_LARGE)
    return plain
