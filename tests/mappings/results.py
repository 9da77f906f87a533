"""Result contexts to render, and the orders of the sample messages and of the corpus."""

from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent

from hl7apy.consts import VALIDATION_LEVEL
from hl7apy.parser import parse_message

from mappings.compiler import DEFINITIONS, compile_sources, load
from mappings.hl7.message import Message
from mappings.inbound.definition import InboundMapping
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultContext, ResultEvent, ResultOrder, Signer
from tests.corpus import CORPUS
from tests.mappings.definitions import DEFAULTS, MSH, PID, SHIPPED

SAMPLES = Path(__file__).parents[2] / "sample_messages"
NOW = datetime(2026, 3, 2, 15, 30, tzinfo=UTC)
TAGS = {"SiteID": "SITE1", "PatientMRN": "M1", "PatientName": "Doe^Jane", "Accession": "A1"}
ORDER = ResultOrder(
    TAGS,
    placer="P1",
    filler="F1",
    echo=(MSH, PID, "ORC|NW|P1^RISA|F1", "OBR|1|P1^RISA|F1|X^Test^L", "ZDS|1.2.3^A&B"),
)


CONTEXT = ResultContext(
    event=ResultEvent.FINAL,
    control_id="C0001",
    now=NOW,
    site="SITE1",
    orders=(ORDER,),
    report_text="All well.",
    signed_at=NOW,
    signed_by=Signer("Dr. Anna Berg", identifier="R1"),
)


def results(text: str = "", name: str = "results") -> OutboundMapping:
    sources = {**SHIPPED, "mine.yaml": f"include: {name}.yaml\n" + dedent(text)}
    compiled = compile_sources(sources, "mine")
    assert isinstance(compiled, OutboundMapping)
    return compiled


SHIPPED_RESULTS = results()


def rendered(context: ResultContext, mapping: OutboundMapping = SHIPPED_RESULTS) -> Message:
    return Message.parse(mapping.render(context))


def valid(raw: bytes) -> bool:
    """Validate the structure with hl7apy, without Z segments."""
    lines = [line for line in raw.decode().split("\r") if line and not line.startswith("Z")]
    parsed = parse_message("\r".join(lines) + "\r", validation_level=VALIDATION_LEVEL.TOLERANT)
    return bool(parsed.validate())


def orders_of(message: Message, mapping: InboundMapping) -> list[ResultOrder]:
    found = []
    for event in mapping.apply(message, DEFAULTS):
        tags = dict(event.clinical_info)
        metadata = tags.pop("Metadata", {})
        found.append(ResultOrder(tags, metadata, event.placer, event.filler, event.echo))
    return found


def every_order() -> list[ResultOrder]:
    mapping = load(DEFINITIONS, "orders")
    assert isinstance(mapping, InboundMapping)
    found: list[ResultOrder] = []
    for path in (*sorted((SAMPLES / "orders").glob("*.hl7")), *CORPUS):
        try:
            message = Message.parse(path.read_bytes())
        except Exception:  # noqa: BLE001, S112  # other tests cover malformed messages
            continue
        if not mapping.accepts(message.header) or mapping.pre_check(message, DEFAULTS).refusals:
            continue
        found += [order for order in orders_of(message, mapping) if order.tags.get("Accession")]
    return found


ORDERS = every_order()
