"""The outline of a definition: its rules by target, with their places in the files."""

from pathlib import Path
from textwrap import dedent

import pytest

from mappings.compiler import compile_sources, definition_names, read_folder
from mappings.inbound.definition import InboundMapping
from mappings.inbound.order_mapping import OrderRules
from mappings.inbound.patient_mapping import PatientRules
from mappings.language.definition_files import parse_yaml
from mappings.language.diagnostics import Diagnostics, Sources
from mappings.language.outline import OutlineRule, OutlineSource, outline
from tests.mappings.definitions import SHIPPED
from tests.mappings.results import SAMPLES

HIS_C = {**SHIPPED, **read_folder(SAMPLES / "quirks" / "his-c" / "mappings")}
DEFINITIONS = [*definition_names(SHIPPED), "his-c"]


def written(sources: Sources, part: OutlineRule | OutlineSource) -> str:
    """Return the text between the places of a part of the outline."""
    lines = sources[part.file].split("\n")
    first, last = part.line - 1, part.end_line - 1
    if first == last:
        return lines[first][part.column - 1 : part.end_column - 1]
    inner = lines[first + 1 : last]
    return "\n".join([lines[first][part.column - 1 :], *inner, lines[last][: part.end_column - 1]])


@pytest.mark.parametrize("name", DEFINITIONS)
def test_places(name: str) -> None:
    """The place of a rule begins at its key, and that of a source contains its paths."""
    rules = outline(HIS_C, name).rules
    assert rules
    for rule in rules:
        key = rule.target.rpartition("/")[2] if rule.target.startswith("field:") else rule.target
        key = rule.target.partition(":")[2] or key
        text = written(HIS_C, rule)
        if not rule.target.startswith(("field:", "each:", "use:")):
            assert text.lstrip("\"'").startswith(key.rpartition(".")[2]), rule.target
        for source in rule.sources:
            own = written(HIS_C, source)
            assert all(path in own for path in source.paths), rule.target


@pytest.mark.parametrize("name", ["orders", "patients", "his-c"])
def test_every_compiled_rule_has_a_target(name: str) -> None:
    compiled = compile_sources(HIS_C, name)
    assert isinstance(compiled, InboundMapping)
    plan = compiled.plan
    expected = {f"tag:{tag}" for tag in plan.tags}
    if isinstance(plan, OrderRules):
        expected |= {f"meta:{key}" for key in plan.metadata.values}
        expected |= {f"app:{key}" for key in plan.reporting_app}
        expected |= {f"order:{key}" for key in plan.order}
        expected |= {f"link:{link.kind}" for link in plan.links.valued}
        expected |= {f"row:{'/'.join(codes).rstrip('/')}" for codes in plan.control.rows}
    if isinstance(plan, PatientRules):
        assert plan.visit is not None
        expected |= {f"event:{trigger}" for trigger in plan.actions}
        expected |= {f"visit-value:{key}" for key in plan.visit.values}
        expected |= {"prior_mrn", "prior_name", "visit:number", "visit:prior"}
    targets = [rule.target for rule in outline(HIS_C, name).rules]
    assert expected <= set(targets)
    assert len(set(targets)) == len(targets)


def test_a_rule_of_the_own_file_replaces_an_inherited_one() -> None:
    found = outline(HIS_C, "his-c")
    own, inherited = found.rule("tag:PatientMRN"), found.rule("tag:PatientName")
    assert own is not None
    assert inherited is not None
    assert (own.file, own.line, own.inherited) == ("his-c.yaml", 7, False)
    assert (inherited.file, inherited.inherited) == ("orders.yaml", True)
    assert [source.text for source in own.sources] == ["PID-2.1"]
    assert own.modifiers == {"required": "true"}


def _rule(text: str) -> OutlineRule:
    found = outline({**SHIPPED, "mine.yaml": dedent(text)}, "mine").rule("tag:Modality")
    assert found is not None
    return found


