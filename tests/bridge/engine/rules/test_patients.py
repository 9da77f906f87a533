"""Rules about patients and orders: names, dates, files, placeholders, tags, cooling, groups."""

from typing import Any

import pytest

from bridge.contract.errors import ErrorCode
from bridge.engine.rules.order import corrected_tags, is_placeholder, merged_tags, search_text
from bridge.engine.rules.passwords import MAX_BYTES, find_weakness
from bridge.engine.rules.patients import (
    compare_patient,
    names_conflict,
    same_birth_date,
    same_name,
    same_patient,
    unambiguous_date,
)
from bridge.engine.rules.signing import PrelimGroupPolicy, cooling_end, is_cooling, refuse_prelim


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("DOE^JOHN", "Doe John", True),
        ("DOE^JOHN^^^", "doe  john", True),
        ("Mu\u0308ller^Anna", "M\u00fcller^Anna", True),
        ("STRASSE^A", "Straße^A", True),
        ("山田^太郎", "山田 太郎", True),
        ("山田^太郎", "Yamada^Tarou=山田^太郎", True),
        ("Yamada^Tarou", "Yamada^Tarou=山田^太郎=やまだ^たろう", True),
        ("やまだ^たろう", "Yamada^Tarou=山田^太郎=やまだ^たろう", True),
        ("YAMADA^TAROU=山田^太郎", "Yamada^Taro=山田^太郎", True),
        ("Yamada^Tarou=山田^太郎", "Yamada^Tarou=山田^花子", False),
        ("=山田^太郎", "Yamada^Tarou=山田^太郎", True),
        ("Yamada^Hanako", "Yamada^Tarou=山田^太郎", False),
        ("山田^花子", "Yamada^Tarou=山田^太郎", False),
        ("DOE^JOHN=", "DOE^JANE=", False),
        ("DOE^JOHN", "DOE^JANE", False),
        ("", "", False),
    ],
)
def test_same_name(one: str, other: str, same: bool) -> None:
    """Case, carets, spaces and Unicode form are ignored; an empty name never matches."""
    assert same_name(one, other) is same


def test_a_missing_name_is_no_conflict() -> None:
    """Only two different names conflict."""
    assert not names_conflict("DOE^JOHN", "")
    assert not names_conflict("", "DOE^JOHN")
    assert names_conflict("DOE^JOHN", "DOE^JANE")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("19750201", "1975-02-01", True),
        ("197502011230", "19750201", True),
        ("1975-02-01T00:00:00", "19750201", True),
        ("01021975", "01021975", True),
        ("01021975", "19750201", False),
        ("19750201", "19750202", False),
        ("19751301", "19751301", True),
        ("", "", False),
        ("19750201", "", False),
    ],
)
def test_same_birth_date(one: str, other: str, same: bool) -> None:
    """Unambiguous dates are compared as dates, others as text."""
    assert same_birth_date(one, other) is same


def test_ambiguous_dates_are_not_parsed() -> None:
    """`01021975` and a thirteenth month give no date."""
    assert unambiguous_date("01021975") is None
    assert unambiguous_date("19751301") is None
    assert unambiguous_date("1975-0201") is None


def test_same_patient_needs_name_and_date() -> None:
    """Rule 5 requires both; a missing value on either side is no match."""
    ada = {"PatientName": "EXAMPLE^ADA", "PatientBirthDate": "19700102"}

    assert same_patient(ada, {"PatientName": "example ada", "PatientBirthDate": "1970-01-02"})
    assert not same_patient(ada, ada | {"PatientName": ""})
    assert not same_patient(ada, {"PatientName": "EXAMPLE^ADA"})


@pytest.mark.parametrize(
    ("identifier", "placeholder"),
    [
        ("someone@example.org", True),
        ("ann@example.org", True),
        ("ANN", True),
        ("Dr  Ann Example", True),
        ("MRN-1001", False),
        ("", False),
        ("a@b", False),
    ],
)
def test_placeholders(identifier: str, placeholder: bool) -> None:
    """Authentication 8: an e-mail address, or the launching user's own identity."""
    own = {"emails": frozenset({"ann@example.org"}), "names": frozenset({"Dr Ann Example"})}

    assert is_placeholder(identifier, **own) is placeholder


