"""Checks before signing: the findings of each check and their places."""

import pytest

from bridge.engine.rules.text.document import (
    BracketField,
    Document,
    Heading,
    ListBlock,
    Mark,
    Paragraph,
    Text,
    from_text,
)
from bridge.engine.rules.text.signing_checks import SigningCheck, SigningFinding, run_checks
from tests.calls import counted


def found(text: str, **tags: str) -> list[tuple[SigningCheck, str]]:
    return [(check.check, check.words) for check in run_checks(from_text(text), [tags])]


def test_open_fields_and_sections_without_text_are_empty() -> None:
    """A field without value, and a heading without text below it."""
    document = Document(
        (
            Heading("Findings"),
            Paragraph(
                (
                    Text("Nodule of "),
                    BracketField("size"),
                    Text(" mm in "),
                    BracketField("lobe", "RUL"),
                )
            ),
            Heading("Impression"),
            Paragraph(),
        )
    )
    assert run_checks(document, []) == [
        SigningFinding(SigningCheck.EMPTY_FIELD, 1, 10, 16, "[size]"),
        SigningFinding(SigningCheck.EMPTY_FIELD, 2, 0, 10, "Impression"),
    ]


def test_an_empty_heading_has_no_words() -> None:
    """Neither the empty section nor its heading shows brackets."""
    document = Document((Paragraph((Text("Clear."),)), Heading(""), Heading("[Impression]")))
    assert run_checks(document, []) == [
        SigningFinding(SigningCheck.EMPTY_FIELD, 1, 0, 0, ""),
        SigningFinding(SigningCheck.EMPTY_FIELD, 2, 0, 12, "[Impression]"),
        SigningFinding(SigningCheck.OPEN_BRACKET, 2, 0, 12, "[Impression]"),
    ]


def test_a_report_without_text_is_empty() -> None:
    """Headings alone are not a report."""
    for document in (Document(), Document((Heading("Findings"),)), from_text("  \n")):
        assert [check.check for check in run_checks(document, [])] == [SigningCheck.EMPTY_FIELD]


def test_unaccepted_suggestions_are_found() -> None:
    """Adjacent marked texts are one finding; accepted text has no mark and is no finding."""
    marks = (Mark.SUGGESTED,)
    document = Document(
        (
            Paragraph(
                (Text("Lungs: "), Text("5 mm ", marks), Text("nodule.", (Mark.BOLD, *marks)))
            ),
            Paragraph((Text("Accepted."),)),
            ListBlock(((Text("Mass.", marks),),)),
        )
    )
    assert run_checks(document, []) == [
        SigningFinding(SigningCheck.SUGGESTION, 0, 7, 19, "5 mm nodule."),
        SigningFinding(SigningCheck.SUGGESTION, 2, 0, 5, "Mass.", item=0),
    ]


def test_typed_brackets_are_found_in_list_items_too() -> None:
    """A typed or dictated bracket is open until it is removed."""
    document = Document((ListBlock(((Text("none"),), (Text("see [where]"),))),))
    assert run_checks(document, []) == [
        SigningFinding(SigningCheck.OPEN_BRACKET, 0, 4, 11, "[where]", item=1)
    ]


@pytest.mark.parametrize(
    ("study", "text", "words"),
    [
        ("XR KNEE LEFT", "Fracture of the right patella.", ["right"]),
        ("XR KNEE LT", "Right-sided effusion.", ["Right"]),
        ("XR KNEE RT", "Effusion on the left.", ["left"]),
        ("Knie links", "Erguss im rechten Knie.", ["rechten"]),
        ("左膝", "右膝关节积液", ["右"]),
        ("XR KNEE LEFT", "Left knee: smaller than the right.", []),
        ("XR KNEE LEFT", "Both knees.", []),
        ("XR KNEES LEFT AND RIGHT", "Fracture of the right patella.", []),
        ("XR KNEE", "Fracture of the right patella.", []),
        ("MR KNEE BILATERAL LEFT", "Right.", []),
        ("XR KNEE LEFT", "Copyright. Brightness.", []),
        ("Linkerknie", "Erguss rechts.", ["rechts"]),
        ("Schulter links", "Fraktur der Rechterschulter.", ["Rechterschulter"]),
        ("MRT Knie rechts", "Linksseitiger Erguss.", ["Linksseitiger"]),
        ("MR Linkerknie", "Meniscus van de rechterknie.", ["rechterknie"]),
        ("Knie linkszijdig", "Rechtszijdige hydrops.", ["Rechtszijdige"]),
        ("Röntgen vänster knä", "Fraktur i högersidiga patella.", ["högersidiga"]),
        ("MR venstre skulder", "Høyresidig ruptur.", ["Høyresidig"]),
        ("Knie links", "Rechteckiges Fragment, rechtzeitig.", []),
        ("Knie rechts", "Linked to a linear lesion.", []),
        ("Knie links", "Dit volgt rechtstreeks.", []),
    ],
)
def test_the_other_side(study: str, text: str, words: list[str]) -> None:
    """The opposite side is a finding unless the sentence also names the side of the order."""
    assert found(text, StudyDescription=study) == [
        (SigningCheck.LATERALITY, word) for word in words
    ]


def test_orders_of_two_sides_have_no_laterality_check() -> None:
    """A report of linked orders may mention both sides."""
    orders = [{"StudyDescription": "KNEE LEFT"}, {"StudyDescription": "KNEE RIGHT"}]
    assert run_checks(from_text("Right effusion."), orders) == []


@pytest.mark.parametrize(
    ("sex", "text", "words"),
    [
        ("M", "The uterus is normal.", ["uterus"]),
        ("F", "Prostate enlarged; he was seen before.", ["Prostate", "he"]),
        ("Female", "Hodenhochstand", ["Hodenhochstand"]),
        ("F", "前列腺正常", ["前列腺"]),
        ("M", "Prostate normal. Cervical spine normal. The others.", []),
        ("F", "Uterus normal.", []),
        ("O", "Uterus and prostate.", []),
        ("", "Uterus and prostate.", []),
    ],
)
def test_the_other_sex(sex: str, text: str, words: list[str]) -> None:
    """Words that do not apply to the sex of the patient are findings."""
    assert found(text, PatientSex=sex) == [(SigningCheck.SEX_MISMATCH, word) for word in words]


def test_the_cost_does_not_grow_with_the_square_of_a_line() -> None:
    """A paragraph with many open fields: calls in proportion to them, and a limited result."""
    document = Document((Paragraph(tuple(BracketField("left") for _ in range(3000))),))
    findings, calls = counted(lambda: run_checks(document, [{"StudyDescription": "MR RIGHT KNEE"}]))
    assert len(findings) == 2000
    assert calls < 100_000
