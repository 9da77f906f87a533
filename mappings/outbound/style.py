r"""
The style of an outbound definition: version, names, times, documents, echoes, Metadata, text.

Each choice is one setting, so that a destination can overlay its own.

The text of a report is laid out in OBX segments, section by section. A line that begins with a
known heading (a code table: heading, section) starts a section. All lines are kept, also headings,
so that a receiver shows what was signed.

    lines         one OBX for each line; a blank line is one blank (VA, many RIS)
    repetitions   one OBX, lines as repetitions (TX: `~` is a new line, HL7 v2.5.1 §2A.77)
    formatted     one OBX, lines ended by `\.br\` (FT)

Sections keep code and sub-id in all messages, so that a correction replaces what it corrects (HL7
v2.5.1 §7.4.2.11).
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from zoneinfo import ZoneInfo

from mappings.hl7.versions import VERSIONS, VersionTables
from mappings.language.conditions import compile_test
from mappings.language.diagnostics import Diagnostics, YamlNode
from mappings.language.rules import CompilationContext
from mappings.outbound.encoding import (
    Encoded,
    formatted,
    plain,
    repeated,
    warn_if_beyond_last_field,
)
from mappings.outbound.results import (
    WITHDRAWALS,
    FileFormat,
    ResultContext,
    ResultEvent,
    SignedAddendum,
)

REPORT = "report"
ADDENDUM = "addendum"
NONE = "none"
_LONGEST_HEADING = 60
_HEADING = re.compile(r"[\s*#]*([^\s*#:：][^:：]*?)[\s*]*(?:[:：].*)?")  # noqa: RUF001  # the colon of Chinese and Japanese texts

Code = tuple[str, str, str]
WHOLE: Code = ("18748-4", "Diagnostic imaging report", "LN")
"""OBX-3 of a text that is not split into sections (LOINC)."""


@dataclass(frozen=True, slots=True)
class SectionText:
    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SectionCodes:
    codes: Mapping[str, Code] = field(default_factory=dict)
    section_of: Callable[[str], str | None] = lambda heading: None

    def cut(self, lines: Sequence[str]) -> list[SectionText]:
        """Split a text at its headings. Lines before the first heading belong to the report."""
        parts: list[SectionText] = []
        name, taken = REPORT, list[str]()
        for line in lines:
            opened = self._opened(line) if self.codes else None
            if opened is not None:
                parts.append(SectionText(name, tuple(taken)))
                name, taken = opened, []
            taken.append(line)
        parts.append(SectionText(name, tuple(taken)))
        return [trimmed for part in parts if (trimmed := _trimmed(part)) is not None]

    def code(self, name: str) -> Code:
        """Return OBX-3 of a section: its own code, else that of the whole report."""
        return self.codes.get(name) or self.codes.get(REPORT, WHOLE)

    def _opened(self, line: str) -> str | None:
        found = _HEADING.fullmatch(line)
        if found is None or len(found[1]) > _LONGEST_HEADING:
            return None
        return self.section_of(found[1])


def _trimmed(part: SectionText) -> SectionText | None:
    """Remove blank lines around a section; None if nothing is left."""
    lines = list(part.lines)
    while lines and not lines[-1].strip():
        lines.pop()
    while lines and not lines[0].strip():
        lines.pop(0)
    return SectionText(part.name, tuple(lines)) if lines else None


def compile_sections(entries: Mapping[str, YamlNode], context: CompilationContext) -> SectionCodes:
    """Read `sections`, `codes` and `headings` of `text:`."""
    chosen = entries.get("sections")
    codings = dict(_codings(entries["codes"], context)) if "codes" in entries else {}
    if chosen is None or chosen.value == NONE:
        return SectionCodes()
    name = context.diagnostics.read_choice(chosen, "coding", (*codings, NONE))
    headings = entries.get("headings")
    if headings is None:
        context.diagnostics.error(chosen, "sections", "needs `headings`: a code table of headings")
        return SectionCodes()
    table = context.table(headings)
    if name is None or table is None:
        return SectionCodes()
    return SectionCodes(codings[name], table.value)


def _codings(node: YamlNode, context: CompilationContext) -> Iterator[tuple[str, dict[str, Code]]]:
    for coding, below in context.diagnostics.read_mapping(node).items():
        sections = context.diagnostics.read_mapping(below)
        for needed in {REPORT, ADDENDUM} - sections.keys():
            context.diagnostics.error(below, "codes", f"{coding} has no code for {needed}")
        yield coding, {name: _code(code, context) for name, code in sections.items()}


def _code(node: YamlNode, context: CompilationContext) -> Code:
    texts = context.diagnostics.read_texts(node)
    if len(texts) != len(WHOLE):
        context.diagnostics.error(node, "code", "write [code, text, coding system]")
        return WHOLE
    return texts[0], texts[1], texts[2]


LAYOUTS = ("lines", "repetitions", "formatted")
CHILD = "child"
ADDENDA = ("whole", "newest", "none", CHILD)
TEXT_KEYS = ("layout", "addenda", "heading", "blank", "sections", "headings", "codes")
TEXT_SETTINGS = ("layout", "addenda", "heading", "blank")
PLACEHOLDERS = ("number", "signed_at", "signed_by")


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of the text with its own OBX-3 and OBX-4."""

    name: str
    code: Code
    sub_id: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextLayout:
    """The `text:` part of an outbound definition."""

    layout: str = "lines"
    addenda: str = "whole"
    heading: str = "ADDENDUM {number} ({signed_at}, {signed_by})"
    blank: str = " "
    sections: SectionCodes = field(default_factory=SectionCodes)

    @property
    def value_type(self) -> str:
        """OBX-2 of the text."""
        return "FT" if self.layout == "formatted" else "TX"

    @property
    def has_separate_addenda(self) -> bool:
        """Whether the message of an addendum contains the addendum without the report."""
        return self.addenda in ("newest", CHILD)

    def in_child(self, context: ResultContext) -> bool:
        """
        True if a message is about a child order. Every addendum, sent or withdrawn,
        has one.
        """
        has_child = context.event in (ResultEvent.ADDENDUM, ResultEvent.RETRACTION)
        return self.addenda == CHILD and has_child and bool(context.addenda)

    def is_alone(self, context: ResultContext) -> bool:
        """True if a message contains only the newest addendum."""
        newest = self.addenda == "newest" and context.event is ResultEvent.ADDENDUM
        return self.in_child(context) or (newest and bool(context.addenda))

    def rows(self, context: ResultContext) -> list[dict[str, Encoded]]:
        rows = []
        for section in self.cut(context):
            names = {**coding_of(section), "sub_id": plain(str(section.sub_id))}
            rows += [{**names, "line": line} for line in self._encoded_lines(section.lines)]
        return rows

    def outdated_sections(self, context: ResultContext) -> list[ReportSection]:
        """
        Return sections that the receiver has and this text does not have, which must be deleted.

        A text without sections replaces itself. A message with an addendum alone does not change
        the report.
        """
        if not self.sections.codes or self.is_alone(context):
            return []
        return self._other_sent_sections(self.cut(context), context)

    def _other_sent_sections(
        self, sections: Sequence[ReportSection], context: ResultContext
    ) -> list[ReportSection]:
        """Return the sections that the receiver has, except the given ones."""
        codes = {REPORT: self.sections.code(REPORT), **self.sections.codes}
        named = {(code[0], code[2]): name for name, code in codes.items() if name != ADDENDUM}
        present = {(section.code[0], section.code[2], str(section.sub_id)) for section in sections}
        return [
            ReportSection(name, codes[name], int(sent_section.sub_id), ())
            for sent_section in context.sent_sections
            if sent_section not in present
            and (name := named.get((sent_section.code, sent_section.system))) is not None
            and sent_section.sub_id.isdecimal()
        ]

    def cut(self, context: ResultContext) -> list[ReportSection]:
        """Split the report and its addenda into sections, according to `addenda`."""
        code = self.sections.code
        addenda = [
            ReportSection(
                ADDENDUM, code(ADDENDUM), number + 1, self._addendum(number, addendum, context)
            )
            for number, addendum in enumerate(context.addenda, start=1)
        ]
        if self.is_alone(context):
            return self._newest(context, addenda)
        kept = self.addenda in ("whole", "newest")
        if context.event in WITHDRAWALS:
            return self._withdrawn(context, addenda if kept else [])
        return self._report(context.report_text) + (addenda if kept else [])

    def _newest(self, context: ResultContext, addenda: list[ReportSection]) -> list[ReportSection]:
        if context.event in WITHDRAWALS:
            return [replace(addenda[-1], lines=split_lines(context.report_text))]
        return addenda[-1:]

    def _withdrawn(
        self, context: ResultContext, addenda: list[ReportSection]
    ) -> list[ReportSection]:
        """Withdraw all that the receiver may have: each section and each addendum."""
        lines = split_lines(context.report_text)
        names = (REPORT, *(name for name in self.sections.codes if name != ADDENDUM))
        codes = dict.fromkeys(self.sections.code(name) for name in names)
        first = [ReportSection(REPORT, code, 1, lines) for code in codes]
        return [
            *first,
            *(
                replace(section, lines=lines)
                for section in self._other_sent_sections(first, context)
            ),
            *(replace(addendum, lines=lines) for addendum in addenda),
        ]

    def _report(self, text: str) -> list[ReportSection]:
        """Split the report. A repeated section has the next sub-id."""
        if not text:
            return []
        lines = split_lines(text)
        if not self.sections.codes:
            return [ReportSection(REPORT, self.sections.code(REPORT), 1, lines)]
        counts: Counter[Code] = Counter()
        found = []
        for part in self.sections.cut(lines):
            code = self.sections.code(part.name)
            counts[code] += 1
            found.append(ReportSection(part.name, code, counts[code], part.lines))
        return found

    def _addendum(
        self, number: int, addendum: SignedAddendum, context: ResultContext
    ) -> tuple[str, ...]:
        zone = ZoneInfo(context.time_zone)
        at = addendum.signed_at
        values = {
            "number": str(number),
            "signed_at": at.astimezone(zone).strftime("%Y-%m-%d %H:%M") if at else "",
            "signed_by": addendum.signed_by.name,
        }
        return (self.heading.format(**values), *split_lines(addendum.text))

    def _encoded_lines(self, lines: Sequence[str]) -> list[Encoded]:
        if self.layout == "formatted":
            return [formatted("\n".join(lines))]
        written = [plain(line if line.strip() else self.blank) for line in lines]
        return [repeated(written)] if self.layout == "repetitions" else written