def test_cooling_ends_on_the_millisecond() -> None:
    """A sign delay ends at its end time."""
    ends = cooling_end(1_000, 60, ignore_delay=False)

    assert ends == 61_000
    assert is_cooling(ends, 60_999)
    assert not is_cooling(ends, 61_000)
    assert cooling_end(1_000, 0, ignore_delay=False) is None
    assert cooling_end(1_000, 60, ignore_delay=True) is None


def test_prelim_groups_of_a_site() -> None:
    """Configured groups are binding; a site without groups accepts any."""
    configured = {"CT": PrelimGroupPolicy("CT", frozenset({"night"}), configured=True)}
    learned = {"CT": PrelimGroupPolicy("CT", frozenset({"night"}), configured=False)}

    assert refuse_prelim(configured, "CT", "night") is None
    assert refuse_prelim(configured, "CT", "day") is ErrorCode.UNKNOWN_PRELIM_TAG
    assert refuse_prelim(configured, "MR", "day") is ErrorCode.UNKNOWN_PRELIM_GROUP
    assert refuse_prelim(learned, "MR", "day") is None
    assert refuse_prelim({}, "MR", "day") is None


def test_merged_tags() -> None:
    """A value replaces the known one; an empty one is ignored, or clears if requested."""
    known = {"PatientName": "EXAMPLE^ADA", "Modality": "CT"}
    given = {"Modality": "", "StudyDate": "20260102", "PatientMRN": "M1"}

    assert merged_tags(known, given, clears=False) == known | {"StudyDate": "20260102"}
    assert merged_tags(known, given, clears=True) == {
        "PatientName": "EXAMPLE^ADA",
        "StudyDate": "20260102",
    }
    assert "example ada" in search_text("M1", "A1", known)


@pytest.mark.parametrize(
    ("study", "birth", "age"),
    [("20260301", "19800301", "046Y"), ("20260301", "1980", None), ("", "19800301", None)],
)
def test_a_corrected_birth_date_changes_the_age(study: str, birth: str, age: str | None) -> None:
    """The age is computed again or removed."""
    known = {"PatientBirthDate": "19700301", "PatientAge": "056Y", "StudyDate": study}
    assert corrected_tags(known, {"PatientBirthDate": birth}).get("PatientAge") == age
    assert corrected_tags(known, {"PatientSex": "F"})["PatientAge"] == "056Y"


def test_names_are_compared_less_strictly_if_the_identifier_is_equal() -> None:
    """With an equal PatientID, names in two scripts do not contradict."""
    known: dict[str, Any] = {"mrns": ["P1"], "birth_dates": ["19700101"]}
    file = {"PatientMRN": "P1 ", "PatientName": "Yamada^Tarou"}

    assert compare_patient(file, names=["山田^太郎"], **known).tags == ()
    without_id = {**file, "PatientMRN": ""}
    assert compare_patient(without_id, names=["山田^太郎"], **known).tags == ("PatientName",)
    initials = {**file, "PatientName": "Y^T"}
    assert compare_patient(initials, names=["Yamada^Tarou"], **known).tags == ("PatientName",)


def test_every_contradicting_tag_is_reported() -> None:
    """All contradictions are reported. A missing value contradicts nothing."""
    file = {"PatientMRN": "P2", "PatientName": "ROE^JANE", "PatientBirthDate": "19800101"}
    known: dict[str, Any] = {"mrns": ["P1"], "names": ["DOE^JANE"], "birth_dates": ["1970-01-01"]}

    every = ("PatientMRN", "PatientName", "PatientBirthDate")
    assert compare_patient(file, **known).tags == every
    assert compare_patient({}, **known).tags == ()
    assert compare_patient({"PatientBirthDate": "1970"}, **known).tags == ()
    assert compare_patient(file, mrns=[], names=["^"], birth_dates=["unknown"]).tags == ()
    assert compare_patient({"PatientName": "A " * 500_000}, **known).tags == ("PatientName",)


