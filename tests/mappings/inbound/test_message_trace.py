"""The trace of a message has the values that the mapping maps, and says what decided."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from mappings.compiler import compile_sources, read_folder
from mappings.hl7.message import Message
from mappings.hl7.refusals import MalformedMessage, MessageRefusal
from mappings.inbound.definition import InboundMapping
from mappings.inbound.events import CHILD_OF, OrderAction, OrderEvent
from mappings.inbound.order_mapping import OMITTED
from mappings.inbound.trace import MAX_GROUPS, EventTrace, TargetTrace, trace
from tests.mappings.definitions import DEFAULTS, MSH, PID, SHIPPED, message, overlaid
from tests.mappings.mutated import RAW, mutated
from tests.mappings.results import SAMPLES

HIS_C = {**SHIPPED, **read_folder(SAMPLES / "quirks" / "his-c" / "mappings")}


def _mapping(name: str) -> InboundMapping:
    compiled = compile_sources(HIS_C, name)
    assert isinstance(compiled, InboundMapping)
    return compiled


ORDERS, HIS, PATIENTS = map(_mapping, ("orders", "his-c", "patients"))
ADT = [
    path.read_bytes() for path in sorted(SAMPLES.rglob("*.hl7")) if b"|ADT^" in path.read_bytes()
]


def values(event: EventTrace, kind: str) -> dict[str, str]:
    """Return the traced values of one kind that the event has."""
    return {
        target.target.partition(":")[2]: target.value
        for target in event.targets
        if target.present and target.target.startswith(f"{kind}:")
    }


def mapped_values(event: OrderEvent) -> Mapping[str, Mapping[str, Any]]:
    info = dict(event.clinical_info)
    metadata = info.pop("Metadata", {})
    own = {
        "control": event.order_control,
        "status": event.order_status,
        "result_status": event.result_status,
    }
    own |= {"placer": event.placer, "filler": event.filler}
    return {
        "tag": info,
        "meta": metadata,
        "app": dict(event.reporting_app),
        "order": {key: value for key, value in own.items() if value},
    }


def require_agreement(mapping: InboundMapping, raw: bytes) -> None:
    """Compare all values of a trace with the events of the mapping."""
    try:
        one = Message.parse(raw)
    except MalformedMessage:
        return
    found = trace(mapping, one, DEFAULTS)
    try:
        events = mapping.apply(one, DEFAULTS)
    except MessageRefusal:
        assert found.refusal is not None
        return
    assert all(target.explained for event in found.events for target in event.targets)
    if found.refusal is not None or mapping.name == "patients":
        return
    for event, traced in zip(events, found.events, strict=False):
        assert (traced.action, traced.place) == (event.action, event.place)
        if event.action is OrderAction.IGNORE and event.note:
            continue
        expected = mapped_values(event)
        assert values(traced, "tag") == expected["tag"]
        assert values(traced, "app") == expected["app"]
        order = values(traced, "order")
        parents = {order.pop(key) for key in ("parent_placer", "parent_filler") if key in order}
        assert order == expected["order"]
        signals = {(signal.kind, signal.value) for signal in event.link_signals}
        assert parents == {value for kind, value in signals if kind == CHILD_OF}
        assert set(values(traced, "link").items()) <= signals
        if OMITTED not in expected["meta"]:
            assert values(traced, "meta") == expected["meta"]
        row = traced.row
        assert row is None or row.text.split()[0] == event.action


@pytest.mark.parametrize("mapping", [ORDERS, HIS, PATIENTS], ids=lambda mapping: mapping.name)
def test_samples_agree(mapping: InboundMapping) -> None:
    """The trace of each sample and each message of the corpus has the mapped values."""
    for raw in [*RAW, *ADT]:
        require_agreement(mapping, raw)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(raw=mutated())
def test_random_messages_agree(raw: bytes) -> None:
    """For random messages, the traced value of each target is the mapped value."""
    for mapping in (ORDERS, HIS):
        require_agreement(mapping, raw)


def events(text: str, *segments: str) -> list[EventTrace]:
    found = trace(overlaid(text), message(*segments), DEFAULTS)
    return list(found.events)


def target(event: EventTrace, name: str) -> TargetTrace:
    return next(target for target in event.targets if target.target == name)


def test_a_target_names_the_line_of_its_rule() -> None:
    """The rule of the own file and an inherited one have their files and lines."""
    (event,) = events("tags: {Modality: OBR-44.1}", "ORC|NW|P1", "OBR|1|P1||X^Test")
    modality, name = target(event, "tag:Modality"), target(event, "tag:PatientName")
    assert (modality.file, modality.line) == ("mine.yaml", 2)
    assert name.file == "orders.yaml"
    assert SHIPPED["orders.yaml"].splitlines()[name.line - 1].strip().startswith("PatientName")


def test_the_row_of_order_control_that_decided() -> None:
    """A pair without its own row is decided by the code alone."""
    shown = []
    for order in ("NW|P1|||CM", "nw|P1|||ZZ"):
        (event,) = events("", f"ORC|{order}", "OBR|1|P1||X^Test")
        assert all(target.explained for target in event.targets)
        assert event.row is not None
        shown.append((event.row.key, event.row.text))
    assert shown == [("NW/CM", "create examined"), ("NW", "create")]


def test_each_group_has_its_places() -> None:
    """The second order reads its own segments, and those of the header."""
    segments = ("ORC|NW|P1", "OBR|1|P1||A", "ORC|NW|P2", "OBR|2|P2||B^Second")
    first, second = events("", *segments)
    (source,) = [one for one in target(second, "tag:StudyDescription").sources if one.value]
    assert [place.place for place in source.places] == ["OBR[2]-4.2"]
    assert (first.accession, second.accession) == ("P1", "P2")
    assert target(second, "tag:PatientName").value == "Doe^Jane"


def test_a_segment_that_becomes_a_key() -> None:
    """A key of Metadata from OBX has the places of key and value; kept segments have theirs."""
    segments = ("ORC|NW|P1", "OBR|1|P1||A", "OBX|1|NM|^Weight||70|kg", "ZAB|x")
    (event,) = events("", *segments)
    weight, kept = target(event, "meta:Weight"), target(event, "meta:ZAB")
    places = {place.place for source in weight.sources for place in source.places if source.value}
    assert (weight.value, places) == ("70 kg", {"OBX-5", "OBX-6", "OBX-3.2"})
    assert [place.place for source in kept.sources for place in source.places] == ["ZAB"]


def test_a_group_that_the_definition_leaves_out() -> None:
    """`only` has its condition in words and the places that it reads."""
    (event,) = events("only: {OBR-24: [CT]}", "ORC|NW|P1", "OBR|1|P1||X" + "|" * 20 + "MR")
    only = target(event, "only")
    assert (event.action, only.value) == ("ignore", "does not hold")
    assert [source.text for source in only.sources] == ["OBR-24 is CT", "OBR-24"]
    assert [target.target for target in event.targets if target.target.startswith("tag:")] == [
        "tag:SiteID",
        "tag:PatientMRN",
    ]


@pytest.mark.parametrize(
    ("rules", "segments", "expected"),
    [
        ("", ("ORC|NW", "OBR|1|||X"), ("101", "tag:Accession")),
        ("", ("ORC|ZZ|P1", "OBR|1|P1||X"), ("103", "order:control")),
        (
            "tags: {SiteID: {from: MSH-4.1, codes: modality, unknown: refuse}}",
            ("ORC|NW|P1", "OBR|1|P1||X"),
            ("103", "tag:SiteID"),
        ),
    ],
)
def test_a_refusal_names_its_rule(
    rules: str, segments: tuple[str, ...], expected: tuple[str, str]
) -> None:
    """A refused message has the rule that refuses it, and the sources that were tried."""
    found = trace(overlaid(rules), message(*segments), DEFAULTS)
    assert found.refusal is not None
    assert (found.refusal.code, found.refusal.target) == expected
    assert found.refusal.line > 0
    (event,) = found.events
    assert event.action == ""
    assert target(event, "tag:Accession").sources


def test_a_message_with_many_groups() -> None:
    """A message with many groups is traced in parts."""
    groups = [f"ORC|NW|P{number}\rOBR|1|P{number}||X" for number in range(MAX_GROUPS + 2)]
    raw = "\r".join([MSH, PID, *groups]).encode()
    first = trace(ORDERS, Message.parse(raw), DEFAULTS)
    assert (len(first.events), first.left) == (MAX_GROUPS, 2)
    rest = trace(ORDERS, Message.parse(raw), DEFAULTS, first=MAX_GROUPS)
    assert [event.accession for event in rest.events] == ["P25", "P26"]
    assert all(target.explained for event in rest.events for target in event.targets)
    late = trace(ORDERS, Message.parse(raw), DEFAULTS, first=3, late=lambda: True)
    assert ([event.accession for event in late.events], late.left) == (["P3"], MAX_GROUPS - 2)


def test_a_merge() -> None:
    """The prior number has its place, and the event its row."""
    adt = MSH.replace("ORM^O01", "ADT^A40")
    raw = f"{adt}\rPID|1||M2^^^NORTH^MR||Doe^Jane\rMRG|M1^^^NORTH^MR||||||Roe^Jane"
    found = trace(PATIENTS, Message.parse(raw.encode()), DEFAULTS)
    (event,) = found.events
    assert event.row is not None
    assert (event.action, event.row.key) == ("patient-merge", "A40")
    prior = target(event, "prior_mrn")
    assert (prior.value, prior.explained) == ("M1", True)
    assert prior.sources[0].places[0].place == "MRG-1.1"
    assert target(event, "prior_name").value == "Roe^Jane"


def test_a_hook_that_fails() -> None:
    """A failed hook is named, and the message is parked."""
    hooks = {"mine.py": "def fail(message):\n    raise ValueError\n"}
    mapping = overlaid("tags: {Race: {hook: 'mine:fail'}}", hooks)
    found = trace(mapping, message("ORC|NW|P1", "OBR|1|P1||X"), DEFAULTS)
    assert found.refusal is not None
    assert found.refusal.code == "parked"
    race = target(found.events[0], "tag:Race")
    assert [source.outcome for source in race.sources] == ["failed"]
