"""The lengths of a DICOM data set, before pydicom reads it."""

import struct
from collections.abc import Iterator

import pytest
from pydicom.uid import ExplicitVRLittleEndian

from parsers.dicom_file import (
    UNDEFINED_LENGTH,
    DicomFault,
    DicomLimits,
    DicomRefused,
    FileMeta,
    read_file,
    write_file,
)

HEAD = b"\x08\x00\x16\x00UI\x04\x001.2\x00"
END_OF_ITEM = b"\xfe\xff\x0d\xe0\0\0\0\0"
END_OF_SEQUENCE = b"\xfe\xff\xdd\xe0\0\0\0\0"


def element(value: bytes = b"abcd", length: int | None = None) -> bytes:
    """Return Text Value; `length` is written instead of that of the value."""
    size = len(value) if length is None else length
    return b"\x40\x00\x60\xa1UT\0\0" + struct.pack("<L", size) + value


def sequence(*items: bytes, length: int | None = None) -> bytes:
    """Return Content Sequence."""
    content = b"".join(items)
    size = len(content) if length is None else length
    return b"\x40\x00\x30\xa7SQ\0\0" + struct.pack("<L", size) + content


def item(content: bytes, length: int | None = None) -> bytes:
    size = len(content) if length is None else length
    return b"\xfe\xff\x00\xe0" + struct.pack("<L", size) + content


def read(body: bytes, limits: DicomLimits | None = None) -> list[str]:
    """Return the texts of the content items."""
    meta = FileMeta("1.2", "1.3", str(ExplicitVRLittleEndian))
    found = read_file(write_file(meta, HEAD + body), limits or DicomLimits())
    return [str(one.TextValue) for one in found.ContentSequence]


def fault(body: bytes, limits: DicomLimits | None = None) -> DicomFault:
    with pytest.raises(DicomRefused) as refused:
        read(body, limits)
    return refused.value.fault


def whole() -> Iterator[tuple[str, bytes]]:
    open_item = item(element() + END_OF_ITEM, UNDEFINED_LENGTH)
    yield "defined", sequence(item(element()))
    yield "undefined", sequence(open_item, END_OF_SEQUENCE, length=UNDEFINED_LENGTH)
    yield "an item that ends itself", sequence(open_item)
    yield "a delimiter in a defined length", sequence(item(element()), END_OF_SEQUENCE)
    implicit = b"\x40\x00\x60\xa1" + struct.pack("<L", 4) + b"abcd"
    yield "an item with implicit VR", sequence(item(implicit))
    yield "padding", sequence(item(element())) + b"\0\0"


@pytest.mark.parametrize("body", dict(whole()).values(), ids=dict(whole()).keys())
def test_a_whole_data_set(body: bytes) -> None:
    """All forms of lengths are read (PS3.5 7.5)."""
    assert read(body) == ["abcd"]


def wrong() -> Iterator[tuple[str, bytes]]:
    long = element(length=400)
    yield "an element that is longer than its item", sequence(item(long))
    yield "the same, two levels down", sequence(item(sequence(item(long))))
    yield "an item that is longer than its sequence", sequence(item(element(), 900))
    yield "an item without an end", sequence(item(element(), UNDEFINED_LENGTH))
    yield "a sequence without an end", sequence(item(element()), length=UNDEFINED_LENGTH)
    inner = sequence(item(element()), length=UNDEFINED_LENGTH)
    yield "an inner sequence without an end", sequence(item(inner))
    yield "a sequence without items", sequence(b"not items")
    yield "half an element", sequence(item(element() + b"\x40\0\x60"))
    yield "half an element at the end", sequence(item(element())) + b"\x40\0\x60"
    yield "pixels without an end", b"\xe0\x7f\x10\x00OB\0\0\xff\xff\xff\xff" + bytes(40)


@pytest.mark.parametrize("body", dict(wrong()).values(), ids=dict(wrong()).keys())
def test_a_wrong_length(body: bytes) -> None:
    """A text that is cut is refused, on each level: pydicom would return the rest of it."""
    assert fault(body) is DicomFault.MALFORMED


def test_elements_of_an_unknown_representation() -> None:
    """Elements of a known sequence are counted although its value representation is UN."""
    items = item(bytes.fromhex("4000600100000000") * 1000)
    body = b"\x40\x00\x30\xa7UN\0\0" + struct.pack("<L", len(items)) + items
    assert fault(body, DicomLimits(max_nested_elements=500)) is DicomFault.TOO_MANY
