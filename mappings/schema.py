"""
The JSON Schema of a definition file, for editors.

It accepts each definition that the compiler accepts. Errors that depend on other files (includes,
code tables, hooks, overlays) are found only by the compiler.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from mappings.compiler import COMMON_KEYS, INBOUND_KINDS, KINDS
from mappings.hl7.versions import DATA_TYPES, VERSIONS
from mappings.inbound import order_mapping, outside_mapping, patient_mapping
from mappings.inbound.definition import SENDER_KEYS
from mappings.inbound.events import OrderAction
from mappings.language import rules
from mappings.language.accessors import SEGMENTS
from mappings.language.diagnostics import FLAGS
from mappings.language.rules import TAGS
from mappings.language.transforms import TRANSFORMS
from mappings.outbound import definition, segments, style, variables, worklist_item
from mappings.outbound.results import ResultEvent

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


_SEGMENT: Schema = {"type": "string", "pattern": rf"^({'|'.join(sorted(SEGMENTS))}|Z.*)$"}
_SELECTION: Schema = {
    "type": "string",
    "pattern": rf"^({SEGMENT_PATTERN}|Z.*|.*\*)$",
    "description": "A segment, or the beginning of names: Z*",
}

_SOURCES: dict[str, Schema] = {
    "from": RULE,
    "first": several(PATH),
    "all": several(PATH),
    "join": {"anyOf": [RULE, {"type": "array", "items": RULE}]},
    "const": TEXT,
    "age": closed({"of": RULE, "on": RULE}, required=["of"]),
    "hook": {"type": "string", "pattern": "^[^:]+:.+$", "description": "module:function"},
}
_MODIFIERS: dict[str, Schema] = {
    "as": several(one_of(TRANSFORMS)),
    "extract": {**TEXT, "description": "A regular expression; its first group, else all of it."},
    "codes": {**TEXT, "description": "A code table: codes/NAME.csv"},
    "codes_back": {**TEXT, "description": "A code table, looked up from value to code."},
    "unknown": one_of(rules.UNKNOWN_CODES, "The policy for a code that the table lacks."),
    "when": CONDITION,
    "where": CONDITION,
    "after": several(TEXT),
    "separator": TEXT,
    "distinct": {**FLAG, "description": "Each value once, also for several groups of one order."},
    "default": TEXT,
    "required": FLAG,
}

_RULE: Schema = {
    "description": "The source of a value: a path, several in order, or a rule.",
    "anyOf": [
        PATH,
        {"type": "array", "items": RULE},
        {
            **closed(_SOURCES | _MODIFIERS),
            "oneOf": [
                *({"required": [name]} for name in _SOURCES),
                {
                    "required": ["default"],
                    "not": {"anyOf": [{"required": [name]} for name in _SOURCES]},
                },
            ],
        },
    ],
}

_TESTS: dict[str, Schema] = {
    "is": several(TEXT),
    "in": several(TEXT),
    "not": several(TEXT),
    "matches": {**TEXT, "description": "A regular expression; letter case is ignored."},
    "present": FLAG,
    "absent": FLAG,
}
_TEST: Schema = {"anyOf": [SCALAR, {"type": "array", "items": TEXT}, closed(_TESTS)]}
_CONDITION: Schema = {
    "type": "object",
    "properties": {"any": several(CONDITION), "not": CONDITION},
    "patternProperties": {PATH_PATTERN: TEST},
    "additionalProperties": False,
}

INBOUND_DEFINITIONS: dict[str, Schema] = {
    "text": SCALAR,
    "path": {
        "type": "string",
        "pattern": PATH_PATTERN,
        "description": "A location in a message: PID-3.1, OBX[2]-5, PID-3[CX-5=MR].1",
    },
    "rule": _RULE,
    "condition": _CONDITION,
    "test": _TEST,
}

_DECISION = rf"^({'|'.join(OrderAction)})( +({order_mapping.EXAMINED})? *)?$"
_LINK: Schema = {
    "anyOf": [FLAG, closed({"on": FLAG, "value": RULE, "when": CONDITION, "unless_differ": RULE})]
}

MESSAGE_METADATA: Schema = closed(
    {
        "values": each(RULE, "Any key, with the rule of its value."),
        "each": several(
            closed(
                {"segment": _SEGMENT, "key": RULE, "value": RULE, "when": CONDITION},
                required=["segment", "key", "value"],
            )
        ),
        "keep": several(_SELECTION),
    },
    "The open-ended part of an order.",
)
ECHOED: Schema = several(_SELECTION)

INBOUND_MEMBERS: dict[str, Schema] = {
    "accept": closed(
        {
            "messages": several({"type": "string", "pattern": r"^[^\^]+\^.+$"}),
            "senders": several(closed(dict.fromkeys(SENDER_KEYS, TEXT))),
            "versions": several(TEXT),
            "processing": several(TEXT),
        },
        "The messages that this definition accepts.",
    ),
    "tags": closed(dict.fromkeys(TAGS, RULE), "The tags of an order."),
    "reporting_app": closed(dict.fromkeys(order_mapping.APP_TAGS, RULE), "Launch parameters."),
    "order": closed(
        dict.fromkeys(order_mapping.ORDER_KEYS, RULE), "Numbers, order control, status."
    ),
    "order_control": closed(
        {
            "unknown": one_of(order_mapping.UNKNOWN),
            "actions": each(
                {"type": "string", "pattern": _DECISION},
                "ORC-1, ORC-1/ORC-5 or ORC-1/ORC-5/OBR-25, to an action.",
            ),
            "replies": each({"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2}),
        }
    ),
    "links": {
        "description": "The signals that link orders of one patient to one report.",
        "type": "object",
        "properties": dict.fromkeys(
            (order_mapping.ACCESSION, order_mapping.MESSAGE_GROUP, *order_mapping.VALUED), _LINK
        ),
        "patternProperties": {f"^{order_mapping.CUSTOM}": _LINK},
        "additionalProperties": False,
    },
    "only": CONDITION,
    "patient_names": one_of(
        list(order_mapping.PatientNames),
        "What happens to an order whose patient is known by another name.",
    ),
    "prior_mrn": RULE,
    "prior_name": RULE,
    "visit": closed(
        {"key": TEXT, "number": RULE, "prior": RULE, "values": each(RULE, "Metadata of a visit.")},
        "The visit of a patient event.",
    ),
    "events": each(
        one_of([*patient_mapping.ACTIONS, patient_mapping.REFUSE]),
        "The action of each trigger event.",
    ),
    "report": closed(
        dict.fromkeys(outside_mapping.REPORT_KEYS, RULE),
        "The document number, status, time, title and author of an outside report.",
    ),
    "report_status": each(
        one_of(list(outside_mapping.OutsideStatus)), "The meaning of each status code."
    ),
    "reported": CONDITION,
}


_TEXT: Schema = {
    "anyOf": [
        {"type": ["number", "boolean"]},
        {"type": "string", "pattern": r"^(?!\$)"},
        {"enum": [f"${name}" for name in sorted(variables.VARIABLES)]},
        {"type": "string", "pattern": rf"^\${variables.DESTINATION.replace('.', chr(92) + '.')}"},
    ],
    "description": "A constant, or a variable: $order.Accession",
}
_VARIABLE: Schema = {"$ref": "#/$defs/variable"}
_FIELD: Schema = {"$ref": "#/$defs/field"}
_WRITTEN: Schema = {"$ref": "#/$defs/written"}
_WHEN: Schema = {"$ref": "#/$defs/when"}
_ITEM: Schema = {"$ref": "#/$defs/item"}
_WRITTEN_MODIFIERS: dict[str, Schema] = {"suffix": _VARIABLE, "when": _WHEN}

_COMPONENT: Schema = {"anyOf": [_VARIABLE, {"type": "array", "items": _VARIABLE}, _WRITTEN]}
_KINDS: list[Schema] = [
    closed(
        {
            "echo": PATH,
            "type": one_of(DATA_TYPES),
            "all": FLAG,
            "holding": _VARIABLE,
            **_WRITTEN_MODIFIERS,
        },
        required=["echo"],
    ),
    closed({"first": several(_FIELD), **_WRITTEN_MODIFIERS}, required=["first"]),
    closed({"repeat": several(_FIELD), **_WRITTEN_MODIFIERS}, required=["repeat"]),
    closed(
        {
            "value": _FIELD,
            "codes": TEXT,
            "codes_back": TEXT,
            "unknown": one_of(
                segments.UNKNOWN_CODES, "The policy for a code that the table lacks."
            ),
            **_WRITTEN_MODIFIERS,
        },
        required=["value"],
    ),
]

_NAMES = "|".join(sorted(SEGMENTS - {"MSH"}))
_FIELDS: Schema = {
    "type": "object",
    "patternProperties": {r"^0*[1-9][0-9]*$": _FIELD},
    "additionalProperties": False,
}
_HEADER: Schema = {
    "type": "object",
    "patternProperties": {r"^0*([3-9]|[1-9][0-9]+)$": _FIELD},
    "additionalProperties": False,
}

OUTBOUND_DEFINITIONS: dict[str, Schema] = {
    "variable": _TEXT,
    "field": {"anyOf": [_VARIABLE, {"type": "array", "items": _COMPONENT}, _WRITTEN]},
    "written": {"anyOf": _KINDS},
    "when": {
        "type": "object",
        "properties": {"any": several(_WHEN), "not": _WHEN},
        "propertyNames": {
            "anyOf": [{"enum": ["any", "not"]}, {"allOf": [_VARIABLE, {"pattern": r"^\$"}]}]
        },
        "additionalProperties": TEST,
    },
    "item": {
        "anyOf": [
            closed(
                {
                    "each": one_of([segments.ORDERS, *segments.LOOPS]),
                    "segments": several(_ITEM),
                    "when": _WHEN,
                },
                required=["each", "segments"],
            ),
            closed({"use": TEXT, "when": _WHEN}, required=["use"]),
            closed({segments.Z_SEGMENTS: {"const": "metadata"}, "when": _WHEN},
                   required=[segments.Z_SEGMENTS]),
            {
                "type": "object",
                "properties": {"when": _WHEN, "MSH": {"anyOf": [{"const": "echo"}, _HEADER]}},
                "patternProperties": {
                    rf"^({_NAMES}|Z[^*]*)$": {"anyOf": [{"const": "echo"}, _FIELDS]}
                },
                "additionalProperties": False,
                "oneOf": [
                    {"not": {"required": ["when"]}, "minProperties": 1, "maxProperties": 1},
                    {"required": ["when"], "minProperties": 2, "maxProperties": 2},
                ],
            },
        ]
    },
}  # fmt: skip

_CODES: Schema = {"type": "array", "items": TEXT, "minItems": 3, "maxItems": 3}
_STATUS = rf"^({'|'.join(ResultEvent)})({definition.AFTER}({'|'.join(ResultEvent)}))?$"

RESULT_METADATA: Schema = closed(
    {
        "send": TEST,
        "skip": TEST,
        "targets": each({"type": "string", "pattern": f"^({style.TARGET.pattern})$"}),
    },
    "The Metadata keys that are sent, and their targets.",
)
STYLE_SETTINGS: dict[str, Schema] = {
    "orders": one_of(style.ORDERS),
    "version": {
        "enum": [*VERSIONS, *(float(version) for version in VERSIONS if version.count(".") == 1)]
    },
    "interpreter": one_of(style.INTERPRETERS),
    "times": one_of(style.TIMES),
    "content": several(one_of([style.TEXT, *style.CONTENT])),
}
ECHO: Schema = one_of(style.ECHOES)

OUTBOUND_MEMBERS: dict[str, Schema] = {
    **STYLE_SETTINGS,
    "text": closed(
        {
            "layout": one_of(style.LAYOUTS),
            "addenda": one_of(style.ADDENDA),
            "heading": TEXT,
            "blank": TEXT,
            "sections": TEXT,
            "headings": TEXT,
            "codes": each(each(_CODES, required=["report", "addendum"])),
        },
        "The layout of the report's text.",
    ),
    "statuses": {
        "description": "The events with messages, each with its codes.",
        "type": "object",
        "patternProperties": {_STATUS: closed(dict.fromkeys(definition.CODES, TEXT))},
        "additionalProperties": False,
    },
    "parts": each(several(_ITEM), "Items under a name, for `use: NAME`."),
    "segments": several(_ITEM),
}


_WORKLIST_VALUE: Schema = {"$ref": "#/$defs/worklistValue"}
_ATTRIBUTES: Schema = {
    "type": "object",
    "patternProperties": {"^[A-Z][A-Za-z0-9]*$": _WORKLIST_VALUE},
    "additionalProperties": False,
}
_SEQUENCE_ITEM: Schema = {
    **_ATTRIBUTES,
    "properties": {"each": PATH, "unless": _WORKLIST_VALUE, "when": _WHEN},
}
WORKLIST_DEFINITIONS: dict[str, Schema] = {
    "worklistValue": {
        "anyOf": [
            _VARIABLE,
            {"type": "array", "items": _WORKLIST_VALUE},
            closed({"echo": PATH, "when": _WHEN}, required=["echo"]),
            closed({"metadata": several(TEXT), "when": _WHEN}, required=["metadata"]),
            closed({"first": several(_WORKLIST_VALUE), "when": _WHEN}, required=["first"]),
            closed(
                {
                    "value": _WORKLIST_VALUE,
                    "codes": TEXT,
                    "codes_back": TEXT,
                    "unknown": one_of(segments.UNKNOWN_CODES),
                    "when": _WHEN,
                },
                required=["value"],
            ),
            _SEQUENCE_ITEM,
        ]
    }
}
WORKLIST_MEMBERS: dict[str, Schema] = {
    "steps": {**_SEGMENT, "description": "The segment whose repeats are scheduled steps: IPC"},
    "when": {**_WHEN, "description": "The orders that are on the worklist."},
    "status": {**_WORKLIST_VALUE, "description": "The code of the status of the steps."},
    "step_status": each(
        one_of(worklist_item.STEP_STATUSES), "The status of each code; '*': all other codes."
    ),
    "item": {**_ATTRIBUTES, "description": "The attributes of an item, by keyword (PS3.6)."},
    "step": {
        **_ATTRIBUTES,
        "description": "The attributes of the item of the Scheduled Procedure Step Sequence.",
    },
}


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_TITLE: Final = "A mapping of Report Bridge"

_GENERAL: dict[str, Schema] = {
    "kind": one_of(KINDS, "The kind of the definition; an overlay has that of its base."),
    "about": {"description": "A comment."},
    "include": {**several(TEXT), "description": "The files that this one overlays."},
}
_DOUBLE: dict[str, Schema] = {
    "metadata": {"anyOf": [MESSAGE_METADATA, RESULT_METADATA]},
    "echo": {"anyOf": [ECHOED, ECHO]},
}
"""Keys with different meanings in orders and in results."""


def schema() -> dict[str, Any]:
    """Return the schema of a definition file."""
    members = {
        **(_GENERAL | INBOUND_MEMBERS | OUTBOUND_MEMBERS | WORKLIST_MEMBERS),
        **_DOUBLE,
    }
    return {
        "$schema": DIALECT,
        "title": _TITLE,
        "type": "object",
        "properties": members,
        "additionalProperties": False,
        "anyOf": [{"required": ["kind"]}, {"required": ["include"]}],
        "allOf": [_only(kind, keys) for kind, keys in KINDS.items()],
        "$defs": INBOUND_DEFINITIONS | OUTBOUND_DEFINITIONS | WORKLIST_DEFINITIONS,
    }


def text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _only(kind: str, keys: tuple[str, ...]) -> Schema:
    """Restrict a definition of a kind to the keys of the kind."""
    is_inbound = kind in INBOUND_KINDS
    shapes = (
        {"metadata": MESSAGE_METADATA, "echo": ECHOED}
        if is_inbound
        else {"metadata": RESULT_METADATA, "echo": ECHO}
    )
    return {
        "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
        "then": {
            "propertyNames": {"enum": sorted({*COMMON_KEYS, *keys})},
            "properties": {name: shape for name, shape in shapes.items() if name in keys},
        },
    }
