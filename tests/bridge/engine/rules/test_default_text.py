"""Brackets: the template says whether one is a request or default text, and no word decides."""

import pytest

from bridge.engine.documents.uploads.mrrt import read_template, write_template
from bridge.engine.rules.text.document import (
    BracketField,
    Document,
    Heading,
    Inline,
    ListBlock,
    Paragraph,
    Text,
    from_text,
    parse,
    restore,
    to_json,
    with_defaults,
)
from bridge.engine.rules.text.plain_text import (
    from_lines,
    from_outline,
    open_brackets,
    outline,
    plain_text,
)
from bridge.engine.rules.text.signing_checks import run_checks

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

    assert [each.words for each in run_checks(line, [])] == [bracket]
    assert [each.words for each in run_checks(listed, [])] == [bracket, bracket]
    assert open_brackets(plain_text(listed)) == 2


@pytest.mark.parametrize("words", WORDS)
def test_a_field_without_a_default_is_a_request(words: str) -> None:
    """In our format and in MRRT, whatever the label says."""
    ours = from_outline(f"Lungs\nSee [{words}].")
    label = words.replace('"', "")
    _, mrrt = read_template(f'<p>See <input type="text" title="{label}">.</p>')

    for document in (ours, mrrt):
        assert [each.check.value for each in run_checks(document, [])] == ["emptyField"]


@pytest.mark.parametrize("words", [each for each in WORDS if each.strip()])
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
    found = [each.words for each in run_checks(from_text(text), [])]
    assert set(found) >= set(reported)
    assert bool(found) == bool(reported)


def test_a_bracket_in_a_heading_or_in_a_value_is_a_request() -> None:
    document = Document(
        (
            Heading("Findings [region]"),
            Paragraph((BracketField("a", "[Describe.]", "[Describe.]"), Text(" x"))),
        )
    )
    assert [each.words for each in run_checks(document, [])] == ["[region]", "[Describe.]"]


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
    assert [each.words for each in run_checks(document, [])] == ["[Unremarkable.]"]
