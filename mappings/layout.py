r"""
How a report's text is laid out in OBX segments.

    lines         one OBX a line, a blank line is one blank (VA, many RIS)
    repetitions   one OBX, lines as repetitions (TX: `~` is a new line, HL7 v2.5.1 §2A.77)
    formatted     one OBX, lines ended by `\.br\` (FT)

Sections keep their code and sub-id from message to message, so that a correction replaces
what it corrects (HL7 v2.5.1 §7.4.2.11).
"""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from mappings.encode import Encoded, formatted, plain, repeated
from mappings.frames import Frame
from mappings.nodes import Node
from mappings.notebook import Notebook
from mappings.results import Addendum

LAYOUTS = ("lines", "repetitions", "formatted")
ADDENDA = ("whole", "newest", "none")
KEYS = ("layout", "addenda", "heading", "blank")
PLACEHOLDERS = ("number", "signed_at", "signed_by")
REPORT = "report"
ADDENDUM = "addendum"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the text under its own OBX-4."""

    name: str
    sub_id: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The `text:` part of an outbound definition."""

    layout: str = "lines"
    addenda: str = "whole"
    heading: str = "ADDENDUM {number} ({signed_at}, {signed_by})"
    blank: str = " "

    def rows(self, frame: Frame) -> list[dict[str, Encoded]]:
        """Lay out the text, one row per OBX."""
        rows = []
        for section in self.sections(frame):
            names = {"section": plain(section.name), "sub_id": plain(str(section.sub_id))}
            rows += [{**names, "line": line} for line in self._written(section.lines)]
        return rows

    def sections(self, frame: Frame) -> list[Section]:
        """Cut the report and its addenda into sections, as `addenda` says."""
        context = frame.context
        addenda = [
            Section(ADDENDUM, number + 1, self._addendum(number, addendum, frame))
            for number, addendum in enumerate(context.addenda, start=1)
        ]
        if self.addenda == "newest" and addenda:
            return addenda[-1:]
        report = [Section(REPORT, 1, lines_of(context.report_text))] if context.report_text else []
        return report + (addenda if self.addenda == "whole" else [])

    def _addendum(self, number: int, addendum: Addendum, frame: Frame) -> tuple[str, ...]:
        zone = ZoneInfo(frame.context.time_zone)
        at = addendum.signed_at
        told = {
            "number": str(number),
            "signed_at": at.astimezone(zone).strftime("%Y-%m-%d %H:%M") if at else "",
            "signed_by": addendum.signed_by.name,
        }
        return (self.heading.format(**told), *lines_of(addendum.text))

    def _written(self, lines: Sequence[str]) -> list[Encoded]:
        if self.layout == "formatted":
            return [formatted("\n".join(lines))]
        written = [plain(line if line.strip() else self.blank) for line in lines]
        return [repeated(written)] if self.layout == "repetitions" else written


def lines_of(text: str) -> tuple[str, ...]:
    """Cut a text into lines, whatever ends them; blanks at a line's end and blank ends go."""
    unified = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    return tuple(line.rstrip() for line in unified.split("\n"))


def compile_layout(node: Node | None, notebook: Notebook) -> Layout:
    """Read `text:`."""
    if node is None:
        return Layout()
    entries = notebook.mapping(node, KEYS)
    chosen: dict[str, str] = {key: notebook.text(below) for key, below in entries.items()}
    for key, options in (("layout", LAYOUTS), ("addenda", ADDENDA)):
        if key in entries and notebook.choice(entries[key], key, options) is None:
            del chosen[key]
    if "heading" in entries and not _heading(entries["heading"], notebook):
        del chosen["heading"]
    return Layout(**chosen)


def _heading(node: Node, notebook: Notebook) -> bool:
    """Check the placeholders of a heading: names only, no formats, no attributes."""
    try:
        parts = list(string.Formatter().parse(notebook.text(node)))
    except ValueError:
        notebook.error(node, "heading", "a brace stands alone; write {{ for a brace")
        return False
    good = True
    for _, name, form, conversion in parts:
        if name is not None and (name not in PLACEHOLDERS or form or conversion):
            notebook.unknown(node, "placeholder", name, PLACEHOLDERS)
            good = False
    return good
