"""
A report as DOCX, for export from the reporting app.

python-docx writes the file, styles, tables and pictures. The paragraphs of the text are written as
WordprocessingML in one piece, because adding them one by one takes quadratic time.
"""

import re
from collections.abc import Iterator
from datetime import tzinfo
from io import BytesIO
from typing import Any
from xml.sax.saxutils import escape

import docx
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls, qn
from docx.shared import Emu, Mm, Pt, RGBColor

from bridge.engine.documents.exports.layout import (
    LayoutPart,
    OrderRow,
    ReportLayout,
    column_shares,
    lay_out,
)
from bridge.engine.documents.exports.model import ExportedReport, PageSize
from bridge.engine.documents.uploads.images import EncodedImage
from bridge.engine.rules.text.document import (
    Block,
    Heading,
    Inline,
    ListBlock,
    Mark,
    Paragraph,
    Table,
    TableCell,
    Text,
    inline_text,
    item_parts,
)

EMU_PER_PIXEL = 9525  # at 96 dots per inch
PAPERS = {PageSize.A4: (Mm(210), Mm(297)), PageSize.LETTER: (Mm(215.9), Mm(279.4))}
MARGIN = Mm(20)
TEXT_WIDTH = Mm(170)  # A4 less its margins; Letter is wider
IMAGE_HEIGHT = Mm(25)  # in header and footer
KEY_IMAGE_HEIGHT = Mm(110)
SIGNATURE_HEIGHT = Mm(20)
COLUMNS = Mm(45), Mm(125)  # the columns of the table of order data
SMALL = Pt(8)
FIELDS = {"{page}": "PAGE", "{pages}": "NUMPAGES"}
TABLE_WIDTH = 9638  # twentieths of a point: 17 cm
ITEM_INDENT = 284
LONGEST_NODE = 1_000_000  # characters; libxml2 refuses text nodes of 10 MB
WARNING_RED = RGBColor(0xB0, 0x00, 0x20)

STYLES = ("Normal", "Title", "Heading 1", "Heading 2")
MARKS = {Mark.BOLD: "<w:b/>", Mark.ITALIC: "<w:i/>", Mark.UNDERLINE: '<w:u w:val="single"/>'}
EAST_ASIAN_FONTS = {
    "ja": "Yu Gothic",
    "ko": "Malgun Gothic",
    "zh-CN": "Microsoft YaHei",
    "zh-Hant": "Microsoft JhengHei",
}
EAST_ASIAN_TAGS = {"zh-Hant": "zh-TW"}  # Word names the region, not the script


def render(exported: ExportedReport, zone: tzinfo) -> bytes:
    """Return the report as a .docx file, its times in `zone`."""
    layout = lay_out(exported, zone)
    document = docx.Document()
    _set_language(document, layout.language)
    properties = document.core_properties  # those of python-docx's template
    properties.title, properties.author, properties.comments = layout.title, "", ""
    _set_page(document.sections[0], layout)
    _draw_margins(document.sections[0], layout)
    _draw_head(document, layout)
    for part in (layout.report, *layout.addenda):
        _draw_part(document, part)
    _draw_images(document, layout)
    buffer = BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def _set_language(document: Any, language: str) -> None:
    """Name an East Asian font in each style: without one Word shows boxes on some machines."""
    base = language.partition("-")[0]
    font = EAST_ASIAN_FONTS.get(language) or EAST_ASIAN_FONTS.get(base) or EAST_ASIAN_FONTS["ja"]
    tag = EAST_ASIAN_TAGS.get(language, language)
    for name in STYLES:
        properties = document.styles[name].element.get_or_add_rPr()
        fonts = properties.get_or_add_rFonts()
        fonts.attrib.pop(qn("w:eastAsiaTheme"), None)  # a theme font has precedence
        fonts.set(qn("w:eastAsia"), font)
        properties.append(
            parse_xml(f'<w:lang {nsdecls("w")} w:val="{escape(tag)}" w:eastAsia="{escape(tag)}"/>')
        )


