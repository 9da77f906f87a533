"""Filters of the rule builder accept the same messages as in Mirth."""

from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.admin.mirth.filters import FilterResult, read_filter
from bridge.admin.mirth.findings import Findings, Outcome
from bridge.admin.mirth.reader import read_channels
from mappings.authoring.yaml_writing import written
from mappings.inbound.order_mapping import EXCLUDED_BY_ONLY
from tests.bridge.admin.mirth.exports import channel, place, rule
from tests.mappings.definitions import DEFAULTS, message, overlaid

TYPE, TRIGGER = place("MSH-9.1"), place("MSH-9.2")


def read(*rules: str) -> tuple[FilterResult, Findings]:
    _, (found,) = read_channels(channel(rules=rules))
    source = found.child("sourceConnector")
    assert source is not None
    findings = Findings()
    return read_filter(source, findings), findings


def left(findings: Findings) -> list[str]:
    return [
        finding.text for finding in findings.sorted() if finding.outcome is Outcome.NOT_CONVERTED
    ]


def test_types_and_senders() -> None:
    """MSH-9 and MSH-3 to MSH-6 become criteria of acceptance."""
    found, findings = read(
        rule(TYPE, "EQUALS", "'ORM'", "'OMI'"),
        rule(TRIGGER, "EQUALS", "'O01'"),
        rule(place("MSH-4.1"), "EQUALS", '"NORTH"'),
    )
    assert found.types == [("ORM", "O01"), ("OMI", "O01")]
    assert (found.senders, found.only, left(findings)) == ({"facility": "NORTH"}, None, [])


@pytest.mark.parametrize(
    ("rules", "types"),
    [
        ([rule(TYPE, "EQUALS", "'ORM'"), rule(TYPE, "EQUALS", "'ADT'", operator="OR")],
         [("ORM", "*"), ("ADT", "*")]),
        ([rule(place("MSH-9"), "EQUALS", "'ORM^O01'")], [("ORM", "O01")]),
        ([rule(place("MSH-9.3"), "EQUALS", "'OMG_O19'")], [("OMG", "O19")]),
        ([rule(TRIGGER, "EQUALS", "'A08'")], [("ADT", "A08")]),
        ([rule(TRIGGER, "EQUALS", "'O23'")], [("OMI", "O23")]),
    ],
)  # fmt: skip
def test_types(rules: list[str], types: list[tuple[str, str]]) -> None:
    assert read(*rules)[0].types == types


@pytest.mark.parametrize(
    ("rules", "only"),
    [
        ([rule(place("OBR-24.1"), "EQUALS", "'CT'", "'MR'")], "{OBR-24.1: [CT, MR]}"),
        ([rule(place("OBR-24"), "NOT_EQUAL", "'LAB'")], "{OBR-24: {not: LAB}}"),
        ([rule(place("PID-5.1"), "CONTAINS", "'A (x)'")], "{PID-5.1: {matches: 'A \\(x\\)'}}"),
        ([rule(place("PID-5.1"), "CONTAINS", "'Ö-_b'")], '{PID-5.1: {matches: "Ö-_b"}}'),
        ([rule("msg['ZDS']", "EXISTS")], "{ZDS-1: {present: true}}"),
        ([rule("msg['ZDS'].toString()", "NOT_EXIST")], "{ZDS-1: {absent: true}}"),
        (
            [rule(place("PID-8"), "EQUALS", "'F'"),
             rule(place("PID-8"), "NOT_EQUAL", "'M'")],
            "{not: {any: [{not: {PID-8: F}}, {not: {PID-8: {not: M}}}]}}",
        ),
        (
            [rule(TYPE, "EQUALS", "'ORM'"), rule(place("PID-8"), "EQUALS", "'F'", operator="OR")],
            "{any: [{MSH-9.1: ORM}, {PID-8: F}]}",
        ),
    ],
)  # fmt: skip
def test_conditions(rules: list[str], only: str) -> None:
    found, findings = read(*rules)
    assert written(found.only) == only
    assert left(findings) == []


