"""
Sample results: what an outbound definition renders for an order with a sample report.

They are for trials and comparisons of definitions, and are never sent.
"""

from mappings.authoring.comparison import FieldDifference
from mappings.hl7.message import Message
from mappings.hl7.refusals import MessageRefusal
from mappings.inbound.definition import InboundMapping
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.language.errors import RuleFailed
from mappings.language.scope import ListenerDefaults
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultContext, ResultEvent, ResultOrder, Signer

REPORT = "FINDINGS:\nNothing unusual.\n\nIMPRESSION:\nA specimen: no report."


def render_samples(
    mapping: OutboundMapping,
    reader: InboundMapping,
    raw: bytes,
    defaults: ListenerDefaults,
    charset: str,
) -> list[bytes]:
    """Render a result for each order of a message; none if it is refused or has no order."""
    contexts = sample_contexts(mapping, reader, raw, defaults, charset)
    return [mapping.render(each) for each in contexts]


def sample_contexts(
    mapping: OutboundMapping,
    reader: InboundMapping,
    raw: bytes,
    defaults: ListenerDefaults,
    charset: str,
) -> list[ResultContext]:
    """Return the result context of each order of a message."""
    try:
        events = reader.apply(Message.parse(raw, fallback=charset), defaults)
    except (MessageRefusal, RuleFailed):
        return []
    orders = [each for each in events if each.accession and each.action is not OrderAction.IGNORE]
    return [_context(mapping, each, defaults) for each in orders]


def _context(
    mapping: OutboundMapping, order: OrderEvent, defaults: ListenerDefaults
) -> ResultContext:
    final = ResultEvent.FINAL
    tags = {tag: str(value) for tag, value in order.clinical_info.items() if tag != "Metadata"}
    metadata = dict(order.clinical_info.get("Metadata", {}))
    return ResultContext(
        event=final if final in mapping.events else min(mapping.events),
        control_id="SPECIMEN",
        now=defaults.now,
        site=order.site,
        orders=(ResultOrder(tags, metadata, order.placer, order.filler, order.echo),),
        report_text=REPORT,
        signed_at=defaults.now,
        signed_by=Signer("Dr. Specimen", "specimen@example.org", "0"),
        time_zone=defaults.time_zone,
    )


def compare_results(before: list[bytes], after: list[bytes]) -> list[FieldDifference]:
    """Return the differing fields of the results of two versions for the same message."""
    old, new = _fields(before), _fields(after)
    places = [*old, *(place for place in new if place not in old)]
    return [
        FieldDifference(place, old.get(place, ""), new.get(place, ""))
        for place in places
        if old.get(place, "") != new.get(place, "")
    ]


def _fields(written: list[bytes]) -> dict[str, str]:
    found = {}
    for number, message in enumerate(map(Message.parse, written), start=1):
        for segment, nth in zip(message.segments, message.numbers, strict=True):
            for at in range(1, len(segment) + 1):
                if text := segment.field_text(at):
                    found[f"{number}:{segment.id}[{nth}]-{at}"] = text
    return found
