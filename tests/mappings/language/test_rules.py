"""The rule language: sources and modifiers of values."""

import threading
from itertools import permutations

import pytest

from mappings.compiler import check_sources
from mappings.hl7.message import Message
from mappings.hl7.refusals import TableValueNotFound
from mappings.language.conditions import (
    MAX_PATTERN_CHARACTERS,
    MAX_SEARCHED_CHARACTERS,
    PatternsTakeLong,
    bounded_patterns,
    compile_search,
    compile_wildcards,
)
from mappings.language.transforms import is_uid
from tests.eventually import PATIENCE
from tests.mappings.definitions import (
    DEFAULTS,
    SHIPPED,
    inbound_mapping,
    mapped,
    message,
    overlaid,
    tag,
)

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


ALPHABETIC = "Yamada^Tarou^^^^^L^A"
KANA = ("山田^太郎^^^^^L^I", "やまだ^たろう^^^^^L^P")
LATIN_KANJI = "Yamada^Tarou=山田^太郎"
PERSON = f"{LATIN_KANJI}=やまだ^たろう"


def of(transform: str, value: str) -> str | None:
    """Transform a value of OBR-13."""
    return tag(f"{{from: OBR-13, as: {transform}}}", ORC, f"OBR|1|P1||X|||||||||{value}")


CASES = [
    ("birth-date", "19880705", "19880705"),
    ("birth-date", "198807050000-0500", "19880705"),  # a birthday is never moved
    ("birth-date", "1970", "1970"),
    ("birth-date", "197003", "197003"),
    ("birth-date", "Aug 15, 1942", "19420815"),
    ("birth-date", "sometime", "sometime"),
    ("date", "20260302235900-0500", "20260303"),  # the next day at the site
    ("date", "20260302", "20260302"),
    ("time", "20260302093015.123+0100", "093015"),
    ("time", "202603020930", "0930"),
    ("time", "20260302", None),
    ("timestamp", "20260302233000Z", "20260303003000"),
    ("person-name", "Doe^Jane^M^Jr^Dr", "Doe^Jane^M^Dr^Jr"),  # XPN to DICOM's PN
    ("person-name", "van Beek&van&Beek^Ida", "van Beek^Ida"),
    ("person-name", "O\\T\\Brien^Jane\\.br\\Ann", "O&Brien^Jane Ann"),  # a name is one line
    ("person-name", 'Doe^Jane^""', "Doe^Jane"),
    ("person-name", "Alias^A^^^^^N~Doe^Jane^^^^^L", "Doe^Jane"),
    *[("person-name", "~".join(forms), PERSON) for forms in permutations([ALPHABETIC, *KANA])],
    ("person-name", "~".join(KANA), "=山田^太郎=やまだ^たろう"),
    ("person-name", KANA[0], "山田^太郎"),
    ("person-name", "YAMADA^TARO^^^^^L~山田^太郎^^^^^L^I", "YAMADA^TARO=山田^太郎"),  # A by default
    ("person-name", "YAMADA^TARO~山田^太郎^^^^^^i", "YAMADA^TARO=山田^太郎"),
    ("person-name", "やまだ^たろう^^^^^L^P~Yamada^Tarou^^^^^D^A", "Yamada^Tarou==やまだ^たろう"),
    ("person-name", f"Sato^Taro^^^^^M^A~佐藤^太郎^^^^^M^I~{KANA[0]}~{ALPHABETIC}", LATIN_KANJI),
    ("person-name", f"{ALPHABETIC}~Alias^T^^^^^A^A~{KANA[1]}~{KANA[0]}~Nick^T^^^^^N", PERSON),
    (
        "person-name",
        "Yamada&y&Y^Tarou^^Jr^Dr^^L^A~山田^太郎^^^^^L^I",
        "Yamada^Tarou^^Dr^Jr=山田^太郎",
    ),
    ("person-name", "Jansen^Anna^^^^^M~van der B&van der&B^Anna^^^Dr.^^L", "van der B^Anna^^Dr."),
    ("person-name", PERSON + "^^^^^L", PERSON),  # in DICOM's form
    ("person-display", "Doe^Jane^M^Jr^Dr", "Dr Jane M Doe Jr"),
    ("provider-name", "12^Welby^Ann^^^Dr^MD", "Dr Ann Welby, MD"),
    ("provider-name", "12&Welby&Ann^20260302", "Ann Welby"),  # NDL: the name in subcomponents
    ("provider-name", "12", None),  # a bare identifier is no name
    ("provider-id", "12^Welby^Ann", "12"),
    ("study-uid", "1.2.840.1", "1.2.840.1"),
    ("study-uid", "Discharged home", None),
]


