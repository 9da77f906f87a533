"""
Accessors: paths compiled to functions that read a value from a scope.

A value is the text of the first repetition, unescaped and trimmed. It is "" if the field is absent,
and `""` (two quotation marks) if the field is an HL7 null. A path without component returns the
whole repetition, so that an unescaped `&` or `^` is kept.
"""

import re
from collections.abc import Callable, Sequence

from mappings.hl7.escapes import unescape
from mappings.hl7.header import Delimiters
from mappings.hl7.message import cut, pick
from mappings.hl7.path import EVERY, InvalidPath, Path, RepetitionFilter
from mappings.hl7.versions import NEWEST_VERSION, VERSIONS
from mappings.language.diagnostics import Diagnostics, YamlNode, nearest
from mappings.language.scope import MessageScope

Getter = Callable[[MessageScope], str]
Many = Callable[[MessageScope], list[str]]
Narrow = Callable[[str, Delimiters], str]

_STANDARD_SEGMENTS = """
    MSH SFT NTE PID PD1 ARV NK1 PV1 PV2 IN1 IN2 IN3 GT1 AL1 IAM ORC OBR OBX TQ1 TQ2 DG1 PRT
    CTD FT1 CTI BLG IPC SPM SAC RQD RQ1 RXO ODS ODT EVN MRG ACC UB1 UB2 DRG PR1 ROL PDA DB1
    TXA CON RXR RXC PRD PTH VAR GOL PRB SCH AIS AIG AIL AIP RGS OVR UAC MSA ERR
"""
SEGMENTS = frozenset(_STANDARD_SEGMENTS.split())
"""The segments that a path may name, besides Z segments."""

_LIKE_A_PATH = re.compile(r"([A-Z][A-Z0-9]{2}|[A-Z]{2,4})(\[[\d*]+\])?((?:[-._ :]*\d+)*)[-._ :]*$")
_LAST_DELIMITER_FIELD = 2  # MSH-1 and MSH-2 contain the delimiters


def parse_path(text: str, node: YamlNode, diagnostics: Diagnostics) -> Path | None:
    """Parse a path with a field. Reports an issue and returns None if it is invalid."""
    try:
        path = Path.parse(text)
    except InvalidPath:
        diagnostics.error(node, "path", f"{text!r} is not a place such as PID-3.1{_meant(text)}")
        return None
    if not path.segment or not path.field:
        diagnostics.error(node, "path", f"{text!r} names no field; write it as PID-3.1")
        return None
    if path.segment not in SEGMENTS and not path.segment.startswith("Z"):
        diagnostics.error(node, "path", f"there is no segment {path.segment}{_meant(text)}")
        return None
    _warn_of_unknown_field(path, node, diagnostics)
    return path


def _warn_of_unknown_field(path: Path, node: YamlNode, diagnostics: Diagnostics) -> None:
    """Warn of a field beyond the last one of its segment: only some senders have such fields."""
    last = len(VERSIONS[NEWEST_VERSION].fields.get(path.segment, ()))
    if last and path.field > last:
        text = f"the last field in HL7 v{NEWEST_VERSION} is {path.segment}-{last}"
        diagnostics.warn(node, "field", text)


def _meant(text: str) -> str:
    """Return a suggestion for a misspelled path, such as PDI-3, pid3.1 and PID-3-1."""
    found = _LIKE_A_PATH.match(text.strip().upper())
    if found is None:
        return ""
    segment, occurrence, numbers = found[1], found[2] or "", re.findall(r"\d+", found[3])
    if segment not in SEGMENTS and not segment.startswith("Z"):
        close = nearest(segment, SEGMENTS)
        if not close:
            return ""
        segment = close
    place = f"{segment}{occurrence}-{'.'.join(numbers)}" if numbers else segment
    return "" if place == text else f"; did you mean {place!r}?"


def compile_path(
    text: str, node: YamlNode, diagnostics: Diagnostics, *, raw: bool = False
) -> Getter:
    """Compile a path to a function of one value; `raw` keeps escapes and delimiters."""
    path = parse_path(text, node, diagnostics)
    if path is None:
        return lambda scope: ""
    return _filtered(path, raw=raw) if path.filters else _nth(path, raw=raw)


def compile_all(paths: Sequence[Path], *, after: str = "", raw: bool = False) -> Many:
    """
    Compile paths to a function of all values: all segments with the name, and all repetitions.

    Several paths into the same field are tried in turn for each repetition. `after` is the segment
    that must precede.
    """
    segment, number = paths[0].segment, paths[0].field
    key = f"{after}>{segment}" if after else segment
    narrows = [(narrowing(path), path.filters) for path in paths]

    def one(repetition: str, scope: MessageScope) -> str:
        for narrow, filters in narrows:
            if filters and not passes_filters(repetition, filters, scope):
                continue
            if value := finish(narrow(repetition, scope.delimiters), scope, raw=raw):
                return value
        return ""

    def many(scope: MessageScope) -> list[str]:
        values: list[str] = []
        positions = scope.all_positions(key)
        if not positions:
            return values
        separator, known = scope.delimiters.repetition, scope.fields
        for position in positions:
            fields = known[position] or scope.split(position)
            if number >= len(fields) or not (text := fields[number]):
                continue
            if separator and separator in text:
                values += [one(repetition, scope) for repetition in text.split(separator)]
            else:
                values.append(one(text, scope))
        return values

    return many