def test_alternatives_have_their_own_modifiers() -> None:
    """The rule has the modifiers of the chosen value; each alternative has its own ones."""
    rule = _rule(
        """\
        tags:
          Modality:
            from: [{first: IPC-5.1, codes: modality}, OBR-24]   # a comment
            as: upper
            default: OT

        # the next part
        order: {}
        """
    )
    assert rule.modifiers == {"as": "upper", "default": "OT"}
    shown = [(source.kind, source.text, source.modifiers) for source in rule.sources]
    assert shown == [("first", "IPC-5.1", {"codes": "modality"}), ("path", "OBR-24", {})]
    assert rule.paths == ("IPC-5.1", "OBR-24")
    assert (rule.end_line, rule.form) == (5, True)


def test_parts_of_a_joined_value_are_children() -> None:
    rule = _rule(
        "tags: {Modality: {join: [OBR-24, {all: [IPC-5.2, IPC-5.1], where: {IPC-5.3: L}}]}}"
    )
    (source,) = rule.sources
    assert (source.kind, source.text) == ("join", "OBR-24 and (IPC-5.2 or IPC-5.1)")
    assert [child.modifiers for child in source.children] == [{}, {"where": "IPC-5.3 is L"}]
    assert not rule.form


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("{OBR-24: [CT, MR]}", "OBR-24 is CT or MR"),
        (
            "{OBR-24: {present: true}, IPC-1: {absent: true}}",
            "OBR-24 has a value, and IPC-1 has no value",
        ),
        (
            "{not: {any: [{OBX-2: ED}, {OBX-3.1: {matches: '^T'}}]}}",
            "not ((OBX-2 is ED, or OBX-3.1 matches ^T))",
        ),
        ("{OBR-24: {not: [CT, '']}}", "OBR-24 is not CT or empty"),
    ],
)
def test_conditions_in_words(condition: str, words: str) -> None:
    rule = _rule(f"tags: {{Modality: {{from: OBR-24, when: {condition}}}}}")
    assert rule.condition == words


def test_fields_of_an_outbound_definition() -> None:
    """A written field has the loops and conditions around its segment."""
    found = outline(SHIPPED, "mdm")
    field = found.rule("field:order/OBR-18")
    assert field is not None
    assert [(source.kind, source.text) for source in field.sources] == [
        ("echo", "OBR-18"),
        ("variable", "$order.Accession"),
    ]
    assert field.inherited
    number = found.rule("field:metadata/OBX-5")
    assert number is not None
    assert number.within == ("for each of metadata", "if $target is OBX")
    status = found.rule("status:correction")
    assert status is not None
    assert "completion LA" in status.sources[0].text


def test_a_definition_with_errors_has_the_rules_that_can_be_read() -> None:
    """Wrong keys and paths do not hide the other rules; a file that is not YAML has none."""
    assert _rule("tags: {Modality: [PDI-9, OBR-24], Wrong: {frum: X}}").paths == ("PDI-9", "OBR-24")
    assert not outline({"mine.yaml": "tags: {"}, "mine").rules
    assert not outline({}, "mine").rules


@pytest.mark.parametrize("path", sorted((SAMPLES.parent / "mappings").rglob("*.yaml")))
def test_spans_are_the_text_of_their_nodes(path: Path) -> None:
    """A scalar's span contains its text; those of collections contain those of their entries."""
    text = path.read_text("utf-8")
    root = parse_yaml(text, path.name, Diagnostics())
    assert root is not None
    nodes = [root]
    while nodes:
        node = nodes.pop()
        start, end = node.span
        if isinstance(node.value, str) and "\\" not in node.value and "'" not in node.value:
            piece = text[start:end]
            assert node.value == piece.strip("\"'") or "\\" in piece
        below = list(node.value.values()) if isinstance(node.value, dict) else node.value
        for inner in below if isinstance(below, list) else []:
            assert start <= inner.span[0] <= inner.span[1] <= end
            nodes.append(inner)
