"""The trace of a rule agrees with the rule, and its places are where the values stand."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mappings.hl7.message import NULL, Message
from mappings.hl7.path import Path
from mappings.hl7.refusals import MalformedMessage, MessageRefusal
from mappings.language.accessors import compile_all, compile_path
from mappings.language.definition_files import parse_yaml
from mappings.language.diagnostics import Diagnostics, YamlNode
from mappings.language.places import PlaceNames, locate, locate_all
from mappings.language.rules import CompilationContext, compile_rule
from mappings.language.scope import MessageScope, split_orders
from mappings.language.trace import Outcome, RuleTrace, compile_trace
from tests.mappings.definitions import DEFAULTS, SHIPPED, message
from tests.mappings.mutated import mutated

NOWHERE = YamlNode(None, "", 0, 0)
PATHS = [
    *("PID-3", "PID-3.1", "PID-3[2].1", "PID-3.4.2", "PID-5", "PID-5.1.1", "PID-3[CX-5=MR].1"),
    *("PID-3[CX-5=MR][CX-4.1=NORTH].1", "OBR-4", "OBR-4.2", "OBR[2]-4.1", "OBR-18", "OBX-5"),
    *("OBX[*]-5", "OBX[3]-5.1", "NTE-3", "MSH-2", "MSH-4.1", "ORC-7.4", "ORC-8.1.1", "ZDS-1.1"),
    *("PV1-3.1.1", "OBR-31", "OBR-31[2]", "ORC-1", "IPC-5.1", "PID-13[2].1"),
]
EXAMINED = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def scopes_of(raw: bytes) -> list[MessageScope]:
    try:
        return split_orders(Message.parse(raw), DEFAULTS)
    except MalformedMessage:
        return []


def sent(message: Message, start: int, end: int) -> str:
    return message.raw[start:end].decode(message.encoding)


@EXAMINED
@given(raw=mutated(), text=st.sampled_from(PATHS), verbatim=st.booleans())
def test_the_text_at_a_place_is_the_value_of_its_path(
    raw: bytes, text: str, verbatim: bool
) -> None:
    """The bytes between the offsets are the text of the field, and give the accessor's value."""
    path, read = Path.parse(text), compile_path(text, NOWHERE, Diagnostics(), raw=verbatim)
    for scope in scopes_of(raw):
        piece = locate(path, scope, raw=verbatim)
        if piece is None:
            assert read(scope) == ""
            continue
        if value := read(scope):
            assert piece.value(scope, raw=verbatim) == value
            assert piece.text(scope) == piece.text(scope).strip()
        place = PlaceNames(scope.message).place(piece)
        assert place.place.startswith(path.segment)
        if "X0A" not in piece.text(scope) and "2022" not in scope.message.encoding:
            assert sent(scope.message, place.start, place.end) == piece.text(scope)


@EXAMINED
@given(
    raw=mutated(),
    texts=st.sampled_from(
        [
            ("OBX-5",),
            ("NTE-3",),
            ("PID-3.1",),
            ("OBR-31.2", "OBR-31.1"),
            ("PID-3[CX-5=MR].1", "PID-3.1"),
        ]
    ),
    after=st.sampled_from(["", "OBR", "PID", "OBX"]),
    verbatim=st.booleans(),
)
def test_all_places(raw: bytes, texts: tuple[str, ...], after: str, verbatim: bool) -> None:
    """There is one place for each value of all segments and repetitions."""
    paths = list(map(Path.parse, texts))
    read = compile_all(paths, after=after, raw=verbatim)
    for scope in scopes_of(raw):
        pieces = locate_all(paths, scope, after=after, raw=verbatim)
        values = [piece.value(scope, raw=verbatim) for piece in pieces]
        assert values == [value for value in read(scope) if value]


