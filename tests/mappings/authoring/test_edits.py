"""Rule edits: a change in a form becomes edits of the text, which keep comments and layout."""

import re
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mappings.authoring.edits import (
    AddSource,
    Change,
    MoveSource,
    Position,
    RemoveSource,
    SetCode,
    SetModifier,
    SetRule,
    SetSource,
    Together,
    edit_rule,
    rule_parts,
)
from mappings.authoring.text_edits import EditRefused, apply_edits
from mappings.authoring.yaml_writing import plain
from mappings.compiler import check_sources
from mappings.language.definition_files import parse_yaml
from mappings.language.diagnostics import Diagnostics
from mappings.language.outline import outline
from tests.mappings.definitions import SHIPPED

ONLY, FIRST, FALLBACK = Position.ONLY, Position.FIRST, Position.FALLBACK


def edited(text: str, target: str, *changes: Change) -> str:
    """Return the text of a definition after changes of one rule."""
    text = dedent(text)
    for change in changes:
        found = edit_rule({**SHIPPED, "mine.yaml": text}, "mine", target, change)
        assert found.file == "mine.yaml"
        text = apply_edits(text, found.edits)
    return text


def rule(text: str, target: str, *changes: Change) -> str:
    """Return the text after `tags:` after changes of a definition with one tag."""
    head = "include: orders.yaml\ntags:\n"
    found = edited(head + text, target, *changes)
    assert found.startswith(head)
    return found.removeprefix(head)


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ("  Race: PID-10   # c", AddSource("PID-9", FIRST), "  Race: [PID-9, PID-10]   # c"),
        ("  Race: PID-10", AddSource("PID-3[CX-5=MR].1"), '  Race: [PID-10, "PID-3[CX-5=MR].1"]'),
        ("  Race: [ PID-10,PID-9 ]", AddSource("PID-8"), "  Race: [ PID-10,PID-9, PID-8 ]"),
        ("  Race: [PID-10, PID-9]", AddSource("PID-8", ONLY), "  Race: PID-8"),
        (
            "  Race: {from: PID-10, as: upper}",
            AddSource("PID-8"),
            "  Race: {from: [PID-10, PID-8], as: upper}",
        ),
        ("  Race: {first: PID-10}", AddSource("PID-8"), "  Race: [{first: PID-10}, PID-8]"),
        ("  Race: {default: x}", AddSource("PID-8"), "  Race: {from: PID-8, default: x}"),
        ("  Race: [PID-10, PID-9, PID-8]", RemoveSource(1), "  Race: [PID-10, PID-8]"),
        ("  Race: [PID-10, PID-9]", RemoveSource(0), "  Race: [PID-9]"),
        ("  Race: [PID-10, PID-9]", MoveSource(1, 0), "  Race: [PID-9, PID-10]"),
        ("  Race: PID-10", SetModifier("as", "upper"), "  Race: {from: PID-10, as: upper}"),
        (
            "  Race: {from: PID-10, as: upper}",
            SetModifier("as", "lower"),
            "  Race: {from: PID-10, as: lower}",
        ),
        ("  Race: {from: PID-10, as: upper}", SetModifier("as", None), "  Race: {from: PID-10}"),
        (
            "  Race: [PID-10, PID-9]",
            SetModifier("as", "upper", 1),
            "  Race: [PID-10, {from: PID-9, as: upper}]",
        ),
        (
            "  Race: PID-10",
            SetModifier("when", {"PID-8": ["M", "F"]}),
            "  Race: {from: PID-10, when: {PID-8: [M, F]}}",
        ),
        (
            "  Race: PID-10",
            SetModifier("extract", r"^A(\d+)"),
            r"  Race: {from: PID-10, extract: '^A(\d+)'}",
        ),
        ("  Race: PID-10", SetRule({"const": "a: b"}), '  Race: {const: "a: b"}'),
        ("  Race: PID-10  # c", SetSource(0, "PID-9"), "  Race: PID-9  # c"),
        ("  Race: [PID-10, PID-9]", SetSource(1, "PID-8"), "  Race: [PID-10, PID-8]"),
        (
            "  Race: {from: PID-10, as: upper}",
            SetSource(0, {"first": "PID-9"}),
            "  Race: {first: PID-9, as: upper}",
        ),
        (
            "  Race: PID-10",
            Together(
                (
                    AddSource("PID-9", FIRST),
                    SetModifier("as", "upper", 0),
                    SetModifier("default", "x"),
                )
            ),
            "  Race: {from: [{from: PID-9, as: upper}, PID-10], default: x}",
        ),
    ],
)
def test_a_rule_on_one_line(before: str, change: Change, after: str) -> None:
    assert rule(f"{before}\n", "tag:Race", change) == f"{after}\n"


