"""
The expressions of filters and transformers that name a place of the message or a constant.

One grammar recognizes them; nothing is evaluated. Anything else is JavaScript, for which `parse`
returns None.

    msg['PID']['PID.3'][0]['PID.3.1'].toString()      PID-3.1
    msg.OBX[1]['OBX.5']                               OBX[2]-5
    msg['OBR']['OBR.18'].toString().substring(0, 8)   OBR-18, extract: '^.{0}(.{0,8})'
    'RAD'                                             a constant
    $('mrn')                                          a variable that a step set before
    DateUtil.convertDate('yyyyMMddHHmmss', 'yyyyMMdd', msg[…])
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from mappings.authoring.yaml_writing import Tree

MAX_CHARACTERS: Final = 2000
"""Longer expressions are not parsed."""

_TEXT: Final = r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\""
_LITERAL: Final = re.compile(rf"(?P<text>{_TEXT})|(?P<number>-?\d{{1,15}}(?:\.\d{{1,15}})?)")
_VARIABLE: Final = re.compile(
    rf"(?:\$|(?:channel|connector|source|globalChannel|global)Map\.get)\(\s*(?P<text>{_TEXT})\s*\)"
)
_ROOT: Final = re.compile(r"(?:msg|tmp)(?![\w$])")
_INDEX: Final = re.compile(
    rf"\[\s*(?:(?P<text>{_TEXT})|(?P<number>\d{{1,4}}))\s*\]|\.(?P<word>[A-Z][A-Z0-9]{{2}})(?![\w$(])"
)
_CALL: Final = re.compile(
    r"\.(?P<name>toString|text|trim|toUpperCase|toLowerCase|substring|substr)"
    r"\(\s*(?:(?P<first>\d{1,4})\s*(?:,\s*(?P<second>\d{1,4})\s*)?)?\)"
)
_DATE: Final = re.compile(
    rf"DateUtil\.convertDate\(\s*(?:{_TEXT})\s*,\s*(?P<form>{_TEXT})\s*,(?P<value>.*)\)", re.DOTALL
)
_DATE_FORMS: Final = {"yyyyMMdd": "date", "HHmmss": "time", "yyyyMMddHHmmss": "timestamp"}
_SEGMENT: Final = re.compile(r"[A-Z][A-Z0-9]{2}")
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}
_MAX_EXTRACT: Final = 1000
"""The maximum of a repetition in a pattern of RE2."""


@dataclass(frozen=True, slots=True)
class Constant:
    text: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a map, which another step or a script sets."""

    name: str


@dataclass(frozen=True, slots=True)
class Place:
    """
    A place of the message; indices count from 0.

    `field` is 0 for a complete segment, `component` and `subcomponent` 0 for a complete field or
    component. `transforms` and `extract` are changes of its value.
    """

    segment: str
    occurrence: int = 0
    field: int = 0
    repetition: int = 0
    component: int = 0
    subcomponent: int = 0
    transforms: tuple[str, ...] = ()
    extract: str = ""

    @property
    def path(self) -> str:
        """The path in the notation of the mapping language; that of a segment is its name."""
        text = self.segment + (f"[{self.occurrence + 1}]" if self.occurrence else "")
        if self.field:
            text += f"-{self.field}" + (f"[{self.repetition + 1}]" if self.repetition else "")
        if self.component:
            text += f".{self.component}" + (f".{self.subcomponent}" if self.subcomponent else "")
        return text

    @property
    def is_changed(self) -> bool:
        return bool(self.transforms or self.extract)

    @property
    def rule(self) -> Tree:
        """The rule that reads the place."""
        if not self.is_changed:
            return self.path
        rule: dict[str, Tree] = {"from": self.path}
        if self.transforms:
            rule["as"] = self.transforms[0] if len(self.transforms) == 1 else list(self.transforms)
        if self.extract:
            rule["extract"] = self.extract
        return rule


Expression = Constant | Variable | Place


def parse(text: str) -> Expression | None:
    """Return what an expression names; None if it is anything else."""
    text = text.strip().rstrip(";").rstrip()
    if len(text) > MAX_CHARACTERS:
        return None
    if (literal := _LITERAL.fullmatch(text)) is not None:
        return Constant(literal["number"] or _unquoted(literal["text"]))
    if (variable := _VARIABLE.fullmatch(text)) is not None:
        return Variable(_unquoted(variable["text"]))
    if (date := _DATE.fullmatch(text)) is not None:
        return _of_date(_unquoted(date["form"]), date["value"])
    if (root := _ROOT.match(text)) is not None:
        return _place(text, root.end())
    return None


def constant(text: str) -> str | None:
    """Return the text of a constant, None for any other expression."""
    found = parse(text)
    return found.text if isinstance(found, Constant) else None


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text[1:-1])


def _of_date(form: str, text: str) -> Place | None:
    transform, value = _DATE_FORMS.get(form), parse(text)
    if transform is None or not isinstance(value, Place) or value.is_changed:
        return None
    return replace(value, transforms=(transform,))


def _place(text: str, at: int) -> Place | None:
    steps: list[str | int] = []
    while (index := _INDEX.match(text, at)) is not None:
        if index["number"] is not None:
            steps.append(int(index["number"]))
        else:
            steps.append(index["word"] or _unquoted(index["text"]))
        at = index.end()
    place = _of_steps(steps)
    while place is not None and at < len(text):
        call = _CALL.match(text, at)
        if call is None:
            return None
        place = _called(place, call)
        at = call.end()
    return place


def _of_steps(steps: list[str | int]) -> Place | None:
    """Return the place of names such as `PID`, `PID.3`, `PID.3.1` with indices between them."""
    if not steps or not isinstance(steps[0], str) or not _SEGMENT.fullmatch(steps[0]):
        return None
    segment = steps[0]
    names: list[str] = []
    indices = [0, 0]
    for step in steps[1:]:
        if isinstance(step, int):
            if len(names) < len(indices):
                indices[len(names)] = step
            elif step:
                return None
            continue
        before = names[-1] if names else segment
        if not re.fullmatch(rf"{re.escape(before)}\.[1-9]\d{{0,2}}", step):
            return None
        names.append(step)
    numbers = [int(number) for number in names[-1].split(".")[1:]] if names else []
    if len(numbers) > 3:  # noqa: PLR2004  # field, component, subcomponent
        return None
    field, component, subcomponent = (*numbers, 0, 0, 0)[:3]
    return Place(segment, indices[0], field, indices[1], component, subcomponent)


def _called(place: Place, call: re.Match[str]) -> Place | None:
    """Return a place whose value a method changes."""
    name, first, second = call["name"], call["first"], call["second"]
    if name in ("substring", "substr"):
        if first is None or place.extract:
            return None
        start = int(first)
        length = None if second is None else int(second) - (start if name == "substring" else 0)
        if start > _MAX_EXTRACT or (length is not None and not 0 < length <= _MAX_EXTRACT):
            return None
        rest = "(.*)" if length is None else f"(.{{0,{length}}})"
        return replace(place, extract=f"^.{{{start}}}{rest}" if start else f"^{rest}")
    if first is not None:
        return None
    transform = {"toUpperCase": "upper", "toLowerCase": "lower"}.get(name)
    return replace(place, transforms=(*place.transforms, transform)) if transform else place
