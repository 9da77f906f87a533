"""Dependencies of results: fields of the order message, tags, Metadata and report content."""

from datetime import UTC, datetime

import pytest

from mappings.authoring.trial import Dependencies, find_dependencies
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


def dependencies_of(
    text: str, raw: bytes = RAW, defaults: ListenerDefaults = DEFAULTS
) -> Dependencies:
    sources = {**SHIPPED, "reader.yaml": READER, "mine.yaml": text}
    reader, mapping = compile_sources(sources, "reader"), compile_sources(sources, "mine")
    assert isinstance(reader, InboundMapping)
    assert isinstance(mapping, OutboundMapping)
    return find_dependencies(mapping, reader, raw, defaults, "utf-8")


def facts(found: Dependencies) -> dict[str, bool]:
    return {fact.name: fact.used for fact in found.facts}


def test_the_shipped_definition() -> None:
    """Patient, numbers and text are used. Fields that no result repeats are not."""
    found = dependencies_of("include: results.yaml\n")
    assert {"PID-3", "PID-5", "ORC-2", "OBR-18"} <= set(found.used)
    assert "PID-11" in found.unused
    assert not set(found.used) & set(found.unused)
    used = facts(found)
    assert used["clinicalInfo.PatientMRN"]
    assert used["report.text"]
    assert used["report.signedBy.name"]
    assert not used["report.signedBy.email"]
    assert {fact.name: fact.text for fact in found.facts}["Metadata.Room"] == "Room 7"


def test_on_a_leap_day() -> None:
    """Another time of signature exists on each day."""
    leap_day = DEFAULTS._replace(now=datetime(2028, 2, 29, tzinfo=UTC))
    found = dependencies_of("include: results.yaml\n", defaults=leap_day)
    assert facts(found)["report.signedAt"]


@pytest.mark.parametrize(("send", "used"), [("{is: Room}", True), ("{is: Other}", False)])
def test_metadata_that_a_destination_leaves_out(send: str, used: bool) -> None:
    """A key is used if it is sent, and so is its field."""
    found = dependencies_of(f"include: results.yaml\nmetadata: {{send: {send}}}\n")
    assert facts(found)["Metadata.Room"] == used
    assert ("ZRM-1" in found.used) == used


def test_a_field_in_two_orders() -> None:
    group = b"ORC|NW|P2\rOBR|2|P2||X^Test||||||||||||||A2\r"
    found = dependencies_of("include: results.yaml\n", RAW + group)
    assert {"OBR-18", "OBR[2]-18"} <= set(found.used)


@pytest.mark.parametrize("raw", [b"no HL7", b"MSH|^~\\&|A|B|||20260101||ADT^A08|1|P|2.5\r"])
def test_a_message_without_orders(raw: bytes) -> None:
    assert dependencies_of("include: results.yaml\n", raw) == Dependencies()


def test_the_time_limit() -> None:
    """A field that was not tried in time is neither used nor unused."""
    sources = {**SHIPPED, "reader.yaml": READER}
    reader, mapping = compile_sources(sources, "reader"), compile_sources(sources, "results")
    assert isinstance(reader, InboundMapping)
    assert isinstance(mapping, OutboundMapping)
    found = find_dependencies(mapping, reader, RAW, DEFAULTS, "utf-8", late=lambda: True)
    assert found.used == found.unused == ()
    assert found.facts
