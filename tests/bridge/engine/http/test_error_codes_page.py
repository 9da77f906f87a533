"""The page of error codes lists exactly the codes of the engine."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from bridge.authority import AccountRefusal
from bridge.engine.documents.errors import ImageFault, SrFault
from bridge.engine.launch import LaunchWarning
from bridge.engine.rules.lifecycle import REASON_TEXTS, Reason
from bridge.engine.rules.passwords import Weakness
from bridge.engine.rules.site_roles import ReportAction

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "reference" / "error-codes.md"
_ROW = re.compile(r"^\| `([^`]+)` \| (.*?) \|", re.MULTILINE)
_AUDIT_ONLY = "record_refusal"
"""The function whose `code` goes to the audit trail; its page shows a sentence."""


def codes_of(tree: ast.AST) -> Iterator[str]:
    """Yield the codes that a module has as literals."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                yield from declared(each)
        if isinstance(node, ast.Call):
            yield from given(node)


def declared(node: ast.stmt) -> Iterator[str]:
    """Yield the `code` that the body of a class sets."""
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    if isinstance(target, ast.Name) and target.id == "code":
        yield from literal(getattr(node, "value", None))


def given(node: ast.Call) -> Iterator[str]:
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    place = {"BadLaunch": 0, "Problem": 1}.get(name)
    if place is not None and len(node.args) > place:
        yield from literal(node.args[place])
    for keyword in node.keywords:
        if keyword.arg == "code" and name != _AUDIT_ONLY:
            yield from literal(keyword.value)


def literal(node: ast.AST | None) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
        yield node.value


def test_the_page_lists_every_code() -> None:
    """`docs/reference/error-codes.md` has one row for each code of the source."""
    found = {
        code
        for path in (ROOT / "bridge" / "engine").rglob("*.py")
        for code in codes_of(ast.parse(path.read_text("utf-8")))
    }
    for kind in (Reason, SrFault, ImageFault, Weakness, AccountRefusal):
        found |= {each.value for each in kind}
    found |= {f"author_may_not_{each}" for each in (ReportAction.SIGN, ReportAction.PRELIM)}
    codes, _, warnings = PAGE.read_text("utf-8").partition("## Warnings")
    listed = [code for code, _ in _ROW.findall(codes)]
    assert sorted(listed) == sorted(found)
    assert {code for code, _ in _ROW.findall(warnings)} == {each.value for each in LaunchWarning}


def test_the_page_has_the_sentences_of_the_rules() -> None:
    """The sentence of a broken rule equals that of the response."""
    page = PAGE.read_text("utf-8")
    for reason, text in REASON_TEXTS.items():
        assert f"| `{reason.value}` | 400 | {text} |" in page
