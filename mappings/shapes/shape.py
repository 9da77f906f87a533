"""
What a version of HL7 v2 lets stand where: field types by segment, component types by type.

Read from the tables beside this file. Not a validator: see `mappings.outbound.encoding` for the
use.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mappings.shapes import v2_3, v2_3_1, v2_4, v2_5_1

REPEATS = "*"
VARIES = "varies"


@dataclass(frozen=True, slots=True)
class Shape:
    """One version. `fields["PID"][2]` is the type of PID-3, a star behind what repeats."""

    fields: Mapping[str, tuple[str, ...]]
    types: Mapping[str, tuple[str, ...]]
    """The component types of every composite; a type that is not listed has none."""


def _read(table: str) -> dict[str, tuple[str, ...]]:
    """Read `NAME: type type …`, continued by lines without a name."""
    found: dict[str, tuple[str, ...]] = {}
    name = ""
    for line in table.strip().splitlines():
        head, colon, kinds = line.partition(":")
        if colon:
            name = head.strip()
            found[name] = ()
        found[name] += tuple((kinds if colon else line).split())
    return found


SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        version: Shape(_read(table.FIELDS), _read(table.TYPES))
        for version, table in {
            "2.3": v2_3,
            "2.3.1": v2_3_1,
            "2.4": v2_4,
            "2.5.1": v2_5_1,
        }.items()
    }
)
"""The versions that results can be written in."""