def _nth(path: Path, *, raw: bool) -> Getter:
    """Compile a path without filters: the n-th segment, and its n-th repetition."""
    if max(path.occurrence, 1) == 1 and not raw and (path.repetition or 1) == 1:
        return _of_first(path)
    segment, number, skipped = path.segment, path.field, (path.repetition or 1) - 1
    index = max(path.occurrence, 1) - 1 if path.occurrence != EVERY else 0
    narrow = narrowing(path)
    repeats = _repeats(path)
    if raw and not path.component and path.repetition is None:
        repeats = False  # a raw transform selects the repetition itself

    def get(scope: MessageScope) -> str:
        text = _field(scope, segment, index, number)
        if not text:
            return ""
        delimiters = scope.delimiters
        if repeats and delimiters.repetition and delimiters.repetition in text:
            parts = text.split(delimiters.repetition)
            text = parts[skipped] if len(parts) > skipped else ""
        elif skipped:
            return ""
        text = narrow(text, delimiters)
        if delimiters.escape in text:
            return finish(text, scope, raw=raw)
        return text.strip()  # the usual case

    return get


def _field(scope: MessageScope, segment: str, index: int, number: int) -> str:
    positions = scope.visible_positions(segment)
    if len(positions) <= index:
        return ""
    fields = scope.split(positions[index])
    return fields[number] if number < len(fields) else ""


def _repeats(path: Path) -> bool:
    """True if a field is split into repetitions. MSH-1 and MSH-2 contain the delimiters."""
    return path.segment != "MSH" or path.field > _LAST_DELIMITER_FIELD


def _of_first(path: Path) -> Getter:
    """Read the first repetition in the first segment of a name. Most paths are of this kind."""
    segment, number, repeats = path.segment, path.field, _repeats(path)
    component, subcomponent = path.component, path.subcomponent

    def get(scope: MessageScope) -> str:
        positions = scope.lookup.get(segment) or scope.fallback.get(segment)
        if not positions:
            return ""
        fields = scope.fields[positions[0]] or scope.split(positions[0])
        if number >= len(fields) or not (text := fields[number]):
            return ""
        marks = scope.delimiters
        if repeats and (mark := marks.repetition) and mark in text:
            text = text[: text.index(mark)]
        if not component:
            text = whole(text, marks)
        elif (mark := marks.component) and mark in text:
            parts = text.split(mark, component)
            text = parts[component - 1] if component <= len(parts) else ""
        elif component > 1:
            return ""
        if subcomponent:
            text = pick(text, marks.subcomponent, subcomponent)
        if (mark := marks.escape) and mark in text:
            return finish(text, scope, raw=False)
        return text.strip()

    return get


def _filtered(path: Path, *, raw: bool) -> Getter:
    """Compile a path with filters."""
    narrow, segment, number, filters = narrowing(path), path.segment, path.field, path.filters
    index = max(path.occurrence, 1) - 1

    def get(scope: MessageScope) -> str:
        text = _field(scope, segment, index, number)
        return first_match(text, filters, narrow, scope, raw=raw) if text else ""

    return get


def first_match(
    text: str,
    filters: tuple[RepetitionFilter, ...],
    narrow: Narrow,
    scope: MessageScope,
    *,
    raw: bool,
) -> str:
    """Return the first value among the repetitions that pass all filters."""
    delimiters = scope.delimiters
    for repetition in cut(text, delimiters.repetition):
        if passes_filters(repetition, filters, scope):
            value = finish(narrow(repetition, delimiters), scope, raw=raw)
            if value:
                return value
    return ""


def passes_filters(
    repetition: str, filters: tuple[RepetitionFilter, ...], scope: MessageScope
) -> bool:
    """True if a repetition passes all filters. They compare unescaped values."""
    delimiters = scope.delimiters
    for repetition_filter in filters:
        value = pick(repetition, delimiters.component, repetition_filter.component)
        if repetition_filter.subcomponent:
            value = pick(value, delimiters.subcomponent, repetition_filter.subcomponent)
        if finish(value, scope, raw=False) != repetition_filter.value:
            return False
    return True


def narrowed(text: str, component: int, subcomponent: int, delimiters: Delimiters) -> str:
    """Return a component or subcomponent of a repetition; 0 means the whole."""
    if component:
        text = pick(text, delimiters.component, component)
    return pick(text, delimiters.subcomponent, subcomponent) if subcomponent else text


def narrowing(path: Path) -> Narrow:
    """Compile a function that returns what a path names in a repetition."""
    component, subcomponent = path.component, path.subcomponent
    if not component:
        return whole
    if not subcomponent:
        return lambda text, delimiters: pick(text, delimiters.component, component)
    return lambda text, delimiters: narrowed(text, component, subcomponent, delimiters)


def whole(text: str, delimiters: Delimiters) -> str:
    """Return a repetition, or "" if it consists of separators (`^^^`)."""
    if text[:1].isalnum():  # the usual case
        return text
    separators = delimiters.component + delimiters.subcomponent
    return text if text.strip(separators + " ") else ""


def finish(text: str, scope: MessageScope, *, raw: bool) -> str:
    """Unescape and trim a value."""
    escape = scope.delimiters.escape
    if not raw and escape and escape in text:
        text = unescape(text, scope.delimiters, scope.encoding)
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.strip()