LINES = """\
  # where the race is
  Race:
    - PID-10.2       # its text
    - {from: PID-10.1, as: upper}

  Ethnicity: PID-22  # last
"""


def test_lines_keep_their_comments() -> None:
    """Sources of a list in lines are added and removed as lines; comments stay."""
    assert rule(LINES, "tag:Race", AddSource("PID-9")) == LINES.replace(
        "as: upper}\n", "as: upper}\n    - PID-9\n"
    )
    assert rule(LINES, "tag:Race", AddSource("PID-9", FIRST)) == LINES.replace(
        "  Race:\n", "  Race:\n    - PID-9\n"
    )
    without = LINES.replace("    - {from: PID-10.1, as: upper}\n", "")
    assert rule(LINES, "tag:Race", RemoveSource(1)) == without
    assert rule(LINES, "tag:Race", SetModifier("as", "lower", 1)) == LINES.replace("upper", "lower")


def test_a_modifier_of_a_list_in_lines() -> None:
    """The list gets a key, and its lines stay as they are."""
    expected = LINES.replace("    - PID-10.2", "    from:\n    - PID-10.2").replace(
        "as: upper}\n", "as: upper}\n    default: none\n"
    )
    assert rule(LINES, "tag:Race", SetModifier("default", "none")) == expected


def test_a_modifier_of_a_rule_in_lines() -> None:
    text = "  Race:\n    from: PID-10   # c\n    as: upper   # d\n"
    assert rule(text, "tag:Race", SetModifier("required", "true")) == f"{text}    required: true\n"
    assert rule(text, "tag:Race", SetModifier("as", None)) == "  Race:\n    from: PID-10   # c\n"


def test_a_second_source_of_a_rule_in_lines() -> None:
    """The lines of the rule become an item of a list, with their comments."""
    text = (
        "  Race:\n    join:\n      - PID-10.1   # a\n      - PID-10.2\n\n    separator: x   # b\n"
    )
    item = "    - join:\n        - PID-10.1   # a\n        - PID-10.2\n\n      separator: x   # b\n"
    assert rule(text, "tag:Race", AddSource("PID-9")) == f"  Race:\n{item}    - PID-9\n"
    assert rule(text, "tag:Race", AddSource("PID-9", FIRST)) == f"  Race:\n    - PID-9\n{item}"


def test_an_inherited_rule_gets_an_override() -> None:
    """The rule of the included file is written into the own file with the change."""
    text = "include: orders.yaml\n# mine\ntags:\n  Race: PID-10  # c\n"
    found = edit_rule(
        {**SHIPPED, "mine.yaml": text}, "mine", "tag:PatientMRN", AddSource("PID-2.1", ONLY)
    )
    assert (
        apply_edits(text, found.edits) == f"{text}  PatientMRN: {{from: PID-2.1, required: true}}\n"
    )
    assert found.said == "PatientMRN reads PID-2.1; required"
    first = edited(text, "tag:PatientMRN", AddSource("PID-19", FIRST))
    assert 'PatientMRN: {from: [PID-19, "PID-3[CX-5=MR].1", {first: PID-3.1}' in first


@pytest.mark.parametrize(
    ("text", "target", "added"),
    [
        ("include: orders.yaml\n", "tag:Race", "\ntags:\n  Race: ZRM-1\n"),
        ("include: orders.yaml", "meta:Room", "\n\nmetadata:\n  values:\n    Room: ZRM-1"),
        ("include: orders.yaml\ntags:\n", "tag:Race", "  Race: ZRM-1\n"),
        (
            "include: orders.yaml\nmetadata:\n  keep: [ZAB]\n",
            "meta:Room",
            "  values:\n    Room: ZRM-1\n",
        ),
        (
            "include: orders.yaml\r\ntags:\r\n  Race: X-1\r\n",
            "tag:Ethnicity",
            "  Ethnicity: ZRM-1\r\n",
        ),
    ],
)
def test_a_part_that_the_file_does_not_have(text: str, target: str, added: str) -> None:
    text = text.replace("X-1", "PID-10")
    found = edit_rule({**SHIPPED, "mine.yaml": text}, "mine", target, AddSource("ZRM-1", ONLY))
    assert apply_edits(text, found.edits) == text + added


