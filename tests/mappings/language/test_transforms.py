"""Named transforms: names, times, ages."""

from itertools import permutations

import pytest

from mappings.language.transforms import is_uid
from tests.mappings.definitions import tag

ORC = "ORC|NW|P1"
ALPHABETIC = "Yamada^Tarou^^^^^L^A"
KANA = ("山田^太郎^^^^^L^I", "やまだ^たろう^^^^^L^P")
LATIN_KANJI = "Yamada^Tarou=山田^太郎"
PERSON = f"{LATIN_KANJI}=やまだ^たろう"


def of(transform: str, value: str) -> str | None:
    """Transform a value of OBR-13."""
    return tag(f"{{from: OBR-13, as: {transform}}}", ORC, f"OBR|1|P1||X|||||||||{value}")


CASES = [
    ("birth-date", "19880705", "19880705"),
    ("birth-date", "198807050000-0500", "19880705"),  # a birthday is never moved
    ("birth-date", "1970", "1970"),
    ("birth-date", "197003", "197003"),
    ("birth-date", "Aug 15, 1942", "19420815"),
    ("birth-date", "sometime", "sometime"),
    ("date", "20260302235900-0500", "20260303"),  # the next day at the site
    ("date", "20260302", "20260302"),
    ("time", "20260302093015.123+0100", "093015"),
    ("time", "202603020930", "0930"),
    ("time", "20260302", None),
    ("timestamp", "20260302233000Z", "20260303003000"),
    ("person-name", "Doe^Jane^M^Jr^Dr", "Doe^Jane^M^Dr^Jr"),  # XPN to DICOM's PN
    ("person-name", "van Beek&van&Beek^Ida", "van Beek^Ida"),
    ("person-name", "O\\T\\Brien^Jane\\.br\\Ann", "O&Brien^Jane Ann"),  # a name is one line
    ("person-name", 'Doe^Jane^""', "Doe^Jane"),
    ("person-name", "Alias^A^^^^^N~Doe^Jane^^^^^L", "Doe^Jane"),
    *[("person-name", "~".join(forms), PERSON) for forms in permutations([ALPHABETIC, *KANA])],
    ("person-name", "~".join(KANA), "=山田^太郎=やまだ^たろう"),
    ("person-name", KANA[0], "山田^太郎"),
    ("person-name", "YAMADA^TARO^^^^^L~山田^太郎^^^^^L^I", "YAMADA^TARO=山田^太郎"),  # A by default
    ("person-name", "YAMADA^TARO~山田^太郎^^^^^^i", "YAMADA^TARO=山田^太郎"),
    ("person-name", "やまだ^たろう^^^^^L^P~Yamada^Tarou^^^^^D^A", "Yamada^Tarou==やまだ^たろう"),
    ("person-name", f"Sato^Taro^^^^^M^A~佐藤^太郎^^^^^M^I~{KANA[0]}~{ALPHABETIC}", LATIN_KANJI),
    ("person-name", f"{ALPHABETIC}~Alias^T^^^^^A^A~{KANA[1]}~{KANA[0]}~Nick^T^^^^^N", PERSON),
    (
        "person-name",
        "Yamada&y&Y^Tarou^^Jr^Dr^^L^A~山田^太郎^^^^^L^I",
        "Yamada^Tarou^^Dr^Jr=山田^太郎",
    ),
    ("person-name", "Jansen^Anna^^^^^M~van der B&van der&B^Anna^^^Dr.^^L", "van der B^Anna^^Dr."),
    ("person-name", PERSON + "^^^^^L", PERSON),  # in DICOM's form
    ("person-display", "Doe^Jane^M^Jr^Dr", "Dr Jane M Doe Jr"),
    ("provider-name", "12^Welby^Ann^^^Dr^MD", "Dr Ann Welby, MD"),
    ("provider-name", "12&Welby&Ann^20260302", "Ann Welby"),  # NDL: the name in subcomponents
    ("provider-name", "12", None),  # a bare identifier is no name
    ("provider-id", "12^Welby^Ann", "12"),
    ("study-uid", "1.2.840.1", "1.2.840.1"),
    ("study-uid", "Discharged home", None),
]


@pytest.mark.parametrize(("transform", "value", "expected"), CASES)
def test_transform(transform: str, value: str, expected: str | None) -> None:
    """A transform returns the converted value, "" if it cannot convert it."""
    assert of(transform, value) == expected


AGES = [
    ("19800102", "20260302", "046Y"),
    ("19800303", "20260302", "045Y"),  # the birthday is tomorrow
    ("20240815", "20260302", "018M"),
    ("20260210", "20260302", "020D"),
    ("20260302", "20260302", "000D"),
    ("20260303", "20260302", None),  # not yet born
    ("1970", "20260302", None),  # 55 or 56
    ("1970", "19701231", None),
    ("197003", "20260415", "056Y"),
    ("197003", "20260302", None),
    ("19800102", "", "046Y"),  # no study date: today at the site
    ("999912", "20260302", None),
    ("", "20260302", None),
]


@pytest.mark.parametrize(("birth", "study", "expected"), AGES)
def test_age(birth: str, study: str, expected: str | None) -> None:
    """An age has the format of DICOM; it is "" if it would be a guess."""
    rule = "{age: {of: OBR-13, on: [OBR-7]}}"
    assert tag(rule, ORC, f"OBR|1|P1||X|||{study}||||||{birth}") == expected


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
def test_dicom_uid(text: str, valid: bool) -> None:
    """DICOM PS3.5 §9.1: digits and dots, no leading zeros, at most 64."""
    assert is_uid(text) is valid
