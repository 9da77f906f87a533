"""
Encoding: text as HL7 fields. Only this module writes delimiters.

`Encoded` is text whose delimiters are structure. Only this module creates it, and segments accept
no other text, so that escaping cannot be forgotten.

A definition may write more than an old version has (OBR-44 in v2.3, the code of a race where v2.3
has one word). Fields and components that the version does not have are left out; the first value of
a composite remains.
"""

import re
from collections.abc import Sequence
from typing import NewType

from mappings.hl7.escapes import escape, transcribe, unescape
from mappings.hl7.header import STANDARD, Delimiters
from mappings.hl7.message import cut
from mappings.hl7.times import Precision, parse_timestamp
from mappings.hl7.versions import (
    COMPONENTS,
    NEWEST_VERSION,
    REPEATS,
    TIME_TYPES,
    VARIES,
    VERSIONS,
    VersionTables,
)
from mappings.language.diagnostics import Diagnostics, YamlNode

Encoded = NewType("Encoded", str)

NOTHING = Encoded("")


def plain(text: str) -> Encoded:
    """Encode a text. Line ends and control characters become escapes."""
    return Encoded(escape(text, STANDARD))


def formatted(text: str) -> Encoded:
    r"""Encode a text of several lines for TX and FT. Line ends become `\.br\`."""
    return Encoded(escape(text, STANDARD, formatted=True))


def components(parts: Sequence[Encoded]) -> Encoded:
    """Join components; empty ones at the end are dropped."""
    return _joined(parts, STANDARD.component)


def subcomponents(parts: Sequence[Encoded]) -> Encoded:
    """Join subcomponents; empty ones at the end are dropped."""
    return _joined(parts, STANDARD.subcomponent)


def repeated(parts: Sequence[Encoded]) -> Encoded:
    """Join repetitions. Empty ones are kept, because in text they are blank lines."""
    return Encoded(STANDARD.repetition.join(parts))


def segment(name: str, fields: Sequence[Encoded]) -> Encoded:
    """Join fields to a segment; `fields[0]` is field 1."""
    return _joined((Encoded(name), *fields), STANDARD.field)


def header(fields: Sequence[Encoded]) -> Encoded:
    """Join fields to MSH; `fields[0]` is MSH-3."""
    marks = Encoded(STANDARD.encoding_characters)
    return _joined((Encoded("MSH"), marks, *fields), STANDARD.field)


def message(segments: Sequence[Encoded]) -> str:
    """Join segments to a message; each segment ends with CR."""
    return "".join(f"{encoded}\r" for encoded in segments)


def _joined(parts: Sequence[Encoded], separator: str) -> Encoded:
    return Encoded(separator.join(parts).rstrip(separator))


def translate_field(
    raw: str, theirs: Delimiters, codec: str, *, kind: str, offset: int | None = None
) -> Encoded:
    """
    Convert one repetition of a sender's field to our delimiters, in the form of a data type.

    Components that the type does not have are dropped. Separators in a primitive type are escaped.
    Invalid times are dropped. A time without zone is `offset` minutes from UTC (HL7 v2.5.1 chapter
    2A, TS: the zone of MSH-7 applies); None if unknown.
    """
    if kind in TIME_TYPES:
        return _time(unescape(raw, theirs, codec), offset)
    if kind not in COMPONENTS:
        return _text(raw, theirs, codec)
    kinds = COMPONENTS[kind]
    parts = cut(raw, theirs.component)[: len(kinds)]
    return components(
        [
            _component(part, theirs, codec, component_kind, offset)
            for part, component_kind in zip(parts, kinds, strict=False)
        ]
    )


def translate_untyped(raw: str, theirs: Delimiters, codec: str) -> Encoded:
    """Convert a field of a Z segment to our delimiters, without a data type."""
    return repeated(
        [
            components(
                [
                    subcomponents(
                        [
                            Encoded(transcribe(leaf, theirs, codec))
                            for leaf in cut(part, theirs.subcomponent)
                        ]
                    )
                    for part in cut(repetition, theirs.component)
                ]
            )
            for repetition in cut(raw, theirs.repetition)
        ]
    )


def _component(raw: str, theirs: Delimiters, codec: str, kind: str, offset: int | None) -> Encoded:
    if kind in TIME_TYPES:
        return _time(unescape(raw, theirs, codec), offset)
    if kind not in COMPONENTS:
        return _text(raw, theirs, codec)
    leaves = cut(raw, theirs.subcomponent)[: len(COMPONENTS[kind])]
    return subcomponents([_text(leaf, theirs, codec) for leaf in leaves])


def _text(raw: str, theirs: Delimiters, codec: str) -> Encoded:
    """Encode a sender's text with its escapes, trimmed."""
    return Encoded(transcribe(raw.strip(), theirs, codec))


def _time(text: str, default_offset: int | None) -> Encoded:
    stamp = parse_timestamp(text)
    if stamp is None:
        return NOTHING
    zone = ""
    offset = default_offset if stamp.offset is None else stamp.offset
    if offset is not None and stamp.precision >= Precision.HOUR:
        sign, minutes = "-" if offset < 0 else "+", abs(offset)
        zone = f"{sign}{minutes // 60:02d}{minutes % 60:02d}"
    return Encoded(stamp.digits + zone)


_DIVIDED = re.compile(
    f"[{re.escape(STANDARD.repetition + STANDARD.component + STANDARD.subcomponent)}]"
)


def fit_to_version(tables: VersionTables, name: str, number: int, value: Encoded) -> Encoded:
    """
    Fit field `number` (from 1) of the segment `name` to a version.

    Segments that the version does not have are unchanged.
    """
    kinds = tables.fields.get(name)
    if kinds is None or not value:
        return value
    if number > len(kinds):
        return NOTHING
    if _DIVIDED.search(value) is None:  # an undivided value fits any type
        return value
    kind = kinds[number - 1]
    if kind.removesuffix(REPEATS) == VARIES:
        return value
    repetitions = value.split(STANDARD.repetition)
    if not kind.endswith(REPEATS):
        del repetitions[1:]
    written = [_field(tables, repetition, kind.removesuffix(REPEATS)) for repetition in repetitions]
    return Encoded(STANDARD.repetition.join(written))


def warn_if_beyond_last_field(
    name: str, number: int, node: YamlNode, diagnostics: Diagnostics
) -> None:
    """Warn about a field number that the newest version does not have."""
    kinds = VERSIONS[NEWEST_VERSION].fields.get(name)
    if kinds is not None and number > len(kinds):
        last = f"{name}-{len(kinds)}"
        message = f"there is no {name}-{number}: {name} ends with {last} in {NEWEST_VERSION}"
        diagnostics.warn(node, "field", message)


def _field(tables: VersionTables, text: str, kind: str) -> str:
    parts = text.split(STANDARD.component)
    if kind not in tables.types:
        return _first_valued(parts, STANDARD.subcomponent)
    kinds = tables.types[kind]
    fit = [
        _fitted_component(tables, part, component_kind)
        for part, component_kind in zip(parts, kinds, strict=False)
    ]
    return STANDARD.component.join(fit).rstrip(STANDARD.component)


def _fitted_component(tables: VersionTables, text: str, kind: str) -> str:
    parts = text.split(STANDARD.subcomponent)
    if kind not in tables.types:
        return _first_valued(parts, "")
    return STANDARD.subcomponent.join(parts[: len(tables.types[kind])])


def _first_valued(parts: list[str], below: str) -> str:
    """Return the first part with a value, without its own parts."""
    for part in parts:
        head = part.split(below)[0] if below else part
        if head:
            return head
    return ""
