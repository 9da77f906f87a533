"""Small definitions and messages for the tests of the mapping language."""

from collections.abc import Mapping
from datetime import UTC, datetime
from textwrap import dedent

from mappings.compiler import DEFINITIONS, compile_sources, read_folder
from mappings.hl7.message import Message
from mappings.inbound.definition import InboundMapping
from mappings.inbound.events import OrderEvent
from mappings.language.scope import ListenerDefaults

NOW = datetime(2026, 3, 2, 15, 30, tzinfo=UTC)
DEFAULTS = ListenerDefaults("SITE1", "Europe/Zurich", NOW)
SHIPPED = read_folder(DEFINITIONS)

MSH = "MSH|^~\\&|RISA|NORTH|BRIDGE|SITE1|20260302080500||ORM^O01|C1|P|2.5.1"
PID = "PID|1||M1^^^NORTH^MR||Doe^Jane||19800102|F"


def message(*segments: str) -> Message:
    """Return an order message with these segments after MSH and PID."""
    return Message.parse("\r".join((MSH, PID, *segments)).encode())


def inbound_mapping(name: str) -> InboundMapping:
    compiled = compile_sources(SHIPPED, name)
    assert isinstance(compiled, InboundMapping)
    return compiled


def overlaid(text: str, files: Mapping[str, str] | None = None) -> InboundMapping:
    sources = {**SHIPPED, **(files or {}), "mine.yaml": "include: orders.yaml\n" + dedent(text)}
    compiled = compile_sources(sources, "mine")
    assert isinstance(compiled, InboundMapping)
    return compiled


def mapped(text: str, *segments: str, files: Mapping[str, str] | None = None) -> OrderEvent:
    """Map a message with one order by the shipped definition with an overlay."""
    (event,) = overlaid(text, files).apply(message(*segments), DEFAULTS)
    return event


def tag(rule: str, *segments: str, files: Mapping[str, str] | None = None) -> str | None:
    order = segments or ("ORC|NW|P1", "OBR|1|P1||X^Test")
    event = mapped(f"tags: {{KeyFindings: {rule}}}", *order, files=files)
    found: str | None = event.clinical_info.get("KeyFindings")
    return found
