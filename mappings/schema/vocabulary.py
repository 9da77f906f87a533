"""Building blocks of the JSON Schema for inbound and outbound definitions."""

from collections.abc import Collection, Mapping
from typing import Any

from mappings.language.accessors import SEGMENTS
from mappings.language.diagnostics import FLAGS

Schema = dict[str, Any]


def _any_case(word: str) -> str:
    return "".join(f"[{letter.upper()}{letter}]" for letter in word)


_NUMBER = r"[1-9][0-9]{0,4}"
_PICK = rf"\[([A-Z][A-Z0-9]{{1,3}}-)?{_NUMBER}(\.{_NUMBER})?=[^\[\]=]*\]"
SEGMENT_PATTERN = rf"({'|'.join(sorted(SEGMENTS))}|Z[A-Z0-9]{{2}})"
PATH_PATTERN = (
    rf"^{SEGMENT_PATTERN}(\[({_NUMBER}|\*)\])?-{_NUMBER}"
    rf"(\[{_NUMBER}\]|({_PICK})+)?(\.{_NUMBER}){{0,2}}$"
)

SCALAR: Schema = {"type": ["string", "number", "boolean", "null"]}
"""Scalars are read as texts: 2.5 and NO are texts."""
TEXT: Schema = {"$ref": "#/$defs/text"}
PATH: Schema = {"$ref": "#/$defs/path"}
RULE: Schema = {"$ref": "#/$defs/rule"}
CONDITION: Schema = {"$ref": "#/$defs/condition"}
TEST: Schema = {"$ref": "#/$defs/test"}
FLAG: Schema = {
    "anyOf": [
        {"type": "boolean"},
        {"type": "string", "pattern": f"^({'|'.join(map(_any_case, FLAGS))})$"},
    ]
}


def closed(members: Mapping[str, Schema], about: str = "", **more: Any) -> Schema:
    described = {"description": about} if about else {}
    return {
        **described,
        "type": "object",
        "properties": dict(members),
        "additionalProperties": False,
        **more,
    }


def each(members: Schema, about: str = "", **more: Any) -> Schema:
    """Return the schema of a mapping with any keys and values of one kind."""
    described = {"description": about} if about else {}
    return {**described, "type": "object", "additionalProperties": members, **more}


def one_of(words: Collection[str], about: str = "") -> Schema:
    described = {"description": about} if about else {}
    return {**described, "enum": sorted(map(str, words))}


def several(one: Schema) -> Schema:
    return {"anyOf": [one, {"type": "array", "items": one}]}