@pytest.mark.parametrize(("transform", "value", "expected"), CASES)
def test_transform(transform: str, value: str, expected: str | None) -> None:
    """A transform returns the converted value, "" if it cannot convert it."""
    assert of(transform, value) == expected


AGES = [
    ("19800102", "20260302", "046Y"),
    ("19800303", "20260302", "045Y"),  # the birthday is tomorrow
    ("20240815", "20260302", "018M"),
    ("20260210", "20260302", "020D"),
    ("20260302", "20260302", "000D"),
    ("20260303", "20260302", None),  # not yet born
    ("1970", "20260302", None),  # 55 or 56
    ("1970", "19701231", None),
    ("197003", "20260415", "056Y"),
    ("197003", "20260302", None),
    ("19800102", "", "046Y"),  # no study date: today at the site
    ("999912", "20260302", None),
    ("", "20260302", None),
]


@pytest.mark.parametrize(("birth", "study", "expected"), AGES)
def test_age(birth: str, study: str, expected: str | None) -> None:
    """An age has the format of DICOM; it is "" if it would be a guess."""
    rule = "{age: {of: OBR-13, on: [OBR-7]}}"
    assert tag(rule, ORC, f"OBR|1|P1||X|||{study}||||||{birth}") == expected


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("1.2.826.0.1.3680043.10.99999.20250326.1", True),
        ("2.25." + "9" * 39, True),
        ("1.2." + "3" * 60, True),
        ("1.2." + "3" * 61, False),
        ("1.02.3", False),
        ("1..2", False),
        ("1.2.", False),
        ("12", False),
        ("Discharged home", False),
        ("1.2.3\n", False),
        ("\u0661.\u0662", False),
        ("", False),
    ],
)
def test_dicom_uid(text: str, valid: bool) -> None:
    """DICOM PS3.5 §9.1: digits and dots, no leading zeros, at most 64."""
    assert is_uid(text) is valid


ORDER = ("ORC|NW|P1", "OBR|1|P1||X^Test|||||||||||||||A1")

EXPLODING = (
    r"^(a+)+$",
    r"^(a|aa)*$",
    r"^(a|aa) *$",
    r"(a*)*b",
    r"(.*)*x",
    r"(?:a?){100}a{100}b",
    r"(([a-z])+.)+[A-Z]([a-z])+$",
    r"\s*x\s*y\s*z",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
)


@pytest.mark.parametrize("pattern", EXPLODING)
def test_no_pattern_explodes(pattern: str) -> None:
    """Python's own engine would take exponential time for each of them."""
    search = compile_search(pattern)
    for character in ("a", " ", "A"):
        search(character * (MAX_SEARCHED_CHARACTERS - 1) + "!")
    assert search("?") is None


LACKING = {
    r"^(?=a)": "look-ahead",
    r"^(?!a)": "negative look-ahead",
    r"(?<=a)b": "look-behind",
    r"(?<!a)b": "negative look-behind",
    r"(a)\1": r"backreference \\1",
    r"(?P<x>a)(?P=x)": "backreference",
    r"(?>a)b": "atomic group",
    r"(a)(?(1)b|c)": "conditional",
    r"a(?#why)": "comment",
    r"(?x)^(a|aa) *$": r"flag in \(\?x\)",
    r"(?ix)a": r"flag in \(\?ix\)",
    r"(?a:x)": "flag in",
    r"a\Z": r"\\Z",
    r"a\C": r"\\C",
    r"\u00e4": r"\\u",
    r"\N{BULLET}": r"\\N",
    r"a{,3}": "repetition",
    r"a*+": "repetition",
    r"a{2}+": "repetition",
    r"(a": "missing",
    r"a)": "unexpected",
    r"[z-a]": "range",
    r"a{1001}": "repetition size",
    r"(?:a{200}){100}": "regular expression|too large",
    "a" * (MAX_PATTERN_CHARACTERS + 1): "at most",
    r"(\pL+\s*){90}": "too large",
}