CONDITIONS = st.sampled_from(
    [{"OBR-24": ["CT", "MR"]}, {"PID-8": {"present": True}}, {"ORC-1": {"not": "NW"}}]
)
LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(PATHS),
    st.sampled_from(
        [{"const": "x"}, {"default": "listener"}, {"age": {"of": "PID-7", "on": "OBR-7"}}]
    ),
    st.fixed_dictionaries(
        {"all": st.sampled_from(["OBX-5", "NTE-3", "PID-3.1", ["OBR-31.2", "OBR-31.1"]])},
        optional={
            "separator": st.sampled_from([", ", "^"]),
            "distinct": st.booleans(),
            "codes": st.sampled_from(["modality", "sex"]),
            "unknown": st.sampled_from(["keep", "empty", "refuse"]),
            "as": st.sampled_from(["upper", "digits", ["one-line", "lower"]]),
            "after": st.sampled_from([["OBR"], ["PID", "OBX"]]),
        },
    ),
    st.fixed_dictionaries(
        {"first": st.sampled_from(["OBX-5", "PID-3.1", "IPC-5.1"])},
        optional={"codes": st.just("modality"), "unknown": st.just("empty"), "when": CONDITIONS},
    ),
    st.just({"all": "OBX-5", "where": {"OBX-2": ["TX", "ST", "CE"]}}),
)
MODIFIERS = {
    "as": st.sampled_from(["upper", "date", "person-name", "study-uid", ["digits", "lower"]]),
    "extract": st.sampled_from([r"(\d+)", "^A", "[a-z]+"]),
    "codes": st.sampled_from(["sex", "modality", "priority"]),
    "unknown": st.sampled_from(["keep", "empty", "refuse"]),
    "when": CONDITIONS,
    "default": st.sampled_from(["listener", "none"]),
}
RULES = st.recursive(
    LEAVES,
    lambda rule: st.one_of(
        st.lists(rule, min_size=1, max_size=3),
        st.fixed_dictionaries({"from": rule}, optional=MODIFIERS),
        st.fixed_dictionaries(
            {"join": st.lists(rule, min_size=1, max_size=3)},
            optional={**MODIFIERS, "separator": st.sampled_from([" ", "^", "&"])},
        ),
    ),
    max_leaves=6,
)


def compiled(rule: Any) -> tuple[YamlNode, CompilationContext]:
    node = parse_yaml(json.dumps(rule), "rule.yaml", Diagnostics())
    assert node is not None
    return node, CompilationContext(SHIPPED, Diagnostics())


@EXAMINED
@given(raw=mutated(), rule=RULES)
def test_a_trace_has_the_value_of_the_rule(raw: bytes, rule: Any) -> None:
    """For any rule and message, the traced value is the value of the rule."""
    node, context = compiled(rule)
    engine, traced = compile_rule(node, context), compile_trace(node, context)
    for scope in scopes_of(raw):
        found = traced.evaluate(scope, PlaceNames(scope.message))
        try:
            value = engine(scope)
        except MessageRefusal:
            assert found.ended
            assert found.value == ""
        else:
            assert (found.value, found.ended) == (value, False)
            if value not in ("", NULL):
                outcomes = {source.outcome for source in found.sources}
                assert outcomes & {Outcome.USED, Outcome.LISTENER}


def traced(rule: Any, *segments: str) -> RuleTrace:
    node, context = compiled(rule)
    one = message(*(segments or ("ORC|NW|P1", "OBR|1|P1||X^Test")))
    (scope,) = split_orders(one, DEFAULTS)
    return compile_trace(node, context).evaluate(scope, PlaceNames(one))


@pytest.mark.parametrize(
    ("rule", "outcomes"),
    [
        (
            ["IPC-1.1", "OBR-18", "OBR-2", "ORC-2"],
            "no segment, empty, used, an earlier source has a value",
        ),
        (["PID-9", "OBX[2]-5"], "empty, no segment"),
        ({"from": "OBR-4.2", "when": {"OBR-24": "CT"}}, "condition not met"),
        ({"from": "OBR-4.2", "extract": r"\d+"}, "pattern does not match"),
        ({"from": "OBR-4.1", "codes": "modality", "unknown": "empty"}, "not in code table"),
        ({"from": "OBR-4.1", "codes": "modality", "unknown": "refuse"}, "not in code table"),
        ({"from": "OBR-4.2", "as": "study-uid"}, "transform gives nothing"),
        ({"from": "OBR-18", "default": "listener"}, "empty, listener default"),
        ({"from": "OBR-4.2", "default": "x"}, "used, an earlier source has a value"),
        ({"all": "OBR-4.1", "where": {"OBR-2": "P2"}}, "condition not met"),
        ({"all": "OBR-4.1", "after": ["PID"]}, "condition not met"),
        ({"all": "OBR-4.2", "codes": "modality", "unknown": "empty"}, "not in code table"),
        ({"join": ["OBR-4.1", "OBR-9", "OBR-4.2"]}, "used, empty, used"),
    ],
)
def test_why_a_source_is_not_used(rule: Any, outcomes: str) -> None:
    assert ", ".join(source.outcome for source in traced(rule).sources) == outcomes


