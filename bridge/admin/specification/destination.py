"""What a receiver must know: the specification of a destination, by settings and definitions."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bridge.admin.specification.made_up import NOW, SEGMENT_ORDER, made_up_message
from bridge.admin.specification.model import (
    CodeTableSpecification,
    DefinitionUsed,
    ExampleMessage,
    Fact,
    FieldSpecification,
    MessageSpecification,
    SegmentSpecification,
    Specification,
    Usage,
)
from bridge.admin.specification.pacs import pacs_specification
from bridge.admin.specification.tables import code_tables, first_codes
from bridge.delivery.destinations import SUBSCRIBED_WITH
from bridge.delivery.reply_policy import DEFAULTS, ReplyKind
from config.quantities import FolderAddress, WebAddress
from config.sections import DestinationSettings
from mappings.authoring.trial import sample_contexts
from mappings.hl7 import dictionary
from mappings.hl7.message import Message
from mappings.inbound.definition import InboundMapping
from mappings.language.diagnostics import MappingError
from mappings.language.outline import OutlineRule, OutlineSource, outline
from mappings.language.scope import ListenerDefaults
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import (
    WITHDRAWALS,
    ResultContext,
    ResultEvent,
    SignedAddendum,
    Signer,
)

_PURPOSES: Final[Mapping[ResultEvent, str]] = {
    ResultEvent.FINAL: "a report is released",
    ResultEvent.ADDENDUM: "an addendum to a released report",
    ResultEvent.CORRECTION: "a released text is replaced",
    ResultEvent.RETRACTION: "a released report is withdrawn",
    ResultEvent.PRELIMINARY: "a preliminary read",
    ResultEvent.CANCELLATION: "a preliminary read is withdrawn",
    ResultEvent.RECALL: "a signature was taken back before anything was sent",
    ResultEvent.ORDER_STATUS: "the state of the order changed",
}
_VARIABLES: Final[Mapping[str, str]] = {
    "$now": "time of the message",
    "$control_id": "number of the message; the same when it is repeated",
    "$version": "version of HL7",
    "$message": "message type",
    "$set_id": "number of the segment",
    "$site": "site",
    "$placer": "placer order number",
    "$filler": "filler order number",
    "$order_control": "order control",
    "$order_status": "order status",
    "$result_status": "status of the result: see Messages",
    "$report_status": "status of the report",
    "$observation_status": "status of the observation: see Messages",
    "$signed_at": "time of the signature",
    "$interpreter": "the physician who signed",
    "$line": "the text of the report",
    "$value_type": "type of OBX-5",
    "$sub_id": "number within the observation",
    "$section.code": "code of the section",
    "$section.text": "name of the section",
    "$section.system": "coding system of the section",
    "$data": "the document, in base64",
    "$format": "format of the document",
    "$entry": "a value of the order",
    "$child": "the number of a child order",
    "$target": "the place of a value",
}
_REPORT: Final = "FINDINGS:\nNo abnormality.\n\nIMPRESSION:\nNormal chest. A made-up report."
_ADDENDUM: Final = SignedAddendum("A made-up addendum.", NOW, Signer("Dr. Made-Up"))
_MULTIPLE: Final = frozenset({"OBX", "NTE", "ORC", "OBR"})


@dataclass(frozen=True, slots=True)
class WrittenDefinition:
    """
    A compiled outbound definition with the options of its destination, and its files.

    `outlined` is the name of the file to outline, which includes the definition.
    """

    mapping: OutboundMapping
    sources: Mapping[str, str] = field(repr=False)
    outlined: str
    name: str
    version: str
    active_since: int | None = None


def destination_specification(
    section: DestinationSettings,
    definitions: Sequence[WrittenDefinition],
    reader: InboundMapping,
    reader_sources: Mapping[str, str],
    *,
    with_address: bool = False,
) -> Specification:
    """
    Return the specification of a destination.

    `reader` is the definition that reads the made-up order of the examples. Without `with_address`
    the address of the receiver is left out.
    """
    events = _events(section)
    if section.is_pacs:
        (written_by,) = definitions
        return pacs_specification(
            section,
            [DefinitionUsed(written_by.name, written_by.version, written_by.active_since)],
            [(event, _PURPOSES[event]) for event in events if event in written_by.mapping.events],
            written_by.mapping.style.layout,
            [
                _context(base, event, section, written_by.mapping)
                for base in _made_up(section, written_by.mapping, reader, reader_sources)
                for event in events
            ],
            with_address=with_address,
        )
    examples = _examples(section, definitions, reader, reader_sources, events)
    tables: dict[str, CodeTableSpecification] = {}
    segments: list[SegmentSpecification] = []
    for definition in definitions:
        known = outline(definition.sources, definition.outlined)
        tables |= code_tables(definition.sources, known)
        own = [message for _, by, message in examples if by is definition]
        written: dict[str, list[OutlineRule]] = {}
        for rule in _written(known.rules):
            written.setdefault(rule.target.partition("/")[2].partition("(")[0], []).append(rule)
        within = definition.name if len(definitions) > 1 else ""
        segments += [replace(segment, within=within) for segment in _segments(written, own)]
    return Specification(
        kind="destination",
        name=section.name,
        definitions=[
            DefinitionUsed(item.name, item.version, item.active_since) for item in definitions
        ],
        transport=list(_transport(section, with_address=with_address)),
        messages=list(_messages(definitions, events, examples)),
        segments=segments,
        codes=list(tables.values()),
        acknowledgments=list(_acknowledgments(section)),
        examples=[
            ExampleMessage(
                f"{event}: a made-up message",
                "\n".join(segment.text() for segment in message.segments),
            )
            for event, _, message in examples
        ],
    )


def _events(section: DestinationSettings) -> list[ResultEvent]:
    wanted = {ResultEvent(event) for event in section.events}
    wanted |= {event for event, base in SUBSCRIBED_WITH.items() if base in wanted}
    return [event for event in ResultEvent if event in wanted]


def _transport(section: DestinationSettings, *, with_address: bool) -> Iterator[Fact]:
    address = section.address
    if isinstance(address, FolderAddress):
        yield Fact("Protocol", "files in a folder; a file appears when it is complete")
        if section.answer_files:
            yield Fact("Acknowledgments", "files acks/NAME.ack")
    elif isinstance(address, WebAddress):
        scheme = "HTTPS" if address.secure else "HTTP"
        yield Fact("Protocol", f"HL7 over {scheme}: one message in the body of a POST")
    else:
        yield Fact("Protocol", "MLLP: <VT> message <FS><CR>")
        mutual = section.tls is not None and section.tls.certificate is not None
        tls = "with a certificate of the service" if mutual else "with the receiver's certificate"
        yield Fact("TLS", "none" if section.tls is None else tls)
    if with_address:
        yield Fact("Address", str(address))
    yield Fact("Character set", "UTF-8 (MSH-18 UNICODE UTF-8), unless the mapping writes another")
    yield Fact("Time zone", section.time_zone)
    yield Fact("Connection", "stays open; one message is in flight at a time")
    yield Fact("Time to connect", f"{section.connect_timeout:g} s")
    yield Fact("Time to acknowledge", f"{section.ack_timeout:g} s")
    yield Fact("Order", "the results of one order in the order of their release")
    yield Fact(
        "Repetition",
        f"the same bytes with the same MSH-10, first after "
        f"{section.retry_first:g} s, later at most every {section.retry_max:g} s",
    )


def _acknowledgments(section: DestinationSettings) -> Iterator[Fact]:
    replies = {**DEFAULTS, **section.replies}
    for reply, action in replies.items():
        if reply.partition(" ")[0] != ReplyKind.DICOM:
            yield Fact(reply, action)


Example = tuple[ResultEvent, WrittenDefinition, Message]


def _examples(
    section: DestinationSettings,
    definitions: Sequence[WrittenDefinition],
    reader: InboundMapping,
    sources: Mapping[str, str],
    events: Sequence[ResultEvent],
) -> list[Example]:
    """Return a message for each event, as the courier would send it for a made-up report."""
    found: list[Example] = []
    for event in events:
        definition = next((item for item in definitions if event in item.mapping.events), None)
        if definition is None:
            continue
        for base in _made_up(section, definition.mapping, reader, sources):
            context = _context(base, event, section, definition.mapping)
            try:
                message = Message.parse(definition.mapping.render(context))
            except MappingError:
                continue
            found.append((event, definition, message))
    return found


def _made_up(
    section: DestinationSettings,
    mapping: OutboundMapping,
    reader: InboundMapping,
    sources: Mapping[str, str],
) -> list[ResultContext]:
    """Return the context of a made-up order; none if `reader` accepts no made-up message."""
    order = made_up_message(reader, outline(sources, reader.name), first_codes(sources))
    if order is None:
        return []
    defaults = ListenerDefaults("SITE1", section.time_zone, NOW)
    return sample_contexts(mapping, reader, order.draft.encoded("utf-8"), defaults, "utf-8")[:1]


def _context(
    base: ResultContext,
    event: ResultEvent,
    section: DestinationSettings,
    mapping: OutboundMapping,
) -> ResultContext:
    addenda = (_ADDENDUM,) if event is ResultEvent.ADDENDUM else ()
    text = "This report has been withdrawn." if event in WITHDRAWALS else _REPORT
    return replace(
        base,
        event=event,
        control_id="RB00000000000000001",
        report_text=text,
        addenda=addenda,
        signed_by=Signer("Dr. Made-Up", "made-up@example.org", "7"),
        destination=dict(section.fields),
        report_status="Final",
        files=dict.fromkeys(mapping.style.formats, b"made-up document"),
    )


def _messages(
    definitions: Sequence[WrittenDefinition],
    events: Sequence[ResultEvent],
    examples: Sequence[Example],
) -> Iterator[MessageSpecification]:
    known = {event: (definition, message) for event, definition, message in examples}
    for event in events:
        if not any(event in definition.mapping.events for definition in definitions):
            continue
        definition, message = known.get(event, (None, None))
        kind = message.value("MSH-9").replace("^", " ") if message is not None else ""
        types = "^".join(filter(None, kind.split(" ")[:2])) or "see the definition"
        states = [] if message is None else list(_statuses(message))
        by = f" ({definition.name})" if definition is not None else ""
        purpose = "; ".join([f"{event}: {_PURPOSES[event]}{by}", *states])
        yield MessageSpecification(types, purpose)


def _statuses(message: Message) -> Iterator[str]:
    """Yield the fields that tell the events apart; OBX-11 is that of the text."""
    for path in ("ORC-1", "ORC-5", "OBR-25"):
        if value := message.value(path):
            yield f"{path} {value}"
    statuses = [observation.value("11") for observation in message.named("OBX")]
    if of_text := [status for status in statuses if status not in {"", _ORDER_DETAIL}]:
        yield f"OBX-11 {of_text[-1]}"


_ORDER_DETAIL: Final = "O"  # HL7 table 0085: no result


def _written(rules: Sequence[OutlineRule]) -> Iterator[OutlineRule]:
    """Yield the rules of fields in the parts that the messages use."""
    uses: dict[str, set[str]] = {}
    for rule in rules:
        if rule.target.startswith("use:"):
            part, _, used = rule.target.removeprefix("use:").partition("/")
            uses.setdefault(part, set()).add(used.partition("(")[0])
    reached, waiting = set[str](), ["segments"]
    while waiting:
        part = waiting.pop()
        if part not in reached:
            reached.add(part)
            waiting += uses.get(part, ())
    for rule in rules:
        part = rule.target.removeprefix("field:").partition("/")[0]
        if rule.target.startswith("field:") and part in reached:
            yield rule


def _segments(
    written: Mapping[str, Sequence[OutlineRule]], messages: Sequence[Message]
) -> Iterator[SegmentSpecification]:
    version = messages[0].value("MSH-12.1") if messages else "2.5.1"
    known = dictionary.names(version)
    places = {_split(place) for place in written} | {
        (segment.id, number)
        for message in messages
        for segment in message.segments
        for number in range(1, len(segment) + 1)
        if segment.field_text(number)
    }
    names = sorted({name for name, _ in places}, key=_segment_rank)
    for name in names:
        numbers = sorted(number for segment, number in places if segment == name and number)
        holders = [message for message in messages if message.named(name)]
        found = [
            _field(known, name, number, written.get(f"{name}-{number}", ()), holders)
            for number in numbers
        ]
        least = int(bool(messages) and len(holders) == len(messages))
        most = "*" if name in _MULTIPLE else "1"
        own = [
            rule for place, rules in written.items() if _split(place)[0] == name for rule in rules
        ]
        notes = [_in_words(words) for rule in own for words in rule.within]
        notes += [
            _WHOLE.get(source.text, "")
            for rule in own
            for source in rule.sources
            if "-" not in rule.target
        ]
        note = "; ".join(dict.fromkeys(filter(None, notes)))
        title = dictionary.SEGMENT_NAMES.get(name, "")
        yield SegmentSpecification(name, title, f"{least}..{most}", found, note)


def _segment_rank(name: str) -> tuple[int, str]:
    known = SEGMENT_ORDER.index(name) if name in SEGMENT_ORDER else len(SEGMENT_ORDER)
    return known, name


def _split(place: str) -> tuple[str, int]:
    name, _, number = place.partition("-")
    return name, int(number) if number.isdecimal() else 0


def _field(
    known: dictionary.Dictionary,
    name: str,
    number: int,
    rules: Sequence[OutlineRule],
    holders: Sequence[Message],
) -> FieldSpecification:
    info = known.field(name, number)
    values = [message.first(name) for message in holders]
    texts = [segment.field_text(number) for segment in values if segment is not None]
    present = [text for text in texts if text]
    usage = Usage.REQUIRED if present and len(present) == len(texts) else Usage.IF_KNOWN
    if not rules and not present:
        usage = Usage.OPTIONAL
    content = dict.fromkeys(words for rule in rules for words in _contents(rule))
    condition = dict.fromkeys(filter(None, (rule.condition for rule in rules)))
    codes = dict.fromkeys(code for rule in rules for code in _codes(rule.sources))
    tables = [*codes] or ([f"HL7 {info.table}"] if info.table else [])
    most = "*" if info.repeats else "1"
    return FieldSpecification(
        place=f"{name}-{number}",
        name=info.name,
        type=info.type.partition("_")[0],
        usage=usage.value,
        cardinality=f"{int(usage is Usage.REQUIRED)}..{most}",
        content=", else ".join(content) or _unwritten(name, number, is_present=bool(present)),
        condition=_in_words("; ".join(condition)),
        codes=", ".join(tables),
        example=present[0][:_MAX_EXAMPLE] if present else "",
    )


_MAX_EXAMPLE: Final = 60
_LAST_DELIMITER_FIELD: Final = 2
_VARIABLE: Final = re.compile(r"\$[A-Za-z_.]+")


def _unwritten(name: str, number: int, *, is_present: bool) -> str:
    """Return what a field without a rule contains."""
    if name == "MSH" and number <= _LAST_DELIMITER_FIELD:
        return "delimiters"
    return "as sent with the order" if is_present else ""


_WHOLE: Final = {"echo": "as sent with the order", "metadata": "values of the order"}
"""What a segment without fields contains, by its rule."""
_LOOPS: Final = {
    "for each of orders": "for each order",
    "for each of text": "for each part of the text",
    "for each of documents": "for each document",
    "for each of metadata": "for each value of the order",
}


def _in_words(condition: str) -> str:
    """Return a condition or loop without the variables of the mapping language."""
    if condition in _LOOPS:
        return _LOOPS[condition]
    return _VARIABLE.sub(lambda found: _variable(found[0]), condition)


def _contents(rule: OutlineRule) -> Iterator[str]:
    for source in rule.sources:
        words = _words(source)
        if words:
            yield f"{words} (if {_in_words(source.condition)})" if source.condition else words


def _words(source: OutlineSource) -> str:
    """Return what a source writes, in words."""
    if source.kind == "echo":
        return f"{source.text} of the order"
    if source.kind == "variable":
        return _variable(source.text)
    if source.children:
        joint = ", else " if source.kind == "first of" else " ^ "
        return joint.join(filter(None, map(_words, source.children)))
    return f'"{source.text}"' if source.text else ""


def _variable(name: str) -> str:
    if name in _VARIABLES:
        return _VARIABLES[name]
    plain = name.removeprefix("$")
    kind, _, key = plain.partition(".")
    if kind == "order" and key:
        return key
    if kind == "destination" and key:
        return f"the setting {key} of the destination"
    return plain.replace("_", " ").replace(".", " ")


def _codes(sources: Sequence[OutlineSource]) -> Iterator[str]:
    for source in sources:
        if "codes" in source.modifiers:
            yield source.modifiers["codes"]
        yield from _codes(source.children)
