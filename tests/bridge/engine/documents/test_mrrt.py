"""Templates as IHE MRRT files: reading, writing, removed markup."""

import pytest

from bridge.engine.documents.uploads.mrrt import BadTemplate, read_template, write_template
from bridge.engine.rules.text.document import (
    BracketField,
    Heading,
    ListBlock,
    Paragraph,
    Table,
    Text,
)
from bridge.engine.rules.text.plain_text import plain_text

FILE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="UTF-8"/><title>CT Chest</title>
<meta name="dcterms.title" content="CT Chest &amp; Heart"/>
<script type="text/xml"><template_attributes><x>hidden</x></template_attributes></script>
<style>p { color: red }</style></head>
<body onload="alert(1)">
<section data-section-name="Findings"><header class="level1">Findings</header>
<p>Nodule of <input type="number" name="size" title="Size" value=""/> mm,
 <select name="side"><option>left</option><option selected>right</option></select> lung.</p>
<ul><li>first <b>bold</b></li><li>second</li></ul>
<p><textarea name="Comment"></textarea></p>
<p><a href="javascript:alert(1)">a link</a><img src=x onerror=alert(1)></p>
</section>
<section data-section-name="Impression"><header>Impression</header></section>
</body></html>"""


def test_sections_fields_and_lists_are_read() -> None:
    """Title, sections, text fields, pick lists and text areas."""
    title, document = read_template(FILE)
    assert title == "CT Chest & Heart"
    sections = [block.title for block in document.content if isinstance(block, Heading)]
    assert sections == ["Findings", "Impression"]
    first = document.content[1]
    assert isinstance(first, Paragraph)
    fields = [block for block in first.content if isinstance(block, BracketField)]
    assert fields == [BracketField("Size"), BracketField("left / right", "right", "right")]
    assert plain_text(document).startswith("Findings\nNodule of [Size] mm, right lung.\n- first")
    assert Paragraph((BracketField("Comment"),)) in document.content
    assert any(isinstance(block, ListBlock) and len(block.items) == 2 for block in document.content)


NESTED = """<ul><li>Lung<ol><li>apex</li><li>base</li></ol></li><li>Heart</li></ul>
<table><tr><th>Organ</th><th>Size</th></tr>
<tr><td>Liver<td><input type="text" title="cm"></tr>
<tr><td><ul><li>kidney</li></ul></td><td></td></tr></table><p>end</p>"""


def test_tables_and_nested_lists_are_read_and_written() -> None:
    """Items keep their sublists and rows their cells, also without end tags."""
    _, document = read_template(NESTED)

    apex = ListBlock(((Text("apex"),), (Text("base"),)), ordered=True)
    assert document.content[0] == ListBlock(((Text("Lung"), apex), (Text("Heart"),)))
    table = document.content[1]
    assert isinstance(table, Table)
    assert [[item.header for item in row] for row in table.rows][:2] == [[True] * 2, [False] * 2]
    assert plain_text(document).splitlines()[4:] == [
        "Organ     Size",
        "Liver     [cm]",
        "- kidney",
        "end",
    ]
    assert read_template(write_template("T", document))[1] == document


def test_a_layout_table_becomes_paragraphs() -> None:
    """Headings in cells stay headings, and no text is lost."""
    html = "<table><tr><td>before<h2>Findings</h2>clear</td></tr><tr><td>more</td></tr></table>"

    _, document = read_template(html)

    assert document.content[1] == Heading("Findings")
    assert plain_text(document) == "before\nFindings\nclear\nmore"


def test_markup_is_removed() -> None:
    """Script, style, links and attributes are removed; visible text is kept."""
    _, document = read_template(FILE)
    written = write_template("T", document).lower()
    for trace in ("alert", "javascript", "onerror", "hidden", "color", "href", "<img"):
        assert trace not in written
    assert "a link" in written


def test_a_template_round_trip() -> None:
    """Import of an exported template returns the same template."""
    title, document = read_template(FILE)
    again = read_template(write_template(title, document))
    assert again == (title, document)
    hostile = read_template("<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>")[1]
    assert hostile.content == (Paragraph((Text("<script>alert(1)</script>"),)),)
    assert "<script>" not in write_template("<script>", hostile)


@pytest.mark.parametrize(
    "html",
    [
        "<ul><li>" * 10_000 + "x",
        "",
        "<html></html>",
        "<p>\x00</p>",
        "<p>" + "x" * 1_000_001,
        "<script>x</script>",
    ],
)
def test_invalid_templates_are_refused(html: str) -> None:
    """Empty, too large or too deep files, and files without text."""
    with pytest.raises((BadTemplate, ValueError)):
        read_template(html)


def test_ten_thousand_levels_are_read() -> None:
    """Deep nesting does not exhaust the stack."""
    _, document = read_template("<div>" * 10_000 + "deep" + "</div>" * 10_000)
    assert plain_text(document) == "deep"


def test_a_text_area_keeps_its_default_text() -> None:
    """The text becomes the value of the field, in one line."""
    markup = "<section><p><textarea name='Lungs'>\n Clear.\n No effusion.</textarea></p></section>"
    _, document = read_template(f"<html><body>{markup}</body></html>")
    default = "Clear. No effusion."
    assert document.content == (Paragraph((BracketField("Lungs", default, default),)),)
