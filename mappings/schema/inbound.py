"""The JSON Schema of inbound definitions."""

from mappings.inbound import acceptance, link_signals, order_mapping, patient_mapping
from mappings.inbound.events import OrderAction
from mappings.language import rules
from mappings.language.accessors import SEGMENTS
from mappings.language.tags import TAGS
from mappings.language.transforms import TRANSFORMS
from mappings.schema.vocabulary import (
    CONDITION,
    FLAG,
    PATH,
    PATH_PATTERN,
    RULE,
    SCALAR,
    SEGMENT_PATTERN,
    TEST,
    TEXT,
    Schema,
    closed,
    each,
    one_of,
    several,
)

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

DEFINITIONS: dict[str, Schema] = {
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

MEMBERS: dict[str, Schema] = {
    "accept": closed(
        {
            "messages": several({"type": "string", "pattern": r"^[^\^]+\^.+$"}),
            "senders": several(closed(dict.fromkeys(acceptance.SENDER_KEYS, TEXT))),
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
                {"type": "string", "pattern": _DECISION}, "ORC-1, or ORC-1/ORC-5, to an action."
            ),
            "replies": each({"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2}),
        }
    ),
    "links": {
        "description": "The signals that link orders of one patient to one report.",
        "type": "object",
        "properties": dict.fromkeys(
            (link_signals.ACCESSION, link_signals.MESSAGE_GROUP, *link_signals.VALUED), _LINK
        ),
        "patternProperties": {f"^{link_signals.CUSTOM}": _LINK},
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
}
