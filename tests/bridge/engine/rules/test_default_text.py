"""Default text in brackets: which brackets signing accepts."""

import pytest

from bridge.engine.rules.text.document import (
    BracketField,
    Document,
    Heading,
    ListBlock,
    Paragraph,
    Text,
    from_text,
    parse,
    to_json,
)
from bridge.engine.rules.text.plain_text import (
    accept_defaults,
    has_defaults,
    is_default,
    plain_text,
)
from bridge.engine.rules.text.signing_checks import run_checks


@pytest.mark.parametrize(
    "label",
    [
        "Unremarkable.",
        " No acute abnormality. ",
        "Normal in size; no effusion!",
        "normal",
        "None",
        "No focal consolidation",
        "within normal limits",
        "Unauffällig.",
        "未见异常。",
        "Heart size 5.5 cm.",
    ],
)
def test_a_statement_is_default_text(label: str) -> None:
    """It ends like a sentence, or is a common phrase for a normal finding."""
    assert is_default(label)


@pytest.mark.parametrize(
    "label",
    [
        "",
        " ",
        "size",
        "impression",
        "Impression",
        "normal / enlarged",
        "Normal. / Enlarged.",
        "none|mild|severe",
        "Describe the nodule.",
        "describe...",
        "size …",
        "No.",
        "no of lesions",
        "no prior?",
        "date of prior",
        "Bitte angeben.",
        "Befund beschreiben.",
        "normal range",
        "x" * 501 + ".",
    ],
)
def test_a_request_stays_open(label: str) -> None:
    """A label, a choice, an instruction or a question is not default text."""
    assert not is_default(label)


def test_default_text_is_accepted_in_fields_typed_text_and_lists() -> None:
    """Filled and open fields do not change."""
    document = Document(
        (
            Heading("Findings [x.]"),
            Paragraph((Text("Lungs: "), BracketField("Unremarkable."), Text(" Size [size]."))),
            Paragraph(
                (BracketField("Clear.", "Opacity."), Text(" Heart: [Normal in size.] Bones"))
            ),
            ListBlock(((BracketField("Liver", ""),), (Text("Spleen: [Unremarkable.]"),))),
        )
    )
    accepted = parse(accept_defaults(to_json(document)))
    assert plain_text(accepted) == (
        "Findings [x.]\n"
        "Lungs: Unremarkable. Size [size].\n"
        "Opacity. Heart: Normal in size. Bones\n"
        "- [Liver]\n"
        "- Spleen: Unremarkable."
    )
    assert accept_defaults(to_json(accepted)) == to_json(accepted)
    assert has_defaults(plain_text(document))
    assert not has_defaults(plain_text(accepted))


def test_the_checks_do_not_report_default_text() -> None:
    """Signing accepts it. Open fields are still reported."""
    fields = Document(
        (Paragraph((BracketField("Unremarkable."), Text(" "), BracketField("size"))),)
    )
    assert [each.words for each in run_checks(fields, [])] == ["[size]"]
    typed = from_text("Lungs: [Unremarkable.] See [where].")
    assert [each.words for each in run_checks(typed, [])] == ["[where]"]
