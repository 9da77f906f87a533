"""`pyproject.toml` declares what the product imports, and nothing else."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("bridge", "mllp", "mappings", "config", "parsers")
NOT_IMPORTED = {
    "httptools": "uvicorn parses HTTP with it",
    "sniffio": "httpx imports it",
    "typst": "loaded by its name, because a PDF is refused without it",
    "tzdata": "zoneinfo reads it",
}
"""Declared packages that no module imports, with the reason."""


def test_dependencies_are_the_imported_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    declared = {_name(line) for lines in (project["dependencies"], *extras) for line in lines}

    providers = {name: set(map(_plain, by)) for name, by in packages_distributions().items()}
    undeclared = {name for name in _imported() if not providers.get(name, set()) & declared}
    assert not undeclared

    used = set.union(*(providers[name] for name in _imported()))
    assert declared - used == NOT_IMPORTED.keys()


def _imported() -> set[str]:
    names = {
        name.partition(".")[0]
        for package in PRODUCT
        for path in (ROOT / package).rglob("*.py")
        for name in _imports(path)
    }
    return names - {*PRODUCT, *sys.stdlib_module_names}


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def _name(requirement: str) -> str:
    return _plain(re.split(r"[^A-Za-z0-9_.-]", requirement, maxsplit=1)[0])


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
