"""The compiler reports all errors with file, line, column and a suggestion."""

import shutil
from pathlib import Path
from types import MappingProxyType

import pytest

from mappings.compiler import DEFINITIONS, check, check_sources, compile_sources, load
from mappings.hl7.escapes import unescape
from mappings.hl7.header import peek
from mappings.hl7.refusals import (
    MessageRefusal,
    UnknownSender,
    UnsupportedEvent,
    UnsupportedMessage,
)
from mappings.inbound.definition import InboundMapping, refusal_for
from mappings.language.diagnostics import HookFailed, Issue, IssueSeverity, MappingErrors
from tests.mappings.definitions import DEFAULTS, SHIPPED, message, overlaid

MISTAKES = """\
include: orders.yaml
kynd: orders
accept:
  messages: [ORM-O01]
  sender: [A]
tags:
  PatientMNR: PID-3.1
  PatientName: PDI-5
  PatientSex: {from: PID-8, codes: sexes}
  Race: {form: PID-10}
  Ethnicity: {from: PID-22, const: x}
  Modality: {from: OBR-24, as: uper}
  StudyDate: {from: OBR, when: {OBR-7: {matches: "("}}}
  Notes: {all: NTE-3, where: {OBX-3: A}}
  KeyFindings: {hook: nowhere:function}
  ReasonForExam: {from: OBR-31, codes: sex, unknown: refuze}
order_control:
  actions:
    NW: creat
links:
  study-iud: {on: true}
  parent: {on: maybe}
  custom:x: {on: true}
metadata:
  keep: [PVX]
  each: [{segment: OBX}]
echo: [MHS]
"""

EXPECTED = [
    (2, 1, "unknown key 'kynd'; did you mean 'kind'?"),
    (4, 14, "a message is written as ORM^O01, or ADT^* for all"),
    (5, 3, "unknown key 'sender'; did you mean 'senders'?"),
    (7, 3, "unknown key 'PatientMNR'; did you mean 'PatientMRN'?"),
    (8, 16, "there is no segment PDI; did you mean 'PID-5'?"),
    (9, 36, "unknown code table 'sexes'; did you mean 'sex'?"),
    (10, 10, "unknown key 'form'; did you mean 'from'?"),
    (11, 14, "from and const exclude each other: keep one"),
    (12, 32, "unknown transform 'uper'; did you mean 'upper'?"),
    (13, 21, "'OBR' names no field; write it as PID-3.1"),
    (13, 50, "not a regular expression: missing ): (; patterns are matched in linear time (RE2)"),
    (14, 31, "`where` looks at NTE alone"),
    (15, 23, "there is no file nowhere.py in the hook folder"),
    (16, 54, "unknown policy 'refuze'; did you mean 'refuse'?"),
    (19, 9, "unknown action 'creat'; did you mean 'create'?"),
    (21, 3, "unknown link signal 'study-iud'; did you mean 'study-uid'?"),
    (22, 16, "true or false is expected here"),
    (23, 13, "custom:x needs `value`: the path of its value"),
    (25, 10, "unknown segment 'PVX'; did you mean 'PV2'?"),
    (26, 10, "each needs key, value"),
    (27, 8, "unknown segment 'MHS'; did you mean 'MSH'?"),
]


def test_every_mistake_at_once() -> None:
    """One check reports all errors with their locations."""
    issues = check_sources({**SHIPPED, "mine.yaml": MISTAKES}, ["mine"], tables=False)
    found = {(i.line, i.column, i.message) for i in issues if i.file == "mine.yaml"}
    missing = [expected for expected in EXPECTED if expected not in found]
    assert not missing, sorted(found)


def test_shipped_definitions_have_no_issues() -> None:
    assert check(DEFINITIONS) == []


def only(text: str, **files: str) -> Issue:
    sources = {**SHIPPED, "mine.yaml": text}
    sources |= {name.replace("__", "/"): content for name, content in files.items()}
    (issue,) = check_sources(sources, ["mine"], tables=False)
    return issue