def test_a_flow_mapping_of_tags() -> None:
    text = "{include: orders.yaml, tags: {Race: PID-10}}\n"
    assert edited(text, "tag:Ethnicity", AddSource("PID-9", ONLY)) == text.replace(
        "PID-10}", "PID-10, Ethnicity: PID-9}"
    )


def test_other_targets() -> None:
    """Rows of order control, links and the condition of the definition are set too."""
    text = "include: orders.yaml\nlinks:\n  parent: off\n"
    assert edited(text, "row:NW/ZZ", SetRule("ignore")).endswith(
        "order_control:\n  actions:\n    NW/ZZ: ignore\n"
    )
    on = edited(text, "link:parent", SetModifier("on", "true"))
    assert "parent: {on: true" in on
    only = edited(text, "only", SetRule({"OBR-24": ["CT", "MR"]}))
    assert only.endswith("only: {OBR-24: [CT, MR]}\n")


def test_a_rule_is_removed() -> None:
    text = "include: orders.yaml\ntags:\n  Race: PID-10  # c\n  Ethnicity: PID-22\n"
    assert edited(text, "tag:Race", SetRule(None)) == text.replace("  Race: PID-10  # c\n", "")


@pytest.mark.parametrize(
    ("target", "change", "why"),
    [
        ("tag:Race", AddSource("PDI-9"), "error"),
        ("tag:PatientMRN", SetModifier("required", None), "error"),
        ("tag:Race", SetModifier("codes", "no-table"), "error"),
        ("tag:Race", SetModifier("frum", "x"), "no modifier"),
        ("tag:Race", RemoveSource(5), "no such source"),
        ("tag:Race", SetRule(None), "of its own"),
        ("field:patient/PID-5", AddSource("x"), "no such segment"),
        ("each:OBX", AddSource("PID-5"), "written in YAML"),
        ("codes:none", SetCode("a", "b"), "no such code table"),
    ],
)
def test_a_change_that_is_refused(target: str, change: Change, why: str) -> None:
    """A change that adds an error, or that a form cannot make, is refused with its reason."""
    with pytest.raises(EditRefused, match=why):
        edited("include: orders.yaml\n", target, change)


def test_an_alias_is_not_changed() -> None:
    """An edit at an anchor would change other rules, too."""
    text = "include: orders.yaml\ntags:\n  Race: &r [PID-10]\n  Ethnicity: *r\n"
    with pytest.raises(EditRefused):
        edited(text, "tag:Ethnicity", AddSource("PID-9"))


def test_a_definition_with_errors_can_be_changed() -> None:
    """Errors that were there before do not refuse a change; a file that is not YAML does."""
    text = "include: orders.yaml\ntags:\n  Race: PDI-10\n"
    added = edited(text, "tag:Ethnicity", AddSource("PID-9", ONLY))
    assert added == f"{text}  Ethnicity: PID-9\n"
    with pytest.raises(EditRefused, match="has errors"):
        edited("tags: {", "tag:Ethnicity", AddSource("PID-9"))


def test_new_warnings_are_returned() -> None:
    """A change that makes a rule useless is made, with the warning of the compiler."""
    text = "include: orders.yaml\ntags:\n  Race: {from: PID-10, default: x}\n"
    change = AddSource({"const": "y"}, FIRST)
    found = edit_rule({**SHIPPED, "mine.yaml": text}, "mine", "tag:Race", change)
    assert [issue.code for issue in found.issues] == ["dead"]
    assert found.said == "Race reads the text y, else PID-10; else x"


def receiver(target: str, *changes: Change, text: str = "include: results.yaml\n") -> str:
    for change in changes:
        found = edit_rule({**SHIPPED, "his.yaml": text}, "his", target, change)
        text = apply_edits(text, found.edits)
    return text


