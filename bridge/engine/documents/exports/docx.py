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
    MAX_LIST_DEPTH,
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
ITEM_INDENT = 320
BULLETS, NUMBERS = 101, 102  # list definitions of ours beside those of the template
LONGEST_NODE = 1_000_000  # characters; libxml2 refuses text nodes of 10 MB
WARNING_RED = RGBColor(0xB0, 0x00, 0x20)

FONT = "Cambria"
STYLES = {"Normal": Pt(10.5), "Title": Pt(16), "Heading 1": Pt(13), "Heading 2": Pt(11)}
BLACK = RGBColor(0, 0, 0)
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
    _set_styles(document)
    _set_language(document, layout.language)
    properties = document.core_properties  # those of python-docx's template
    properties.title, properties.author, properties.comments = layout.title, "", ""
    _set_page(document.sections[0], layout)
    _draw_margins(document.sections[0], layout)
    _draw_head(document, layout)
    lists = _Lists(document)
    for part in (layout.report, *layout.addenda):
        _draw_part(document, part, lists)
    _draw_images(document, layout)
    buffer = BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def _set_styles(document: Any) -> None:
    """Give the styles of the template the fonts, sizes and colours of the other formats."""
    for name, size in STYLES.items():
        style = document.styles[name]
        style.font.name, style.font.size, style.font.color.rgb = FONT, size, BLACK
        style.font.bold = name != "Normal"
        fonts = style.element.rPr.rFonts
        for theme in ("asciiTheme", "hAnsiTheme", "cstheme"):
            fonts.attrib.pop(qn(f"w:{theme}"), None)  # a theme font has precedence
        border = style.element.pPr.find(qn("w:pBdr")) if style.element.pPr is not None else None
        if border is not None:
            style.element.pPr.remove(border)
    document.styles["Normal"].paragraph_format.space_after = Pt(0)
    document.styles["Title"].paragraph_format.space_after = Pt(6)


class _Lists:
    """The numbering part of the file: bulleted lists share one list, numbered lists begin at 1."""

    def __init__(self, document: Any) -> None:
        self._numbering = document.part.numbering_part.element
        for kind, number in (("bullet", BULLETS), ("decimal", NUMBERS)):
            self._numbering.insert(0, parse_xml(_abstract_list(kind, number)))
        self._used = max(int(number.numId) for number in self._numbering.num_lst)
        self.bullets = self._add(BULLETS, 1)

    def numbered(self, level: int) -> int:
        """Return the id of a new numbered list."""
        return self._add(NUMBERS, level)

    def _add(self, definition: int, level: int) -> int:
        self._used += 1
        restart = (
            f'<w:lvlOverride w:ilvl="{level - 1}"><w:startOverride w:val="1"/></w:lvlOverride>'
            if definition == NUMBERS
            else ""
        )
        self._numbering.append(
            parse_xml(
                f'<w:num {nsdecls("w")} w:numId="{self._used}">'
                f'<w:abstractNumId w:val="{definition}"/>{restart}</w:num>'
            )
        )
        return self._used


def _abstract_list(kind: str, number: int) -> str:
    levels = "".join(
        f'<w:lvl w:ilvl="{level}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/>'
        f'<w:lvlText w:val="{"•" if kind == "bullet" else f"%{level + 1}."}"/>'
        '<w:lvlJc w:val="left"/>'
        f'<w:pPr><w:ind w:left="{ITEM_INDENT * (level + 1)}" w:hanging="{ITEM_INDENT}"/></w:pPr>'
        "</w:lvl>"
        for level in range(MAX_LIST_DEPTH)
    )
    return (
        f'<w:abstractNum {nsdecls("w")} w:abstractNumId="{number}">'
        f'<w:multiLevelType w:val="hybridMultilevel"/>{levels}</w:abstractNum>'
    )


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
                run.font.element.append(parse_xml(markup))  # python-docx has no fields
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
    if layout.images_heading:
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
        table.rows[-1].cells[0].paragraphs[0].runs[0].bold = True
    document.add_paragraph()


def _draw_part(document: Any, part: LayoutPart, lists: _Lists) -> None:
    if part.heading:
        document.add_paragraph(part.heading, style="Heading 1")
    markup = "".join(markup for block in part.body.content for markup in _block(block, lists))
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


def _block(block: Block, lists: _Lists) -> Iterator[str]:
    match block:
        case Heading(title):
            yield _paragraph('<w:pStyle w:val="Heading2"/>', _run(title, ""))
        case Paragraph(content):
            yield _paragraph("", _inlines(content))
        case ListBlock():
            yield from _list(block, 1, lists)
        case Table():
            yield from _table(block.grid(), lists)


def _list(block: ListBlock, level: int, lists: _Lists, marks: str = "") -> Iterator[str]:
    number = lists.numbered(level) if block.ordered else lists.bullets
    place = f'<w:ilvl w:val="{level - 1}"/><w:numId w:val="{number}"/>'
    for item in block.items:
        text, sublists = item_parts(item)
        yield _paragraph(f"<w:numPr>{place}</w:numPr>", _inlines(text, marks))
        for sublist in sublists:
            yield from _list(sublist, level + 1, lists, marks)


def _table(rows: tuple[tuple[TableCell, ...], ...], lists: _Lists) -> Iterator[str]:
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
        yield from (_cell(cell, width, lists) for cell, width in zip(row, widths, strict=True))
        yield "</w:tr>"
    yield "</w:tbl>" + _paragraph("", "")


def _cell(cell: TableCell, width: int, lists: _Lists) -> str:
    marks = MARKS[Mark.BOLD] if cell.header else ""
    lines: list[str] = []
    for block in cell.content:
        if isinstance(block, Paragraph):
            lines.append(_paragraph("", _inlines(block.content, marks)))
        else:
            lines += _list(block, 1, lists, marks)
    content = "".join(lines) or _paragraph("", "")
    return f'<w:tc><w:tcPr><w:tcW w:w="{width}" w:type="dxa"/></w:tcPr>{content}</w:tc>'


def _paragraph(properties: str, runs: str) -> str:
    spacing = '<w:spacing w:after="0"/>'
    return f"<w:p><w:pPr>{properties}{spacing}</w:pPr>{runs}</w:p>"


def _inlines(content: tuple[Inline, ...], marks: str = "") -> str:
    """Write runs; `marks` apply to all of them."""
    return "".join(_run(inline_text((inline,)), _marked(inline, marks)) for inline in content)


def _marked(inline: Inline, marks: str) -> str:
    own = [MARKS[mark] for mark in inline.marks] if isinstance(inline, Text) else []
    return marks + "".join(mark for mark in own if mark not in marks)


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
