r"""
A report as RTF 1.9: everything outside ASCII as `\uN?`, images as PNG or JPEG pictures.

Every text is written by `escape`, so that a text cannot inject control words.
"""

from collections.abc import Iterator
from datetime import tzinfo
from itertools import count

from bridge.engine.documents.exports.layout import (
    LayoutPart,
    OrderRow,
    ReportLayout,
    column_shares,
    lay_out,
)
from bridge.engine.documents.exports.model import ExportedReport, PageSize
from bridge.engine.documents.uploads.images import JPEG, EncodedImage
from bridge.engine.rules.text.document import (
    Block,
    Document,
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

TWIPS_PER_PIXEL = 15  # at 96 dots per inch
TEXT_WIDTH = 9638  # twips: 17 cm, A4 less its margins; Letter is wider
PAPERS = {PageSize.A4: r"\paperw11906\paperh16838", PageSize.LETTER: r"\paperw12240\paperh15840"}
IMAGE_HEIGHT = 1417  # 2.5 cm
SIGNATURE_HEIGHT = 1134  # 2 cm
KEY_IMAGE_HEIGHT = 6236  # 11 cm
BMP_END = 0x10000

MARKS = {Mark.BOLD: r"\b", Mark.ITALIC: r"\i", Mark.UNDERLINE: r"\ul"}
EAST_ASIAN = {  # font and RTF charset by language; readers choose their own for the rest
    "ja": ("Yu Gothic", 128),
    "ko": ("Malgun Gothic", 129),
    "zh-CN": ("Microsoft YaHei", 134),
    "zh-Hant": ("Microsoft JhengHei", 136),
}

BODY = r"\pard\plain\loch\f0\hich\f0\dbch\f1\fs21 "
HEADING = r"\pard\plain\keepn\sb160\sa40\loch\f0\hich\f0\dbch\f1\fs22\b "
PART_HEADING = r"\pard\plain\keepn\sb200\sa60\loch\f0\hich\f0\dbch\f1\fs26\b "
ITEM = r"\pard\plain\ls{list}\ilvl0\fi-320\li{indent}\loch\f0\hich\f0\dbch\f1\fs21 "
ITEM_INDENT = 320
BULLETS = 1
"""The number of the list that all bulleted lists share; each numbered list has its own."""
TITLE = r"\pard\plain\sa120\loch\f0\hich\f0\dbch\f1\fs32\b "
ROW = r"\pard\plain\fi-2551\li2551\tx2551\loch\f0\hich\f0\dbch\f1\fs21 "
BANNER = r"\pard\plain\sb120\sa120\loch\f0\hich\f0\dbch\f1\fs22\b\cf1 "
SIGNED = r"\pard\plain\sb120\sa120\loch\f0\hich\f0\dbch\f1\fs21\i "
SMALL = r"\pard\plain\loch\f0\hich\f0\dbch\f1\fs16 "
PAGE = r"{\field{\*\fldinst PAGE}{\fldrslt 1}}"
PAGES = r"{\field{\*\fldinst NUMPAGES}{\fldrslt 1}}"
END = "\\par\n"
BORDERS = "".join(rf"\clbrdr{side}\brdrs\brdrw5" for side in "tlbr")


class _Escapes(dict[int, str]):
    """Translation table of characters, filled on demand."""

    def __missing__(self, code: int) -> str:
        escaped = self[code] = _escape_code(code)
        return escaped


def _escape_code(code: int) -> str:
    if chr(code) in "\\{}":  # written as codes, so that no reader finds a `\bin` in a text
        return f"\\'{code:02x}"
    if code == ord("\t"):
        return r"\tab "
    if ord(" ") <= code <= ord("~"):
        return chr(code)
    units = chr(code).encode("utf-16-le", "replace")
    signed = (int.from_bytes(units[at : at + 2], "little", signed=True) for at in (0, 2))
    return "".join(f"\\u{unit}?" for unit in list(signed)[: 1 if code < BMP_END else 2])


_ESCAPES = _Escapes()


def escape(text: str) -> str:
    """Return cleaned text as RTF, ASCII only."""
    return text.translate(_ESCAPES)


def render(exported: ExportedReport, zone: tzinfo, *, content_only: bool = False) -> bytes:
    """
    Return the report as RTF; with `content_only` the text of report and addenda alone,
    without images, patient data, banner and signatures (interface reference, export/rtf).
    """
    layout = lay_out(exported, zone)
    body = _content(layout) if content_only else _report(layout)
    return (_prologue(layout) + "".join(body) + "}").encode("ascii")


def _list_tables(count: int) -> str:
    """Declare the bulleted list and `count` numbered lists, which each begin at 1."""
    start = r"\leveljc0\levelfollow0\levelstartat1"
    bullets = rf"\levelnfc23\levelnfcn23{start}{{\leveltext\'01\u8226 ?;}}{{\levelnumbers;}}"
    numbers = rf"\levelnfc0\levelnfcn0{start}{{\leveltext\'02\'00.;}}{{\levelnumbers\'01;}}"
    levels = [bullets, *([numbers] * count)]
    lists = "".join(
        f"{{\\list\\listtemplateid{number}\\listsimple1{{\\listlevel{level}}}"
        f"{{\\listname ;}}\\listid{number}}}\n"
        for number, level in enumerate(levels, BULLETS)
    )
    overrides = "".join(
        f"{{\\listoverride\\listid{number}\\listoverridecount0\\ls{number}}}\n"
        for number in range(BULLETS, BULLETS + len(levels))
    )
    return f"{{\\*\\listtable\n{lists}}}\n{{\\*\\listoverridetable\n{overrides}}}\n"


def _numbered_lists(layout: ReportLayout) -> int:
    blocks: list[Block] = [
        block for part in (layout.report, *layout.addenda) for block in part.body.content
    ]
    found = 0
    while blocks:
        block = blocks.pop()
        if isinstance(block, ListBlock):
            found += block.ordered
            blocks += (inner for item in block.items for inner in item_parts(item)[1])
        elif isinstance(block, Table):
            blocks += (inner for row in block.rows for cell in row for inner in cell.content)
    return found


def _prologue(layout: ReportLayout) -> str:
    lists = _list_tables(_numbered_lists(layout))
    language = layout.language
    base = language.partition("-")[0]
    font, charset = EAST_ASIAN.get(language) or EAST_ASIAN.get(base) or EAST_ASIAN["ja"]
    return (
        "{\\rtf1\\ansi\\ansicpg1252\\deff0\\uc1\n"
        "{\\fonttbl{\\f0\\froman\\fcharset0 Cambria;}"
        f"{{\\f1\\fnil\\fcharset{charset} {font};}}}}\n"
        "{\\colortbl;\\red176\\green0\\blue32;}\n"
        f"{lists}"
        f"{PAPERS[layout.page_size]}\\margl1134\\margr1134\\margt1134\\margb1134\n"
    )


def _content(layout: ReportLayout) -> Iterator[str]:
    numbers = count(BULLETS + 1)
    yield from _blocks(layout.report.body, numbers)
    for addendum in layout.addenda:
        yield BODY + END
        yield from _blocks(addendum.body, numbers)


def _report(layout: ReportLayout) -> Iterator[str]:
    header, footer = (
        rf"\pard\qc {_picture(image, IMAGE_HEIGHT)}\par " if image else ""
        for image in (layout.header, layout.footer)
    )
    number = escape(layout.page).replace(r"\'7bpage\'7d", PAGE).replace(r"\'7bpages\'7d", PAGES)
    yield f"{{\\header{header}{SMALL}{escape(layout.running)}\\par}}\n"
    yield f"{{\\footer{SMALL}\\qc {number}\\par {footer}}}\n"
    if layout.site:
        yield BODY + escape(layout.site) + END
    yield TITLE + escape(layout.title) + END
    for rows in layout.orders:
        yield from _rows(rows)
    if layout.banner:
        yield BANNER + escape(layout.banner) + END
    numbers = count(BULLETS + 1)
    for part in (layout.report, *layout.addenda):
        yield from _part(part, numbers)
    if layout.images_heading:
        yield PART_HEADING + escape(layout.images_heading) + END
    for image in layout.images:
        yield BODY + _picture(image, KEY_IMAGE_HEIGHT) + END
    if layout.images_left_out:
        yield SIGNED + escape(layout.images_left_out) + END


def _rows(rows: tuple[OrderRow, ...]) -> Iterator[str]:
    for row in rows:
        yield f"{ROW}{{\\b {escape(row.label)}}}\\tab {escape(row.value)}{END}"
    yield BODY + END


def _part(part: LayoutPart, numbers: Iterator[int]) -> Iterator[str]:
    if part.heading:
        yield PART_HEADING + escape(part.heading) + END
    yield from _blocks(part.body, numbers)
    if part.signature_image:
        yield BODY + _picture(part.signature_image, SIGNATURE_HEIGHT) + END
    if part.signature:
        yield SIGNED + escape(part.signature) + END


def _blocks(document: Document, numbers: Iterator[int]) -> Iterator[str]:
    for block in document.content:
        yield from _block(block, numbers)


def _block(block: Block, numbers: Iterator[int]) -> Iterator[str]:
    match block:
        case Heading(title):
            yield HEADING + escape(title) + END
        case Paragraph(content):
            yield BODY + _inlines(content) + END
        case ListBlock():
            yield from (line + END for line in _list_lines(block, 1, numbers))
        case Table():
            yield from _table(block.grid(), numbers)


def _list_lines(block: ListBlock, level: int, numbers: Iterator[int]) -> Iterator[str]:
    r"""Write list items; `\listtext` is for readers that do not know lists."""
    own = next(numbers) if block.ordered else BULLETS
    start = ITEM.replace("{list}", str(own)).replace("{indent}", str(level * ITEM_INDENT))
    for number, item in enumerate(block.items, 1):
        text, sublists = item_parts(item)
        marker = f"{number}." if block.ordered else r"\u8226 ?"
        yield f"{start}{{\\listtext {marker}\\tab}}{_inlines(text)}"
        for sublist in sublists:
            yield from _list_lines(sublist, level + 1, numbers)


def _table(rows: tuple[tuple[TableCell, ...], ...], numbers: Iterator[int]) -> Iterator[str]:
    if not rows:
        return
    edges, right = "", 0.0
    for share in column_shares(rows):
        right += share * TEXT_WIDTH
        edges += f"{BORDERS}\\cellx{round(right)}"
    for number, row in enumerate(rows):
        header = r"\trhdr" if not number and all(cell.header for cell in row) else ""
        yield rf"\trowd\trgaph80{header}{edges}" + "\n"
        yield from (_cell(cell, numbers) for cell in row)
        yield "\\row\n"
    yield BODY + END


def _cell(cell: TableCell, numbers: Iterator[int]) -> str:
    r"""Write the lines of one cell: `\par` between them, `\cell` after the last."""
    lines = []
    for block in cell.content:
        if isinstance(block, Paragraph):
            lines.append(BODY + _inlines(block.content))
        else:
            lines += _list_lines(block, 1, numbers)
    bold = r"\b " if cell.header else ""
    inside = (
        line.replace(r"\pard\plain", rf"\pard\plain\intbl{bold}", 1) for line in lines or [BODY]
    )
    return END.join(inside) + "\\cell\n"


def _inlines(content: tuple[Inline, ...]) -> str:
    return "".join(_inline(inline) for inline in content)


def _inline(inline: Inline) -> str:
    text = escape(inline_text((inline,)))
    if isinstance(inline, Text) and inline.marks:
        return f"{{{''.join(MARKS[mark] for mark in inline.marks)} {text}}}"
    return text


def _picture(image: EncodedImage, max_height: int) -> str:
    """Write one picture, shrunk to the width of the text and to `max_height` twips."""
    width, height = image.width * TWIPS_PER_PIXEL, image.height * TWIPS_PER_PIXEL
    scale = min(1.0, TEXT_WIDTH / width, max_height / height)
    kind = r"\jpegblip" if image.media_type == JPEG else r"\pngblip"
    goal = f"\\picwgoal{max(int(width * scale), 1)}\\pichgoal{max(int(height * scale), 1)}"
    size = f"\\picw{image.width}\\pich{image.height}"
    return f"{{\\pict{kind}{size}{goal}\n{image.data.hex()}}}"