def coding_of(section: ReportSection) -> dict[str, Encoded]:
    """Return OBX-3 of a section as variables of a row."""
    names = ("section.code", "section.text", "section.system")
    code = dict(zip(names, map(plain, section.code), strict=True))
    return {"section": plain(section.name), **code}


def split_lines(text: str) -> tuple[str, ...]:
    """Split a text at any line end; trailing blanks, and empty lines at the ends, are removed."""
    unified = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    return tuple(line.rstrip() for line in unified.split("\n"))


def compile_layout(node: YamlNode | None, context: CompilationContext) -> TextLayout:
    """Read `text:`."""
    if node is None:
        return TextLayout()
    diagnostics = context.diagnostics
    entries = diagnostics.read_mapping(node, TEXT_KEYS)
    chosen = {key: diagnostics.read_text(entries[key]) for key in TEXT_SETTINGS if key in entries}
    for key, options in (("layout", LAYOUTS), ("addenda", ADDENDA)):
        if key in entries and diagnostics.read_choice(entries[key], key, options) is None:
            del chosen[key]
    if "heading" in entries and not _is_valid_heading(entries["heading"], diagnostics):
        del chosen["heading"]
    return TextLayout(**chosen, sections=compile_sections(entries, context))


def _is_valid_heading(node: YamlNode, diagnostics: Diagnostics) -> bool:
    """Check the placeholders of a heading: names only, no formats and attributes."""
    try:
        parts = list(string.Formatter().parse(diagnostics.read_text(node)))
    except ValueError:
        diagnostics.error(node, "heading", "a single brace; write {{ for a brace")
        return False
    is_valid = True
    for _, name, form, conversion in parts:
        if name is not None and (name not in PLACEHOLDERS or form or conversion):
            diagnostics.unknown(node, "placeholder", name, PLACEHOLDERS)
            is_valid = False
    return is_valid


