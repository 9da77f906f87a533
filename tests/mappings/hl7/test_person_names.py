"""Names in their HL7 types, and the spellings that are compatible."""

from itertools import permutations
from pathlib import Path

import pytest

from mappings.hl7.header import STANDARD
from mappings.hl7.message import Field, Message, MessageSyntax
from mappings.hl7.person_names import PersonName, are_compatible, preferred_name

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "hl7-conformance.md"
PAGE = DOCUMENT.read_text("utf-8")


def field(text: str) -> Field:
    return Field(text, MessageSyntax(STANDARD, "utf-8"))


@pytest.mark.parametrize(
    ("sent", "display"),
    [
        ("DOE^JOHN^M", "JOHN M DOE"),
        ("DOE^JOHN^M^JR^DR^MD^L", "DR JOHN M DOE JR"),
        ('DOE^JOHN^""^^""', "JOHN DOE"),
        ("Van Dyke&Van&Dyke^Ann", "Ann Van Dyke"),
        ("EVERYMAN&&&&Aniston^ADAM", "ADAM EVERYMAN"),
        ("ALIAS^A^^^^^A~DOE^JOHN^^^^^L", "JOHN DOE"),
        ('""~DOE^JOHN', "JOHN DOE"),
        ("O\\T\\NEIL^PAT", "PAT O&NEIL"),
        ("^PRINCE", "PRINCE"),
        ("李^明", "明 李"),
        (r"\M2442\;3ED\C2842\^\M2442\B@O:\C2842\^", "太郎 山田"),
        (r"\M242943\홍^\M242943\길동", "길동 홍"),
        ("", ""),
        ('""', ""),
    ],
)
def test_xpn(sent: str, display: str) -> None:
    """PN and XPN read alike; the legal name comes first; null parts are left out."""
    name = preferred_name(field(sent))
    assert (PersonName.from_xpn(name).display if name else "") == display


@pytest.mark.parametrize(
    ("sent", "display"),
    [
        ("1123^WELBY^ROBERT^^^DR", "DR ROBERT WELBY"),
        ("^WELBY^ROBERT", "ROBERT WELBY"),
        ("Brown^Alan^^^^Dr", "Dr Alan"),
        ("1123", "1123"),
        ("", ""),
    ],
)
def test_xcn(sent: str, display: str) -> None:
    """CN and XCN start with an identifier, which is displayed if there is no name."""
    assert PersonName.from_xcn(field(sent).repetition()).display == display


def test_parts() -> None:
    name = PersonName.from_xcn(field("7^DOE^JANE^Q^II^DR^MD").repetition())
    assert name == PersonName("DOE", "JANE", "Q", "II", "DR", "MD", "7")


def test_in_a_message_with_other_delimiters() -> None:
    """Names are split by the message's own characters."""
    read = Message.parse(b"MSH^~|\\&^A\rPID^1^^^^DOE~JOHN")
    pid = read.first("PID")
    assert pid is not None
    assert PersonName.from_xpn(pid.field(5).repetition()).display == "JOHN DOE"


def rows(heading: str) -> list[tuple[str, str]]:
    body = PAGE.split(f"#### {heading}\n")[1].split("\n#")[0]
    cells = [line.split("|")[1:3] for line in body.splitlines() if line.startswith("| `")]
    return [(one.strip().strip("`"), other.strip().strip("`")) for one, other in cells]


@pytest.mark.parametrize(("one", "other"), rows("Spellings of one name"))
def test_compatible(one: str, other: str) -> None:
    """Each row of the document's table holds in both directions."""
    assert are_compatible(one, other)
    assert are_compatible(other, one)


@pytest.mark.parametrize(("one", "other"), rows("Different names"))
def test_different(one: str, other: str) -> None:
    """The document's different names are not compatible."""
    assert not are_compatible(one, other)
    assert not are_compatible(other, one)


@pytest.mark.parametrize(
    ("one", "other"), rows("Spellings of one name without a common identifier")
)
def test_compatible_without_an_identifier(one: str, other: str) -> None:
    """These spellings are compatible also without a common identifier."""
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
    """Different names stay different; initials do not match."""
    assert not are_compatible(one, other, same_id=False)
    assert not are_compatible(other, one, same_id=False)


FAMILY = ["DOE^JANE", "DOE^JOHN", "DOE^ANNA", "DOE^ANNE", "DOE^MARIA", "DOE^MARIANNE", "ROE^JANE"]


@pytest.mark.parametrize(("one", "other"), list(permutations(FAMILY, 2)))
def test_relatives_are_different(one: str, other: str) -> None:
    """Complete names that differ are different persons."""
    assert not are_compatible(one, other)


@pytest.mark.parametrize("name", ["", "^", "^JANE", "-^-", "A" * 100_000, "^".join("AB" * 50_000)])
def test_a_text_without_family_name(name: str) -> None:
    """A text without family name matches no name; long texts take no time."""
    assert not are_compatible(name, "DOE^JANE")
