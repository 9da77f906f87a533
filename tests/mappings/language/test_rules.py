"""The rule language: sources and modifiers of values."""

import pytest

from mappings.hl7.message import Message
from mappings.hl7.refusals import TableValueNotFound
from tests.mappings.definitions import DEFAULTS, mapped, message, overlaid, tag

ORC = "ORC|NW|P1"
OBR = "OBR|1|P1||X^Test"
OBX = [
    "OBX|1|TX|A^First^L||one~two",
    "OBX|2|TX|B^Second^L||three",
    'OBX|3|TX|A^First^L||""',
]

SOURCES = {
    "a path": ("OBR-4.2", ("OBR|1|P1||X^CT \\T\\ MR",), "CT & MR"),
    "a whole repetition keeps unescaped delimiters": ("OBR-4", (OBR,), "X^Test"),
    "only separators are empty": ("[PV1-3, OBR-4.1]", ("PV1|1|O|^^^", OBR), "X"),
    "a fallback": ("[OBR-13, OBR-4.2]", (OBR,), "Test"),
    "the second repetition": ("'PID-3[2].1'", (OBR,), None),
    "a picked repetition": (
        "'PV1-8[XCN-9=B].2'",
        ("PV1|1|O||||||1^X^^^^^^^A~2^Y^^^^^^^B", OBR),
        "Y",
    ),
    "a picked repetition whose component has an escape": (
        "'PV1-8[XCN-9=A&B].2'",
        ("PV1|1|O||||||1^X^^^^^^^A~2^Y^^^^^^^A\\T\\B", OBR),
        "Y",
    ),
    "values of repetitions whose component has an escape": (
        "{all: 'PV1-8[XCN-9=A&B].2', separator: '/'}",
        ("PV1|1|O||||||1^X^^^^^^^A~2^Y^^^^^^^A\\T\\B", OBR),
        "Y",
    ),
    "a subcomponent": ("OBR-15.4.2", ("OBR|1|P1||X^T|||||||||||^^^K&Knee&L",), "Knee"),
    "the second segment of a kind": ("'OBX[2]-5'", (OBR, *OBX), "three"),
    "the header's segment": ("PID-5.1", (OBR,), "Doe"),
    "MSH counts from its separator": ("MSH-4", (OBR,), "NORTH"),
    "all repetitions and segments": ("{all: OBX-5, separator: '/'}", (OBR, *OBX), "one/two/three"),
    "for each repetition the text, else the code": (
        "{all: [OBX-3.2, OBX-3.1], separator: ';'}",
        (OBR, "OBX|1|TX|A^Alpha", "OBX|2|TX|B"),
        "Alpha;B",
    ),
    "the first that is not empty": ("{first: OBX-5}", (OBR, 'OBX|1|TX|A||""', *OBX), "one"),
    "some segments": ("{all: OBX-5, where: {OBX-3.1: B}}", (OBR, *OBX), "three"),
    "notes below a segment": (
        "{all: NTE-3, after: [OBX]}",
        (OBR, "NTE|1||of the order", OBX[0], "NTE|1||of the value"),
        "of the value",
    ),
    "a join omits absent values": (
        "{join: [OBR-4.1, OBR-13, OBR-4.2], separator: '-'}",
        (OBR,),
        "X-Test",
    ),
    "a join with carets keeps the positions": (
        "{join: [OBR-4.1, OBR-13, OBR-14, OBR-4.2, OBR-15], separator: '^'}",
        (OBR,),
        "X^^^Test",
    ),
    "a join with carets of nothing": ("{join: [OBR-13, OBR-14], separator: '^'}", (OBR,), None),
    "a join with carets and a null": (
        "{join: [OBR-4.1, OBR-13, OBR-4.2], separator: '^'}",
        ('OBR|1|P1||X^Test|||||||||""',),
        "X^^Test",
    ),
    "a constant": ("{const: yes}", (OBR,), "yes"),
    "a default": ("{from: OBR-13, default: none}", (OBR,), "none"),
    "no default where there is a value": ("{from: OBR-4.1, default: none}", (OBR,), "X"),
    "a condition that is true": ("{from: OBR-4.2, when: {OBR-4.1: [X, Y]}}", (OBR,), "Test"),
    "a condition that is false": ("{from: OBR-4.2, when: {OBR-4.1: {not: X}}}", (OBR,), None),
    "a pattern": ("{from: OBR-4.2, when: {OBR-4.2: {matches: '^t.st$'}}}", (OBR,), "Test"),
    "absence": (
        "{from: OBR-4.2, when: {OBR-13: {absent: true}, OBR-4: {present: true}}}",
        (OBR,),
        "Test",
    ),
    "one of several conditions": (
        "{from: OBR-4.2, when: {any: [{OBR-4.1: Q}, {not: {OBR-4.1: Q}}]}}",
        (OBR,),
        "Test",
    ),
    "transforms in order": ("{from: OBR-4.2, as: [upper]}", (OBR,), "TEST"),
    "digits": ("{from: OBR-4.2, as: digits}", ("OBR|1|P1||X^A-12/3",), "123"),
    "one line": ("{from: OBR-13, as: one-line}", ("OBR|1|P1||X|||||||||a\\.br\\b",), "a b"),
    "line ends of any kind": ("OBR-13", ("OBR|1|P1||X|||||||||a\\X0D\\\\X0A\\b",), "a\nb"),
    "leading zeros and inner blanks stay": ("OBR-13", ("OBR|1|P1||X||||||||| 007  8 ",), "007  8"),
}


