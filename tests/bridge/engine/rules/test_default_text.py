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
    """It ends as a sentence does, or says in a common phrase that nothing was found."""
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
    """A name, a choice, an instruction or a question needs the reader."""
    assert not is_default(label)


def test_it_is_accepted_in_fields_in_typed_text_and_in_lists() -> None:
    """What the reader has filled and what is open stays as it is."""
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


def test_the_checks_do_not_ask_about_it() -> None:
    """Signing accepts it, so there is nothing to look at; what is open is still reported."""
    fields = Document(
        (Paragraph((BracketField("Unremarkable."), Text(" "), BracketField("size"))),)
    )
    assert [each.words for each in run_checks(fields, [])] == ["[size]"]
    typed = from_text("Lungs: [Unremarkable.] See [where].")
    assert [each.words for each in run_checks(typed, [])] == ["[where]"]
