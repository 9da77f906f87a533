"""
Report templates as HTML5 by IHE MRRT: reader and writer.

Only text, sections, lists, tables and fields are read. No script, style, link or attribute is kept.
A pick list becomes a field `one / two`. The value of a field (`value`, the text of a text area, the
selected option) is its default; a field without one is a request, named by its title, placeholder
or name. An option without a value, or that cannot be chosen, is a prompt and no default.
`import_template` reads a file in a worker process.
"""

from collections import Counter
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser
from itertools import count
from typing import Any

from typing_extensions import override

from bridge.engine.documents.errors import DocumentError
from bridge.engine.rules.text.document import (
    MAX_LIST_DEPTH,
    Block,
    BracketField,
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
    item_parts,
    parse,
    to_json,
)
from bridge.workers.pool import DocumentTooCostly, DocumentUnparsable
from bridge.workers.pool import parse as parse_in_worker
from parsers.limits import TEMPLATE

PICK = " / "
"""Separates the choices of a pick list in the label of a field."""

_IGNORED = frozenset(("script", "style", "title", "head", "template", "object", "svg", "math"))
_HEADINGS = frozenset(("header", "h1", "h2", "h3", "h4", "h5", "h6", "legend", "caption"))
_BLOCKS = frozenset(
    ("p", "div", "br", "tr", "li", "ul", "ol", "table", "section", "body", "td", "th")
)
_CELLS = frozenset(("td", "th"))
_MARKS = {"b": Mark.BOLD, "strong": Mark.BOLD, "i": Mark.ITALIC, "em": Mark.ITALIC}
_TEXT_INPUTS = frozenset(("text", "number", "date", "time", "datetime-local", "month", ""))
_VOID = frozenset(("br", "input", "meta", "link", "img", "hr", "col", "embed", "source", "wbr"))


class BadTemplate(DocumentError):
    """HTML that is not a template; the message contains none of it."""


def import_template(html: str) -> tuple[str, Document]:
    """Call `read_template` in a worker process with limits of time and memory."""
    data = html[: TEMPLATE.size + 1].encode("utf-8", "surrogatepass")
    try:
        found = parse_in_worker("template", data, limits=TEMPLATE)
    except DocumentTooCostly:
        raise BadTemplate("the template takes too long to read") from None
    except DocumentUnparsable:
        raise BadTemplate("the template cannot be read") from None
    if "fault" in found:
        raise BadTemplate(found["fault"])
    return found["title"], parse(found["document"])


def read_template(html: str) -> tuple[str, Document]:
    """Return a template's title ('' where there is none) and document; raise `BadTemplate`."""
    if len(html) > TEMPLATE.size:
        raise BadTemplate(f"more than {TEMPLATE.size} characters")
    reader = _TemplateParser()
    reader.feed(html)
    reader.close()
    document = reader.document()
    if not document.content:
        raise BadTemplate("the template has no section, text or field")
    # Parsing the JSON form applies the limits of all documents.
    return reader.title.strip()[:200], parse(to_json(document))


