"""Names in their HL7 types, and study UIDs."""

import pytest

from mappings.hl7 import Message
from mappings.hl7.delimiters import STANDARD
from mappings.hl7.elements import Field, Reading
from mappings.hl7.values import PersonName, is_uid, xcn_display, xpn_display, xpn_raw


def field(text: str) -> Field:
    """Make a field of a text."""
    return Field(text, Reading(STANDARD, "utf-8"))


@pytest.mark.parametrize(
    ("sent", "display", "raw"),
    [
        ("DOE^JOHN^M", "JOHN M DOE", "DOE^JOHN^M"),
        ("DOE^JOHN^M^JR^DR^MD^L", "DR JOHN M DOE JR", "DOE^JOHN^M^JR^DR"),
        ('DOE^JOHN^""^^""', "JOHN DOE", "DOE^JOHN"),
        ("Van Dyke&Van&Dyke^Ann", "Ann Van Dyke", "Van Dyke^Ann"),
        ("EVERYMAN&&&&Aniston^ADAM", "ADAM EVERYMAN", "EVERYMAN^ADAM"),
        ("ALIAS^A^^^^^A~DOE^JOHN^^^^^L", "JOHN DOE", "DOE^JOHN"),
        ('""~DOE^JOHN', "JOHN DOE", "DOE^JOHN"),
        ("O\\T\\NEIL^PAT", "PAT O&NEIL", "O&NEIL^PAT"),
        ("^PRINCE", "PRINCE", "^PRINCE"),
        ("李^明", "明 李", "李^明"),
        ("", "", ""),
        ('""', "", ""),
    ],
)
def test_xpn(sent: str, display: str, raw: str) -> None:
    """PN and XPN read alike, the legal name first; null parts are never printed."""
    assert xpn_display(field(sent)) == display
    assert xpn_raw(field(sent)) == raw


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
    """CN and XCN begin with an identifier, which stands in for a missing name."""
    assert xcn_display(field(sent).repetition()) == display


def test_parts() -> None:
    """Every part by itself, as for a signer."""
    name = PersonName.from_xcn(field("7^DOE^JANE^Q^II^DR^MD").repetition())
    assert name == PersonName("DOE", "JANE", "Q", "II", "DR", "MD", "7")


def test_in_a_message_with_other_delimiters() -> None:
    """Names are split by the message's own characters."""
    read = Message.parse(b"MSH^~|\\&^A\rPID^1^^^^DOE~JOHN")
    pid = read.first("PID")
    assert pid is not None
    assert xpn_display(pid.field(5)) == "JOHN DOE"


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("1.2.826.0.1.3680043.10.99999.20250326.1", True),
        ("2.25." + "9" * 39, True),
        ("1.2." + "3" * 60, True),
        ("1.2." + "3" * 61, False),
        ("1.02.3", False),
        ("1..2", False),
        ("1.2.", False),
        ("12", False),
        ("Discharged home", False),
        ("1.2.3\n", False),
        ("\u0661.\u0662", False),
        ("", False),
    ],
)
def test_uid(text: str, valid: bool) -> None:
    """DICOM PS3.5 §9.1: digits and dots, no leading zeros, at most 64."""
    assert is_uid(text) is valid
