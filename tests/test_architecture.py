"""What holds for the whole code base: names of modules, top-level entries, the lock file."""

import ast
import re
import subprocess
import tomllib
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
FORBIDDEN = re.compile(r"^(utils?|helpers?|common|manager|base|misc)$")
PURE = re.compile(r"\bPure\b|\bNo I/O\b")
TOP_LEVEL = {
    *("README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("pyproject.toml", "Makefile", "requirements.lock"),
    *PACKAGES,
    *("tests", "sample_messages", "docs", "deploy", "web"),
}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_is_a_grab_bag(path: Path) -> None:
    assert not FORBIDDEN.match(path.stem)


def imported(path: Path) -> set[str]:
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_what_calls_itself_pure_is_pure() -> None:
    """A module whose docstring says "Pure" or "No I/O" imports nothing that does I/O."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (forbidden,) = (
        contract["forbidden_modules"] for contract in contracts if "pure" in contract["name"]
    )
    pure = [
        path
        for path in MODULES
        if PURE.search(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "")
    ]
    assert pure
    assert {str(path): found for path in pure if (found := imported(path) & {*forbidden})} == {}


def committed() -> list[str]:
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


DOCUMENTED = {
    *("_asdict", "_fields", "_make", "_replace"),  # of named tuples
    "_exit",  # of os
    "_mapping",  # of SQLAlchemy's rows
    "_config",  # of pynetdicom: its settings
}
"""Names with an underscore that their library documents for everybody."""

PRIVATE = re.compile(r"_[a-z]\w*")


def private_imports(tree: ast.AST) -> set[str]:
    """Return the private names that a module imports from other packages than ours."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [*node.module.split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [name for alias in node.names for name in alias.name.split(".")]
        else:
            continue
        if names[0] not in PACKAGES:
            found |= {name for name in names if PRIVATE.fullmatch(name)} - DOCUMENTED
    return found


def private_definitions(tree: ast.AST) -> set[str]:
    """Return the private functions, classes, variables and attributes that a module defines."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def test_no_private_member_of_a_library_is_used() -> None:
    """Each private name that the product uses is one that it defines."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in MODULES}
    ours = DOCUMENTED.union(*map(private_definitions, trees.values()))
    foreign = {
        (path.relative_to(ROOT), node.attr)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and PRIVATE.fullmatch(node.attr)
        and node.attr not in ours
    }
    imported_names = {
        (path.relative_to(ROOT), name)
        for path, tree in trees.items()
        for name in private_imports(tree)
    }
    assert foreign | imported_names == set()