FILES = {
    "not YAML": ("kind: [", 1, "yaml"),
    "empty": ("", 1, "yaml"),
    "no kind": ("tags: {}\n", 1, "kind"),
    "unknown kind": ("kind: order\n", 1, "unknown-kind"),
    "twice": ("include: orders.yaml\nonly: {OBR-4: X}\nonly: {OBR-4: Y}\n", 3, "duplicate"),
    "missing include": ("include: [ordres.yaml]\nkind: orders\n", 1, "unknown-file"),
    "missing include, no kind": ("include: ordres.yaml\ntags: {}\n", 1, "unknown-file"),
    "includes itself": ("include: [orders.yaml, mine.yaml]\n", 1, "include"),
    "endless alias": ("include: orders.yaml\nabout: &a [*a]\n", 2, "yaml"),
}


@pytest.mark.parametrize(("text", "line", "code"), FILES.values(), ids=FILES)
def test_broken_files(text: str, line: int, code: str) -> None:
    """A file that is not a definition is reported."""
    issues = check_sources({**SHIPPED, "mine.yaml": text}, ["mine"], tables=False)
    assert (line, code) in [(issue.line, issue.code) for issue in issues]


def test_unknown_mapping() -> None:
    with pytest.raises(MappingErrors, match="did you mean 'orders'"):
        compile_sources(SHIPPED, "order")


TABLES = {
    "columns": ("a,b\n1,2\n", 1, "the columns code,value are expected"),
    "no value": ("code,value\nA,1\nB\n", 3, "this line has no value"),
    "contradiction": ("code,value\nA,1\na,2\n", 3, "an earlier line has another value"),
    "not CSV": ('code,value\n"A,1\n', 2, "this line is not CSV"),
}


@pytest.mark.parametrize(("text", "line", "message"), TABLES.values(), ids=TABLES)
def test_code_tables(text: str, line: int, message: str) -> None:
    (issue,) = check_sources({"codes/t.csv": text}, [], tables=True)
    assert (issue.file, issue.line) == ("codes/t.csv", line)
    assert message in issue.message


def test_identity_is_required() -> None:
    """A definition without rules for MRN and accession has errors."""
    issues = check_sources(
        {
            **SHIPPED,
            "mine.yaml": "include: orders.yaml\ntags: {Accession: {from: OBR-18}}\n",
        },
        ["mine"],
        tables=False,
    )
    assert [issue.message for issue in issues] == ["Accession must be `required: true`"]


class TestVersion:
    """The version of a mapping identifies its files."""

    def test_the_version_depends_on_its_files(self) -> None:
        """Another definition, include, code table or hook results in another version."""
        base = compile_sources(SHIPPED, "orders").version
        sexes = {**SHIPPED, "codes/sex.csv": SHIPPED["codes/sex.csv"] + "X,O,\n"}
        assert compile_sources(sexes, "orders").version != base
        assert len(base) == 16

    def test_the_version_does_not_depend_on_other_files(self) -> None:
        others = {**SHIPPED, "results.yaml": "# changed", "codes/new.csv": "code,value\n"}
        base = compile_sources(SHIPPED, "orders").version
        assert compile_sources(others, "orders").version == base

    def test_follows_includes(self) -> None:
        """The version of an overlay changes with its base."""
        first = overlaid("")
        changed = {"orders.yaml": SHIPPED["orders.yaml"] + "\n# a remark\n"}
        assert overlaid("", changed).version != first.version


class TestHooks:
    """Python hooks in definitions."""

    HOOK = MappingProxyType(
        {"mine_hooks.py": "def last(message):\n    return str(message.segment('OBR')[4][0][1])\n"}
    )

    def test_hook(self) -> None:
        """A hook receives header and group as an object of python-hl7, and returns the value."""
        mine = overlaid("tags: {KeyFindings: {hook: 'mine_hooks:last'}}", self.HOOK)
        found = mine.apply(
            message("ORC|NW|P1", "OBR|1|P1||X^One", "ORC|NW|P2", "OBR|2|P2||X^Two"), DEFAULTS
        )
        assert [event.clinical_info["KeyFindings"] for event in found] == ["One", "Two"]

    def test_failing_hook(self) -> None:
        """A hook that raises does not refuse the message: it is parked."""
        broken = {"mine_hooks.py": "def last(message):\n    raise ValueError(str(message))\n"}
        mine = overlaid("tags: {KeyFindings: {hook: 'mine_hooks:last'}}", broken)
        order = message("ORC|NW|P1", "OBR|1|P1||X")
        assert mine.check(order, DEFAULTS) == []
        with pytest.raises(HookFailed, match=r"^hook mine_hooks:last raised ValueError$"):
            mine.apply(order, DEFAULTS)

    def test_unknown_function(self) -> None:
        with pytest.raises(MappingErrors, match="did you mean 'last'"):
            overlaid("tags: {KeyFindings: {hook: 'mine_hooks:lost'}}", self.HOOK)


