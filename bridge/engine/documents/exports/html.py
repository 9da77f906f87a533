"""
A report as one self-contained HTML document: no script, no request, images as data URIs.

The document has one element of class `report-content`, and one of class `report-addendum-content`
for each signed addendum (interface reference, export/html). All texts are escaped, and nh3 removes
all elements but the listed ones.
"""

from base64 import b64encode
from collections.abc import Iterator
from datetime import tzinfo
from html import escape

from bridge.engine.documents.exports.layout import (
    LayoutPart,
    OrderRow,
    ReportLayout,
    clean_document,
    lay_out,
)
from bridge.engine.documents.exports.model import ExportedReport
from bridge.engine.documents.uploads.images import EncodedImage
from bridge.engine.rules.text.document import (
    Block,
    Document,
    Heading,
    Inline,
    Item,
    ListBlock,
    Mark,
    Paragraph,
    Table,
    TableCell,
    Text,
    inline_text,
    item_parts,
)

ELEMENTS = {
    *("article", "header", "footer", "section", "div", "h1", "h2", "h3", "p", "ol", "ul", "li"),
    *("table", "thead", "tbody", "tr", "th", "td", "strong", "em", "u", "span", "img", "br"),
}
ATTRIBUTES = {"*": {"class"}, "img": {"src", "alt"}, "th": {"scope"}}
TAGS = {Mark.BOLD: "strong", Mark.ITALIC: "em", Mark.UNDERLINE: "u"}

STYLE = """
body{font-family:"Libertinus Serif",Cambria,Caladea,Georgia,"Times New Roman","Noto Sans CJK JP",\
"Yu Gothic","Microsoft YaHei","Malgun Gothic","Noto Color Emoji","Segoe UI Emoji",serif;\
font-size:10.5pt;line-height:1.4;color:#000;max-width:17cm;margin:2em auto;padding:0 1em}
p,li,h2,h3,td{white-space:pre-wrap;overflow-wrap:anywhere}
p{margin:0;min-height:1.4em}
h1{font-size:16pt;margin:.3em 0}h2{font-size:13pt;margin:1em 0 .3em}h3{font-size:11pt;\
margin:.8em 0 .2em}ul,ol{margin:0;padding-inline-start:1.6em}
table{border-collapse:collapse;margin:1em 0}th{text-align:start;padding:.1em 1em .1em 0;\
font-weight:700;width:4.5cm;vertical-align:top}
.grid th{width:auto}.grid th,.grid td{border:1px solid #999;padding:.2em .6em;vertical-align:top}
img{max-width:100%}.signature-image{max-height:2cm}.header-image,.footer-image{max-height:2.5cm}
header>div,footer>div{text-align:center}.key-image{max-height:11cm;margin:1em 0}
.left-out{font-style:italic}
.not-signed{border:2px solid #b00020;color:#b00020;font-weight:700;padding:.4em .8em;margin:1em 0}
.signature{margin:1em 0;font-style:italic}.open-field{background:#fff3c4}
@media print{body{margin:0}}
"""

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def render(exported: ExportedReport, zone: tzinfo) -> str:
    """Return the report as an HTML document, its times in `zone`."""
    layout = lay_out(exported, zone)
    return (
        f'<!DOCTYPE html>\n<html lang="{escape(layout.language)}">\n<head>\n'
        '<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(layout.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"{_sanitize(''.join(_report(layout)))}\n</body>\n</html>\n"
    )


def fragment(document: Document) -> str:
    """Return only the content, for the member `html_content` of events."""
    return _sanitize("".join(_blocks(clean_document(document))))


def _sanitize(markup: str) -> str:
    """Remove all but the known elements, attributes and data URIs."""
    import nh3  # noqa: PLC0415  # large, and rarely needed

    return nh3.clean(
        markup, tags=ELEMENTS, attributes=ATTRIBUTES, url_schemes={"data"}, link_rel=None
    )