@pytest.mark.parametrize(
    ("field", "values", "reason"),
    [
        ("msg['OBX'][i]['OBX.3']", ["'x'"], "an expression"),
        (place("PID-8"), ["sex"], "not with a constant"),
        ("msg['OBR'][1]['OBR.4']", ["'x'"], "several segments"),
        (f"{place('PID-8')}.toUpperCase()", ["'F'"], "a changed value"),
    ],
)
def test_what_is_not_converted(field: str, values: list[str], reason: str) -> None:
    """A rule that the language cannot express is listed; the others that must hold are kept."""
    found, findings = read(rule(field, "EQUALS", *values), rule(place("OBR-24"), "EQUALS", "'CT'"))
    (text,) = left(findings)
    assert reason in text
    assert written(found.only) == "{OBR-24: CT}"


def test_a_script_as_an_alternative() -> None:
    """Without one alternative the filter would accept less, so it is not converted at all."""
    kind = "com.mirth.connect.plugins.javascriptrule.JavaScriptRule"
    text = f"return {place('PID-8')} == 'F' &amp;&amp; x();"
    script = f"<{kind}><operator>OR</operator><script>{text}</script></{kind}>"
    found, findings = read(rule(place("OBR-24"), "EQUALS", "'CT'"), script)
    assert found.only is None
    assert len(left(findings)) == 2
    hints = [finding.hint for finding in findings.sorted()]
    assert sorted(hints) == ["it compares {PID-8: F}", "only: {OBR-24: CT}"]


def test_disabled_rules_have_no_effect() -> None:
    disabled = rule(place("PID-8"), "EQUALS", "'F'").replace(
        "<enabled>true</enabled>", "<enabled>false</enabled>"
    )
    assert read(disabled)[0] == FilterResult()


PATHS = ("PID-8", "OBR-24", "PID-22")
VALUES = st.sampled_from(["", "a", "b", "ab", "c d"])
CONDITIONS = ("EQUALS", "NOT_EQUAL", "CONTAINS", "NOT_CONTAIN", "EXISTS", "NOT_EXIST")
RULES = st.lists(
    st.tuples(
        st.sampled_from(PATHS),
        st.sampled_from(CONDITIONS),
        st.lists(st.sampled_from(["a", "b", "ab", "c d"]), max_size=2, unique=True),
        st.sampled_from(["AND", "OR"]),
    ),
    min_size=1,
    max_size=4,
)


def holds(value: str, condition: str, values: list[str]) -> bool:
    """Return what the JavaScript of a rule returns."""
    wanted = values or [""]
    return {
        "EQUALS": any(value == one for one in wanted),
        "NOT_EQUAL": all(value != one for one in wanted),
        "CONTAINS": any(one in value for one in wanted),
        "NOT_CONTAIN": all(one not in value for one in wanted),
        "EXISTS": bool(value),
        "NOT_EXIST": not value,
    }[condition]


@settings(max_examples=150, deadline=None)
@given(RULES, st.tuples(VALUES, VALUES, VALUES))
def test_the_condition_holds_as_in_mirth(
    rules: list[tuple[str, str, list[str], str]], values: tuple[str, str, str]
) -> None:
    """AND binds stronger than OR; a filtered message is ignored."""
    found, findings = read(
        *(
            rule(place(path), condition, *map(repr, wanted), operator=operator)
            for path, condition, wanted, operator in rules
        )
    )
    assert left(findings) == []
    by_path = dict(zip(PATHS, values, strict=True))
    groups: list[list[bool]] = [[]]
    for number, (path, condition, wanted, operator) in enumerate(rules):
        if number and operator == "OR":
            groups.append([])
        groups[-1].append(holds(by_path[path], condition, wanted))
    expected = any(all(group) for group in groups)
    text = dedent(f"only: {written(found.only)}")
    header = "MSH|^~\\&|A|B|C|D|20260302||ORM^O01|1|P|2.5.1"
    segments = ["PID|1||M1||Doe||19800102|{}" + "|" * 14 + "{}", "ORC|NW|P1"]
    order = "OBR|1|P1||X" + "|" * 20 + by_path["OBR-24"]
    patient = segments[0].format(by_path["PID-8"], by_path["PID-22"])
    given_message = type(message()).parse("\r".join((header, patient, segments[1], order)).encode())
    (event,) = overlaid(text).apply(given_message, DEFAULTS)
    assert (event.note != EXCLUDED_BY_ONLY) is expected
