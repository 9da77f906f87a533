"""
Which segments stand where: what hl7apy builds of a message, held against its structure.

hl7apy counts what a group has and does not ask for the order; and a segment that it has no
structure for ends the group it stands in. Segments come in the order of the abstract syntax
(HL7 v2.5.1 §2.5.2, §2.13), and Z segments may stand anywhere.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

_GROUP: Final = re.compile(r"(Error: (?:Missing required child|Child limit exceeded) \w+\.)(\w+)$")


def without_local(segments: Sequence[str], reference: Any) -> list[str]:
    """Leave out the Z segments that a profile (None: no profile) does not name."""
    named = set(_names(reference)) if reference else set()
    return [each for each in segments if each[:1].upper() != "Z" or each[:3].upper() in named]


def _names(reference: Any) -> Iterator[str]:
    for name, below, _, kind in reference[1]:
        yield name
        if kind == "GRP":
            yield from _names(below)


def misplaced(element: Any) -> Iterator[str]:
    """Name the segments of a message of hl7apy's that stand behind what has to follow them."""
    expected, at = list(element.ordered_children or ()), 0
    for child in element.children:
        if child.name in expected:
            found = next((n for n in range(at, len(expected)) if expected[n] == child.name), None)
            if found is None:
                yield _first(child)
            else:
                at = found
        if child.classname == "Group":
            yield from misplaced(child)


def _first(element: Any) -> str:
    while element.classname == "Group" and element.children:
        element = element.children[0]
    return str(element.name)


def by_segment(line: str, version: str) -> str:
    """Say of a group that is missing, or one too many, which segment it begins with."""
    told = _GROUP.match(line)
    if told is None or "_" not in told[2]:
        return line
    from hl7apy import load_reference  # noqa: PLC0415  # slow to load, rarely wanted
    from hl7apy.exceptions import ChildNotFound  # noqa: PLC0415  # as above

    name, kind = told[2], "GRP"
    try:
        while kind == "GRP":
            order, children = load_reference(name, "Group", version)[:2]
            if order == "choice":
                return line
            name, kind = next(((each[0], each[3]) for each in children if each[2][0]), ("", ""))
    except ChildNotFound:
        return line
    return f"{told[1]}{name}" if name else line