def _set_page(section: Any, layout: ReportLayout) -> None:
    section.page_width, section.page_height = PAPERS[layout.page_size]
    section.left_margin = section.right_margin = MARGIN
    section.top_margin = section.bottom_margin = MARGIN
    section.header_distance = section.footer_distance = Mm(10)


def _draw_margins(section: Any, layout: ReportLayout) -> None:
    """Write header and footer: images, the patient, the page number."""
    header, footer = section.header.paragraphs[0], section.footer.paragraphs[0]
    if layout.header:
        header.alignment = WD_ALIGN_PARAGRAPH.CENTER
        _add_picture(header, layout.header, IMAGE_HEIGHT)
        header = section.header.add_paragraph()
    header.add_run(layout.running).font.size = SMALL
    footer.alignment = WD_ALIGN_PARAGRAPH.CENTER
    for piece in re.split(r"(\{pages?\})", layout.page):
        run = footer.add_run("" if piece in FIELDS else piece)
        run.font.size = SMALL
        if piece in FIELDS:
            for markup in _field(FIELDS[piece]):
                run._r.append(parse_xml(markup))  # noqa: SLF001  # python-docx has no fields
    if layout.footer:
        footer = section.footer.add_paragraph()
        footer.alignment = WD_ALIGN_PARAGRAPH.CENTER
        _add_picture(footer, layout.footer, IMAGE_HEIGHT)


def _field(name: str) -> Iterator[str]:
    """Write a field that Word and LibreOffice compute for each page."""
    for kind in ("begin", "", "separate", "1", "end"):
        if kind in ("begin", "separate", "end"):
            yield f'<w:fldChar {nsdecls("w")} w:fldCharType="{kind}"/>'
        elif kind:
            yield f"<w:t {nsdecls('w')}>{kind}</w:t>"
        else:
            yield f'<w:instrText {nsdecls("w")} xml:space="preserve"> {name} </w:instrText>'


def _draw_images(document: Any, layout: ReportLayout) -> None:
    if layout.images:
        document.add_paragraph(layout.images_heading, style="Heading 1")
    for image in layout.images:
        _add_picture(document.add_paragraph(), image, KEY_IMAGE_HEIGHT)
    if layout.images_left_out:
        document.add_paragraph().add_run(layout.images_left_out).italic = True


def _draw_head(document: Any, layout: ReportLayout) -> None:
    if layout.site:
        document.add_paragraph(layout.site)
    document.add_paragraph(layout.title, style="Title")
    for rows in layout.orders:
        _add_table(document, rows)
    if layout.banner:
        run = document.add_paragraph().add_run(layout.banner)
        run.bold = True
        run.font.color.rgb = WARNING_RED


def _add_table(document: Any, rows: tuple[OrderRow, ...]) -> None:
    table = document.add_table(rows=0, cols=2)
    table.autofit = False  # long unbroken values end lines instead of widening the table
    for column, width in zip(table.columns, COLUMNS, strict=True):
        column.width = width
    for row in rows:
        for cell, text, width in zip(
            table.add_row().cells, (row.label, row.value), COLUMNS, strict=True
        ):
            cell.text, cell.width = text, width
    document.add_paragraph()


def _draw_part(document: Any, part: LayoutPart) -> None:
    if part.heading:
        document.add_paragraph(part.heading, style="Heading 1")
    markup = "".join(markup for block in part.body.content for markup in _block(block))
    body = parse_xml(f"<w:body {nsdecls('w')}>{markup}</w:body>")
    end = document.element.body.sectPr
    for block in list(body):
        rows = list(block.iterchildren(qn("w:tr")))
        for row in rows:
            block.remove(row)
        end.addprevious(block)
        for row in rows:  # row by row, because moving a whole table takes quadratic time
            block.append(row)
    if part.signature_image:
        _add_picture(document.add_paragraph(), part.signature_image, SIGNATURE_HEIGHT)
    if part.signature:
        document.add_paragraph().add_run(part.signature).italic = True


