"""The check finds what works and is hardly meant, and suggests what was."""

import pytest

from mappings.compiler import check_sources
from mappings.events import Severity
from tests.mappings.language import SHIPPED

EMPTY = {"codes/none.csv": "code,value\n"}
WARNED = [
    ("tags: {Notes: [{const: a}, NTE-3]}", 28, "never reached: the one before always has a value"),
    ("tags: {Notes: [NTE-3, NTE-3]}", 23, "NTE-3 has been tried before: it has no value"),
    (
        "tags: {Notes: {from: NTE-3, default: x, required: yes}}",
        41,
        "never refuses: there is always a value",
    ),
    ("tags: {Notes: {from: NTE-3, separator: x}}", 29, "`separator` needs `all` or `join`"),
    ("tags: {Notes: {from: NTE-3, where: {NTE-2: L}}}", 29, "`where` needs `all` or `first`"),
    (
        "tags: {Notes: {from: NTE-3, unknown: keep}}",
        29,
        "`unknown` needs `codes` or `codes_back`",
    ),
    (
        "tags: {Notes: {from: NTE-3, codes: none, unknown: refuse}}",
        36,
        "none has no entry: every message is refused",
    ),
    ("tags: {Notes: {const: FF, codes: sex}}", 23, "sex has no entry 'FF'; did you mean 'F'?"),
]
MEANT = [
    ("PDI-3.1", "there is no segment PDI; did you mean 'PID-3.1'?"),
    ("pid-3", "'pid-3' is not a place such as PID-3.1; did you mean 'PID-3'?"),
    ("PID3.1", "'PID3.1' is not a place such as PID-3.1; did you mean 'PID-3.1'?"),
    ("PID-3-1", "'PID-3-1' is not a place such as PID-3.1; did you mean 'PID-3.1'?"),
    ("OBX[2].5", "'OBX[2].5' is not a place such as PID-3.1; did you mean 'OBX[2]-5'?"),
]
IMPOSSIBLE = ["{const: '', required: true}", "[]", "{join: [], required: true}"]


def found(text: str, severity: Severity) -> set[tuple[int, int, str]]:
    """Lines, columns and messages of a severity in an overlay."""
    sources = {**SHIPPED, **EMPTY, "mine.yaml": f"include: orders.yaml\n{text}\n"}
    issues = check_sources(sources, ["mine"], tables=False)
    return {(i.line, i.column, i.message) for i in issues if i.severity is severity}


@pytest.mark.parametrize(("text", "column", "message"), WARNED)
def test_dead_rules_and_codes(text: str, column: int, message: str) -> None:
    """Each is a warning at its place; the definition can be used."""
    assert found(text, Severity.WARNING) == {(2, column, message)}
    assert not found(text, Severity.ERROR)


@pytest.mark.parametrize(("path", "message"), MEANT)
def test_what_was_meant(path: str, message: str) -> None:
    """Slips of the keyboard get the place that was meant."""
    assert found(f"tags: {{Notes: '{path}'}}", Severity.ERROR) == {(2, 15, message)}


@pytest.mark.parametrize("tag", ["PatientMRN", "Accession", "SiteID"])
@pytest.mark.parametrize("rule", IMPOSSIBLE)
def test_an_identity_that_can_have_no_value(tag: str, rule: str) -> None:
    """Nothing could be reported: a mistake, and no warning."""
    messages = {message for _, _, message in found(f"tags: {{{tag}: {rule}}}", Severity.ERROR)}
    assert f"{tag} can have no value: nothing could be reported" in messages


def test_an_unused_part() -> None:
    """A part of one's own that no segment uses is dead; those of an included file are not."""
    text = "include: results.yaml\nparts:\n  mine: [{NTE: {1: x}}]\n"
    (issue,) = check_sources({**SHIPPED, "mine.yaml": text}, ["mine"], tables=False)
    assert (issue.line, issue.column, issue.message) == (3, 3, "no segment uses mine")


def test_what_ships_has_no_warnings() -> None:
    """All our definitions and tables are clean."""
    names = [name.removesuffix(".yaml") for name in SHIPPED if name.count("/") == 0]
    assert check_sources(SHIPPED, names, tables=True) == []