REPEATED = "repeated"
ORDERS = ("separate", "combined", "grouped", REPEATED)
INTERPRETERS = ("ndl", "xcn", "name")
TIMES = ("offset", "local")
ECHOES = ("fields", "whole")
TEXT = "text"
CONTENT: Mapping[str, FileFormat] = {file_format.lower(): file_format for file_format in FileFormat}
METADATA_KEYS = ("send", "skip", "targets")
EVERY_KEY = "*"
OBX = "OBX"
STYLE_KEYS = ("orders", "version", "interpreter", "times", "echo", "content", "text", "metadata")

TARGET = re.compile(r"none|OBX|NTE|Z[A-Z0-9]{2}(-[1-9]\d?)?|(OBR|ORC|PV1|PID)-[1-9]\d?")
"""Where a Metadata key may go: nowhere, an observation, a note, a Z segment, or a field."""

NEEDS: Mapping[str, str] = {
    "interpreter": "$interpreter",
    "content": "each: documents",
    "text.sections": "$section.code",
    "metadata.targets": "$target",
}
"""What segments must contain for a setting to have an effect."""


@dataclass(frozen=True, slots=True)
class OutputStyle:
    """The style settings of one definition. Without a version, fields are not fitted."""

    version: str = ""
    orders: str = "separate"
    interpreter: str = "ndl"
    times: str = "offset"
    echo: str = "fields"
    content: tuple[str, ...] = (TEXT,)
    layout: TextLayout = field(default_factory=TextLayout)
    wanted: Callable[[str], bool] = lambda key: True
    targets: Mapping[str, str] = field(default_factory=dict)

    @property
    def version_tables(self) -> VersionTables | None:
        """The tables of the version to which fields are fitted."""
        return VERSIONS.get(self.version)

    @property
    def zoned(self) -> bool:
        """Whether times are written with their offset from UTC."""
        return self.times == "offset"

    @property
    def formats(self) -> frozenset[FileFormat]:
        """The file formats that are sent with the text."""
        return frozenset(CONTENT[item] for item in self.content if item in CONTENT)

    def target(self, key: str) -> str:
        """Return the target of a Metadata key. The default is `OBX`."""
        return self.targets.get(key) or self.targets.get(EVERY_KEY, OBX)