def test_a_field_of_an_included_list_is_changed_in_a_copy() -> None:
    """The definition gets the list with its comments; further changes are made in the copy."""
    found = receiver("field:visit/PV1-2", AddSource("I", ONLY))
    assert (
        found
        == dedent("""\
        include: results.yaml

        parts:
          visit:
            - PV1:
                1: $set_id
                2: I                        # U: unknown (table 0004)
                3: {echo: PV1-3, type: PL}
                7: {echo: PV1-7, type: XCN, all: true}
                8: {echo: PV1-8, type: XCN, all: true}
                19: {echo: PV1-19, type: CX}
        """).rstrip("\n")
        + "\n"
    )
    again = receiver("field:visit/PV1-4", SetRule("R"), text=found)
    assert again == f"{found.rstrip()}\n        4: R\n"
    third = receiver("field:patient/PID-8", AddSource("U"), text=again)
    assert third.startswith(again.rstrip())
    assert "absent: true}}}, $order.PatientSex, U]}" in third


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ("$order.PatientSex", AddSource("U"), "{first: [$order.PatientSex, U]}"),
        ("{first: [$site, U]}", MoveSource(1, 0), "{first: [U, $site]}"),
        ("{first: [$site, U]}", RemoveSource(0), "{first: [U]}"),
        ("{first: [$site, U]}", SetSource(1, ["A", "B"]), "{first: [$site, [A, B]]}"),
        ("{echo: PID-8}", SetModifier("type", "CX"), "{echo: PID-8, type: CX}"),
        (
            "$order.PatientSex  # c",
            SetModifier("codes_back", "sex"),
            "{value: $order.PatientSex, codes_back: sex}  # c",
        ),
        ("{value: $site, codes: sex}", SetModifier("codes", None), "$site"),
        (
            "$order.PatientSex",
            SetModifier("when", {"$order.PatientSex": "M"}),
            "{value: $order.PatientSex, when: {$order.PatientSex: M}}",
        ),
    ],
)
def test_a_field_of_a_result(before: str, change: Change, after: str) -> None:
    """The alternatives and modifiers of a field that is written."""
    text = "include: results.yaml\nparts:\n  patient:\n    - PID:\n        1: $set_id\n        8: "
    assert receiver("field:patient/PID-8", change, text=f"{text}{before}\n") == f"{text}{after}\n"


def test_a_new_field_of_an_included_list() -> None:
    found = receiver("field:visit/PV1-44", SetRule("$order.study_time"))
    assert found.endswith("        19: {echo: PV1-19, type: CX}\n        44: $order.study_time\n")


def test_a_field_of_a_result_is_removed() -> None:
    text = (
        "include: results.yaml\nparts:\n  patient:\n    - PID:\n        1: $set_id\n        8: U\n"
    )
    removed = receiver("field:patient/PID-8", SetRule(None), text=text)
    assert removed == text.removesuffix("        8: U\n")


FIELDS = [
    "field:patient/PID-8",
    "field:header/MSH-9",
    "field:order/OBR-18",
    "field:visit/PV1-44",
]
WRITTEN: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(["$site", "U", "$order.Accession", {"echo": "PID-8"}]),
    lambda tree: st.one_of(
        st.lists(tree, min_size=1, max_size=2), st.builds(lambda one: {"first": [one]}, tree)
    ),
    max_leaves=3,
)
WRITTEN_CHANGES = st.one_of(
    st.builds(AddSource, WRITTEN, st.sampled_from(Position)),
    st.builds(SetSource, st.integers(0, 2), WRITTEN),
    st.builds(RemoveSource, st.integers(0, 2)),
    st.builds(MoveSource, st.integers(0, 2), st.integers(0, 2)),
    st.builds(SetModifier, st.just("codes_back"), st.sampled_from(["sex", None])),
    st.builds(
        SetModifier,
        st.just("when"),
        st.sampled_from([{"$site": "A"}, None]),
        st.sampled_from([None, 0]),
    ),
    st.builds(SetRule, WRITTEN),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    target=st.sampled_from(FIELDS),
    changes=st.lists(WRITTEN_CHANGES, min_size=1, max_size=3),
    own=st.booleans(),
)
def test_only_the_field_changes(target: str, changes: list[Change], own: bool) -> None:
    """After any changes of a field, all other fields and all comments are as before."""
    name = "results" if own else "his"
    sources = {**SHIPPED, "his.yaml": "include: results.yaml  # all\n"}
    if own:
        included = SHIPPED["include/segments.yaml"]
        sources["results.yaml"] = SHIPPED["results.yaml"].replace(
            "include: include/segments.yaml\n", f"{included}\n"
        )
        assert "include:" not in sources["results.yaml"]
    before, text = outline(sources, name), sources[f"{name}.yaml"]
    made = 0
    for change in changes:
        try:
            found = edit_rule(sources, name, target, change)
        except EditRefused:
            continue
        made += 1
        file = f"{name}.yaml"
        sources = {**sources, file: apply_edits(sources[file], found.edits)}
        assert found.file == file
    assume(made)
    after = outline(sources, name)
    comments = [line for line in sources[f"{name}.yaml"].splitlines() if re.match(r"\s*#", line)]
    assert not own or comments == [line for line in text.splitlines() if re.match(r"\s*#", line)]
    assert {rule.target: plain(rule.node) for rule in after.rules if rule.target != target} == {
        rule.target: plain(rule.node) for rule in before.rules if rule.target != target
    }


