"""The JSON Schema of outbound definitions."""

from mappings.language.accessors import SEGMENTS
from mappings.outbound import definition, fields, segments, style, text_layout, variables
from mappings.outbound.hl7_versions import DATA_TYPES, VERSIONS
from mappings.outbound.results import ResultEvent
from mappings.schema.vocabulary import FLAG, PATH, TEST, TEXT, Schema, closed, each, one_of, several

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
_MODIFIERS: dict[str, Schema] = {"suffix": _VARIABLE, "when": _WHEN}

_COMPONENT: Schema = {"anyOf": [_VARIABLE, {"type": "array", "items": _VARIABLE}, _WRITTEN]}
_KINDS: list[Schema] = [
    closed(
        {"echo": PATH, "type": one_of(DATA_TYPES), "all": FLAG, "holding": _VARIABLE, **_MODIFIERS},
        required=["echo"],
    ),
    closed({"first": several(_FIELD), **_MODIFIERS}, required=["first"]),
    closed({"repeat": several(_FIELD), **_MODIFIERS}, required=["repeat"]),
    closed(
        {
            "value": _FIELD,
            "codes": TEXT,
            "codes_back": TEXT,
            "unknown": one_of(fields.UNKNOWN_CODES, "The policy for a code that the table lacks."),
            **_MODIFIERS,
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

DEFINITIONS: dict[str, Schema] = {
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
    "version": {"enum": [*VERSIONS, *(float(each) for each in VERSIONS if each.count(".") == 1)]},
    "interpreter": one_of(style.INTERPRETERS),
    "times": one_of(style.TIMES),
    "content": several(one_of([style.TEXT, *style.CONTENT])),
}
ECHO: Schema = one_of(style.ECHOES)

MEMBERS: dict[str, Schema] = {
    **STYLE_SETTINGS,
    "text": closed(
        {
            "layout": one_of(text_layout.LAYOUTS),
            "addenda": one_of(text_layout.ADDENDA),
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
