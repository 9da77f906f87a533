"""
A document of sections with paragraphs, tables and literal text, as HTML, text or PDF.

HTML is one file without references. PDF is set by the writer of the report engine.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from bridge.report_engine import set_pages


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str


@dataclass(frozen=True, slots=True)
class Literal:
    """Text in which each character counts, such as a message."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """`shares` are the relative widths of the columns on a page."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    shares: Sequence[float]
    title: str = ""


Block = Paragraph | Literal | Table


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Document:
    """`facts` are lines below the title."""

    title: str
    facts: Sequence[str]
    sections: Sequence[Section]


def as_text(document: Document) -> str:
    """Return the document as plain text, with tables in aligned columns."""
    lines = [document.title, "=" * len(document.title), *document.facts]
    for number, section in enumerate(document.sections, start=1):
        title = f"{number} {section.title}"
        lines += ["", title, "-" * len(title)]
        for block in section.blocks:
            lines += ["", *_text_of(block)]
    return "\n".join(lines) + "\n"


def _text_of(block: Block) -> Iterator[str]:
    match block:
        case Paragraph(text):
            yield text
        case Literal(title, text):
            yield title
            yield from (f"    {line}" for line in text.splitlines())
        case Table(columns, rows, _, title):
            if title:
                yield title
            cells = [list(columns), *(list(row) for row in rows)]
            widths = [max(len(row[at]) for row in cells) for at in range(len(columns))]
            for row in cells:
                yield "  ".join(map(str.ljust, row, widths)).rstrip()


_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;color:#1a1d21;background:#fff;margin:0 auto;padding:2rem;
max-width:72rem}
h1{font-size:1.7rem;margin:0 0 .3rem}h2{font-size:1.25rem;margin:2.2rem 0 .6rem}
h3{font-size:1rem;margin:1.4rem 0 .4rem}p{margin:.4rem 0}.facts{color:#555}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #ddd;
overflow-wrap:anywhere}th{background:#f3f4f6}
pre{background:#f3f4f6;padding:.8rem;overflow-x:auto;font-size:.85rem}
.wide{overflow-x:auto}nav ol{columns:2;padding-left:1.4rem}
@media print{body{padding:0;font-size:11px}nav{display:none}tr{break-inside:avoid}}
@media(prefers-color-scheme:dark){body{color:#e4e6eb;background:#16181c}th,pre{background:#24272d}
th,td{border-color:#3a3f47}.facts{color:#a0a6b0}a{color:#8ab4f8}}
"""


def as_html(document: Document) -> str:
    """Return the document as one HTML file without scripts and references."""
    title = html.escape(document.title)
    sections = "".join(
        f'<section><h2 id="s{number}">{number} {html.escape(section.title)}</h2>'
        + "".join(map(_html_of, section.blocks))
        + "</section>"
        for number, section in enumerate(document.sections, start=1)
    )
    contents = "".join(
        f'<li><a href="#s{number}">{html.escape(section.title)}</a></li>'
        for number, section in enumerate(document.sections, start=1)
    )
    facts = "".join(f"<p>{html.escape(fact)}</p>" for fact in document.facts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body><header><h1>{title}</h1>"
        f'<div class="facts">{facts}</div></header>'
        f'<nav aria-label="Contents"><ol>{contents}</ol></nav><main>{sections}</main></body></html>'
    )


def _html_of(block: Block) -> str:
    match block:
        case Paragraph(text):
            return f"<p>{html.escape(text)}</p>"
        case Literal(title, text):
            return f'<h3>{html.escape(title)}</h3><pre tabindex="0">{html.escape(text)}</pre>'
        case Table(columns, rows, _, title):
            heading = f"<h3>{html.escape(title)}</h3>" if title else ""
            head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in columns)
            body = "".join(
                f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>"
                for row in rows
            )
            return (
                f'{heading}<div class="wide"><table><thead><tr>{head}</tr></thead>'
                f"<tbody>{body}</tbody></table></div>"
            )


def as_pdf(document: Document) -> bytes:
    """Return the document as PDF. Raises PdfUnavailable if the writer is not installed."""
    data = {
        "title": _breakable(document.title),
        "facts": list(map(_breakable, document.facts)),
        "sections": [
            {"title": _breakable(section.title), "blocks": list(map(_data_of, section.blocks))}
            for section in document.sections
        ],
    }
    return set_pages(_template(), data)


@cache
def _template() -> bytes:
    return files(__package__).joinpath("document.typ").read_bytes()


def _data_of(block: Block) -> dict[str, Any]:
    match block:
        case Paragraph(text):
            return {"kind": "paragraph", "text": _breakable(text)}
        case Literal(title, text):
            return {"kind": "literal", "title": _breakable(title), "text": _breakable(text)}
        case Table(columns, rows, shares, title):
            return {
                "kind": "table",
                "title": _breakable(title),
                "columns": list(columns),
                "shares": list(shares),
                "rows": [list(map(_breakable, row)) for row in rows],
            }


_BREAK: Final = "\u200b"  # a zero-width space, where a line may end
_LONG: Final = re.compile(r"[^\s\u200b]{12,}")
_LONGEST_WORD: Final = 24
_STEP: Final = 6


def _breakable(text: str) -> str:
    """Let long numbers and paths end in any line of a narrow column, without control characters."""
    plain = "".join(character for character in text if character.isprintable() or character == "\n")
    return _LONG.sub(_with_breaks, plain)


def _with_breaks(found: re.Match[str]) -> str:
    run = found[0]
    if run.rstrip(",.;:)").isalpha() and len(run) < _LONGEST_WORD:
        return run
    return _BREAK.join(run[at : at + _STEP] for at in range(0, len(run), _STEP))
