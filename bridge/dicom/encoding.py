"""
DICOM JSON as a data set (PS3.5 7), and a query's data set as keys.

Writing never fails: a value that its value representation cannot have is left out. So one wrong
value of an order cannot hide a step from a modality.
"""

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydicom.datadict import dictionary_VR
from pydicom.dataelem import RawDataElement
from pydicom.dataset import Dataset
from pydicom.multival import MultiValue
from pydicom.uid import ExplicitVRBigEndian, ExplicitVRLittleEndian, ImplicitVRLittleEndian

from bridge.dicom.character_sets import decode, encode, read_charset
from bridge.dicom.matching import BadKey, Item, Key

SYNTAXES: Final = (ExplicitVRLittleEndian, ImplicitVRLittleEndian, ExplicitVRBigEndian)
"""The transfer syntaxes of all services. A deflated data set has no limit until it is inflated."""
CHARSET: Final = "00080005"
MAX_DEPTH: Final = 8
"""Levels of sequences in a query."""
_IN_CHARSET: Final = frozenset({"LO", "LT", "PN", "SH", "ST", "UC", "UT"})
_ONE_TEXT: Final = frozenset({"LT", "ST", "UR", "UT"})
_FORMATS: Final = {
    "FD": "d",
    "FL": "f",
    "SL": "i",
    "SS": "h",
    "SV": "q",
    "UL": "I",
    "US": "H",
    "UV": "Q",
}
"""Formats of `struct` by value representation."""
_LONG: Final = frozenset(
    {"OB", "OD", "OF", "OL", "OV", "OW", "SQ", "SV", "UC", "UN", "UR", "UT", "UV"}
)
"""Value representations with a length of four bytes in explicit encoding."""
_PADDING: Final = {"UI": b"\0", "OB": b"\0", "UN": b"\0"}
_GROUPS: Final = ("Alphabetic", "Ideographic", "Phonetic")
_MAX_SHORT: Final = 0xFFFE
_UNDEFINED: Final = 0xFFFFFFFF
"""The length of a value that a delimiter ends."""


def write(item: Item, charset: str, *, implicit: bool, little: bool) -> bytes:
    """Return an item as a data set in a transfer syntax, with its character set if it has one."""
    found = dict(item)
    if charset:
        found[CHARSET] = {"vr": "CS", "Value": charset.split("\\")}
    return _Writer(charset, "<" if little else ">", implicit=implicit).items(found)


def texts(item: Item) -> Iterator[str]:
    """Yield all texts of an item, for the choice of its character set."""
    for element in item.values():
        if element["vr"] not in _IN_CHARSET and element["vr"] != "SQ":
            continue
        for value in element.get("Value", ()):
            if isinstance(value, str):
                yield value
            elif isinstance(value, Mapping):
                yield from value.values() if element["vr"] == "PN" else texts(value)


class _Writer:
    def __init__(self, charset: str, order: str, *, implicit: bool) -> None:
        self._charset, self._order, self._implicit = charset, order, implicit

    def items(self, item: Item) -> bytes:
        return b"".join(self._element(tag, item[tag]) for tag in sorted(item))

    def _element(self, tag: str, element: Mapping[str, Any]) -> bytes:
        vr: str = element["vr"]
        values: Sequence[Any] = element.get("Value", ())
        value = self._value(vr, values)
        if len(value) % 2:
            value += _PADDING.get(vr, b" ")
        if not self._implicit and vr not in _LONG and len(value) > _MAX_SHORT:
            value = b""
        number = int(tag, 16)
        head = struct.pack(f"{self._order}HH", number >> 16, number & 0xFFFF)
        if self._implicit:
            return head + struct.pack(f"{self._order}I", len(value)) + value
        if vr in _LONG:
            return head + vr.encode() + struct.pack(f"{self._order}HI", 0, len(value)) + value
        return head + vr.encode() + struct.pack(f"{self._order}H", len(value)) + value

    def _value(self, vr: str, values: Sequence[Any]) -> bytes:
        if vr == "SQ":
            entries = [self.items(entry) for entry in values if isinstance(entry, Mapping)]
            return b"".join(
                struct.pack(f"{self._order}HHI", 0xFFFE, 0xE000, len(entry)) + entry
                for entry in entries
            )
        if vr == "PN":
            return encode("\\".join(name_text(value) for value in values), self._charset)
        if code := _FORMATS.get(vr):
            return b"".join(self._number(code, value) for value in values)
        if vr == "AT":
            numbers = [int(str(value), 16) for value in values if _TAG.fullmatch(str(value))]
            return b"".join(
                struct.pack(f"{self._order}HH", number >> 16, number & 0xFFFF) for number in numbers
            )
        text = "\\".join("" if value is None else str(value) for value in values)
        return encode(text, self._charset if vr in _IN_CHARSET else "")

    def _number(self, code: str, value: object) -> bytes:
        try:
            number = float(str(value)) if code in "df" else int(str(value))
            return struct.pack(f"{self._order}{code}", number)
        except (ValueError, OverflowError, struct.error):
            return b""