def test_the_parts_of_a_rule_are_what_changes_count() -> None:
    """The n-th part is the source that a change of the n-th source changes."""
    for name in ("orders", "results"):
        for rule in outline(SHIPPED, name).rules:
            parts, _ = rule_parts(rule)
            for number, part in enumerate(parts):
                if rule.inherited:
                    continue
                try:
                    found = edit_rule(SHIPPED, name, rule.target, SetSource(number, part))
                except EditRefused:
                    continue
                assert found.edits == (), rule.target


TREES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(
        ["PID-10", "OBX[2]-5", "PID-3[CX-5=MR].1", {"first": "PID-3.1"}, {"const": "x: y"}]
    ),
    lambda tree: st.one_of(
        st.lists(tree, min_size=1, max_size=3),
        st.fixed_dictionaries(
            {"from": tree},
            optional={
                "as": st.sampled_from(["upper", ["lower", "digits"]]),
                "default": st.just("a"),
            },
        ),
    ),
    max_leaves=4,
)
CHANGES = st.one_of(
    st.builds(AddSource, TREES, st.sampled_from(Position)),
    st.builds(RemoveSource, st.integers(0, 2)),
    st.builds(MoveSource, st.integers(0, 2), st.integers(0, 2)),
    st.builds(SetSource, st.integers(0, 2), TREES),
    st.builds(lambda tree: Together((AddSource(tree, FIRST), SetModifier("default", "x"))), TREES),
    st.builds(SetModifier, st.just("as"), st.sampled_from(["upper", None])),
    st.builds(
        SetModifier,
        st.just("extract"),
        st.sampled_from([r"(\d+)", "it's", None]),
        st.integers(0, 1),
    ),
    st.builds(SetRule, TREES),
)
TARGETS = st.sampled_from(
    [
        "tag:PatientMRN",
        "tag:Modality",
        "tag:Notes",
        "tag:Race",
        "tag:KeyFindings",
        "meta:Priority",
        "meta:New",
    ]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(target=TARGETS, changes=st.lists(CHANGES, min_size=1, max_size=3), own=st.booleans())
def test_only_the_rule_changes(target: str, changes: list[Change], own: bool) -> None:
    """After any changes, all other rules and all comments outside the rule are as before."""
    name = "orders" if own else "mine"
    text = (
        SHIPPED["orders.yaml"]
        if own
        else "include: orders.yaml  # all\ntags:\n  Race: PID-10  # r\n"
    )
    sources = {**SHIPPED, f"{name}.yaml": text}
    made = 0
    for change in changes:
        try:
            found = edit_rule(sources, name, target, change)
        except EditRefused:
            continue
        made += 1
        sources = {**sources, f"{name}.yaml": apply_edits(sources[f"{name}.yaml"], found.edits)}
    assume(made)
    after = sources[f"{name}.yaml"]
    kept = [line for line in text.splitlines() if re.match(r"\s*#", line)]
    assert [line for line in after.splitlines() if line in set(kept)] == kept
    assert len(set(text.splitlines()) - set(after.splitlines())) <= 20
    issues = check_sources(sources, [name], tables=False)
    assert not [issue for issue in issues if issue.severity == "error"]
    assert without_rule(after, target) == without_rule(text, target)


def without_rule(text: str, target: str) -> Any:
    """Return the plain values of a definition without one rule and without empty parts."""
    root = parse_yaml(text, "x", Diagnostics())
    assert root is not None
    tree: Any = plain(root)
    kind, _, name = target.partition(":")
    holder = tree.get("tags", {}) if kind == "tag" else tree.get("metadata", {}).get("values", {})
    holder.pop(name, None)
    if kind == "meta" and not holder:
        tree.get("metadata", {}).pop("values", None)
    return {key: below for key, below in tree.items() if below}
