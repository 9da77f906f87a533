"""
Message profiles: HL7's conformance profile XML to the reference that hl7apy validates by.

Segments, groups, fields, components: usage, cardinality, data type, table, length.
Source: HL7 v2.5.1 §2.12, HL7v2xConformanceProfile.
"""

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge.validation.errors import ProfileUnusable

Reference = Mapping[str, Any]
"""Message structure (`ORM_O01`) to what hl7apy calls its reference."""

_UNBOUNDED: Final = -1


def load_profile(file: Path) -> Reference:
    """Read a profile of one or more message structures. Raises ProfileUnusable."""
    try:
        root = ET.parse(file).getroot()  # noqa: S314  # the administrator's own file
    except OSError as error:
        raise ProfileUnusable(file.name, error.strerror or "cannot be read") from None
    except ET.ParseError:
        raise ProfileUnusable(file.name, "is no XML") from None
    found = {}
    for definition in root.iter("HL7v2xStaticDef"):
        structure = definition.get("MsgStructID") or ""
        try:
            children = _Reader(structure, root.get("HL7Version") or "2.5.1").children(definition)
            found[structure] = ("sequence", children)
        except ValueError:
            raise ProfileUnusable(
                file.name, "has an unknown segment or data type, or a wrong Min, Max or Length"
            ) from None
    if not found or "" in found:
        raise ProfileUnusable(file.name, "has no HL7v2xStaticDef with a MsgStructID")
    return found


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the segments and groups of one message structure."""

    structure: str
    version: str

    def children(self, parent: ET.Element) -> tuple[Any, ...]:
        found: list[Any] = []
        for child in parent:
            name = child.get("Name", "")
            if child.tag == "Segment":
                found.append((name, self._segment(child), _cardinality(child), "SEG"))
            elif child.tag == "SegGroup":
                inside = ("sequence", self.children(child))
                prefix = f"{self.structure}_"
                group = name if name.startswith(prefix) else prefix + name
                found.append((group, inside, _cardinality(child), "GRP"))
        return tuple(found)

    def _segment(self, segment: ET.Element) -> Any:
        """Read a segment; where a profile lists none of its fields, as the version has it."""
        name = segment.get("Name", "")
        fields = tuple(
            (f"{name}_{number}", self._element(field), _cardinality(field), "FIE")
            for number, field in enumerate(segment.findall("Field"), start=1)
        )
        return ("sequence", fields) if fields else _known(name, "Segment", self.version)

    def _element(self, element: ET.Element) -> tuple[Any, ...]:
        kind = element.get("Datatype", "").upper()
        inside = self._components(element, kind)
        table = element.get("Table")
        return (
            "sequence" if inside else "leaf",
            inside or None,
            "varies" if kind == "VARIES" else kind,
            element.get("Name", "").upper().replace(" ", "_"),
            f"HL7{table}" if table else None,
            int(element.get("Length") or _UNBOUNDED),
        )

    def _components(self, parent: ET.Element, kind: str) -> Any:
        """Read components; where a profile lists none, as the data type has them."""
        listed = [*parent.findall("Component"), *parent.findall("SubComponent")]
        if not listed:
            return (
                ()
                if _is_plain(kind, self.version)
                else _known(kind, "Datatypes_Structs", self.version)
            )
        return tuple(
            (f"{kind}_{number}", self._element(each), (int(each.get("Usage") == "R"), 1), "CMP")
            for number, each in enumerate(listed, start=1)
        )


def _is_plain(kind: str, version: str) -> bool:
    from hl7apy.core import is_base_datatype  # noqa: PLC0415  # slow to load, rarely wanted

    return kind in {"", "VARIES"} or bool(is_base_datatype(kind, version))


def _known(name: str, kind: str, version: str) -> Any:
    from hl7apy import load_reference  # noqa: PLC0415  # as above
    from hl7apy.exceptions import HL7apyException  # noqa: PLC0415  # as above

    try:
        return load_reference(name, kind, version)
    except HL7apyException:
        raise ValueError("neither the profile nor the version says what this is") from None


def _cardinality(element: ET.Element) -> tuple[int, int]:
    """Give how often it has to and may stand there; usage X: never, R: at least once."""
    most = element.get("Max") or "*"
    low, high = int(element.get("Min") or 0), _UNBOUNDED if most == "*" else int(most)
    match element.get("Usage"):
        case "X":
            return 0, 0
        case "R":
            return max(1, low), high
        case _:
            return low, high
