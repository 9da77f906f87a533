"""When a DICOM file contradicts what is known of a patient."""

import pytest

from bridge.engine.rules.file_identity import compatible_names, contradictions


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("DOE^JANE", "Doe^Jane"),
        ("DOE^JANE^QUINN", "DOE^JANE"),
        ("DOE^JANE^QUINN", "DOE^JANE^Q"),
        ("DOE^JANE^Q.", "DOE^JANE QUINN"),
        ("DOE^JANE^^DR", "DOE^JANE"),
        ("MÜLLER-DOE^JANE", "MUELLER DOE^JANE"),
        ("MÜLLER^JANE", "Muller^Jane"),
        ("O'BRIEN^PAT", "OBRIEN^PAT"),
        ("DOE^JANE", "Doe, Jane"),
        ("DOE^JANE", "Jane Doe"),
        ("DOE^JANE^^^", "DOE^JANE"),
        ("Yamada^Tarou=山田^太郎=やまだ^たろう", "山田^太郎"),
        ("Yamada^Tarou=山田^太郎", "YAMADA^TAROU"),
        ("山田^太郎", "山田 太郎"),
        ("김^희중", "김희중"),
        ("ﾔﾏﾀﾞ^ﾀﾛｳ", "ヤマダ^タロウ"),
        ("DOE^JANE^^^JR", "DOE^JANE"),
        ("Łukasz^Jan", "ŁUKASZ^JAN"),
    ],
)
def test_compatible_names(one: str, other: str) -> None:
    """Names of one person, as systems spell them."""
    assert compatible_names(one, other)
    assert compatible_names(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("DOE^JANE", "DOE^JOHN"),
        ("DOE^JANE", "ROE^JANE"),
        ("DOE^JANE^QUINN", "DOE^JANE^ROSE"),
        ("DOE^JOHN^^^JR", "DOE^JOHN^^^SR"),
        ("DOE^J", "DOE^JOHN"),
        ("Doe, Jane", "Doe, John"),
        ("Yamada^Tarou=山田^太郎", "山田^花子"),
        ("山田^太郎", "Yamada^Tarou"),
        ("かとう^か", "がとう^か"),
    ],
)
def test_names_of_two_people(one: str, other: str) -> None:
    """Other names, and names that cannot be compared."""
    assert not compatible_names(one, other)
    assert not compatible_names(other, one)


def test_the_same_identifier_helps() -> None:
    """Names in two scripts, or an initial, are compatible where the PatientID is the same."""
    known = {"mrns": ["P1"], "birth_dates": ["19700101"]}
    file = {"PatientMRN": "P1 ", "PatientName": "Yamada^Tarou"}

    assert contradictions(file, names=["山田^太郎"], **known) == ()
    assert contradictions({**file, "PatientMRN": ""}, names=["山田^太郎"], **known) == (
        "PatientName",
    )
    assert contradictions({**file, "PatientName": "Y^T"}, names=["Yamada^Tarou"], **known) == (
        "PatientName",
    )


def test_each_tag_is_named() -> None:
    """All contradictions are found; what either side lacks contradicts nothing."""
    file = {"PatientMRN": "P2", "PatientName": "ROE^JANE", "PatientBirthDate": "19800101"}
    known = {"mrns": ["P1"], "names": ["DOE^JANE"], "birth_dates": ["1970-01-01"]}

    assert contradictions(file, **known) == ("PatientMRN", "PatientName", "PatientBirthDate")
    assert contradictions({}, **known) == ()
    assert contradictions({"PatientBirthDate": "1970"}, **known) == ()
    assert contradictions(file, mrns=[], names=["^"], birth_dates=["unknown"]) == ()
    assert contradictions({"PatientName": "A " * 500_000}, **known) == ("PatientName",)
