"""
A report as PDF, for the reporting app and for the results that the bridge sends.

typst sets the pages with the template `report.typ`. The text is passed as data, never as markup.
No font of the machine is used: Latin text has the font of typst, East Asian text that of `fonts`.
"""

import json
import re
import unicodedata
from base64 import b64encode
from collections.abc import Iterator
from datetime import tzinfo
from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bridge.engine.documents.errors import PdfUnavailable
from bridge.engine.documents.exports.layout import LayoutPart, ReportLayout, column_shares, lay_out
from bridge.engine.documents.exports.model import ExportedReport, PageSize
from bridge.engine.documents.uploads.images import EncodedImage
from bridge.engine.rules.text.document import (
    Block,
    Heading,
    Inline,
    ListBlock,
    Paragraph,
    Table,
    TableCell,
    Text,
    inline_text,
    item_parts,
)

WRITER = "typst"
FONTS = Path(__file__).with_name("fonts")
LATIN = "Libertinus Serif"  # regular, bold and italic; comes with the writer
MONOSPACED = "DejaVu Sans Mono"  # comes with the writer
PAPERS = {PageSize.A4: "a4", PageSize.LETTER: "us-letter"}
BREAK = "\u200b"  # a zero-width space, where a line may end
HARD_BREAK_STEP = 60  # maximum characters of a line in a huge text without spaces
HUGE = 20_000
STEP, CELL_STEP = 10, 4  # characters between two breaks
FACES = {"ja": "JP", "ko": "KR", "zh-CN": "SC", "zh-Hant": "TC"}  # faces of Noto Sans CJK
LINES_PER_PARAGRAPH = 64  # lines of text set as one paragraph
REGIONS = {"zh-Hant": "TW"}

LEADING = re.compile("^ +")
MIN_UNBROKEN = 40  # a run of so many characters without a space gets breaks
LINE_LENGTH = 80  # approximate number of characters in a line


def render(exported: ExportedReport, zone: tzinfo) -> bytes:
    """
    Return the report as a PDF with embedded fonts, its times in `zone`.

    Raises `PdfUnavailable` if typst is missing. No font has emoji: they are written as their names.
    """
    layout = lay_out(exported, zone)
    data = json.dumps(_TemplateData(layout).to_json(), ensure_ascii=False)
    return set_pages({"main": _template(), "report.json": data.encode(), **_pictures(layout)})


def set_pages(inputs: dict[str, bytes]) -> bytes:
    """
    Return the PDF of a typst document: the template `main`, and the files that it reads.

    Raises `PdfUnavailable` if typst is missing.
    """
    pdf = _writer().compile(
        inputs,
        font_paths=[str(FONTS)],
        ignore_system_fonts=True,
        pdf_tags=False,  # tags of each line make long reports six times as large
    )
    return bytes(pdf)


def _writer() -> Any:
    """Return the typst module; it is loaded for the first PDF."""
    if find_spec(WRITER) is None:
        raise PdfUnavailable(WRITER)
    return import_module(WRITER)


@cache
def _template() -> bytes:
    return files(__package__).joinpath("report.typ").read_bytes()


def _pictures(layout: ReportLayout) -> dict[str, bytes]:
    """Return the images by their file names in the template."""
    signatures = (part.signature_image for part in (layout.report, *layout.addenda))
    images = (layout.header, layout.footer, *signatures, *layout.images)
    return {_file_name(image): _wrapped(image) for image in images if image}


def _file_name(image: EncodedImage) -> str:
    return f"{image.sha256}.svg"


def _wrapped(image: EncodedImage) -> bytes:
    """Wrap an image in SVG, because typst accepts only text files in memory."""
    size = f'width="{image.width}" height="{image.height}"'
    uri = f"data:{image.media_type};base64,{b64encode(image.data).decode('ascii')}"
    svg = 'xmlns="http://www.w3.org/2000/svg"'
    return f'<svg {svg} {size}><image {size} href="{uri}"/></svg>'.encode()


class _TemplateData:
    """Converts a layout to the JSON that `report.typ` reads."""

    def __init__(self, layout: ReportLayout) -> None:
        self._layout = layout
        self._base = layout.language.partition("-")[0]

    def to_json(self) -> dict[str, Any]:
        layout = self._layout
        region = REGIONS.get(layout.language) or layout.language.partition("-")[2]
        return {
            "lang": self._base,
            "region": region or None,
            "fonts": self._fonts(),
            "paper": PAPERS[layout.page_size],
            "running": _breakable(layout.running),
            "page": layout.page,
            "images": [_file_name(image) for image in layout.images],
            "images_heading": layout.images_heading,
            "images_left_out": layout.images_left_out,
            "title": layout.title,
            "site": _breakable(layout.site),
            "banner": layout.banner,
            "header": _name(layout.header),
            "footer": _name(layout.footer),
            "orders": [
                [{"label": row.label, "value": _breakable(row.value)} for row in rows]
                for rows in layout.orders
            ],
            "report": _part(layout.report),
            "addenda": [_part(addendum) for addendum in layout.addenda],
        }

    def _fonts(self) -> list[str | dict[str, str]]:
        """
        Return the Latin font and the CJK font of the language: Han glyphs differ by region.

        The CJK fonts have one weight and no italics, so they are used only for missing glyphs.
        """
        face = FACES.get(self._layout.language) or FACES.get(self._base)
        if face:
            latin = {"name": LATIN, "covers": "latin-in-cjk"}
            return [latin, f"Noto Sans CJK {face}", LATIN]
        return [LATIN, f"Noto Sans CJK {FACES['ja']}"]


def _name(image: EncodedImage | None) -> str | None:
    return _file_name(image) if image else None


