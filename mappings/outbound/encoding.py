"""Encode text as HL7 fields: the only place where delimiters are written.

`Encoded` is text whose delimiters mean structure; nothing but this file makes it, and
segments take nothing else. So escaping cannot be forgotten.

A definition may name more than an old version knows (OBR-44 in 2.3, the code of a race where
2.3 has one word): what has no place there is left out, a word of a coded element stays.
"""

import re
from collections.abc import Sequence
from typing import NewType

from mappings.hl7.delimiters import STANDARD, Delimiters
from mappings.hl7.elements import cut
from mappings.hl7.escapes import escape, transcribe, unescape
from mappings.hl7.times import Precision, parse_timestamp
from mappings.language.diagnostics import Diagnostics, YamlNode
from mappings.outbound.hl7_versions import (
    COMPONENTS,
    NEWEST_VERSION,
    REPEATS,
    TIME_TYPES,
    VARIES,
    VERSIONS,
    VersionTables,
)

Encoded = NewType("Encoded", str)

NOTHING = Encoded("")


def plain(text: str) -> Encoded:
    """Write a text; line ends and control characters become escapes."""
    return Encoded(escape(text, STANDARD))


def formatted(text: str) -> Encoded:
    r"""Write a text of several lines for TX and FT: line ends become `\.br\`."""
    return Encoded(escape(text, STANDARD, formatted=True))


def components(parts: Sequence[Encoded]) -> Encoded:
    """Join components; empty ones at the end are left out."""
    return _joined(parts, STANDARD.component)


def subcomponents(parts: Sequence[Encoded]) -> Encoded:
    """Join subcomponents; empty ones at the end are left out."""
    return _joined(parts, STANDARD.subcomponent)


def repeated(parts: Sequence[Encoded]) -> Encoded:
    """Join repetitions; empty ones are kept: in text they are blank lines."""
    return Encoded(STANDARD.repetition.join(parts))


def segment(name: str, fields: Sequence[Encoded]) -> Encoded:
    """Write a segment; `fields[0]` is field 1."""
    return _joined((Encoded(name), *fields), STANDARD.field)


def header(fields: Sequence[Encoded]) -> Encoded:
    """Write MSH; `fields[0]` is MSH-3."""
    marks = Encoded(STANDARD.encoding_characters)
    return _joined((Encoded("MSH"), marks, *fields), STANDARD.field)


def message(segments: Sequence[Encoded]) -> str:
    """Write a message: every segment ends in CR."""
    return "".join(f"{each}\r" for each in segments)


def _joined(parts: Sequence[Encoded], separator: str) -> Encoded:
    return Encoded(separator.join(parts).rstrip(separator))


def translate_field(
    raw: str, theirs: Delimiters, codec: str, *, kind: str, offset: int | None = None
) -> Encoded:
    """
    Write one repetition of a sender's field in our delimiters, in the shape of a data type.

    Components the type does not have are dropped; separators inside a primitive were never
    meant as such and are escaped; a time that is none is left out. One that names no zone
    is `offset` minutes from UTC (HL7 v2.5.1 chapter 2A, TS: MSH-7's hold for it); None: not known.
    """
    if kind in TIME_TYPES:
        return _time(unescape(raw, theirs, codec), offset)
    if kind not in COMPONENTS:
        return _text(raw, theirs, codec)
    kinds = COMPONENTS[kind]
    parts = cut(raw, theirs.component)[: len(kinds)]
    return components(
        [
            _component(part, theirs, codec, each, offset)
            for part, each in zip(parts, kinds, strict=False)
        ]
    )


def translate_untyped(raw: str, theirs: Delimiters, codec: str) -> Encoded:
    """Write a whole field of a Z segment in our delimiters: no type limits it."""
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
    """Write a sender's text as it was escaped, without what surrounds it."""
    return Encoded(transcribe(raw.strip(), theirs, codec))


def _time(text: str, default: int | None) -> Encoded:
    """Write a time in HL7's own digits, with its zone when it or its message named one."""
    stamp = parse_timestamp(text)
    if stamp is None:
        return NOTHING
    zone = ""
    offset = default if stamp.offset is None else stamp.offset
    if offset is not None and stamp.precision >= Precision.HOUR:
        sign, minutes = "-" if offset < 0 else "+", abs(offset)
        zone = f"{sign}{minutes // 60:02d}{minutes % 60:02d}"
    return Encoded(stamp.digits + zone)


_DIVIDED = re.compile(
    f"[{re.escape(STANDARD.repetition + STANDARD.component + STANDARD.subcomponent)}]"
)


def fit_to_version(shape: VersionTables, segment: str, number: int, value: Encoded) -> Encoded:
    """Fit one field; `number` counts from 1. Segments the shape does not know stay as they are."""
    kinds = shape.fields.get(segment)
    if kinds is None or not value:
        return value
    if number > len(kinds):
        return NOTHING
    if _DIVIDED.search(value) is None:  # one word has its place in any type
        return value
    kind = kinds[number - 1]
    if kind.removesuffix(REPEATS) == VARIES:
        return value
    repetitions = value.split(STANDARD.repetition)
    if not kind.endswith(REPEATS):
        del repetitions[1:]
    written = [_field(shape, each, kind.removesuffix(REPEATS)) for each in repetitions]
    return Encoded(STANDARD.repetition.join(written))


def warn_if_beyond_last_field(
    segment: str, number: int, node: YamlNode, diagnostics: Diagnostics
) -> None:
    """Warn of a field that no version has: nothing is written there, or nobody looks for it."""
    kinds = VERSIONS[NEWEST_VERSION].fields.get(segment)
    if kinds is not None and number > len(kinds):
        last = f"{segment}-{len(kinds)}"
        message = f"there is no {segment}-{number}: {segment} ends with {last} in {NEWEST_VERSION}"
        diagnostics.warn(node, "field", message)


def _field(shape: VersionTables, text: str, kind: str) -> str:
    parts = text.split(STANDARD.component)
    if kind not in shape.types:
        return _first_valued(parts, STANDARD.subcomponent)
    kinds = shape.types[kind]
    fit = [_fitted_component(shape, part, each) for part, each in zip(parts, kinds, strict=False)]
    return STANDARD.component.join(fit).rstrip(STANDARD.component)


def _fitted_component(shape: VersionTables, text: str, kind: str) -> str:
    parts = text.split(STANDARD.subcomponent)
    if kind not in shape.types:
        return _first_valued(parts, "")
    return STANDARD.subcomponent.join(parts[: len(shape.types[kind])])


def _first_valued(parts: list[str], below: str) -> str:
    """Give the first part that says something, without what it is divided into."""
    for part in parts:
        head = part.split(below)[0] if below else part
        if head:
            return head
    return ""