def _report(layout: ReportLayout) -> Iterator[str]:
    yield '<article class="report">\n<header>\n'
    yield _image(layout.header, "header-image")
    if layout.site:
        yield f'<p class="site">{escape(layout.site)}</p>\n'
    yield f"<h1>{escape(layout.title)}</h1>\n"
    for rows in layout.orders:
        yield _order_table(rows)
    if layout.banner:
        yield f'<p class="not-signed">{escape(layout.banner)}</p>\n'
    yield "</header>\n"
    yield from _part(layout.report, "report-content")
    for addendum in layout.addenda:
        yield from _part(addendum, "report-addendum-content")
    yield from _key_images(layout)
    yield f"<footer>{_image(layout.footer, 'footer-image')}</footer>\n</article>"


def _key_images(layout: ReportLayout) -> Iterator[str]:
    if layout.images or layout.images_left_out:
        yield f'<section class="key-images">\n<h2>{escape(layout.images_heading)}</h2>\n'
        yield from (_image(image, "key-image") for image in layout.images)
        if layout.images_left_out:
            yield f'<p class="left-out">{escape(layout.images_left_out)}</p>\n'
        yield "</section>\n"


def _order_table(rows: tuple[OrderRow, ...]) -> str:
    lines = (
        f'<tr><th scope="row">{escape(row.label)}</th><td>{escape(row.value)}</td></tr>\n'
        for row in rows
    )
    return f'<table class="order"><tbody>\n{"".join(lines)}</tbody></table>\n'


def _part(part: LayoutPart, name: str) -> Iterator[str]:
    yield "<section>\n"
    if part.heading:
        yield f"<h2>{escape(part.heading)}</h2>\n"
    yield f'<div class="{name}">\n{"".join(_blocks(part.body))}</div>\n'
    if part.signature:
        yield _image(part.signature_image, "signature-image")
        yield f'<p class="signature">{escape(part.signature)}</p>\n'
    yield "</section>\n"


def _image(image: EncodedImage | None, name: str) -> str:
    if image is None:
        return ""
    data = b64encode(image.data).decode("ascii")
    return f'<div><img class="{name}" alt="" src="data:{image.media_type};base64,{data}"></div>\n'


def _blocks(document: Document) -> Iterator[str]:
    for block in document.content:
        yield _block(block)


def _block(block: Block) -> str:
    match block:
        case Heading(title):
            return f"<h3>{escape(title)}</h3>\n"
        case Paragraph(content):
            return f"<p>{_inlines(content)}</p>\n"
        case ListBlock(items, ordered):
            tag = "ol" if ordered else "ul"
            rows = "".join(f"<li>{_item(item)}</li>\n" for item in items)
            return f"<{tag}>\n{rows}</{tag}>\n"
        case Table():
            return _grid(block.grid())


def _item(item: Item) -> str:
    """Write an item without line ends: they would show as empty lines."""
    text, sublists = item_parts(item)
    return _inlines(text) + "".join(_block(sublist).replace("\n", "") for sublist in sublists)


def _grid(rows: tuple[tuple[TableCell, ...], ...]) -> str:
    if not rows:
        return ""
    has_header = all(cell.header for cell in rows[0])
    head = f"<thead>{_grid_row(rows[0])}</thead>\n" if has_header else ""
    body = "".join(f"{_grid_row(row)}\n" for row in rows[1 if has_header else 0 :])
    return f'<table class="grid">{head}<tbody>\n{body}</tbody></table>\n'


def _grid_row(row: tuple[TableCell, ...]) -> str:
    scope = "col" if all(cell.header for cell in row) else "row"
    cells = (
        f'<th scope="{scope}">{_cell(cell)}</th>' if cell.header else f"<td>{_cell(cell)}</td>"
        for cell in row
    )
    return f"<tr>{''.join(cells)}</tr>"


def _cell(cell: TableCell) -> str:
    return "".join(_block(block).replace("\n", "") for block in cell.content)


def _inlines(content: tuple[Inline, ...]) -> str:
    return "".join(_inline(inline) for inline in content)


def _inline(inline: Inline) -> str:
    text = escape(inline_text((inline,)))
    if isinstance(inline, Text):
        for mark in inline.marks:
            text = f"<{TAGS[mark]}>{text}</{TAGS[mark]}>"
        return text
    return text if inline.value else f'<span class="open-field">{text}</span>'