KNOWN: dict[str, Any] = {"mrns": ["P1"], "names": ["DOE^JANE"], "birth_dates": ["19700102"]}
ROE, BORN = {"PatientName": "ROE^RICHARD"}, {"PatientBirthDate": "19710203"}


@pytest.mark.parametrize(
    ("file", "is_other"),
    [
        ({"PatientMRN": "P1", **ROE}, False),
        ({"PatientMRN": "P1", **BORN}, False),
        ({"PatientMRN": "P1", **ROE, **BORN}, True),
        ({"PatientMRN": "P2", "PatientName": "DOE^JANE", "PatientBirthDate": "19700102"}, True),
        (ROE, True),
        (BORN, True),
        ({"PatientName": "doe^jane", "PatientBirthDate": "1970-01-02"}, False),
        ({"PatientMRN": " P1 ", **ROE, "PatientBirthDate": ""}, False),
        ({"PatientMRN": "P1", **ROE, "PatientBirthDate": "unknown"}, False),
        ({"PatientMRN": "P1^^^HOSPITAL", **ROE}, False),
        ({"PatientMRN": "p1"}, True),
        ({"PatientMRN": "0P1"}, True),
        ({}, False),
    ],
)
def test_whose_file_it_is(file: dict[str, str], is_other: bool) -> None:
    """With the PatientID of the order, name or birth date alone may differ."""
    assert compare_patient(file, **KNOWN).other_patient is is_other


@pytest.mark.parametrize(
    ("known", "given", "is_other"),
    [
        ("P1^^^NORTH", "P1^^^SOUTH", True),
        ("P1^^^NORTH", "P1^^^NORTH", False),
        ("P1^^^NORTH", "P1", False),
        ("P1", "P1^7^M11", False),
        ("P1^^^NORTH", "P2^^^NORTH", True),
    ],
)
def test_one_number_of_two_authorities(known: str, given: str, is_other: bool) -> None:
    """An identifier with its authority (HL7 CX) differs only if both name one."""
    compared = compare_patient({"PatientMRN": given}, mrns=[known], names=[], birth_dates=[])
    assert compared.other_patient is is_other


@pytest.mark.parametrize(
    ("password", "refused"),
    [
        ("correct horse battery", None),
        ("Tr0ub4dor&3x", None),
        ("Xk3$9qLp2z", None),  # ten characters, hard to guess
        ("short", ErrorCode.PASSWORD_TOO_WEAK),
        ("Xk3$9q", ErrorCode.PASSWORD_TOO_WEAK),
        ("password", ErrorCode.PASSWORD_COMMON),
        ("Password1234", ErrorCode.PASSWORD_COMMON),
        ("P@ssw0rd1234", ErrorCode.PASSWORD_COMMON),
        ("aaaaaaaaaaaaaaaa", ErrorCode.PASSWORD_COMMON),
        ("1234567890123", ErrorCode.PASSWORD_COMMON),
        ("passwordpassword", ErrorCode.PASSWORD_COMMON),
        (
            "\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff441234",
            ErrorCode.PASSWORD_COMMON,
        ),  # full width
        ("\uff41da@site1.test", ErrorCode.PASSWORD_PERSONAL),
        ("ada@site1.test", ErrorCode.PASSWORD_PERSONAL),
        ("Ada Reader 2026", ErrorCode.PASSWORD_PERSONAL),
        ("", ErrorCode.PASSWORD_TOO_WEAK),
        ("x" * (MAX_BYTES + 1), ErrorCode.PASSWORD_TOO_LONG),
        ("\u00e9" * MAX_BYTES, ErrorCode.PASSWORD_TOO_LONG),
    ],
)
def test_weak_passwords_are_refused(password: str, refused: ErrorCode | None) -> None:
    """At least 12 characters or a score of 3, not common, not the own name or address."""
    assert find_weakness(password, "ada@site1.test", "Ada Reader") is refused