def _block(block: Block) -> Iterator[str]:
    match block:
        case Heading(title):
            yield _paragraph('<w:pStyle w:val="Heading2"/>', _run(title, ""))
        case Paragraph(content):
            yield _paragraph("", _inlines(content))
        case ListBlock():
            yield from _list(block, 1)
        case Table():
            yield from _table(block.grid())


def _list(block: ListBlock, level: int, marks: str = "") -> Iterator[str]:
    for number, item in enumerate(block.items, 1):
        text, sublists = item_parts(item)
        marker = f"{number}. " if block.ordered else "- "
        indent = f'<w:ind w:left="{ITEM_INDENT * level}" w:hanging="{ITEM_INDENT}"/>'
        yield _paragraph(indent, _run(marker, marks) + _inlines(text, marks))
        for sublist in sublists:
            yield from _list(sublist, level + 1, marks)


def _table(rows: tuple[tuple[TableCell, ...], ...]) -> Iterator[str]:
    """Write a table and an empty paragraph: Word joins tables that touch each other."""
    if not rows:
        return
    widths = [round(share * TABLE_WIDTH) for share in column_shares(rows)]
    grid = "".join(f'<w:gridCol w:w="{width}"/>' for width in widths)
    yield (
        '<w:tbl><w:tblPr><w:tblStyle w:val="TableGrid"/><w:tblW w:w="5000" w:type="pct"/>'
        '<w:tblLayout w:type="fixed"/></w:tblPr>'
        f"<w:tblGrid>{grid}</w:tblGrid>"
    )
    for number, row in enumerate(rows):
        header = not number and all(cell.header for cell in row)
        yield f"<w:tr><w:trPr><w:cantSplit/>{'<w:tblHeader/>' if header else ''}</w:trPr>"
        yield from (_cell(cell, width) for cell, width in zip(row, widths, strict=True))
        yield "</w:tr>"
    yield "</w:tbl>" + _paragraph("", "")


def _cell(cell: TableCell, width: int) -> str:
    marks = MARKS[Mark.BOLD] if cell.header else ""
    lines: list[str] = []
    for block in cell.content:
        if isinstance(block, Paragraph):
            lines.append(_paragraph("", _inlines(block.content, marks)))
        else:
            lines += _list(block, 1, marks)
    content = "".join(lines) or _paragraph("", "")
    return f'<w:tc><w:tcPr><w:tcW w:w="{width}" w:type="dxa"/></w:tcPr>{content}</w:tc>'


def _paragraph(properties: str, runs: str) -> str:
    spacing = '<w:spacing w:after="0"/>'
    order = (properties, spacing) if "pStyle" in properties else (spacing, properties)
    return f"<w:p><w:pPr>{''.join(order)}</w:pPr>{runs}</w:p>"


def _inlines(content: tuple[Inline, ...], marks: str = "") -> str:
    """Write runs; `marks` apply to all of them."""
    return "".join(_run(inline_text((each,)), _marked(each, marks)) for each in content)


def _marked(inline: Inline, marks: str) -> str:
    own = [MARKS[mark] for mark in inline.marks] if isinstance(inline, Text) else []
    return marks + "".join(each for each in own if each not in marks)


def _run(text: str, properties: str) -> str:
    nodes = (
        f'<w:t xml:space="preserve">{escape(text[at : at + LONGEST_NODE])}</w:t>'
        for at in range(0, len(text), LONGEST_NODE)
    )
    return f"<w:r><w:rPr>{properties}</w:rPr>{''.join(nodes)}</w:r>"


def _add_picture(paragraph: Any, image: EncodedImage, max_height: int) -> None:
    """Add one picture, shrunk to the width of the text and to `max_height` EMU."""
    width, height = image.width * EMU_PER_PIXEL, image.height * EMU_PER_PIXEL
    scale = min(1.0, TEXT_WIDTH / width, max_height / height)
    size = Emu(max(int(width * scale), 1)), Emu(max(int(height * scale), 1))
    paragraph.add_run().add_picture(BytesIO(image.data), *size)
