"""Values of fields where HL7 leaves senders freedom: names of persons, explicit nulls.

Shown in the order `prefix given further family suffix`, the way a person is addressed:
`DOE^JOHN^M^JR^DR` reads `DR JOHN M DOE JR`. Case is the sender's.

Null, study UIDs, dates (`mappings.hl7.times`) and names (`mappings.hl7.values`).
"""

import re
from typing import NamedTuple

from mappings.hl7.elements import NULL, Field, Reading, Repetition, cut
from mappings.hl7.escapes import unescape
from mappings.hl7.times import Precision, Timestamp, format_moment, parse_timestamp

_NULL_OR_EMPTY = frozenset({"", '""'})
_NAME_TYPE = 7  # XPN.7, table 0200
_LEGAL = "L"


class PersonName(NamedTuple):
    """A person's name; absent and null parts are ''. `identifier` is XCN.1 / CN.1."""

    family: str = ""
    given: str = ""
    further: str = ""
    suffix: str = ""
    prefix: str = ""
    degree: str = ""
    identifier: str = ""

    @staticmethod
    def from_xpn(repetition: Repetition) -> "PersonName":
        """Read PN or XPN: family^given^further^suffix^prefix^degree."""
        return PersonName(*_parts(repetition, 6))

    @staticmethod
    def from_xcn(repetition: Repetition) -> "PersonName":
        """Read CN or XCN: identifier^family^given^further^suffix^prefix^degree."""
        identifier, *parts = _parts(repetition, 7)
        return PersonName(*parts)._replace(identifier=identifier)

    @property
    def display(self) -> str:
        """`prefix given further family suffix`; the identifier where no name was sent."""
        parts = (self.prefix, self.given, self.further, self.family, self.suffix)
        return " ".join(part for part in parts if part) or self.identifier

    @property
    def raw(self) -> str:
        """`family^given^further^suffix^prefix`, no empty ends: DICOM's PN and HL7 alike."""
        parts = (self.family, self.given, self.further, self.suffix, self.prefix)
        return "^".join(part.replace("^", " ") for part in parts).rstrip("^")


def _parts(repetition: Repetition, most: int) -> list[str]:
    """Return the first components as text; without any element made for them."""
    reading = repetition.reading
    return [
        _said(part, reading) for part in cut(repetition.raw, reading.delimiters.component)[:most]
    ]


def _said(component: str, reading: Reading) -> str:
    """Return a part as text; of a family name with subcomponents (FN) the surname, its first."""
    marks = reading.delimiters
    if marks.subcomponent and marks.subcomponent in component:
        component = component[: component.index(marks.subcomponent)]
    text = unescape(component, marks, reading.codec).strip()
    return "" if text in _NULL_OR_EMPTY else text


def preferred_name(field: Field) -> Repetition | None:
    """Return the legal name of a repeating field (type L), else the first that says anything."""
    said = [one for one in field.repetitions if any(_parts(one, 2))]
    if len(said) <= 1:
        return said[0] if said else None
    legal = (one for one in said if one.component(_NAME_TYPE).text().strip() == _LEGAL)
    return next(legal, said[0])


def xpn_display(field: Field) -> str:
    """Return PID-5 and its like for people: `JOHN M DOE`; '' when null or absent."""
    name = preferred_name(field)
    return PersonName.from_xpn(name).display if name else ""


def xpn_raw(field: Field) -> str:
    """Return PID-5 and its like in HL7's order: `DOE^JOHN^M`; '' when null or absent."""
    name = preferred_name(field)
    return PersonName.from_xpn(name).raw if name else ""


def xcn_display(repetition: Repetition) -> str:
    """Return a provider for people: `DR ANN WELBY`; the identifier where no name was sent."""
    return PersonName.from_xcn(repetition).display


__all__ = [
    "NULL",
    "PersonName",
    "Precision",
    "Timestamp",
    "format_moment",
    "is_null",
    "is_uid",
    "parse_timestamp",
    "preferred_name",
    "present",
    "xcn_display",
    "xpn_display",
    "xpn_raw",
]

_LONGEST_UID = 64
_UID = re.compile(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))+")


def is_null(text: str) -> bool:
    """Tell whether a value is `""`: delete what is stored (HL7 v2.5.1 §2.5.3)."""
    return text.strip() == NULL


def present(text: str) -> str:
    """Return the value without blanks at its ends; '' for null, as for identifiers."""
    text = text.strip()
    return "" if text == NULL else text


def is_uid(text: str) -> bool:
    """Tell whether a text has the syntax of a DICOM UID (PS3.5 §9.1); `ZDS-1` often has not."""
    return len(text) <= _LONGEST_UID and _UID.fullmatch(text) is not None
