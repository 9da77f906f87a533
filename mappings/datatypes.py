"""
The data types that definitions name: `{echo: PID-3, type: CX}`.

Enough to keep a sender's extra components, subcomponents and repetitions from making our
message invalid. Not a validator. The shapes are those of HL7 v2.5.1 (chapter 2A).
"""

from collections.abc import Mapping

from mappings.shapes.shape import SHAPES

TIMES = frozenset({"TS", "DT", "DTM"})

COMPONENTS: Mapping[str, tuple[str, ...]] = {
    name: kinds for name, kinds in SHAPES["2.5.1"].types.items() if name not in TIMES
}
"""The component types of every composite; a type that is not listed has none."""

NAMES = frozenset({*COMPONENTS, *TIMES, "ST", "IS", "ID", "TX", "FT", "NM"})
