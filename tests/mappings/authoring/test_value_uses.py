"""The tags, Metadata keys and report content that results use."""

from datetime import UTC, datetime

import pytest

from mappings.authoring.trial import ValueUse, sample_contexts, value_uses
from mappings.compiler import DEFINITIONS, compile_sources, read_folder
from mappings.inbound.definition import InboundMapping
from mappings.language.scope import ListenerDefaults
from mappings.outbound.definition import OutboundMapping

SHIPPED = read_folder(DEFINITIONS)
READER = "include: orders.yaml\nmetadata: {values: {Room: ZRM-1.1}}\n"
DEFAULTS = ListenerDefaults("SITE1", "UTC", datetime(2026, 3, 2, tzinfo=UTC))
RAW = (
    b"MSH|^~\\&|RISA|NORTH|BRIDGE|SITE1|20260302080500||ORM^O01|C1|P|2.5.1\r"
    b"PID|1||M1^^^NORTH^MR||Doe^Jane||19700101|F|||1 Street\r"
    b"ORC|NW|P1^RISA|F1\rOBR|1|P1^RISA|F1|X^Test||||||||||||||A1||||||CT\rZRM|Room 7\r"
)


def values_of(
    text: str, raw: bytes = RAW, defaults: ListenerDefaults = DEFAULTS
) -> dict[str, ValueUse]:
    sources = {**SHIPPED, "reader.yaml": READER, "mine.yaml": text}
    reader, mapping = compile_sources(sources, "reader"), compile_sources(sources, "mine")
    assert isinstance(reader, InboundMapping)
    assert isinstance(mapping, OutboundMapping)
    contexts = sample_contexts(mapping, reader, raw, defaults, "utf-8")
    return {value.name: value for value in value_uses(mapping, contexts)}


def test_the_shipped_definition() -> None:
    """Patient, numbers and text are used. Values that no result repeats are not."""
    found = values_of("include: results.yaml\n")
    assert found["clinicalInfo.PatientMRN"].used
    assert found["report.text"].used
    assert found["report.signedBy.name"].used
    assert not found["report.signedBy.email"].used
    assert found["Metadata.Room"].text == "Room 7"


def test_on_a_leap_day() -> None:
    """Another time of signature exists on each day."""
    leap_day = DEFAULTS._replace(now=datetime(2028, 2, 29, tzinfo=UTC))
    assert values_of("include: results.yaml\n", defaults=leap_day)["report.signedAt"].used


@pytest.mark.parametrize(("send", "used"), [("{is: Room}", True), ("{is: Other}", False)])
def test_metadata_that_a_destination_leaves_out(send: str, used: bool) -> None:
    """A key is used if it is sent."""
    found = values_of(f"include: results.yaml\nmetadata: {{send: {send}}}\n")
    assert found["Metadata.Room"].used == used


@pytest.mark.parametrize("raw", [b"no HL7", b"MSH|^~\\&|A|B|||20260101||ADT^A08|1|P|2.5\r"])
def test_a_message_without_orders(raw: bytes) -> None:
    assert not values_of("include: results.yaml\n", raw)
