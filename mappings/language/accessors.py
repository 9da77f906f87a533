"""Accessors: paths compiled to functions that read a value from a scope.

A value is the text of the first repetition, unescaped, its ends trimmed; "" when absent and
`""` (two quotation marks) when the sender wrote the HL7 null. A path without component
gives the whole repetition as text, so that an `&` or `^` nobody escaped survives.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mappings.hl7.delimiters import Delimiters
from mappings.hl7.escapes import unescape
from mappings.hl7.path import EVERY, InvalidPath, Path, RepetitionFilter
from mappings.language.diagnostics import Diagnostics, YamlNode, nearest
from mappings.language.scope import MessageScope, MessageSetting

NULL = '""'
"""The HL7 null: delete what is stored (HL7 v2.5.1 §2.5.3)."""

Getter = Callable[[MessageScope], str]
Many = Callable[[MessageScope], list[str]]
Narrow = Callable[[str, Delimiters], str]

_STANDARD_SEGMENTS = """
    MSH SFT NTE PID PD1 ARV NK1 PV1 PV2 IN1 IN2 IN3 GT1 AL1 IAM ORC OBR OBX TQ1 TQ2 DG1 PRT
    CTD FT1 CTI BLG IPC SPM SAC RQD RQ1 RXO ODS ODT EVN MRG ACC UB1 UB2 DRG PR1 ROL PDA DB1
    TXA CON RXR RXC PRD PTH VAR GOL PRB SCH AIS AIG AIL AIP RGS OVR UAC MSA ERR
