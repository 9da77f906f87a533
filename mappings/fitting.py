"""
Make a field fit the version it is written in: no component, repetition or field too many.

A definition may name more than an old version knows (OBR-44 in 2.3, the code of a race where
2.3 has one word): what has no place there is left out, a word of a coded element stays.
"""

import re

from mappings.encode import NOTHING, Encoded
from mappings.hl7.delimiters import STANDARD
from mappings.nodes import Node
from mappings.notebook import Notebook
from mappings.shapes.shape import REPEATS, SHAPES, VARIES, Shape

NEWEST_VERSION = "2.5.1"

_DIVIDED = re.compile(
    f"[{re.escape(STANDARD.repetition + STANDARD.component + STANDARD.subcomponent)}]"
)


def fitted(shape: Shape, segment: str, number: int, value: Encoded) -> Encoded:
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


def beyond(segment: str, number: int, node: Node, notebook: Notebook) -> None:
    """Warn of a field that no version has: nothing is written there, or nobody looks for it."""
    kinds = SHAPES[NEWEST_VERSION].fields.get(segment)
    if kinds is not None and number > len(kinds):
        last = f"{segment}-{len(kinds)}"
        message = f"there is no {segment}-{number}: {segment} ends with {last} in {NEWEST_VERSION}"
        notebook.warn(node, "field", message)


def _field(shape: Shape, text: str, kind: str) -> str:
    parts = text.split(STANDARD.component)
    if kind not in shape.types:
        return _first_valued(parts, STANDARD.subcomponent)
    kinds = shape.types[kind]
    fit = [_component(shape, part, each) for part, each in zip(parts, kinds, strict=False)]
    return STANDARD.component.join(fit).rstrip(STANDARD.component)


def _component(shape: Shape, text: str, kind: str) -> str:
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
