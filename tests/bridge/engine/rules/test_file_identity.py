"""Contradictions between a DICOM file and the known patient."""

from bridge.engine.rules.patients import contradictions


def test_names_are_compared_less_strictly_if_the_identifier_is_equal() -> None:
    """With an equal PatientID, names in two scripts do not contradict."""
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
    """All contradictions are reported. A missing value contradicts nothing."""
    file = {"PatientMRN": "P2", "PatientName": "ROE^JANE", "PatientBirthDate": "19800101"}
    known = {"mrns": ["P1"], "names": ["DOE^JANE"], "birth_dates": ["1970-01-01"]}

    assert contradictions(file, **known) == ("PatientMRN", "PatientName", "PatientBirthDate")
    assert contradictions({}, **known) == ()
    assert contradictions({"PatientBirthDate": "1970"}, **known) == ()
    assert contradictions(file, mrns=[], names=["^"], birth_dates=["unknown"]) == ()
    assert contradictions({"PatientName": "A " * 500_000}, **known) == ("PatientName",)
