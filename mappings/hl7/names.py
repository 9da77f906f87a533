"""
Names: PN (2.2), XPN, CN and XCN in one form, for reading and for showing.

Shown in the order `prefix given further family suffix`, the way a person is addressed:
`DOE^JOHN^M^JR^DR` reads `DR JOHN M DOE JR`. Case is the sender's.
"""

from typing import NamedTuple

from mappings.hl7.elements import Field, Reading, Repetition, cut
from mappings.hl7.escapes import unescape

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
