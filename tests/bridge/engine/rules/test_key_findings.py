"""Key findings in a template: their places, and no lost or invented text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.engine.documents.uploads.mrrt import read_template, write_template
from bridge.engine.rules.text.document import (
    BracketField,
    Document,
    Heading,
    Inline,
    ListBlock,
    Mark,
    Paragraph,
    Text,
    from_text,
    parse,
    restore,
    to_json,
    with_defaults,
)
from bridge.engine.rules.text.key_findings import apply_template
from bridge.engine.rules.text.plain_text import (
    from_lines,
    from_outline,
    open_brackets,
    outline,
    plain_text,
)
from bridge.engine.rules.text.signing_checks import run_checks
from bridge.engine.rules.text.word_lists import FINDINGS, IMPRESSION
from tests.calls import counted

ONLY_BULLET = re.compile(r"[-*•\u2013]|\d{1,3}[.)]")
CHEST = Document(
    (
        Heading("Technique"),
        Paragraph((Text("CT of the chest, "), BracketField("Contrast"))),
        Heading("Findings"),
        Paragraph((Text("Lungs: "),)),
        Paragraph((Text("Heart: "),)),
        Heading("Impression"),
        Paragraph(),
    )
)


def lines(findings: str) -> list[str]:
    return plain_text(apply_template(CHEST, findings)).split("\n")


def test_a_finding_is_inserted_by_its_anatomy() -> None:
    """After the text of the template."""
    found = lines("- 8 mm nodule in the right upper lobe.\n2. Cardiomegaly.")
    assert found == [
        *("Technique", "CT of the chest, [Contrast]", "Findings"),
        *("Lungs: ", "8 mm nodule in the right upper lobe.", "Heart: ", "Cardiomegaly."),
        *("Impression", ""),
    ]


def test_a_label_has_precedence_over_anatomy() -> None:
    """`Impression: …` names the section; the lines under a heading follow it."""
    found = lines("Impression: Pulmonary nodule.\nFollow-up of the lung in 6 months.")
    at = found.index("Impression")
    assert found[at:] == [
        "Impression",
        "Pulmonary nodule.",
        "Follow-up of the lung in 6 months.",
        "",
    ]
    assert lines("CONCLUSION:\nNormal.")[-3:] == ["Impression", "Normal.", ""]


def test_a_field_is_filled_by_its_label() -> None:
    """`Contrast: none` fills the open field of that name."""
    assert "CT of the chest, none" in lines("Contrast: none")


def test_a_finding_without_known_anatomy_is_inserted_in_the_findings_section() -> None:
    """Findings with unknown words and in other languages are kept unchanged."""
    found = lines("所見なし。")
    assert found[found.index("Findings") + 1] == "所見なし。"
    assert plain_text(apply_template(Document(), "x\ny")) == "x\ny"


def test_inserted_text_is_marked_as_suggested() -> None:
    document = apply_template(CHEST, "Contrast: none\nCardiomegaly.")
    inlines = [
        item for block in document.content if isinstance(block, Paragraph) for item in block.content
    ]
    marked = [
        inline for inline in inlines if isinstance(inline, Text) and Mark.SUGGESTED in inline.marks
    ]
    assert [item.text for item in marked] == ["none", "Cardiomegaly."]


@pytest.mark.parametrize("bullet", ["*", "*\t", " - ", "\u2022 ", "12.", "3) "])
def test_a_line_with_only_a_bullet_is_not_inserted(bullet: str) -> None:
    assert apply_template(CHEST, bullet) == CHEST
    assert apply_template(CHEST, f"{bullet}\nNodule.") == apply_template(CHEST, "Nodule.")


@given(st.text(max_size=400))
def test_no_word_is_lost_or_added(findings: str) -> None:
    """
    Every statement is in the result; without findings the template is unchanged.

    A line that is only a heading selects the template's heading, which may be in another language.
    A line that is only a bullet states nothing.
    """
    result = plain_text(apply_template(CHEST, findings))
    template = plain_text(CHEST)
    kept = sorted(word for word in result.split() if word)
    assert len(kept) <= len(template.split()) + len(findings.split())
    for block in from_text(findings).content:
        words = plain_text(Document((block,))).split()
        if " ".join(words).casefold().strip(" \t:.") in FINDINGS | IMPRESSION:
            continue
        if len(words) == 1 and ONLY_BULLET.fullmatch(words[0]):
            continue
        assert not words or words[-1].rstrip(":").split(":")[-1].casefold() in result.casefold()
    assert apply_template(CHEST, "") == CHEST


def test_fields_of_one_name_are_filled_in_turn() -> None:
    """Each value fills the next open field; without an open field it is a finding."""
    template = Document(
        (
            Heading("Findings"),
            Paragraph(
                (Text("Left "), BracketField("Size"), Text(", right "), BracketField("Size"))
            ),
            Paragraph(),
        )
    )
    text = plain_text(apply_template(template, "Size: 8 mm\nSize: 9 mm\nSize: 7 mm"))
    assert text.split("\n") == ["Findings", "Left 8 mm, right 9 mm", "Size: 7 mm", ""]


def test_the_cost_does_not_grow_with_lines_times_template() -> None:
    """2,000 findings and 1,000 sections: the number of calls grows with their sum."""
    fields = tuple(BracketField(f"f{number}") for number in range(1000))
    blocks = [
        part
        for number in range(1000)
        for part in (Heading(f"part {number}"), Paragraph((Text("-"),)))
    ]
    template = Document((*blocks, Paragraph(fields)))
    lines = [f"new {number}: x" for number in range(1000)] + [
        f"f{number}: y" for number in range(1000)
    ]
    text, calls = counted(lambda: plain_text(apply_template(template, "\n".join(lines))))
    assert text.count("new ") == 1000
    assert text.count("y") == 1000
    assert calls < 1_000_000


def applied(template: str, findings: str) -> list[str]:
    """Return the lines of a template written as text, with findings in it."""
    return plain_text(apply_template(from_outline(template), findings)).split("\n")


@pytest.mark.parametrize(
    ("template", "findings", "expected"),
    [
        (
            "Lungs: Clear.",
            "5 mm nodule in the right lung.",
            "Lungs: 5 mm nodule in the right lung.",
        ),
        ("Lungs: [Clear.]", "Lungs: 5 mm nodule.", "Lungs: 5 mm nodule."),
        ("Lungs: [Clear].", "Lungs: 5 mm nodule.", "Lungs: 5 mm nodule."),
        ("Lungs:\nClear.", "5 mm lung nodule.", "Lungs\n5 mm lung nodule."),
        ("Lungs:\n[Unremarkable.]", "5 mm lung nodule.", "Lungs\n5 mm lung nodule."),
        (
            "Lungs:\n- Clear.\n- No effusion.",
            "5 mm lung nodule",
            "Lungs\n- 5 mm lung nodule\n- No effusion.",
        ),
        ("LUNGS\nClear.", "5 mm lung nodule.", "LUNGS\n5 mm lung nodule."),
        (
            "FINDINGS\nThe lungs are clear. The heart is normal.\nIMPRESSION\nNone.",
            "5 mm nodule in the right upper lobe.",
            (
                "FINDINGS\n5 mm nodule in the right upper lobe. The heart is normal.\n"
                "IMPRESSION\nNone."
            ),
        ),
        (
            "Lungs: Clear. No nodules. No consolidation.",
            "5 mm lung nodule.",
            "Lungs: 5 mm lung nodule. No consolidation.",
        ),
        (
            "Lungs: Clear.\nHeart: Normal.\nPleura: No effusion.",
            "5 mm nodule in the right lobe. Heart is enlarged. Small pleural effusion.",
            (
                "Lungs: 5 mm nodule in the right lobe.\nHeart: Heart is enlarged.\n"
                "Pleura: Small pleural effusion."
            ),
        ),
        (
            "Findings:\nLungs: Clear.\nHeart: Normal.\nImpression:\nNormal chest.",
            "FINDINGS\n5 mm lung nodule. Heart enlarged.\nIMPRESSION\nLung nodule.",
            (
                "Findings\nLungs: 5 mm lung nodule.\nHeart: Heart enlarged.\n"
                "Impression\nLung nodule."
            ),
        ),
        (
            "Lungs: Clear.\nHeart: Normal.",
            "Lungs: 5 mm nodule. Atelectasis on the left. Heart: enlarged.",
            "Lungs: 5 mm nodule. Atelectasis on the left.\nHeart: enlarged.",
        ),
        ("Lungs: Clear.\nHeart: Normal.", "Lungs: clear", "Lungs: Clear.\nHeart: Normal."),
        ("Lunge: Unauffällig.", "Rundherd 5 mm in der Lunge", "Lunge: Rundherd 5 mm in der Lunge"),
        ("肺: 異常なし。", "右肺に5mmの結節。", "肺: 右肺に5mmの結節。"),
        ("Findings:\nUnremarkable.", "5 mm calcification", "Findings\n5 mm calcification"),
        (
            "Lungs: Clear.\nTechnique: CT with contrast.",
            "approx. 5 mm nodule, lung. See e.g. series 3.",
            "Lungs: approx. 5 mm nodule, lung.\nTechnique: CT with contrast.\nSee e.g. series 3.",
        ),
    ],
)
def test_a_finding_replaces_the_normal_text_that_it_contradicts(
    template: str, findings: str, expected: str
) -> None:
    """Normal sentences of the region are replaced; all other text is kept."""
    assert applied(template, findings) == expected.split("\n")


def test_only_the_replacement_is_marked_as_suggested() -> None:
    """The text before and after it belongs to the template."""
    document = apply_template(from_outline("Lungs: Clear. No effusion."), "Lungs: 5 mm nodule.")
    (block,) = document.content
    assert isinstance(block, Paragraph)
    assert block.content == (
        Text("Lungs: "),
        Text("5 mm nodule.", (Mark.SUGGESTED,)),
        Text(" No effusion."),
    )


def test_a_normal_finding_replaces_nothing() -> None:
    """It is added, because it contradicts nothing."""
    assert applied("Lungs: Clear.", "No lung nodules.") == ["Lungs: Clear.", "No lung nodules."]


WORDS = [
    "Unremarkable.",
    "No acute abnormality.",
    "normal",
    "none",
    "Describe the nodule.",
    "Comment on the nodes.",
    "Measure the aorta.",
    "Beschreiben Sie den Rundherd.",
    "Décrire le nodule.",
    "Misurare il nodulo.",
    "Beschrijf de nodus.",
    "Opisać guzek.",
    "Descreva o nódulo.",
    "Descrieți nodulul.",
    "Jelaskan nodul.",
    "結節を記述。",
    "결절을 기술하십시오.",
    "이상 없음.",
    "未见异常。",
    "描述结节。",
    "描述結節。",
    "وصف العقدة.",
    "Опишите узел.",
    "size",
    "left / right",
    " ",
    "",
]


@pytest.mark.parametrize("words", WORDS)
def test_a_bracket_in_text_is_a_request_in_every_language(words: str) -> None:
    """Typed, pasted, dictated or sent text: each bracket is reported."""
    bracket = f"[{words}]"
    line = from_text(f"Lungs: {bracket} Heart normal.")
    listed = Document((ListBlock(((Text(bracket),),)), Heading("Impression"), *line.content))

    assert [check.words for check in run_checks(line, [])] == [bracket]
    assert [run_check.words for run_check in run_checks(listed, [])] == [bracket, bracket]
    assert open_brackets(plain_text(listed)) == 2


@pytest.mark.parametrize("words", WORDS)
def test_a_field_without_a_default_is_a_request(words: str) -> None:
    """In our format and in MRRT, whatever the label says."""
    ours = from_outline(f"Lungs\nSee [{words}].")
    label = words.replace('"', "")
    _, mrrt = read_template(f'<p>See <input type="text" title="{label}">.</p>')

    for document in (ours, mrrt):
        assert [check.check.value for check in run_checks(document, [])] == ["emptyField"]


@pytest.mark.parametrize("words", [word for word in WORDS if word.strip()])
def test_a_declared_default_is_signed_without_a_warning(words: str) -> None:
    """In our format and in MRRT, whatever the text says."""
    ours = from_outline(f"Lungs [lungs := {words}]")
    without_label = from_outline(f"Lungs [:= {words}]")
    _, field = read_template(f'<p>Lungs <input type="text" title="lungs" value="{words}"></p>')
    _, area = read_template(f"<p>Lungs <textarea name='lungs'>\n{words}\n</textarea></p>")

    for document in (ours, without_label, field, area):
        assert run_checks(document, []) == []
        assert plain_text(document) == f"Lungs {words}"
    assert ours == field == area


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("Nodule \uff3b結節を記述\uff3d seen.", ["\uff3b結節を記述\uff3d"]),
        ("See [Describe", ["[Describe"]),
        ("See [Describe\nthe nodule].", ["[Describe"]),
        ("See [Describe [size] well].", ["[size]"]),
        ("No bracket (here) or {there}.", []),
    ],
)
def test_unusual_brackets_are_requests_too(text: str, reported: list[str]) -> None:
    """Full-width, unclosed, divided between lines, nested."""
    found = [check.words for check in run_checks(from_text(text), [])]
    assert set(found) >= set(reported)
    assert bool(found) == bool(reported)


def test_a_bracket_in_a_heading_or_in_a_value_is_a_request() -> None:
    document = Document(
        (
            Heading("Findings [region]"),
            Paragraph((BracketField("a", "[Describe.]", "[Describe.]"), Text(" x"))),
        )
    )
    assert [check.words for check in run_checks(document, [])] == ["[region]", "[Describe.]"]


@pytest.mark.parametrize(
    ("html", "label", "default"),
    [
        ('<input name="size" placeholder="Size in mm">', "Size in mm", ""),
        ('<input name="size" value="  ">', "size", ""),
        ('<input type="time" title="At">', "At", ""),
        ('<textarea title="Lungs"></textarea>', "Lungs", ""),
        ('<input value="Clear.">', "Clear.", "Clear."),
        ("<select><option>left</option><option>right</option></select>", "left / right", ""),
        (
            "<select><option>left</option><option selected>right</option></select>",
            "left / right",
            "right",
        ),
        (
            '<select><option selected value="">Wählen</option><option>a</option><option>b</select>',
            "a / b",
            "",
        ),
        (
            "<select><option selected disabled>選択</option><option>a</option><option>b</select>",
            "a / b",
            "",
        ),
        (
            "<select multiple><option selected>a<option selected>b<option>c</select>",
            "a / b / c",
            "a, b",
        ),
    ],
)
def test_the_fields_of_an_mrrt_template(html: str, label: str, default: str) -> None:
    """A value declares a default; a prompt of a pick list does not."""
    title, document = read_template(f"<p>x {html}</p>")
    (block,) = document.content
    assert isinstance(block, Paragraph)
    assert block.content[-1] == BracketField(label, default, default)
    assert read_template(write_template(title or "T", document))[1] == document
    assert from_outline(outline(document)) == document


FIELDS: list[tuple[Inline, ...]] = [
    (Text("Lungs "), BracketField("lungs", "Clear.", "Clear."), Text(" x")),
    (BracketField("Clear.", "Clear.", "Clear."),),
    (Text("x "), BracketField("EF = 55 %"), BracketField("a:b")),
    (BracketField("a [b] c", "d ] e [", "d ] e ["),),
    (BracketField("a := b", "c := d", "c := d"),),
    (BracketField("back\\slash", "end\\", "end\\"), Text(" x")),
    (BracketField("end\\"), Text(" x")),
    (Text("x\\"), BracketField("size")),
    (Text("[typed] [a := b] \\[x\\] \\\\server\\share"),),
    (BracketField("left / right", "right", "right"),),
    (BracketField("結節を記述。"), BracketField("肺", "清明。", "清明。")),
]


@pytest.mark.parametrize("content", FIELDS)
def test_a_template_is_saved_and_edited_as_text_without_loss(content: tuple[Inline, ...]) -> None:
    """Labels and defaults with the characters of the notation too."""
    document = Document((Paragraph((Text("A "), *content)), ListBlock(((Text("B "), *content),))))
    joined = restore(to_json(document))

    again = from_outline(outline(joined))

    assert _joined(again) == _joined(joined)
    assert parse(to_json(joined)) == joined
    macro = Document(joined.content[:1])
    assert _joined(from_lines(outline(macro))) == _joined(macro)


def _joined(document: Document) -> list[object]:
    found: list[object] = []
    for block in document.content:
        lines = [block.content] if isinstance(block, Paragraph) else getattr(block, "items", ())
        for line in lines:
            for inline in line:
                if isinstance(inline, Text) and found and isinstance(found[-1], str):
                    found[-1] += inline.text
                else:
                    found.append(inline.text if isinstance(inline, Text) else inline)
            found.append(None)
    return found


def test_an_outline_of_backslashes_is_read_in_linear_time() -> None:
    """A hostile template does not occupy the service."""
    for text in ("\\" * 60_000, "[" * 60_000, "[:=" * 20_000, "[" + ":=" * 30_000):
        assert plain_text(from_outline(text))


def test_a_template_of_an_earlier_release_declares_its_values() -> None:
    """A value without `default` is the default; a bracket with a sentence is a request."""
    stored = {
        "type": "doc",
        "content": [
            {
                "type": "paragraph",
                "content": [
                    {"type": "field", "label": "lungs", "value": "Clear."},
                    {"type": "field", "label": "Unremarkable.", "value": ""},
                ],
            }
        ],
    }
    document = restore(with_defaults(stored))

    assert document.content == (
        Paragraph((BracketField("lungs", "Clear.", "Clear."), BracketField("Unremarkable."))),
    )
    assert outline(document) == "[lungs := Clear.][Unremarkable.]"
    assert [check.words for check in run_checks(document, [])] == ["[Unremarkable.]"]
