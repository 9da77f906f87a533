"""
The JSON Schema of a definition file.

It accepts each definition that the compiler accepts. Errors that depend on other files (includes,
code tables, hooks, overlays) are found only by the compiler.
"""

import json
from typing import Any, Final

from mappings.compiler import COMMON_KEYS, KINDS
from mappings.schema import inbound, outbound
from mappings.schema.vocabulary import TEXT, Schema, one_of, several

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_TITLE: Final = "A mapping of Report Bridge"

_GENERAL: dict[str, Schema] = {
    "kind": one_of(KINDS, "The kind of the definition; an overlay has that of its base."),
    "about": {"description": "A comment."},
    "include": {**several(TEXT), "description": "The files that this one overlays."},
}
_DOUBLE: dict[str, Schema] = {
    "metadata": {"anyOf": [inbound.MESSAGE_METADATA, outbound.RESULT_METADATA]},
    "echo": {"anyOf": [inbound.ECHOED, outbound.ECHO]},
}
"""Keys with different meanings in orders and in results."""


def schema() -> dict[str, Any]:
    """Return the schema of a definition file."""
    members = {**_GENERAL, **inbound.MEMBERS, **outbound.MEMBERS, **_DOUBLE}
    return {
        "$schema": DIALECT,
        "title": _TITLE,
        "type": "object",
        "properties": members,
        "additionalProperties": False,
        "anyOf": [{"required": ["kind"]}, {"required": ["include"]}],
        "allOf": [_only(kind, keys) for kind, keys in KINDS.items()],
        "$defs": {**inbound.DEFINITIONS, **outbound.DEFINITIONS},
    }


def text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _only(kind: str, keys: tuple[str, ...]) -> Schema:
    """Restrict a definition of a kind to the keys of the kind."""
    is_inbound = kind in ("orders", "patients")
    shapes = (
        {"metadata": inbound.MESSAGE_METADATA, "echo": inbound.ECHOED}
        if is_inbound
        else {"metadata": outbound.RESULT_METADATA, "echo": outbound.ECHO}
    )
    return {
        "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
        "then": {
            "propertyNames": {"enum": sorted({*COMMON_KEYS, *keys})},
            "properties": {name: shape for name, shape in shapes.items() if name in keys},
        },
    }