@pytest.mark.parametrize(("pattern", "message"), LACKING.items())
@pytest.mark.parametrize("rule", ["extract", "matches"])
def test_unsupported_constructs_are_reported(
    pattern: str, message: str, rule: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The issue has file, line and column; the engine prints nothing."""
    rules = {
        "extract": f"tags:\n  Notes: {{from: PID-3, extract: '{pattern}'}}",
        "matches": f"tags:\n  Notes: {{from: PID-3, when: {{PID-3: {{matches: '{pattern}'}}}}}}",
    }
    sources = {**SHIPPED, "mine.yaml": f"include: orders.yaml\n{rules[rule]}\n"}
    (issue,) = check_sources(sources, ["mine"], tables=False)
    assert (issue.code, issue.file, issue.line) == ("pattern", "mine.yaml", 3)
    assert issue.column == rules[rule].splitlines()[1].index(f"'{pattern}'") + 1
    with pytest.raises(ValueError, match=message):
        compile_search(pattern)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("pattern", "value", "found"),
    [
        (r"^AI-", "ai-7", "ai-"),
        (r"(\d+)$", "room 12", "12"),
        (r"b(x)?", "abc", ""),
        (r"[(?=]\\1[{,3}]", r"=\1,", r"=\1,"),
        (r"[](?!]+", "](?!", "](?!"),
        (r"(?i)colou?r", "COLOR", "COLOR"),
        (r"(?P<word>[a-z]+)!", "hallo!", "hallo"),
        (r"straße|grün", "GRÜN", "GRÜN"),
        (r"\pL+", "Ärzte 7", "Ärzte"),
        (r".", "\U0001f600", "\U0001f600"),
        (r"c$", "a\udc80c", "c"),
    ],
)
def test_value_of_a_pattern(pattern: str, value: str, found: str) -> None:
    """A pattern returns its first group, else the whole match, in any letter case."""
    assert compile_search(pattern)(value) == found


def test_only_the_start_of_a_value_is_searched() -> None:
    """The search is limited as the guide states."""
    assert compile_search("z")("a" * (MAX_SEARCHED_CHARACTERS - 1) + "z") == "z"
    assert compile_search("z")("a" * MAX_SEARCHED_CHARACTERS + "z") is None


def test_a_large_value_does_not_block_other_threads() -> None:
    """The slowest accepted pattern does not block other threads."""
    search = compile_search(r"((a?){40}(b?){40}){5}$")
    threads = [threading.Thread(target=search, args=("ab" * 2048,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for item in threads:
        item.join(PATIENCE)
        assert not item.is_alive()


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [
        ("RIS*", "RIS_NORTH", True),
        ("RIS*", "ris_north", False),
        ("R?S", "RIS", True),
        ("R?S", "RS", False),
        ("*", "", True),
        ("A.B", "AxB", False),
        ("A[B", "A[B", True),
        ("A\nB*", "A\nBC\n", True),
        ("*a" * 100, "a" * 4000, True),
        ("*a" * 100 + "b", "a" * 4000, False),
        ("*", "a" * (MAX_SEARCHED_CHARACTERS + 1), False),
    ],
)
def test_wildcards_of_senders(pattern: str, value: str, matches: bool) -> None:
    """`*` matches any characters, `?` one; other characters match themselves."""
    assert compile_wildcards(pattern)(value) is matches


def test_a_pattern_in_a_mapping() -> None:
    """A value that once blocked the service is matched."""
    rule = "{from: NTE-3, when: {NTE-3: {matches: '^(a+)+$'}}}"
    mine = overlaid(f"tags: {{KeyFindings: {rule}}}")
    mine.apply(message(*ORDER, f"NTE|1||{'a' * 60}!"), DEFAULTS)
    assert tag(rule, *ORDER, "NTE|1||aaa") == "aaa"


def test_a_block_bounds_its_searches() -> None:
    """One slow search, or many, raise; only in the thread of the block."""
    search, slow = compile_search("a.{31}c"), "ab" * 2000
    with pytest.raises(PatternsTakeLong), bounded_patterns():
        search(slow)
    with pytest.raises(PatternsTakeLong), bounded_patterns():
        list(map(search, map(str, range(10**40, 10**40 + 100_000))))
    with pytest.raises(PatternsTakeLong), bounded_patterns():
        compile_wildcards("*a" * 100 + "b")("a" * 4000)
    found: list[str | None] = []
    with bounded_patterns():
        assert search("a" + "b" * 31 + "c")
        thread = threading.Thread(target=lambda: found.append(search(slow)))
        thread.start()
        thread.join(PATIENCE)
    assert found == [None]
    assert search(slow) is None


def test_the_shipped_definition_stays_within_the_bound() -> None:
    """A message with ten orders is evaluated on the event loop."""
    groups = [f"ORC|NW|P{n}\rOBR|{n}|P{n}||X{n}^Test {n}|||||||||||||||A{n}" for n in range(10)]
    mapping = inbound_mapping("orders")
    with bounded_patterns():
        assert len(mapping.apply(message(*groups), DEFAULTS)) == len(groups)
