"""The published schema and the compiler agree on shipped definitions, recipes and samples."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from ruamel.yaml import YAML

from mappings import schema
from mappings.compiler import KINDS, check_sources
from mappings.inbound import definition, order_mapping
from mappings.language import conditions, rules
from mappings.language.diagnostics import IssueSeverity
from mappings.outbound import style
from tests.mappings.definitions import SHIPPED

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "reference" / "mapping-language.md").read_text("utf-8")
SCHEMA = schema.schema()
VALIDATOR = jsonschema_rs.validator_for(SCHEMA)

GOOD = [
    "include: orders.yaml\ntags: {Notes: [NTE-3, {const: 5}], Race: {from: PID-3, required: yes}}",
    "include: orders.yaml\nlinks: {parent: {on: On, value: ORC-8.1}, printset: off}",
    "include: orders.yaml\nonly: {any: [{OBR-24: CT}, {not: {OBR-24: {matches: '^X'}}}]}",
    "include: orders.yaml\ntags: {Notes: {all: [OBR-31.2, OBR-31.1], where: {OBR-4.1: {in: [A]}}}}",
    "include: orders.yaml\nmetadata: {each: [{segment: ZX1, key: ZX1-1, value: NTE-2}], keep: Z*}",
    "include: patients.yaml\nevents: {A08: ignore}",
    "include: orders.yaml\norder_control: {actions: {ZZ/CM: change  examined}}",
    "include: results.yaml\nversion: 2.3\ntext: {layout: formatted}",
    "include: results.yaml\nmetadata: {send: [A], targets: {B: OBR-21}}",
    "include: results.yaml\nsegments: [{use: header}, {PID: echo}, {ZX1: {1: [a, [$now]]}}]",
    "include: status.yaml\nstatuses: {preliminary: {result: P}}",
    "include: worklist.yaml\nstep: {ScheduledStationAETitle: [CT1, {echo: IPC-9.1}]}\nsteps: ZIP",
    "include: worklist.yaml\nitem: {PatientComments: {metadata: A, when: {$site: N}}}",
    "include: worklist.yaml\nitem: {ReferencedStudySequence: [{each: ZST-1, StudyID: x}]}",
    "include: worklist.yaml\nstatus: {echo: ORC-1}\nstep_status: {XX: READY}",
]
BAD = [
    "tags: {}",
    "kind: oders\ninclude: orders.yaml",
    "include: orders.yaml\ntagz: {}",
    "include: orders.yaml\ntags: {PatientMNR: PID-3}",
    "include: orders.yaml\ntags: {Notes: PDI-3}",
    "include: orders.yaml\ntags: {Notes: PID-0}",
    "include: orders.yaml\ntags: {Notes: PID}",
    "include: orders.yaml\ntags: {Notes: {form: PID-3}}",
    "include: orders.yaml\ntags: {Notes: {from: PID-3, const: x}}",
    "include: orders.yaml\ntags: {Notes: {as: upper}}",
    "include: orders.yaml\ntags: {Notes: {from: PID-3, as: uper}}",
    "include: orders.yaml\ntags: {Notes: {from: PID-3, required: maybe}}",
    "include: orders.yaml\ntags: {Notes: {from: PID-3, codes: sex, unknown: drop}}",
    "include: orders.yaml\ntags: {Notes: {hook: nocolon}}",
    "include: orders.yaml\nonly: {OBR-24: {mathces: x}}",
    "include: orders.yaml\nonly: [OBR-24]",
    "include: orders.yaml\naccept: {messages: [ORM]}",
    "include: orders.yaml\naccept: {senders: [{app: X}]}",
    "include: orders.yaml\norder_control: {actions: {NW: made}}",
    "include: orders.yaml\norder_control: {unknown: park}",
    "include: orders.yaml\nlinks: {nonsense: on}",
    "include: orders.yaml\nlinks: {accession: perhaps}",
    "include: orders.yaml\nmetadata: {each: [{segment: OBX, key: OBX-3}]}",
    "include: orders.yaml\necho: [PDI]",
    "include: patients.yaml\nevents: {A08: create}",
    "kind: orders\ninclude: orders.yaml\nsegments: []",
    "kind: results\ninclude: results.yaml\ntags: {}",
    "include: results.yaml\nversion: 2.9",
    "include: results.yaml\ntext: {layout: columns}",
    "include: results.yaml\ncontent: [word]",
    "include: results.yaml\nstatuses: {finished: {result: F}}",
    "include: results.yaml\nmetadata: {targets: {A: PV2-3}}",
    "include: results.yaml\nsegments: [{use: header}, {OBX: {3: $nothing}}]",
    "include: results.yaml\nsegments: [{use: header}, {OBX: {x: A}}]",
    "include: results.yaml\nsegments: [{use: header}, {each: ordres, segments: []}]",
    "include: results.yaml\nsegments: [{use: header}, {OBX: {3: {echo: OBR-4, kind: CE}}}]",
    "include: results.yaml\nsegments: [{use: header}, {PID: {1: x}, PV1: {1: y}}]",
    "include: worklist.yaml\nitem: {patientName: x}",
    "include: worklist.yaml\nitem: {PatientName: {ekho: PID-5}}",
    "include: worklist.yaml\nitem: {PatientName: {echo: PDI-5}}",
    "include: worklist.yaml\nstep_status: {SC: PLANNED}",
    "include: worklist.yaml\nsteps: ICP",
    "kind: worklist\ninclude: worklist.yaml\ntags: {}",
]


def refused(text: str) -> bool:
    value = YAML(typ="safe", pure=True).load(text)
    return not VALIDATOR.is_valid(json.loads(json.dumps(value)))


def mistakes(text: str) -> list[str]:
    sources = {**SHIPPED, "codes/sites.csv": "code,value\n", "mine.yaml": text}
    found = check_sources(sources, ["mine"], tables=False)
    return [str(issue) for issue in found if issue.severity is IssueSeverity.ERROR]


@pytest.mark.parametrize("text", GOOD)
def test_both_accept(text: str) -> None:
    assert mistakes(text) == []
    assert not refused(text)


@pytest.mark.parametrize("text", BAD)
def test_both_refuse(text: str) -> None:
    """Schema and compiler refuse the same definitions."""
    assert mistakes(text)
    assert refused(text)


@pytest.mark.parametrize("name", [name for name in SHIPPED if re.fullmatch(r"\w+\.yaml", name)])
def test_shipped_definitions(name: str) -> None:
    assert not refused(SHIPPED[name])


@pytest.mark.parametrize("recipe", re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL))
def test_recipes(recipe: str) -> None:
    """Each recipe of the guide conforms to the schema."""
    assert not refused(recipe)


def test_the_published_file_is_the_schema() -> None:
    """docs/reference/mapping.schema.json is what `bridge mapping schema` prints."""
    assert (ROOT / "docs" / "reference" / "mapping.schema.json").read_text("utf-8") == schema.text()


def _properties(*trail: str) -> set[str]:
    node: Any = schema.INBOUND_MEMBERS
    for step in trail:
        node = node[step]
    return set(node["properties"])


def test_each_key_is_in_the_schema() -> None:
    members: dict[str, Any] = SCHEMA["properties"]
    assert set(members) == {
        "kind",
        "about",
        "include",
        *(key for keys in KINDS.values() for key in keys),
    }
    written = SCHEMA["$defs"]["rule"]["anyOf"][2]["properties"]
    assert set(written) == set(rules.KEYS)
    assert set(SCHEMA["$defs"]["test"]["anyOf"][2]["properties"]) == set(conditions.TESTS)
    assert set(schema.MESSAGE_METADATA["properties"]) == set(order_mapping.MESSAGE_METADATA_KEYS)
    assert _properties("accept") == set(definition.ACCEPTANCE_KEYS)
    assert _properties("order") == set(order_mapping.ORDER_KEYS)
    assert _properties("order_control") == set(order_mapping.CONTROL_KEYS)
    assert set(members["text"]["properties"]) == set(style.TEXT_KEYS)
    assert _properties("links") == {
        order_mapping.ACCESSION,
        order_mapping.MESSAGE_GROUP,
        *order_mapping.VALUED,
    }