def compile_style(entries: Mapping[str, YamlNode], context: CompilationContext) -> OutputStyle:
    """Read the style settings. Invalid ones have their defaults."""
    targets = _targets(entries.get("metadata"), context)
    return OutputStyle(
        version=_read_setting(entries.get("version"), "version", tuple(VERSIONS), "", context),
        orders=_read_setting(entries.get("orders"), "choice", ORDERS, "separate", context),
        interpreter=_read_setting(
            entries.get("interpreter"), "interpreter", INTERPRETERS, "ndl", context
        ),
        times=_read_setting(entries.get("times"), "times", TIMES, "offset", context),
        echo=_read_setting(entries.get("echo"), "echo", ECHOES, "fields", context),
        content=_content(entries.get("content"), context),
        layout=compile_layout(entries.get("text"), context),
        wanted=_wanted(entries.get("metadata"), context),
        targets=targets,
    )


def check_style_has_effect(
    root: YamlNode, entries: Mapping[str, YamlNode], context: CompilationContext
) -> None:
    """
    Report settings without effect, because no segment contains what they choose.

    Only settings of the outermost file are checked: an overlay need not use all settings of its
    base.
    """
    for setting, needed in NEEDS.items():
        first, _, second = setting.partition(".")
        node = entries.get(first)
        if node is not None and second:
            node = node.get(second)
        if node is None or node.file != root.file or needed in context.used or _is_default(node):
            continue
        context.diagnostics.error(node, "no-effect", f"has no effect: no segment has {needed}")


def _is_default(node: YamlNode) -> bool:
    """True if a setting has no effect by intention: no sections, or only text."""
    values = [item.value for item in node.value] if isinstance(node.value, list) else [node.value]
    return values in (["none"], [TEXT])


def _read_setting(
    node: YamlNode | None,
    what: str,
    known: tuple[str, ...],
    default: str,
    context: CompilationContext,
) -> str:
    if node is None:
        return default
    return context.diagnostics.read_choice(node, what, known) or default


def _content(node: YamlNode | None, context: CompilationContext) -> tuple[str, ...]:
    if node is None:
        return (TEXT,)
    known = (TEXT, *CONTENT)
    chosen = [
        context.diagnostics.read_choice(item, "content", known)
        for item in context.diagnostics.read_items(node)
    ]
    if not chosen:
        context.diagnostics.error(node, "content", f"name at least one of {', '.join(known)}")
    return tuple(choice for choice in chosen if choice)


def _wanted(node: YamlNode | None, context: CompilationContext) -> Callable[[str], bool]:
    """Read which keys are sent: all, none, or those that pass a test."""
    if node is None:
        return lambda key: True
    entries = context.diagnostics.read_mapping(node, METADATA_KEYS)
    send = compile_test(entries["send"], context.diagnostics) if "send" in entries else None
    skip = compile_test(entries["skip"], context.diagnostics) if "skip" in entries else None
    return lambda key: (send is None or send(key)) and not (skip is not None and skip(key))


def _targets(node: YamlNode | None, context: CompilationContext) -> dict[str, str]:
    targets = node.get("targets") if node is not None else None
    if targets is None:
        return {}
    found = {}
    for key, below in context.diagnostics.read_mapping(targets).items():
        text = context.diagnostics.read_text(below)
        if TARGET.fullmatch(text):
            found[key] = text
            segment, _, number = text.partition("-")
            warn_if_beyond_last_field(segment, int(number or 0), below, context.diagnostics)
        else:
            wanted = "none, OBX, NTE, a Z segment, or a field such as OBR-21 or ZMD-3"
            context.diagnostics.error(below, "target", f"{text!r} is no target: write {wanted}")
    return found
