"""
The content tree of a structured report as lines of text and as measurements.

Any template is read the same way: containers are headings, leaves are `name: value`,
indented by depth (DICOM PS3.3 §C.17.3). References to images, coordinates and identifiers,
and who observed, say nothing to a reader of text and are left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydicom.dataset import Dataset

from bridge.engine.documents.errors import BadStructuredReport, SrFault
from bridge.engine.documents.sr_tags import code_of, text_of

INDENT = "  "
OBSERVER_CONTEXT = "HAS OBS CONTEXT"
NO_UNITS = frozenset({"1", "{no units}"})
LANGUAGE_CODES = frozenset({"121049", "121046"})  # language of content item, country of language
DATE_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Measurement:
    """One NUM item: `path` is the headings above it, `qualifiers` what its children say."""

    name: str
    value: str
    unit: str
    path: tuple[str, ...]
    qualifiers: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Content:
    """What a walk has collected."""

    lines: list[str] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)


def concept(item: Dataset) -> str:
    """Return the name of an item: the meaning of its concept name code."""
    for name in item.get("ConceptNameCodeSequence") or []:
        value, meaning = code_of(name)
        return meaning or value
    return ""


def _coded(item: Dataset) -> str:
    for code in item.get("ConceptCodeSequence") or []:
        value, meaning = code_of(code)
        return meaning or value
    return ""


def _unit(measured: Dataset) -> str:
    for code in measured.get("MeasurementUnitsCodeSequence") or []:
        value, meaning = code_of(code)
        if value in NO_UNITS:
            return ""
        return meaning if value.startswith("{") and meaning else value
    return ""


def _number(item: Dataset) -> tuple[str, str]:
    """Return value and unit; without a value, the reason why there is none."""
    for measured in item.get("MeasuredValueSequence") or []:
        if value := text_of(measured.get("NumericValue")):
            return value, _unit(measured)
    for code in item.get("NumericValueQualifierCodeSequence") or []:
        return code_of(code)[1], ""
    return "", ""


def _date(item: Dataset) -> str:
    """Write a DICOM date as ISO 8601, anything else as it stands."""
    raw = text_of(item.get("Date"))
    if len(raw) == DATE_DIGITS and raw.isdigit():
        return f"{raw[:4]}-{raw[4:6]}-{raw[6:]}"
    return raw


VALUES: Mapping[str, Callable[[Dataset], str]] = {
    "TEXT": lambda item: text_of(item.get("TextValue")),
    "CODE": _coded,
    "NUM": lambda item: " ".join(part for part in _number(item) if part),
    "PNAME": lambda item: text_of(item.get("PersonName")),
    "DATE": _date,
    "TIME": lambda item: text_of(item.get("Time")),
    "DATETIME": lambda item: text_of(item.get("DateTime")),
}
"""How the value of a leaf reads, by its value type; other types have no text."""


def walk(root: Dataset, max_depth: int) -> Content:
    """Collect lines and measurements below `root`; raise when nested deeper than allowed."""
    content = Content()
    _walk_children(root, (), content, max_depth)
    return content


def _walk_children(
    parent: Dataset, path: tuple[str, ...], content: Content, levels_left: int
) -> None:
    children = parent.get("ContentSequence") or []
    if children and levels_left <= 0:
        raise BadStructuredReport(SrFault.TOO_DEEP)
    for item in children:
        _walk_item(item, path, content, levels_left)


def _walk_item(item: Dataset, path: tuple[str, ...], content: Content, levels_left: int) -> None:
    if _left_out(item):
        return
    name, kind = concept(item), text_of(item.get("ValueType")).upper()
    if kind == "CONTAINER":
        before = len(content.lines)
        inner = (*path, name) if name else path
        _walk_children(item, inner, content, levels_left - 1)
        if name and len(content.lines) > before:  # a heading with nothing below says nothing
            content.lines.insert(before, INDENT * len(path) + name)
        return
    reader = VALUES.get(kind)
    if reader is not None and (value := reader(item)):
        content.lines.extend(_lines(name, value, len(path)))
        if kind == "NUM":
            content.measurements.append(_measurement(item, name, path))
    _walk_children(item, (*path, name), content, levels_left - 1)


def _left_out(item: Dataset) -> bool:
    if text_of(item.get("RelationshipType")).upper() == OBSERVER_CONTEXT:
        return True
    names = item.get("ConceptNameCodeSequence") or []
    return any(code_of(name)[0] in LANGUAGE_CODES for name in names)


def _lines(name: str, value: str, depth: int) -> list[str]:
    """Write one item; further lines of a long text keep the indent of the first."""
    first, *others = value.splitlines() or [""]
    label = f"{name}: " if name else ""
    indent = INDENT * depth
    return [f"{indent}{label}{first}", *(indent + line for line in others)]


def _measurement(item: Dataset, name: str, path: tuple[str, ...]) -> Measurement:
    value, unit = _number(item)
    qualifiers = tuple(
        (concept(child), VALUES["CODE"](child))
        for child in item.get("ContentSequence") or []
        if VALUES["CODE"](child)
    )
    return Measurement(name, value, unit, path, qualifiers)