def name_text(value: object) -> str:
    """Return a person name of DICOM JSON with its groups, without empty ones at the end."""
    if not isinstance(value, Mapping):
        return ""
    return "=".join(str(value.get(group) or "") for group in _GROUPS).rstrip("=")


_TAG: Final = re.compile("[0-9A-Fa-f]{8}")


def read_query(dataset: Dataset, default: str = "") -> tuple[dict[str, Key], str]:
    """
    Return the keys of a query, and its character set; `default` is that of one that names none.

    Raises BadKey with the attribute that cannot be read. Group lengths are left out.
    """
    charset = _charset_of(dataset, default)
    charset = default if charset == "" else charset
    return _keys(dataset, charset, 0), charset or ""


def _charset_of(dataset: Dataset, inherited: str | None) -> str | None:
    """Return the character set of a data set; None if it is unknown."""
    if CHARSET not in dataset:
        return inherited
    raw = dataset.get_item(int(CHARSET, 16))
    value: Any = getattr(raw, "value", None)
    if isinstance(value, bytes):
        return read_charset(value.decode("ascii", "replace").rstrip(" \0").split("\\"))
    return read_charset([value] if isinstance(value, str) else list(value or []))


def _keys(dataset: Dataset, charset: str | None, depth: int) -> dict[str, Key]:
    found = {}
    for tag in dataset.keys():  # noqa: SIM118  # a Dataset iterates over elements
        name = f"{tag:08X}"
        if tag.element == 0 or name == CHARSET:
            continue
        try:
            found[name] = _key(dataset, tag, name, charset, depth)
        except BadKey:
            raise
        except Exception:  # noqa: BLE001  # of pydicom, for any malformed value
            raise BadKey(name, "malformed value") from None
    return found


def _key(dataset: Dataset, tag: Any, name: str, charset: str | None, depth: int) -> Key:
    raw = dataset.get_item(tag)
    vr = _vr_of(raw, tag)
    if vr == "SQ":
        return _sequence_key(dataset[tag].value, name, charset, depth)
    value = raw.value if isinstance(raw, RawDataElement) else None
    if isinstance(raw, RawDataElement) and raw.length not in (_UNDEFINED, len(value or b"")):
        raise BadKey(name, "the value is truncated")
    if value is None or vr in _FORMATS or vr == "AT":
        texts_of = tuple(_plain_texts(vr, dataset[tag].value))
        # Some programs write 0 for an empty value, for instance dcmjs for Pregnancy Status.
        return Key(vr, texts_of if any(number != "0" for number in texts_of) else ())
    value = value.rstrip(b" \0")
    if vr in _IN_CHARSET and charset is None and not value.isascii():
        raise BadKey(CHARSET, "unknown character set")
    text = decode(value, (charset or "") if vr in _IN_CHARSET else "")
    parts = [text] if vr in _ONE_TEXT else [part.strip(" ") for part in text.split("\\")]
    return Key(vr, tuple(parts) if any(parts) else ())


def _sequence_key(items: Sequence[Dataset], name: str, charset: str | None, depth: int) -> Key:
    if len(items) > 1:
        raise BadKey(name, "more than one item")
    if not items:
        return Key("SQ")
    if depth == MAX_DEPTH:
        raise BadKey(name, "too many levels of sequences")
    (item,) = items
    return Key("SQ", (), _keys(item, _charset_of(item, charset), depth + 1))


def _plain_texts(vr: str, value: Any) -> Iterator[str]:
    if value is None or value == "":
        return
    for part in value if isinstance(value, MultiValue) else [value]:
        yield f"{int(part):08X}" if vr == "AT" else str(part)


def _vr_of(raw: Any, tag: Any) -> str:
    vr = raw.VR
    if vr is None or vr == "UN":
        try:
            vr = dictionary_VR(tag)
        except KeyError:
            return "UN"
    return str(vr)[:2]
