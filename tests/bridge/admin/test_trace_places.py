"""The places of a trace are those of the message tree, so that a page can draw lines between."""

import pytest

from mappings.compiler import compile_sources, read_folder
from mappings.hl7.message import Message
from mappings.hl7.refusals import MalformedMessage
from mappings.hl7.tree import Node, message_tree
from mappings.inbound.definition import InboundMapping
from mappings.inbound.trace import trace
from tests.corpus import CORPUS
from tests.mappings.definitions import DEFAULTS, SHIPPED
from tests.mappings.mutated import RAW
from tests.mappings.results import SAMPLES

HIS_C = {**SHIPPED, **read_folder(SAMPLES / "quirks" / "his-c" / "mappings")}


def mapping(name: str) -> InboundMapping:
    compiled = compile_sources(HIS_C, name)
    assert isinstance(compiled, InboundMapping)
    return compiled


def traced_places(read: Message, definition: InboundMapping) -> set[tuple[str, int, int]]:
    """Return all places of a trace with their first and last byte."""
    found = trace(definition, read, DEFAULTS)
    return {
        (place.place, place.start, place.end)
        for event in found.events
        for target in event.targets
        for source in target.sources
        for place in source.places
    }


def is_value_of(node: Node | None, raw: bytes, start: int, end: int) -> bool:
    """True if bytes are those of a node, without blanks and shifts of ISO 2022 around them."""
    if node is None or not node.first_byte <= start < end <= node.last_byte:
        return False
    around = raw[node.first_byte : start] + raw[end : node.last_byte]
    return not around.strip() or around.startswith(b"\x1b")


def differing(raw: bytes, definition: InboundMapping) -> tuple[int, list[str]]:
    """Return the number of places with a value, and those that are not a node."""
    try:
        read = Message.parse(raw)
    except MalformedMessage:
        return 0, []
    tree = message_tree(read)
    nodes: dict[str, Node] = {
        node.place: node for segment in tree.segments for node in segment.walk()
    }
    places = traced_places(read, definition)
    wrong = [
        f"{place} {start}:{end}"
        for place, start, end in sorted(places)
        if start < end and not is_value_of(nodes.get(place), read.raw, start, end)
    ]
    return sum(start < end for _, start, end in places), wrong


@pytest.mark.parametrize("name", ["orders", "his-c", "patients"])
def test_each_traced_value_is_a_node(name: str) -> None:
    """For each message of the corpus and each sample, place and bytes are those of a node."""
    definition = mapping(name)
    payloads = [*RAW, *(path.read_bytes() for path in [*CORPUS, *sorted(SAMPLES.rglob("*.hl7"))])]
    compared, wrong = 0, list[str]()
    for raw in payloads:
        count, differences = differing(raw, definition)
        compared += count
        wrong += differences
    assert wrong == []
    assert compared > 100
