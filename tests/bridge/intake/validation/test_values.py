"""Validation of values, of versions without an hl7apy structure, of sizes, and of profiles."""

from pathlib import Path

import pytest

from bridge.intake.validation.profiles import ProfileUnusable, load_profile
from bridge.intake.validation.structure import validate
from tests.bridge.intake.validation.test_structure import OBR, ORC, PID, PROFILE, errors, message


def observed(kind: str, value: str) -> str:
    """Return an OBX of a type."""
    return f"OBX|1|{kind}|1^A||{value}||||||F"


@pytest.mark.parametrize("version", ["2.3", "2.3.1", "2.5.1", "2.6"])
@pytest.mark.parametrize(
    ("segment", "place"),
    [
        (f"{PID}||19-XX", "PID-7"),
        (f"{PID}||Aug 15, 1942", "PID-7"),
        (f"{PID}||19701301", "PID-7"),
        ("ORC|NW|1|||||^^^202x^^R", "ORC-7.4"),
        ("OBX|x|ST|1^A||x||||||F", "OBX-1"),
        (observed("NM", "heavy"), "OBX-5"),
        (observed("DT", "2026-01-01"), "OBX-5"),
        (observed("TM", "2510"), "OBX-5"),
    ],
)
def test_invalid_values(segment: str, place: str, version: str) -> None:
    """An invalid value is error 102 with its place, by the type of the element in the version."""
    usual = {"PID": PID, "ORC": ORC, "OBR": OBR}
    segments = [*(usual | {segment[:3]: segment}).values()]
    found = errors(validate(message(*segments, version=version)))
    assert ("102", place) in found


@pytest.mark.parametrize(
    ("segment", "value"),
    [
        *(("PID", each) for each in ("1970", "197001", "198807050000", '""', "19700101+0100")),
        *(("PID", each) for each in ("20260101235959.1234-0700", "2026010123", "")),
        *(("NM", each) for each in ("72", "-1.5", "+.5", '""')),
        *(("TM", each) for each in ("23", "2359", "235959.1+0100")),
        *(("ST", each) for each in ("heavy", "2026-01-01")),
    ],
)
def test_valid_values(segment: str, value: str) -> None:
    """Any precision, a zone, a null and an empty value are valid."""
    segments = [PID, ORC, OBR, observed(segment, value)]
    if segment == "PID":
        segments = [f"{PID}||{value}", ORC, OBR]
    assert errors(validate(message(*segments))) == set()


@pytest.mark.parametrize("version", ["2.7.1", "2.9", ""])
def test_versions_that_hl7apy_does_not_have(version: str) -> None:
    """The nearest version applies, with warnings only."""
    kind = "OMG^O19^OMG_O19"
    assert not errors(validate(message(PID, ORC, OBR, version=version, kind=kind)))
    wrong = validate(message(f"{PID}||19-XX", ORC, OBR, version=version, kind=kind))
    assert "PID-7" in {each.refusal.place for each in wrong}
    assert not errors(wrong)
    assert not errors(validate(message(PID, ORC, OBR, version=version)))  # ORM ends with 2.6


def test_too_many_fields() -> None:
    """A message with too many fields is refused without validation, which would take minutes."""
    many = observed("TX", "a^b~" * 20_000)
    assert errors(validate(message(PID, ORC, OBR, many))) == {("104", "MSH")}
    long = observed("TX", "a" * 100_000)
    assert errors(validate(message(PID, ORC, OBR, long))) == set()


@pytest.mark.parametrize(
    ("patient", "place"),
    [("PID|1||M1^2", "PID-3.2"), ("PID|1||M1^^3", "PID-3.3"), ("PID|1||M1|X", "PID-4")],
)
def test_components_outside_the_profile(tmp_path: Path, patient: str, place: str) -> None:
    """A component of usage X, and one after the last listed one, are errors with their place."""
    file = tmp_path / "orders.xml"
    second = '<Component Name="Check Digit" Usage="X" Datatype="ST"/></Field>'
    file.write_text(PROFILE.replace("</Field>", second), "utf-8")
    assert errors(validate(message(patient), load_profile(file))) == {("198", place)}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('Usage="R" Min="1" Max="1"/>', 'Usage="REQUIRED" Min="1" Max="1"/>'),
        ('<Segment Name="MSH" Usage="R" Min="1" Max="1"/>', ""),
        ('Component Name="ID Number" Usage="R"', 'Component Name="ID Number" Usage="RX"'),
    ],
)
def test_invalid_profiles(tmp_path: Path, before: str, after: str) -> None:
    """An invalid usage, and a structure without MSH, are errors of the file."""
    file = tmp_path / "orders.xml"
    file.write_text(PROFILE.replace(before, after, 1), "utf-8")
    with pytest.raises(ProfileUnusable):
        load_profile(file)


def test_a_profile_of_another_version(tmp_path: Path) -> None:
    """A profile of an unsupported version is read as the nearest one."""
    file = tmp_path / "orders.xml"
    file.write_text(PROFILE.replace("2.5.1", "2.9"), "utf-8")
    assert "ORM_O01" in load_profile(file)


def test_a_message_with_very_many_segments() -> None:
    """The time of hl7apy grows with the square of repeated segments."""
    many = ["NTE"] * 90_000
    assert errors(validate(message(PID, ORC, OBR, *many))) == {("104", "MSH")}