class _TemplateParser(HTMLParser):
    """Builds the blocks of a document from HTML; elements in `_IGNORED` have no content."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self._open: list[str] = []
        self._counts: Counter[str] = Counter()  # of the open elements, by name
        self._tags = 0
        self._blocks: list[Block] = []
        self._inlines: list[Inline] = []
        self._heading: list[str] = []
        self._select: tuple[str, list[str]] | None = None  # of the open pick list: name, options
        self._choice = ""
        self._option_selected = False
        self._is_prompt = False
        self._lists: list[list[Item]] = []  # the open lists, the innermost last
        self._rows: list[list[TableCell]] | None = None
        self._cell: list[Paragraph | ListBlock] | None = None
        self._area: tuple[str, list[str]] | None = None  # of the open text area: name, text

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._count()
        values = {name: value or "" for name, value in attrs}
        if tag == "meta" and values.get("name", "").lower() == "dcterms.title":
            self.title = values.get("content", "")
        if tag not in _VOID:
            self._open.append(tag)
            self._counts[tag] += 1
        if self._is_ignored():
            return
        if tag in _BLOCKS or tag in _HEADINGS:
            self._end_line()
        if tag in ("ul", "ol"):
            if len(self._lists) >= MAX_LIST_DEPTH:
                raise BadTemplate(f"more than {MAX_LIST_DEPTH} nested lists")
            self._lists.append([])
        self._begin_table_part(tag)
        self._field(tag, values)

    def _begin_table_part(self, tag: str) -> None:
        if tag == "table" and self._rows is None and not self._lists:
            self._rows = []
        elif tag == "tr" and self._rows is not None and self._counts["table"] == 1:
            self._end_cell(header=False)
            self._rows.append([])
        elif tag in _CELLS and self._rows and self._counts["table"] == 1:
            self._end_cell(header=False)
            self._cell = []

    def _end_table_part(self, tag: str) -> None:
        if tag in _CELLS:
            self._end_cell(header=tag == "th")
        elif tag == "table" and not self._counts["table"]:
            self._end_table()

    def _end_cell(self, *, header: bool) -> None:
        """End the open cell; without an end tag it is not a header cell."""
        if self._cell is not None and self._rows and not self._counts["table"] > 1:
            self._end_line()
            self._rows[-1].append(TableCell(tuple(self._cell), header))
            self._cell = None

    def _end_table(self) -> None:
        self._end_cell(header=False)
        rows, self._rows = self._rows, None
        if rows and any(rows):
            self._blocks.append(Table(tuple(map(tuple, rows))))

    def _field(self, tag: str, values: dict[str, str]) -> None:
        names = (values.get(name, "").strip() for name in ("title", "placeholder", "name", "id"))
        name = next(filter(None, names), "")
        if tag == "input" and values.get("type", "text").lower() in _TEXT_INPUTS:
            self._inlines.append(_field(name, values.get("value", "")))
        elif tag == "select":
            self._select, self._choice = (name, []), ""
        elif tag == "option" and self._select is not None:
            self._option_selected = "selected" in values
            self._is_prompt = "disabled" in values or not values.get("value", "x").strip()
        elif tag == "textarea":
            self._area = name, []

    @override
    def handle_endtag(self, tag: str) -> None:
        is_ignored = self._is_ignored()
        self._close(tag)
        if is_ignored:
            return
        if tag in _HEADINGS:
            self._end_heading()
        elif tag in _BLOCKS:
            self._end_line()
        if tag in _CELLS or tag == "table":
            self._end_table_part(tag)
        if tag in ("ul", "ol"):
            self._end_list(ordered=tag == "ol")
        elif tag == "select" and self._select is not None:
            (name, options), self._select = self._select, None
            label = PICK.join(options) if len(options) > 1 else name
            self._inlines.append(_field(label, self._choice))
        elif tag == "textarea" and self._area is not None:
            (name, default), self._area = self._area, None
            self._inlines.append(_field(name, "".join(default)))

    @override
    def handle_data(self, data: str) -> None:
        if self._counts["title"]:
            self.title = self.title or data
        if self._is_ignored():
            return
        if self._area is not None:
            self._area[1].append(data)
            return
        text = " ".join(data.split())
        if self._select is not None:
            self._option(text)
        elif self._is_inside(_HEADINGS):
            self._heading.append(text)
        elif text:
            before = " " if data[:1].isspace() and self._inlines else ""
            after = " " if data[-1:].isspace() else ""
            marks = tuple(dict.fromkeys(_MARKS[tag] for tag in _MARKS if self._counts[tag]))
            self._inlines.append(Text(f"{before}{text}{after}", marks))
        elif data and self._inlines:
            self._inlines.append(Text(" "))

    def _option(self, text: str) -> None:
        if self._select is None or not text or self._is_prompt:
            return
        self._select[1].append(text)
        if self._option_selected:
            self._choice = f"{self._choice}, {text}" if self._choice else text

    def _count(self) -> None:
        self._tags += 1
        if self._tags > TEMPLATE.count:
            raise BadTemplate(f"more than {TEMPLATE.count} tags")
        if len(self._open) > TEMPLATE.depth:
            raise BadTemplate(f"more than {TEMPLATE.depth} nested elements")

    def _close(self, tag: str) -> None:
        """Close an element and its children; an end tag without a start tag is ignored."""
        self._count()
        while self._counts[tag]:
            closed = self._open.pop()
            self._counts[closed] -= 1
            if closed == tag:
                return

    def _is_inside(self, tags: frozenset[str]) -> bool:
        return any(self._counts[tag] for tag in tags)

    def _is_ignored(self) -> bool:
        return self._is_inside(_IGNORED)

    def _end_heading(self) -> None:
        if heading := " ".join(filter(None, self._heading)):
            self._leave_table()
            self._blocks.append(Heading(heading))
        self._heading = []

    def _leave_table(self) -> None:
        """Read the rest of a table as lines: a table with headings is a page layout."""
        cell, self._cell = self._cell, None
        self._end_table()
        self._blocks += cell or []

    def _end_line(self) -> None:
        while self._inlines and self._inlines[-1] == Text(" "):
            self._inlines.pop()
        if self._inlines and self._lists:
            self._lists[-1].append(tuple(self._inlines))
        elif self._inlines:
            self._add(Paragraph(tuple(self._inlines)))
        self._inlines = []

    def _end_list(self, *, ordered: bool) -> None:
        """Add the innermost list to its parent item, or as a block."""
        items = self._lists.pop() if self._lists else []
        if not items:
            return
        block = ListBlock(tuple(items), ordered)
        if not self._lists:
            self._add(block)
        elif self._lists[-1]:
            self._lists[-1][-1] = (*self._lists[-1][-1], block)
        else:
            self._lists[-1].append((block,))

    def _add(self, block: Paragraph | ListBlock) -> None:
        if self._cell is not None:
            self._cell.append(block)
        else:
            self._blocks.append(block)

    def document(self) -> Document:
        self._end_heading()
        self._end_line()
        while self._lists:
            self._end_list(ordered=False)
        self._end_table()
        return Document(tuple(self._blocks))


def _field(label: str, default: str) -> BracketField:
    value = " ".join(default.split())
    return BracketField(label or value, value, value)


def write_template(title: str, document: Document, language: str = "en") -> str:
    """Return an MRRT template: HTML5 with a section for each heading, and its fields."""
    body = "".join(_sections(document))
    return (
        f'<!DOCTYPE html>\n<html lang="{escape(language, quote=True)}">\n<head>\n'
        f'<meta charset="UTF-8">\n<title>{escape(title)}</title>\n'
        f'<meta name="dcterms.title" content="{escape(title, quote=True)}">\n'
        '<meta name="dcterms.type" content="IMAGE_REPORT_TEMPLATE">\n'
        f"</head>\n<body>\n{body}</body>\n</html>\n"
    )


def _sections(document: Document) -> Iterator[str]:
    names = count(1)
    is_open = False
    for block in document.content:
        if isinstance(block, Heading):
            yield "</section>\n" if is_open else ""
            title = escape(block.title, quote=True)
            yield f'<section data-section-name="{title}">\n<header>{title}</header>\n'
            is_open = True
        elif isinstance(block, Paragraph):
            yield f"<p>{_line(block.content, names)}</p>\n"
        elif isinstance(block, ListBlock):
            yield _list_html(block, names)
        else:
            yield _table_html(block, names)
    yield "</section>\n" if is_open else ""


def _list_html(block: ListBlock, names: Any) -> str:
    tag, items = "ol" if block.ordered else "ul", ""
    for item in block.items:
        text, sublists = item_parts(item)
        inner = "".join(_list_html(sublist, names) for sublist in sublists)
        items += f"<li>{_line(text, names)}{inner}</li>\n"
    return f"<{tag}>\n{items}</{tag}>\n"


def _table_html(table: Table, names: Any) -> str:
    rows = ""
    for row in table.rows:
        rows += "<tr>"
        for cell in row:
            tag = "th" if cell.header else "td"
            parts = (
                f"<p>{_line(block.content, names)}</p>"
                if isinstance(block, Paragraph)
                else _list_html(block, names)
                for block in cell.content
            )
            rows += f"<{tag}>{''.join(parts)}</{tag}>"
        rows += "</tr>\n"
    return f"<table>\n{rows}</table>\n"


def _line(content: tuple[Inline, ...], names: Any) -> str:
    return "".join(
        _field_html(inline, next(names)) if isinstance(inline, BracketField) else _text_html(inline)
        for inline in content
    )


def _text_html(text: Text) -> str:
    html = escape(text.text)
    for mark, tag in ((Mark.BOLD, "strong"), (Mark.ITALIC, "em")):
        html = f"<{tag}>{html}</{tag}>" if mark in text.marks else html
    return html


def _field_html(field: BracketField, number: int) -> str:
    default = field.default or field.value
    name, value = f"field-{number}", escape(default, quote=True)
    choices = field.label.split(PICK)
    is_pick_list = len(choices) > 1 and all(" ".join(text.split()) == text for text in choices)
    if not is_pick_list or not all(choices) or default not in ("", *choices):
        label = escape(field.label, quote=True)
        return f'<input type="text" id="{name}" name="{name}" title="{label}" value="{value}">'
    options = "".join(
        f"<option{' selected' if choice == default else ''}>{escape(choice)}</option>"
        for choice in choices
    )
    return f'<select id="{name}" name="{name}">{options}</select>'