"""
SEGMENTS = frozenset(_STANDARD_SEGMENTS.split())
"""What a path may begin with, beside Z segments."""

_LIKE_A_PATH = re.compile(r"([A-Z][A-Z0-9]{2}|[A-Z]{2,4})(\[[\d*]+\])?((?:[-._ :]*\d+)*)[-._ :]*$")
_LAST_DELIMITER_FIELD = 2  # MSH-1 and MSH-2 are delimiters, not delimited


@dataclass(frozen=True, slots=True)
class Place:
    """A parsed path with what its file knows about it."""

    path: Path
    text: str


def parse_path(text: str, node: YamlNode, notebook: Diagnostics) -> Place | None:
    """Parse a path with a field; None (with an issue) when it is none."""
    try:
        path = Path.parse(text)
    except InvalidPath:
        notebook.error(node, "path", f"{text!r} is not a place such as PID-3.1{_meant(text)}")
        return None
    if not path.segment or not path.field:
        notebook.error(node, "path", f"{text!r} names no field; write it as PID-3.1")
        return None
    if path.segment not in SEGMENTS and not path.segment.startswith("Z"):
        notebook.error(node, "path", f"there is no segment {path.segment}{_meant(text)}")
        return None
    return Place(path, text)


def _meant(text: str) -> str:
    """Suggest the place that was probably meant: PDI-3, pid3.1 and PID-3-1 are slips."""
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


def compile_path(text: str, node: YamlNode, notebook: Diagnostics, *, raw: bool = False) -> Getter:
    """Compile a path to one value; `raw` leaves escapes and delimiters inside it alone."""
    place = parse_path(text, node, notebook)
    if place is None:
        return lambda scope: ""
    return _picking(place.path, raw=raw) if place.path.matches else _first(place.path, raw=raw)


def compile_all(paths: Sequence[Path], *, after: str = "", raw: bool = False) -> Many:
    """
    Compile to every value: all segments of the kind, all repetitions.

    Several paths into one field are tried in turn for each repetition.
    """
    segment, number = paths[0].segment, paths[0].field
    key = f"{after}>{segment}" if after else segment
    narrows = [(narrowing(path), path.matches) for path in paths]

    def one(repetition: str, scope: MessageScope) -> str:
        for narrow, matches in narrows:
            if matches and not matching(repetition, matches, scope.delimiters):
                continue
            if value := finish(narrow(repetition, scope.delimiters), scope, raw=raw):
                return value
        return ""

    def many(scope: MessageScope) -> list[str]:
        values: list[str] = []
        places = scope.every(key)
        if not places:
            return values
        separator, known = scope.delimiters.repetition, scope.fields
        for place in places:
            fields = known[place] or scope.split(place)
            if number >= len(fields) or not (text := fields[number]):
                continue
            if separator and separator in text:
                values += [one(repetition, scope) for repetition in text.split(separator)]
            else:
                values.append(one(text, scope))
        return values

    return many


def _first(path: Path, *, raw: bool) -> Getter:
    if max(path.occurrence, 1) == 1 and not raw and (path.repetition or 1) == 1:
        return _of_first(path)
    segment, number, wanted = path.segment, path.field, (path.repetition or 1) - 1
    index = max(path.occurrence, 1) - 1 if path.occurrence != EVERY else 0
    narrow = narrowing(path)
    repeats = _repeats(path)
    if raw and not path.component and path.repetition is None:
        repeats = False  # whoever reads the field itself chooses among its repetitions

    def get(scope: MessageScope) -> str:
        text = _field(scope, segment, index, number)
        if not text:
            return ""
        delimiters = scope.delimiters
        if repeats and delimiters.repetition and delimiters.repetition in text:
            parts = text.split(delimiters.repetition)
            text = parts[wanted] if len(parts) > wanted else ""
        elif wanted:
            return ""
        text = narrow(text, delimiters)
        if delimiters.escape in text:
            return finish(text, scope, raw=raw)
        return text.strip()  # nearly always

    return get


def _field(scope: MessageScope, segment: str, index: int, number: int) -> str:
    """Return a field of the n-th segment of a name, as sent."""
    places = scope.rows(segment)
    if len(places) <= index:
        return ""
    fields = scope.split(places[index])
    return fields[number] if number < len(fields) else ""


def _repeats(path: Path) -> bool:
    """MSH-1 and MSH-2 are delimiters, and are not split at them."""
    return path.segment != "MSH" or path.field > _LAST_DELIMITER_FIELD


def _of_first(path: Path) -> Getter:
    """Read the first repetition in the first segment of its kind: what nearly every path asks."""
    segment, number, repeats = path.segment, path.field, _repeats(path)
    component, subcomponent = path.component, path.subcomponent

    def get(scope: MessageScope) -> str:
        places = scope.filed.get(segment) or scope.beyond.get(segment)
        if not places:
            return ""
        fields = scope.fields[places[0]] or scope.split(places[0])
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
            text = _part(text, subcomponent, marks.subcomponent)
        if (mark := marks.escape) and mark in text:
            return finish(text, scope, raw=False)
        return text.strip()

    return get


def _picking(path: Path, *, raw: bool) -> Getter:
    narrow, segment, number, matches = narrowing(path), path.segment, path.field, path.matches
    index = max(path.occurrence, 1) - 1

    def get(scope: MessageScope) -> str:
        text = _field(scope, segment, index, number)
        return picked(text, matches, narrow, scope, raw=raw) if text else ""

    return get


def picked(
    text: str,
    matches: tuple[RepetitionFilter, ...],
    narrow: Narrow,
    setting: MessageSetting,
    *,
    raw: bool,
) -> str:
    """Take the first repetition that meets all conditions and has a value."""
    delimiters = setting.delimiters
    wanted = matches[0].value
    for repetition in repetitions(text, delimiters):
        if wanted in repetition and matching(repetition, matches, delimiters):
            value = finish(narrow(repetition, delimiters), setting, raw=raw)
            if value:
                return value
    return ""


def repetitions(text: str, delimiters: Delimiters) -> list[str]:
    """Split a field at the repetition separator, where one is declared."""
    return text.split(delimiters.repetition) if delimiters.repetition else [text]


def matching(
    repetition: str, matches: tuple[RepetitionFilter, ...], delimiters: Delimiters
) -> bool:
    """Say whether a repetition meets all conditions of a pick."""
    for match in matches:
        said = _part(repetition, match.component, delimiters.component)
        if match.subcomponent:
            said = _part(said, match.subcomponent, delimiters.subcomponent)
        if said.strip() != match.value:
            return False
    return True


def narrowed(text: str, component: int, subcomponent: int, delimiters: Delimiters) -> str:
    """Narrow a repetition down to a component and a subcomponent; 0 takes the whole."""
    if component:
        text = _part(text, component, delimiters.component)
    return _part(text, subcomponent, delimiters.subcomponent) if subcomponent else text


def _part(text: str, number: int, separator: str) -> str:
    """Take a part; a separator that was not declared separates nothing."""
    if not separator or separator not in text:
        return text if number == 1 else ""
    parts = text.split(separator, number)
    return parts[number - 1] if len(parts) >= number else ""


def narrowing(path: Path) -> Narrow:
    """Compile what narrows a repetition down to what a path names."""
    component, subcomponent = path.component, path.subcomponent
    if not component:
        return whole
    if not subcomponent:
        return lambda text, delimiters: _part(text, component, delimiters.component)
    return lambda text, delimiters: narrowed(text, component, subcomponent, delimiters)


def whole(text: str, delimiters: Delimiters) -> str:
    """Take all of a repetition, unless it is nothing but separators (`^^^`)."""
    if text[:1].isalnum():  # nearly always
        return text
    separators = delimiters.component + delimiters.subcomponent
    return text if text.strip(separators + " ") else ""


def finish(text: str, setting: MessageSetting, *, raw: bool) -> str:
    """Unescape and trim."""
    escape = setting.delimiters.escape
    if not raw and escape and escape in text:
        text = unescape(text, setting.delimiters, setting.encoding)
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.strip()
