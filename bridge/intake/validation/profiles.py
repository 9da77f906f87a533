"""Message profiles: HL7 conformance profile XML as hl7apy's reference structures.

Segments, groups, fields, components: usage, cardinality, data type, table, length.
Source: HL7 v2.5.1 §2.12, HL7v2xConformanceProfile.

* ProfileUnusable   the file cannot be read, or is not an HL7 v2 conformance profile
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge.errors import BridgeError
from mappings.hl7.dictionary import nearest
from parsers.limits import DocumentRefused
from parsers.readers import read_xml


class ProfileUnusable(BridgeError):
    """A message profile cannot be used; `reason` never quotes the file."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"profile {file}: {reason}")


Reference = Mapping[str, Any]
"""Message structure (`ORM_O01`) to hl7apy's reference."""

_UNBOUNDED: Final = -1
_NEVER: Final = (0, 0)
_USAGE: Final = re.compile(r"R|RE|O|C|CE|B|W|X|IX|C\(\w+/\w+\)|")
"""Usage codes of HL7 v2.5.1 §2.12 and of later versions, where a condition has two outcomes."""


def load_profile(file: Path) -> Reference:
    """Read a profile of one or more message structures. Raises ProfileUnusable."""
    try:
        root = read_xml(file.read_bytes())
    except OSError as error:
        raise ProfileUnusable(file.name, error.strerror or "cannot be read") from None
    except DocumentRefused as refused:
        raise ProfileUnusable(file.name, refused.reason) from None
    found = {}
    version = nearest(root.get("HL7Version") or "2.5.1")
    for definition in root.iter("HL7v2xStaticDef"):
        structure = definition.get("MsgStructID") or ""
        try:
            found[structure] = ("sequence", _ProfileReader(structure, version).children(definition))
        except ValueError:
            raise ProfileUnusable(
                file.name,
                "has an unknown segment or data type, or a wrong Usage, Min, Max or Length",
            ) from None
        if [segment[0] for segment in found[structure][1][:1]] != ["MSH"]:
            raise ProfileUnusable(file.name, "has a structure that does not begin with MSH")
    if not found or "" in found:
        raise ProfileUnusable(file.name, "has no HL7v2xStaticDef with a MsgStructID")
    return found


@dataclass(frozen=True, slots=True)
class _ProfileReader:
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
        """Read a segment; if the profile lists no fields, those of the HL7 version apply."""
        name = segment.get("Name", "")
        fields = tuple(
            (f"{name}_{number}", self._element(field), _cardinality(field), "FIE")
            for number, field in enumerate(segment.findall("Field"), start=1)
        )
        if not fields:
            return _known(name, "Segment", self.version)
        return ("sequence", (*fields, *self._unlisted(name, "Segment", len(fields))))

    def _element(self, element: ET.Element) -> tuple[Any, ...]:
        kind = element.get("Datatype", "").upper()
        components = self._components(element, kind)
        table = element.get("Table")
        return (
            "sequence" if components else "leaf",
            components or None,
            "varies" if kind == "VARIES" else kind,
            element.get("Name", "").upper().replace(" ", "_"),
            f"HL7{table}" if table else None,
            int(element.get("Length") or _UNBOUNDED),
        )

    def _components(self, parent: ET.Element, kind: str) -> Any:
        """Read components; if the profile lists none, those of the data type apply."""
        listed = [*parent.findall("Component"), *parent.findall("SubComponent")]
        if not listed:
            return (
                ()
                if _is_plain(kind, self.version)
                else _known(kind, "Datatypes_Structs", self.version)
            )
        components = tuple(
            (f"{kind}_{number}", self._element(component), _usage(component), "CMP")
            for number, component in enumerate(listed, start=1)
        )
        return (*components, *self._unlisted(kind, "Datatypes_Structs", len(components)))

    def _unlisted(self, name: str, kind: str, listed: int) -> tuple[Any, ...]:
        """Return the version's elements after the profile's last one: they are not allowed."""
        try:
            known = _known(name, kind, self.version)
        except ValueError:  # a Z segment or a local data type
            return ()
        children = known[1] if kind == "Segment" else known
        return tuple((child[0], child[1], _NEVER, child[3]) for child in children[listed:])


def _is_plain(kind: str, version: str) -> bool:
    from hl7apy.core import is_base_datatype  # noqa: PLC0415  # slow to load, rarely wanted

    return kind in {"", "VARIES"} or bool(is_base_datatype(kind, version))


def _known(name: str, kind: str, version: str) -> Any:
    from hl7apy import load_reference  # noqa: PLC0415  # as above
    from hl7apy.exceptions import HL7apyException  # noqa: PLC0415  # as above

    try:
        return load_reference(name, kind, version)
    except HL7apyException:
        raise ValueError("unknown to the profile and to the version") from None


def _usage(component: ET.Element) -> tuple[int, int]:
    usage = _checked_usage(component)
    return _NEVER if usage == "X" else (int(usage == "R"), 1)


def _checked_usage(element: ET.Element) -> str:
    usage = element.get("Usage", "")
    if not _USAGE.fullmatch(usage):
        raise ValueError("no usage")
    return usage


def _cardinality(element: ET.Element) -> tuple[int, int]:
    """Return minimum and maximum; usage X: never, R: at least once."""
    limit = element.get("Max") or "*"
    low, high = int(element.get("Min") or 0), _UNBOUNDED if limit == "*" else int(limit)
    match _checked_usage(element):
        case "X":
            return _NEVER
        case "R":
            return max(1, low), high
        case _:
            return low, high