def _part(part: LayoutPart) -> dict[str, Any]:
    return {
        "heading": part.heading,
        "signature": _breakable(part.signature),
        "image": _name(part.signature_image),
        "blocks": list(
            _merge_paragraphs(drawn for block in part.body.content for drawn in _block(block))
        ),
    }


def _merge_paragraphs(blocks: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Merge paragraphs to one with several lines, because typst is slow with many paragraphs."""
    pending: list[dict[str, Any]] = []
    for block in blocks:
        if pending and (block["kind"] != "paragraph" or len(pending) >= LINES_PER_PARAGRAPH):
            yield _joined(pending)
            pending = []
        if block["kind"] == "paragraph":
            pending.append(block)
        else:
            yield block
    if pending:
        yield _joined(pending)


def _joined(paragraphs: list[dict[str, Any]]) -> dict[str, Any]:
    """Join paragraphs by line ends, and neighbouring runs with the same marks."""
    runs: list[dict[str, Any]] = []
    for number, paragraph in enumerate(paragraphs):
        line_end = [{"text": "\n", "marks": []}] if number else []
        for run in (*line_end, *paragraph["runs"]):
            if runs and runs[-1]["marks"] == run["marks"]:
                runs[-1] = {"text": runs[-1]["text"] + run["text"], "marks": run["marks"]}
            else:
                runs.append(run)
    return {"kind": "paragraph", "runs": runs}


def _block(block: Block, shortest: int = MIN_UNBROKEN) -> Iterator[dict[str, Any]]:
    match block:
        case Heading(title):
            text = _breakable(title)
            yield {"kind": "section", "text": text, "runs": [{"text": text, "marks": []}]}
        case Paragraph(content):
            yield {"kind": "paragraph", "runs": [_run(inline, shortest) for inline in content]}
        case ListBlock():
            yield from _list(block, 1, shortest)
        case Table():
            yield from _table(block.grid())


def _list(block: ListBlock, level: int, shortest: int) -> Iterator[dict[str, Any]]:
    for number, item in enumerate(block.items, 1):
        text, sublists = item_parts(item)
        marker = f"{number}." if block.ordered else "•"
        runs = [_run(character, shortest) for character in text]
        yield {"kind": "item", "level": level, "marker": marker, "runs": runs}
        for sublist in sublists:
            yield from _list(sublist, level + 1, shortest)


def _table(rows: tuple[tuple[TableCell, ...], ...]) -> Iterator[dict[str, Any]]:
    if not rows:
        return
    shares = column_shares(rows)
    fitting = [min(max(int(share * LINE_LENGTH), 4), MIN_UNBROKEN) for share in shares]
    yield {
        "kind": "table",
        "columns": shares,
        "named": all(cell.header for cell in rows[0]),  # the first row is repeated on each page
        "rows": [
            [_cell(cell, shortest) for cell, shortest in zip(row, fitting, strict=True)]
            for row in rows
        ],
    }


def _cell(cell: TableCell, shortest: int) -> dict[str, Any]:
    drawn = (piece for block in cell.content for piece in _block(block, shortest))
    return {"header": cell.header, "blocks": list(_merge_paragraphs(drawn))}


def _run(inline: Inline, shortest: int = MIN_UNBROKEN) -> dict[str, Any]:
    marks = [mark.value for mark in inline.marks] if isinstance(inline, Text) else []
    # A line's own indent is text: plain spaces at its start would be dropped.
    text = LEADING.sub(lambda run: "\u00a0" * len(run[0]), inline_text((inline,)))
    return {"text": _breakable(text.replace("\t", "\u00a0" * 4), shortest), "marks": marks}


_EMOJI = re.compile("[\U0001f000-\U0001f1e5\U0001f200-\U0001fbff]")
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]{1,2}")
# Skin colours, hair, variants and joiners change only the look of the emoji before them.
_EMOJI_PARTS = re.compile("[\U0001f3fb-\U0001f3ff\ufe0e\ufe0f\u20e3]|\u200d(?=[\u2600-\U0001ffff])")
_FIRST_FLAG_LETTER = 0x1F1E6


def _without_emoji(text: str) -> str:
    """Write emoji as names and flags as country codes."""
    if text.isascii():
        return text
    named = _EMOJI.sub(_emoji_name, _EMOJI_PARTS.sub("", text))
    return _FLAG.sub(
        lambda flag: "".join(
            chr(ord(letter) - _FIRST_FLAG_LETTER + ord("A")) for letter in flag[0]
        ),
        named,
    )


def _emoji_name(match: re.Match[str]) -> str:
    return f"({unicodedata.name(match[0], 'emoji').lower()})"


def _breakable(text: str, shortest: int = MIN_UNBROKEN) -> str:
    """Insert breaks into runs of at least `shortest` characters without a space."""
    text = _without_emoji(text)
    if len(text) < shortest:
        return text
    if shortest < MIN_UNBROKEN:
        return _unbroken_run(shortest).sub(lambda run: _insert_breaks(run, CELL_STEP), text)
    return _unbroken_run(shortest).sub(_insert_breaks, text)


@cache
def _unbroken_run(length: int) -> re.Pattern[str]:
    """
    Return the pattern of a run of this length without a space.

    East Asian text may break anywhere; combining marks stay with their letter.
    """
    breaking = "\\s\u0300-\u036f\u1100-\u11ff\u2e80-\ud7ff\uf900-\ufaff"
    return re.compile(f"[^{breaking}]{{{length},}}")


def _insert_breaks(run: re.Match[str], step: int = STEP) -> str:
    text, mark = run[0], BREAK
    if len(text) > HUGE:
        step, mark = HARD_BREAK_STEP, "\n"
    pieces = [text[at : at + step] for at in range(0, len(text), step)]
    return mark.join(pieces)