def test_overlay_of_a_sender() -> None:
    """An overlay replaces its own keys and keeps those of the included definition."""
    mine = overlaid("accept: {senders: [{application: 'RIS*', facility: NORTH}]}")
    good = message("ORC|NW|P1", "OBR|1|P1||X")
    assert mine.accepts(good.header)
    other = type(good).parse(good.raw.replace(b"RISA", b"HISB"))
    assert not mine.accepts(other.header)


SENDERS = {
    "UTF-8": ("Zürich^x", "utf-8", "UNICODE UTF-8", "utf-8"),
    "Latin-1": ("Zürich", "latin-1", "8859/1", "utf-8"),
    "the charset of the listener": ("Zürich", "cp437", "", "cp437"),
    "ISO 2022": ("東京", "iso2022_jp", "ISO IR87", "utf-8"),
    "bytes like a separator": ("表示^x", "shift_jis", "SHIFT JIS", "utf-8"),
    "an escape": (r"Z\XC3BC\rich", "ascii", "", "utf-8"),
    "the escape of a separator": (r"Rad\T\Co", "ascii", "", "utf-8"),
}


@pytest.mark.parametrize(("facility", "codec", "msh18", "fallback"), SENDERS.values(), ids=SENDERS)
def test_senders_beyond_ascii(facility: str, codec: str, msh18: str, fallback: str) -> None:
    """The text of MSH-4 is compared with the pattern, as rules read it."""
    line = f"MSH|^~\\&|RISA|{facility}|B|S|20260302080500||ORM^O01|C1|P|2.5.1{'|' * 6}{msh18}\r"
    header = peek(line.encode(codec))
    for pattern in ("Zürich", "東京", "表示", "Rad&Co"):
        mine = overlaid(f"accept: {{senders: [{{facility: '{pattern}'}}]}}")
        expected = pattern == unescape(facility.partition("^")[0])
        assert mine.accepts(header, fallback) is expected


@pytest.mark.parametrize(
    ("header", "refused", "place"),
    [
        ((b"RISA", b"HISB"), UnknownSender, "MSH-3"),
        ((b"|NORTH|", b"|SOUTH|"), UnknownSender, "MSH-4"),
        ((b"ORM^O01", b"ORM^O99"), UnsupportedEvent, "MSH-9.2"),
        ((b"ORM^O01", b"MDM^T02"), UnsupportedMessage, "MSH-9.1"),
    ],
)
def test_a_refused_header_names_the_field(
    header: tuple[bytes, bytes], refused: type[MessageRefusal], place: str
) -> None:
    """The sender, if a definition accepts the type from other senders; else event or type."""
    mine = overlaid("accept: {senders: [{application: X}, {application: 'RIS*', facility: NORTH}]}")
    good = message("ORC|NW|P1", "OBR|1|P1||X")
    assert header[0] in good.raw
    found = refusal_for(type(good).parse(good.raw.replace(*header)).header, [mine.acceptance])
    assert (type(found), found.place) == (refused, place)


def test_overlaid_rules_are_replaced() -> None:
    mine = overlaid("tags: {ReasonForExam: {from: OBR-13, as: upper}}")
    (event,) = mine.apply(message("ORC|NW|P1", "OBR|1|P1||X|||||||||why"), DEFAULTS)
    assert event.clinical_info["ReasonForExam"] == "WHY"


def test_folder(tmp_path: Path) -> None:
    shutil.copytree(DEFINITIONS, tmp_path / "mappings")
    loaded = load(tmp_path / "mappings", "orders")
    assert isinstance(loaded, InboundMapping)
    assert loaded.version == compile_sources(SHIPPED, "orders").version


def test_issues_read_like_a_compiler_s() -> None:
    """An issue is formatted as one line that editors parse."""
    issue = Issue("tags.X", "path", "no such place", IssueSeverity.ERROR, "orders.yaml", 3, 7)
    assert str(issue) == "orders.yaml:3:7: error: tags.X: no such place [path]"
