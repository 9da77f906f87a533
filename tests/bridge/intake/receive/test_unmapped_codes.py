"""Unmapped codes are counted while messages are read, without personal data."""

from datetime import UTC, datetime

import pytest

from bridge.intake.process.jobs import read
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.intake.receive.verdict import FrameEvaluator
from bridge.queue.claims import ClaimedMessage
from bridge.store.records.unmapped_codes import (
    MAX_COUNTED_CODES,
    CodeKey,
    CodeUse,
    UnmappedCodeCounter,
    storable_code,
)
from mappings.compiler import DEFINITIONS, compile_sources, read_folder
from mappings.inbound.definition import InboundMapping
from mappings.language.code_tables import UnmappedCode
from mllp.framing import Frame

RULES = """
include: orders.yaml
tags:
  SiteID: {from: MSH-4.1, codes: sites, unknown: refuse}
  Race: {from: PID-10.1, codes: race, unknown: keep}
"""
SOURCES = {
    **read_folder(DEFINITIONS),
    "codes/sites.csv": "code,value\nNORTH,SITE1\n",
    "codes/race.csv": "code,value\nW,White\n",
    "mine.yaml": RULES,
}
NOW = datetime(2026, 3, 2, tzinfo=UTC)


def message(site: str, sex: str, race: str) -> bytes:
    return (
        f"MSH|^~\\&|RISA|{site}|BRIDGE|SITE1|20260302080500||ORM^O01|C1|P|2.5.1\r"
        f"PID|1||M1^^^NORTH^MR||Doe^Jane|||{sex}||{race}\r"
        "ORC|NW|P1\rOBR|1|P1||X^Test|||||||||||||||A1\r"
    ).encode()


def fail(error: Exception) -> None:
    raise error


def counted_codes(raw: bytes) -> dict[CodeKey, CodeUse]:
    made = compile_sources(SOURCES, "mine")
    assert isinstance(made, InboundMapping)
    counter = UnmappedCodeCounter()
    listening = ListenerPolicy("ris", (made,), on_unmapped_codes=counter.note)
    verdict = FrameEvaluator(listening, fail).evaluate(Frame(raw), NOW)
    if not verdict.refusals:
        claimed = ClaimedMessage(1, raw, "ris", "mine", made.version, (1,), 1, 0, 0, "ORM^O01")
        read(claimed, {"ris": listening})
    return dict(counter.take())


def test_codes_of_an_accepted_message() -> None:
    """An unmapped code of an accepted message is counted once. A known code is not counted."""
    found = counted_codes(message("NORTH", "Q", "B"))
    assert {(*key, item.policy, item.count) for key, item in found.items()} == {
        ("mine", "sex", "Q", "empty", 1),
        ("mine", "race", "B", "keep", 1),
    }
    assert counted_codes(message("NORTH", "F", "W")) == {}


def test_codes_of_a_refused_message() -> None:
    """A code is counted once, although the message is read for refusals and for lanes."""
    found = counted_codes(message("SOUTH", "F", "W"))
    assert [(key, item.policy, item.count) for key, item in found.items()] == [
        (CodeKey("mine", "sites", "SOUTH"), "refuse", 1)
    ]


@pytest.mark.parametrize(
    ("place", "code", "expected"),
    [
        ("MSH-4.1", " SOUTH ", "SOUTH"),
        ("PID-8.1", "Q", "Q"),
        ("PID-5.1", "Doe", ""),
        ("NK1-2", "Doe", ""),
        ("OBX-5", "text", ""),
        ("OBR-18", "A1", ""),
        ("OBR-24", "MRI", "MRI"),
        ("OBR-4.2", "x" * 41, ""),
        ("$order.Modality", "XY", "XY"),
        ("$order.PatientName", "Doe", ""),
        ("$signer.name", "Reader", ""),
        ("$", "whatever", ""),
    ],
)
def test_personal_data_is_not_stored(place: str, code: str, expected: str) -> None:
    """Fields of persons, order numbers and long texts are counted without their text."""
    assert storable_code(UnmappedCode("table", code, place, "keep")) == expected


def test_a_flood_is_counted_without_names() -> None:
    """Memory is limited for any number of codes."""
    counter = UnmappedCodeCounter()
    for number in range(MAX_COUNTED_CODES + 50):
        counter.note("mine", "v", [UnmappedCode("t", str(number), "OBR-24", "keep")])
    found = counter.take()
    assert (len(found), found[CodeKey("mine", "t", "")].count) == (MAX_COUNTED_CODES + 1, 50)
    assert counter.take() == {}
