"""The guide tells the truth: its recipes compile, and it names everything there is."""

import re
from pathlib import Path

import pytest

from mappings.compiler import check_sources, compile_sources
from mappings.frames import VARIABLES
from mappings.rules import KEYS
from mappings.tags import TAGS
from mappings.transforms import TRANSFORMS
from tests.mappings.language import SHIPPED

GUIDE = (Path(__file__).parents[2] / "docs" / "mapping-guide.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
FILES = {
    "codes/sites.csv": "code,value\nNORTH,SITE1\n",
    "site_hooks.py": "def body_part(message):\n    return 'KNEE'\n",
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes(recipe: str) -> None:
    """A recipe copied into a file is a good definition."""
    sources = {**SHIPPED, **FILES, "mine.yaml": recipe}
    assert check_sources(sources, ["mine"], tables=False) == []
    assert compile_sources(sources, "mine").name == "mine"


def test_there_are_recipes() -> None:
    """The pattern that finds recipes finds them."""
    assert len(RECIPES) >= 14


@pytest.mark.parametrize("word", [*TRANSFORMS, *KEYS])
def test_every_word_of_the_rules(word: str) -> None:
    """Every key and transform of the rule language is in the guide."""
    assert re.search(rf"\b{re.escape(word)}\b", GUIDE)


@pytest.mark.parametrize("name", [n for n in VARIABLES if n.removeprefix("order.") not in TAGS])
def test_every_variable(name: str) -> None:
    """Every variable of outbound definitions is in the guide."""
    assert f"${name}" in GUIDE
