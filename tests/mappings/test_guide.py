"""The guide is correct: its recipes compile, and it lists all keys and variables."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from mappings.authoring.trial import sample_contexts
from mappings.compiler import Compiled, check_sources, compile_sources
from mappings.hl7.message import Message
from mappings.inbound.definition import InboundMapping
from mappings.language.rules import KEYS, TAGS
from mappings.language.transforms import TRANSFORMS
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.variables import VARIABLES
from mappings.outbound.worklist_item import WorklistMapping
from tests.mappings.definitions import DEFAULTS, SHIPPED
from tests.mappings.results import CONTEXT, ORDER

FILES = {
    "codes/sites.csv": "code,value\nNORTH,SITE7\n",
    "codes/priorities.csv": "code,value\nS,Urgent\n",
    "include/house.yaml": "tags: {StudyDescription: OBR-4.1}\n",
    "site_hooks.py": "def body_part(message):\n    return 'KNEE'\n",
}

MSH = "MSH|^~\\&|RISA|NORTH|BRIDGE|SITE1|20260302080500||ORM^O01|C1|P|2.5.1"
PID = "PID|1|P2|M1^^^NORTH^MR||Doe^Jane"
ORC = "ORC|NW|P1|||||||||||||||SITE9"
OBR = "OBR|1|P1|F1^A3|X^Test||||||||||||||A1"

Case = tuple[tuple[str, ...], Mapping[str, str]]

INBOUND: dict[str, Case] = {
    "SiteID: {from: [ORC-17.1": ((MSH, PID, ORC, OBR), {"SiteID": "SITE9"}),
    "codes: sites": ((MSH, PID, ORC, OBR), {"SiteID": "SITE7"}),
    "HISB*": (
        (MSH.replace("RISA|NORTH", "HISB1|SOUTH"), PID, ORC, OBR),
        {"PatientMRN": "M1"},
    ),
    "CX-4=NORTH": ((MSH, PID, ORC, OBR), {"PatientMRN": "M1"}),
    "OBR-18.2": ((MSH, PID, ORC, OBR), {"Accession": "A3"}),
    "'^AI-'": ((MSH, PID, ORC, OBR, "OBX|1|TX|AI-1||Mass"), {"KeyFindings": "Mass"}),
    "ReadingRoom: ZRM-2": (
        (MSH, PID, ORC, OBR, "ZRM|1|Room 4|T1^Contrast"),
        {"ReadingRoom": "Room 4", "Protocol": "T1 / Contrast"},
    ),
    "message-group: off": ((MSH, PID, ORC, OBR, "ZLK|1|G1"), {"links": "custom:order-link=G1"}),
    "only: {OBR-24": ((MSH, PID, ORC, OBR + "||||||US"), {"action": "ignore"}),
    "only: {MSH-9": ((MSH, PID, ORC, OBR + "||||||LAB"), {"action": "create"}),
    "NW: await": ((MSH, PID, ORC, OBR), {"action": "await"}),
    "ZC: cancel": ((MSH, PID, "ORC|ZC|P1", OBR), {"action": "cancel"}),
    "processing: [P]": ((MSH, PID, ORC, OBR), {"Accession": "A1"}),
    "site_hooks:body_part": ((MSH, PID, ORC, OBR), {"BodyPartExamined": "KNEE"}),
    "ZDS-2": (
        (MSH, PID, ORC, OBR, "ZDS|1.2.3^^Application^DICOM|A77"),
        {"PatientMRN": "P2", "Accession": "A77", "StudyInstanceUID": "1.2.3"},
    ),
    "'^RIS-": ((MSH, PID, ORC, OBR.replace("F1", "RIS-0815")), {"Accession": "0815"}),
    "include/house.yaml": (
        (MSH.replace("RISA", "RISC"), PID, "PV1|1|||||||9^No|", ORC, OBR),
        {"StudyDescription": "X"},
    ),
    "codes: priorities": ((MSH, PID, "ORC|NW|P1|||||^^^^^S", OBR), {"Priority": "Urgent"}),
    "codes_back: modality": ((MSH, PID, ORC, OBR + "||||||CT"), {"Modality": "CT"}),
    "segment: AL1": (
        (MSH, PID, "AL1|1||^Latex", "AL1|2||^Iodine", ORC, OBR),
        {"Allergy 1": "Latex", "Allergy 2": "Iodine"},
    ),
    "const: EMERGENCY": (
        (MSH, PID, "ORC|NW|P1|||||^^^^^S", OBR, "NTE|1|L|Fall"),
        {"KeyFindings": "EMERGENCY - Fall"},
    ),
    "accession: off": (
        (MSH, PID, "ORC|NW|P1||G7", OBR),
        {"links": "order-group=G7"},
    ),
    "A31: ignore": ((MSH.replace("ORM^O01", "ADT^A08"), PID), {"action": "ignore"}),
}
"""Segments and expected tags, Metadata, links or action, by a text of the recipe."""

OUTBOUND: dict[str, tuple[str, ...]] = {
    "layout: formatted": ("OBX|1|FT|",),
    "send: [ReadingRoom": ("ReadingRoom",),
    "ZSG:": ("ZSG|1|",),
}
"""Expected texts of the message of a final report, by a text of the recipe."""

WORKLIST = {"ORC-18.1": ("00400001", ["CT1"])}
"""Expected values of an attribute of the first step, by a text of the recipe."""


GUIDE = (Path(__file__).parents[2] / "docs" / "reference" / "mapping-language.md").read_text(
    encoding="utf-8"
)
RECIPES = list(dict.fromkeys(re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)))


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes(recipe: str) -> None:
    """Each recipe is a valid definition."""
    sources = {**SHIPPED, **FILES, "mine.yaml": recipe}
    assert check_sources(sources, ["mine"], tables=False) == []
    assert compile_sources(sources, "mine").name == "mine"


def test_number_of_recipes() -> None:
    assert len(RECIPES) == len({*INBOUND, *OUTBOUND, *WORKLIST}) >= 20


@pytest.mark.parametrize("text", WORKLIST)
def test_worklist_recipes(text: str) -> None:
    """The recipe gives the attribute that the guide says."""
    definition, orders = _recipe(text), compile_sources(SHIPPED, "orders")
    assert isinstance(definition, WorklistMapping)
    assert isinstance(orders, InboundMapping)
    tag, values = WORKLIST[text]
    raw = "\r".join([MSH, PID, f"ORC|NW|P1{'|' * 16}CT1", OBR + "||||||CT", ""]).encode()
    (context,) = sample_contexts(definition, orders, raw, DEFAULTS, "utf-8")
    (item,) = definition.items(context)
    assert item.texts(tag) == values


def _recipe(text: str) -> Compiled:
    (recipe,) = [item for item in RECIPES if text in item]
    return compile_sources({**SHIPPED, **FILES, "mine.yaml": recipe}, "mine")


@pytest.mark.parametrize("text", INBOUND)
def test_inbound_recipes(text: str) -> None:
    """A recipe maps a message as the guide states."""
    mapping = _recipe(text)
    segments, wanted = INBOUND[text]
    assert isinstance(mapping, InboundMapping)
    message = Message.parse("\r".join(segments).encode())
    assert mapping.accepts(message.header)
    assert mapping.pre_check(message, DEFAULTS).refusals == ()
    (event,) = mapping.apply(message, DEFAULTS)
    links = ", ".join(f"{signal.kind}={signal.value}" for signal in event.link_signals)
    info = dict(event.clinical_info)
    found = {**info.pop("Metadata", {}), **info, "links": links, "action": event.action.value}
    assert {name: found.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("text", OUTBOUND)
def test_outbound_recipes(text: str) -> None:
    """A recipe renders a final report as the guide states."""
    mapping = _recipe(text)
    assert isinstance(mapping, OutboundMapping)
    order = replace(ORDER, metadata={"ReadingRoom": "4", "Other": "x"})
    written = mapping.render(replace(CONTEXT, orders=(order,))).decode()
    assert all(item in written for item in OUTBOUND[text])


@pytest.mark.parametrize("key", [*TRANSFORMS, *KEYS])
def test_each_key_of_the_rules(key: str) -> None:
    """Every key and transform of the rule language is in the guide."""
    assert re.search(rf"\b{re.escape(key)}\b", GUIDE)


@pytest.mark.parametrize("name", [n for n in VARIABLES if n.removeprefix("order.") not in TAGS])
def test_every_variable(name: str) -> None:
    """Every variable of outbound definitions is in the guide."""
    assert f"${name}" in GUIDE