def test_a_null_is_not_a_value_of_a_later_source() -> None:
    """A null is named, and the source after it is tried."""
    found = traced(["OBR-18", "OBR-4.1"], "ORC|NW|P1", 'OBR|1|P1||X^Test||||||||||||||""')
    assert [source.outcome for source in found.sources] == ["null", "used"]


def test_each_change_of_a_value_is_a_step() -> None:
    """A source shows the text as sent, and the value after each change."""
    rule = {"from": "OBR-4.2", "extract": r"(\w+)$", "as": ["lower", "upper"]}
    found = traced(rule, "ORC|NW|P1", r"OBR|1|P1||X^CT\T\chest", "OBX|1")
    (source,) = found.sources
    assert source.raw == r"CT\T\chest"
    shown = [(step.name, step.value) for step in source.steps]
    assert shown == [("extract", "chest"), ("as lower", "chest"), ("as upper", "CHEST")]
    assert [place.place for place in source.places] == ["OBR-4.2"]
    assert (source.file, source.line) == ("rule.yaml", 1)


def test_places_have_the_numbers_of_segment_and_repetition() -> None:
    """Offsets are those of the bytes as received, after a byte order mark and in UTF-8."""
    lines = ["MSH|^~\\&|A", "PID|1||Ö1^^^N~M2^^^N^MR", "ORC|NW", "OBR|1", "OBR|2||Ä|X^Té&st"]
    raw = b"\xef\xbb\xbf\r\n" + "\r\n".join(lines).encode() + b"\r\n\x1c"
    one = Message.parse(raw)
    scope = split_orders(one, DEFAULTS)[-1]
    names = PlaceNames(one)
    expected = {
        "PID-3[CX-5=MR].1": ("PID-3[2].1", "M2"),
        "OBR-4.2.2": ("OBR[2]-4.2.2", "st"),
        "MSH-3": ("MSH-3", "A"),
        "MSH-1": ("MSH-1", "|"),
        "OBR-3": ("OBR[2]-3", "Ä"),
        "OBR-3.1": ("OBR[2]-3", "Ä"),
        "OBR-4.1.1": ("OBR[2]-4.1", "X"),
        "OBR-3.2": ("OBR[2]-3.2", ""),
    }
    for text, (place, value) in expected.items():
        piece = locate(Path.parse(text), scope)
        assert piece is not None
        found = names.place(piece)
        assert (found.place, sent(one, found.start, found.end)) == (place, value)


def test_the_lines_of_a_note_with_line_ends() -> None:
    """A text with line ends inside, and lines that were dropped, does not move later places."""
    raw = b"MSH|^~\\&|A\rNTE|1||first\n\xc3\xa4second\r \rthird\rORC|NW|P1\rOBR|1|\xc3\xb6\r"
    one = Message.parse(raw)
    names = PlaceNames(one)
    (scope,) = split_orders(one, DEFAULTS)
    for text, value in (("ORC-2", "P1"), ("OBR-2", "ö")):
        piece = locate(Path.parse(text), scope)
        assert piece is not None
        place = names.place(piece)
        assert sent(one, place.start, place.end) == value
    note = locate(Path.parse("NTE-3"), scope)
    assert note is not None
    place = names.place(note)
    assert raw[place.start : place.end] == b"first\n\xc3\xa4second\r \rthird"


def test_offsets_in_another_character_set() -> None:
    """Characters of several bytes and shifts between sets do not move a place."""
    header = "MSH|^~\\&|A|||||||||||||||ISO IR87"
    body = f"{header}\rPID|1||M1||山田^太郎|X\rORC|NW\rOBR|1\r".encode("iso2022_jp")
    one = Message.parse(body)
    (scope,) = split_orders(one, DEFAULTS)
    for text, value in (("PID-5.2", "太郎"), ("PID-6", "X")):
        piece = locate(Path.parse(text), scope)
        assert piece is not None
        place = PlaceNames(one).place(piece)
        assert piece.text(scope) == value
        assert body[: place.start].decode("iso2022_jp") + value == body[: place.end].decode(
            "iso2022_jp"
        )
