"""Which spellings of a name are one name, and which are two people's."""

from itertools import permutations
from pathlib import Path

import pytest

from mappings.hl7.name_variants import are_compatible

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "hl7-conformance.md"
PAGE = DOCUMENT.read_text("utf-8")


def rows(heading: str) -> list[tuple[str, str]]:
    """The pairs of names in the table under a heading of the document."""
    body = PAGE.split(f"#### {heading}\n")[1].split("\n#")[0]
    cells = [line.split("|")[1:3] for line in body.splitlines() if line.startswith("| `")]
    return [(one.strip().strip("`"), other.strip().strip("`")) for one, other in cells]


@pytest.mark.parametrize(("one", "other"), rows("Spellings of one name"))
def test_compatible(one: str, other: str) -> None:
    """Every line of the document's table holds, in both directions."""
    assert are_compatible(one, other)
    assert are_compatible(other, one)


@pytest.mark.parametrize(("one", "other"), rows("Different names"))
def test_different(one: str, other: str) -> None:
    """So do those that must never be taken for one person."""
    assert not are_compatible(one, other)
    assert not are_compatible(other, one)


@pytest.mark.parametrize(
    ("one", "other"), rows("Spellings of one name without a common identifier")
)
def test_compatible_without_an_identifier(one: str, other: str) -> None:
    """Spellings that are compatible even if nothing says that both have one identifier."""
    assert are_compatible(one, other, same_id=False)
    assert are_compatible(other, one, same_id=False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *rows("Different names"),
        ("DOE^J", "DOE^JOHN"),
        ("DOE^JANE", "DOE^J."),
        ("A" * 300, "B" * 300),
    ],
)
def test_different_without_an_identifier(one: str, other: str) -> None:
    """What is different with one identifier is so without; so is an initial of the given name."""
    assert not are_compatible(one, other, same_id=False)
    assert not are_compatible(other, one, same_id=False)


FAMILY = ["DOE^JANE", "DOE^JOHN", "DOE^ANNA", "DOE^ANNE", "DOE^MARIA", "DOE^MARIANNE", "ROE^JANE"]


@pytest.mark.parametrize(("one", "other"), list(permutations(FAMILY, 2)))
def test_relatives_are_told_apart(one: str, other: str) -> None:
    """Names that are written out and differ are two people's."""
    assert not are_compatible(one, other)


@pytest.mark.parametrize("name", ["", "^", "^JANE", "-^-", "A" * 100_000, "^".join("AB" * 50_000)])
def test_no_name_is_anything(name: str) -> None:
    """What has no family name is like no name; nothing takes long."""
    assert not are_compatible(name, "DOE^JANE")
