"""
The content tree of a structured report as lines of text and as measurements.

Any template is read the same way: containers are headings, leaves are `name: value`,
indented by depth (DICOM PS3.3 §C.17.3). References to images, coordinates and UIDs, and who
observed, say nothing to a reader of text and are left out. A tracking identifier is kept: it
tells which lesion a group of measurements is about.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydicom.dataset import Dataset

from bridge.engine.documents.errors import BadStructuredReport, SrFault
from bridge.engine.documents.sr_tags import code_of, text_of
from bridge.engine.documents.wording import clock, day_and_time, person_name
from parsers.limits import STRUCTURED_REPORT_ELEMENTS

INDENT = "  "
OBSERVER_CONTEXT = "HAS OBS CONTEXT"
NO_UNITS = frozenset({"1", "{no units}"})
LANGUAGE_CODES = frozenset({"121049", "121046"})  # language of content item, country of language
TRACKING_CODE, TRACKING_NAME = "112039", "tracking identifier"


@dataclass(frozen=True, slots=True)
class Measurement:
    """
    One NUM item: `path` is the headings above it, `qualifiers` what its children say.

    `tracking` is the identifier of what was measured, such as `Lesion 1`.
    """

    name: str
    value: str
    unit: str
    path: tuple[str, ...]
    qualifiers: tuple[tuple[str, str], ...]
    tracking: str = ""


@dataclass(slots=True)
class Content:
    """What a walk has collected."""

    lines: list[str] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    elements: int = 0
    """Elements of the items that were visited."""


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


VALUES: Mapping[str, Callable[[Dataset], str]] = {
    "TEXT": lambda item: text_of(item.get("TextValue")),
    "CODE": _coded,
    "NUM": lambda item: " ".join(part for part in _number(item) if part),
    "PNAME": lambda item: person_name(text_of(item.get("PersonName"))),
    "DATE": lambda item: day_and_time(text_of(item.get("Date"))),
    "TIME": lambda item: clock(text_of(item.get("Time"))),
    "DATETIME": lambda item: day_and_time(text_of(item.get("DateTime"))),
}
"""How the value of a leaf reads, by its value type; other types have no text."""


def walk(root: Dataset, max_depth: int) -> Content:
    """Collect lines and measurements below `root`; raise when nested deeper than allowed."""
    content = Content()
    _walk_children(root, (), content, max_depth, _tracking(root))
    return content


def _walk_children(
    parent: Dataset, path: tuple[str, ...], content: Content, levels_left: int, tracking: str
) -> None:
    children = parent.get("ContentSequence") or []
    if children and levels_left <= 0:
        raise BadStructuredReport(SrFault.TOO_DEEP)
    content.elements += sum(map(len, children))
    if content.elements > STRUCTURED_REPORT_ELEMENTS:
        raise BadStructuredReport(SrFault.TOO_MANY_ITEMS)
    for item in children:
        _walk_item(item, path, content, levels_left, tracking)


def _walk_item(
    item: Dataset, path: tuple[str, ...], content: Content, levels_left: int, tracking: str
) -> None:
    if _left_out(item):
        return
    name, kind = concept(item), text_of(item.get("ValueType")).upper()
    tracking = _tracking(item) or tracking
    if kind == "CONTAINER":
        before = len(content.lines)
        inner = (*path, name) if name else path
        _walk_children(item, inner, content, levels_left - 1, tracking)
        if name and len(content.lines) > before:  # a heading with nothing below says nothing
            content.lines.insert(before, INDENT * len(path) + name)
        return
    reader = VALUES.get(kind)
    if reader is not None and (value := reader(item)):
        content.lines.extend(_lines(name, value, len(path)))
        if kind == "NUM":
            content.measurements.append(_measurement(item, name, path, tracking))
    _walk_children(item, (*path, name), content, levels_left - 1, tracking)


def _tracking(item: Dataset) -> str:
    """Return the tracking identifier among an item's children (DICOM PS3.16 TID 1501)."""
    children = item.get("ContentSequence") or []
    return next((text_of(each.get("TextValue")) for each in children if _is_tracking(each)), "")


def _is_tracking(item: Dataset) -> bool:
    names = map(code_of, item.get("ConceptNameCodeSequence") or [])
    return any(
        value == TRACKING_CODE or meaning.casefold() == TRACKING_NAME for value, meaning in names
    )


def _left_out(item: Dataset) -> bool:
    if _is_tracking(item):
        return False
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


def _measurement(item: Dataset, name: str, path: tuple[str, ...], tracking: str) -> Measurement:
    value, unit = _number(item)
    qualifiers = tuple(
        (concept(child), VALUES["CODE"](child))
        for child in item.get("ContentSequence") or []
        if VALUES["CODE"](child)
    )
    return Measurement(name, value, unit, path, qualifiers, tracking)