@pytest.mark.parametrize(("rule", "segments", "expected"), SOURCES.values(), ids=SOURCES)
def test_sources(rule: str, segments: tuple[str, ...], expected: str | None) -> None:
    """Each kind of source returns what the guide states."""
    placed = [s for s in segments if s.startswith("PV1")] + [ORC]
    placed += [s for s in segments if not s.startswith("PV1")]
    assert tag(rule, *placed) == expected


TABLE = {"codes/colours.csv": "code,value,remark\nR,red,\n B , blue ,\n"}
CODES = {
    "a code of the table": ("{from: OBR-13, codes: colours}", "R", "red"),
    "in any case, blanks trimmed": ("{from: OBR-13, codes: colours}", "b", "blue"),
    "an unknown code is kept": ("{from: OBR-13, codes: colours}", "G", "G"),
    "an unknown code is dropped": ("{from: OBR-13, codes: colours, unknown: empty}", "G", None),
}


@pytest.mark.parametrize(("rule", "code", "expected"), CODES.values(), ids=CODES)
def test_code_tables(rule: str, code: str, expected: str | None) -> None:
    """A code table translates; the policy of the rule applies to other codes."""
    assert tag(rule, ORC, f"OBR|1|P1||X|||||||||{code}", files=TABLE) == expected


def test_refused_code() -> None:
    """An unknown code refuses the message before it is acknowledged, if the rule demands it."""
    mine = overlaid("tags: {Race: {from: OBR-13, codes: colours, unknown: refuse}}", TABLE)
    bad = message(ORC, OBR, "ORC|NW|P2", "OBR|1|P2||X|||||||||G")
    (issue,) = mine.check(bad, DEFAULTS)
    assert isinstance(issue.refusal, TableValueNotFound)
    assert issue.path == "OBR[2]-13"


BESIDE_TAGS = {
    "metadata": "metadata: {values: {Colour: {from: OBR-13, codes: colours, unknown: refuse}}}",
    "order": "order: {placer: {from: OBR-13, codes: colours, unknown: refuse}, control: ORC-1}",
    "links": "links: {parent: {on: true, value: {from: OBR-13, codes: colours, unknown: refuse}}}",
    "launch": "reporting_app: {AppLanguage: {from: OBR-13, codes: colours, unknown: refuse}}",
    "site": "tags: {SiteID: {from: OBR-13, codes: colours, unknown: refuse}}",
}


@pytest.mark.parametrize("text", BESIDE_TAGS.values(), ids=BESIDE_TAGS)
def test_refused_code_anywhere(text: str) -> None:
    """Any rule that may refuse a message does so before the acknowledgment."""
    mine = overlaid(text, TABLE)
    (issue,) = mine.check(message(ORC, "OBR|1|P1||X|||||||||G"), DEFAULTS)
    assert (issue.code, issue.path) == ("103", "OBR-13")
    assert mine.check(message(ORC, "OBR|1|P1||X|||||||||R"), DEFAULTS) == []


class TestNull:
    """An HL7 null deletes; an absent field changes nothing (HL7 v2.5.1 §2.5.3)."""

    def test_null_is_an_empty_tag(self) -> None:
        """A null becomes an empty text."""
        assert tag("OBR-13", ORC, 'OBR|1|P1||X|||||||||""') == ""

    def test_absence_is_no_tag(self) -> None:
        """An absent field results in no tag."""
        assert tag("OBR-13") is None

    def test_a_value_wins_over_a_null(self) -> None:
        """A later source with a value takes precedence over a null."""
        assert tag("[OBR-13, OBR-4.1]", ORC, 'OBR|1|P1||X|||||||||""') == "X"

    def test_an_identifier_is_never_deleted(self) -> None:
        event = mapped("", ORC, 'OBR|1|P1||X||||||||||||||""', 'ZDS|""')
        assert event.accession == "P1"
        assert "StudyInstanceUID" not in event.clinical_info


def test_site_from_the_message() -> None:
    """A rule reads the SiteID from the message; the listener's is the default."""
    rule = "tags: {SiteID: {from: [ORC-17.1, MSH-4.1], default: listener}}"
    assert mapped(rule, ORC, OBR).site == "NORTH"
    assert mapped(rule, "ORC|NW|P1|||||||||||||||SOUTH", OBR).site == "SOUTH"
    assert mapped("", ORC, OBR).site == "SITE1"


def test_a_site_code_table() -> None:
    """A code table translates a sender's facility to a SiteID."""
    files = {"codes/sites.csv": "code,value\nNORTH,SITE7\n"}
    rule = "tags: {SiteID: {from: MSH-4.1, codes: sites, unknown: refuse}}"
    assert mapped(rule, ORC, OBR, files=files).site == "SITE7"


def test_odd_delimiters() -> None:
    """Paths are independent of the delimiters."""
    raw = "MSH^~|\\&^HISB^SOUTH^^^20260302^^ORM~O01^C1^P^2.3.1\r"
    raw += "PID^1^^0042~~~SOUTH~MR^^Doe~Jane\rORC^NW^P1\rOBR^1^P1^^X~Test^^^^^^^^^R1|R2"
    (event,) = overlaid("tags: {KeyFindings: {all: OBR-13, separator: '+'}}").apply(
        Message.parse(raw.encode()), DEFAULTS
    )
    assert (event.mrn, event.clinical_info["StudyDescription"]) == ("0042", "Test")
    assert event.clinical_info["KeyFindings"] == "R1+R2"
