"""Invalid YAML: each error has its location and takes little time."""

import pytest

from mappings.compiler import check_sources
from mappings.language.diagnostics import Issue
from tests.mappings.definitions import SHIPPED

REPEATED = "\n".join(
    f"    {name}: &{name} [{','.join([f'*{below}'] * 9)}]"
    for below, name in zip("abcdefg", "bcdefgh", strict=True)
)
WRONG = [
    ("tags: {Notes: \0}", (2, 15), "the character U+0000 is not allowed here"),
    ("tags:\n  Notes: \x07", (3, 10), "the character U+0007 is not allowed here"),
    (f"tags: {{Notes: {'[' * 3000}", (2, 55), "nested deeper than 40 levels"),
]


def found(text: str) -> list[Issue]:
    sources = {**SHIPPED, "mine.yaml": f"include: orders.yaml\n{text}\n"}
    return check_sources(sources, ["mine"], tables=False)


@pytest.mark.parametrize(("text", "place", "message"), WRONG)
def test_invalid_yaml(text: str, place: tuple[int, int], message: str) -> None:
    """UTF-16, control characters and endless brackets are reported, not raised."""
    (issue,) = found(text)
    assert ((issue.line, issue.column), issue.message) == (place, message)


def test_aliases_of_aliases() -> None:
    """Nested aliases, with millions of values in ten lines, end at a limit."""
    (issue,) = found(f"metadata:\n  values:\n    a: &a PID-3\n{REPEATED}")
    assert issue.message == "more than 20,000 values"


def test_aliases() -> None:
    """An alias is equal to a copy of the value."""
    assert found("tags:\n  Notes: &a NTE-3\n  KeyFindings: *a") == []
