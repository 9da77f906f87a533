"""The guide is correct: its recipes compile, and it lists all keys and variables."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from mappings.compiler import check_sources, compile_sources
from mappings.hl7.message import Message
from mappings.inbound.definition import InboundMapping
from mappings.language.rules import KEYS
from mappings.language.tags import TAGS
from mappings.language.transforms import TRANSFORMS
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.variables import VARIABLES
from tests.mappings.definitions import DEFAULTS, SHIPPED
from tests.mappings.recipes import FILES, INBOUND, OUTBOUND
from tests.mappings.results import CONTEXT, ORDER

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
    """All recipes are found, and each is run below."""
    assert len(RECIPES) == len({*INBOUND, *OUTBOUND}) >= 20


def _recipe(text: str) -> InboundMapping | OutboundMapping:
    """Compile the recipe that contains a text."""
    (recipe,) = [each for each in RECIPES if text in each]
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
    links = ", ".join(f"{each.kind}={each.value}" for each in event.link_signals)
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
    assert all(each in written for each in OUTBOUND[text])


@pytest.mark.parametrize("key", [*TRANSFORMS, *KEYS])
def test_each_key_of_the_rules(key: str) -> None:
    """Every key and transform of the rule language is in the guide."""
    assert re.search(rf"\b{re.escape(key)}\b", GUIDE)


@pytest.mark.parametrize("name", [n for n in VARIABLES if n.removeprefix("order.") not in TAGS])
def test_every_variable(name: str) -> None:
    """Every variable of outbound definitions is in the guide."""
    assert f"${name}" in GUIDE
