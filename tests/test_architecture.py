"""The limits of the code base: module and function sizes, names, top-level entries."""

import ast
import re
import statistics
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("bridge", "mllp", "mappings", "config", "parsers")
MODULES = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if "versions" not in path.parts
)
LONGEST_MODULE, MEDIAN_MODULE = 400, 250
LONGEST_FUNCTION, MEDIAN_FUNCTION = 40, 8
FORBIDDEN = re.compile(r"^(utils?|helpers?|common|manager|base|misc)$")
TOP_LEVEL = {
    *("pyproject.toml", "README.md", "SECURITY.md", "Makefile", "requirements.lock"),
    *PACKAGES,
    *("tests", "sample_messages", "docs", "deploy", "web"),
}


def functions(path: Path) -> list[tuple[str, int]]:
    """Return every function of a module with its length in lines, without docstring."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            words = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
            found.append((node.name, (node.end_lineno or 0) - node.lineno + 1 - words))
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_is_too_long(path: Path) -> None:
    """A module is at most 400 lines, a function at most 40, and no name is a grab bag."""
    assert len(path.read_text("utf-8").splitlines()) <= LONGEST_MODULE
    assert not FORBIDDEN.match(path.stem)
    assert [name for name, lines in functions(path) if lines > LONGEST_FUNCTION] == []


def test_the_usual_module_and_function_are_short() -> None:
    """The median lengths of modules and functions stay below their limits."""
    modules = [len(path.read_text("utf-8").splitlines()) for path in MODULES]
    lengths = [lines for path in MODULES for _, lines in functions(path)]

    assert statistics.median(modules) <= MEDIAN_MODULE
    assert statistics.median(lengths) <= MEDIAN_FUNCTION


def committed() -> list[str]:
    """Return every file in git."""
    listing = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return listing.stdout.splitlines()


def test_the_top_level_is_as_designed() -> None:
    """The top level has only the listed entries and dot entries."""
    entries = {name.split("/", 1)[0] for name in committed()}

    assert {name for name in entries if not name.startswith(".")} <= TOP_LEVEL


def test_the_lock_has_no_addresses() -> None:
    """Pins have hashes and no download addresses."""
    lock = (ROOT / "requirements.lock").read_text("utf-8")

    assert "://" not in lock
    assert "--index-url" not in lock
    assert lock.count("--hash=sha256:") > 100
