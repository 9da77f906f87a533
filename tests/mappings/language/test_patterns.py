"""Patterns are matched in linear time; unsupported constructs are reported with their location."""

import threading

import pytest

from mappings.compiler import check_sources
from mappings.language.patterns import (
    MAX_PATTERN_CHARACTERS,
    MAX_SEARCHED_CHARACTERS,
    PatternsTakeLong,
    bounded_patterns,
    compile_search,
    compile_wildcards,
)
from tests.eventually import PATIENCE
from tests.mappings.definitions import DEFAULTS, SHIPPED, inbound_mapping, message, overlaid, tag

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
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
        assert not each.is_alive()


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
