"""What a sender must know: the specification of a listener, from its settings and definitions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bridge.admin.specification.made_up import (
    SEGMENT_ORDER,
    MadeUpMessage,
    header_names,
    made_up_message,
    message_types,
)
from bridge.admin.specification.model import (
    CodeTableSpecification,
    ControlRow,
    DefinitionUsed,
    ExampleMessage,
    Fact,
    FieldSpecification,
    MessageSpecification,
    SegmentSpecification,
    Specification,
    Usage,
)
from bridge.admin.specification.tables import code_tables, first_codes
from config.listeners import Acknowledge, ListenerSettings, Replies, SequenceNumbers, Validation
from config.quantities import FolderAddress, WebAddress
from mappings.hl7 import dictionary
from mappings.hl7.acknowledgment import ERROR_DESCRIPTIONS
from mappings.hl7.path import InvalidPath, Path
from mappings.inbound.definition import InboundMapping
from mappings.inbound.outside_mapping import NO_STATUS, OTHERWISE, OutsideRules, OutsideStatus
from mappings.language.outline import Outline, OutlineRule, outline

_VERSION: Final = "2.5.1"
_ACTIONS: Final[Mapping[str, str]] = {
    "create": "adds the order to the worklist, or updates it",
    "await": "stores the order until it is examined",
    "change": "updates the order",
    "replace": "cancels the order, which another one replaces",
    "cancel": "cancels the order",
    "discontinue": "discontinues the order",
    "hold": "takes the order off the worklist",
    "release": "puts the order on the worklist again",
    "reported": "takes an order that nobody has begun to read off the list of unread orders",
    "ignore": "is accepted without effect",
    "refuse": "is refused",
    "patient-update": "updates the patient in the open reports",
    "patient-merge": "merges two patients",
    "patient-unmerge": "undoes a merge",
    "visit-move": "moves the orders of a visit",
}
_EXAMINED: Final = "; the examination is done"
_ORDERS: Final = "orders: ORC-1, ORC-5 and OBR-25 decide, see Order control"
_OUTSIDE: Final = "a report of the sender, which becomes a prior of the patient"
_STATUSES: Final[Mapping[str, str]] = {
    **{status: f"{status} report" for status in OutsideStatus},
    OutsideStatus.UNKNOWN: "a report without a status",
    OutsideStatus.WITHDRAWN: "the report is withdrawn",
    OutsideStatus.IGNORE: "is accepted without effect",
}
_USES: Final[Mapping[str, str]] = {
    "order:placer": "placer order number",
    "order:filler": "filler order number",
    "order:control": "order control: see Order control",
    "order:status": "order status: see Order control",
    "order:result_status": "result status: see Order control",
    "order:parent_placer": "placer number of the parent order",
    "order:parent_filler": "filler number of the parent order",
    "prior_mrn": "number of the patient before a merge",
    "prior_name": "name of the patient before a merge",
    "visit:number": "visit number",
    "visit:prior": "visit number before a move",
    "report:number": "document number",
    "report:parent": "number of the document that this one replaces or completes",
    "report:status": "status of the report",
    "report:time": "time of the report",
    "report:title": "title of the report",
    "report:author": "author of the report",
    "reported": "decides whether the order is reported",
    "only": "decides whether the order is for imaging",
}
_ACKNOWLEDGED: Final = {
    Acknowledge.STORED: "The message is on disk.",
    Acknowledge.CHECKED: "The message is on disk, and its content was understood.",
    Acknowledge.APPLIED: "The report service has the order.",
}
_CONDITIONAL: Final = frozenset({"tag", "meta", "app", "each", "order"})
_MULTIPLE: Final = frozenset({"NTE", "AL1", "IAM", "OBX", "DG1", "PRT", "IPC", "ORC", "OBR"})


@dataclass(frozen=True, slots=True)
class DefinitionSources:
    """A compiled inbound definition with its files, and since when (ms) it is active."""

    mapping: InboundMapping
    sources: Mapping[str, str] = field(repr=False)
    active_since: int | None = None

    @property
    def outline(self) -> Outline:
        return outline(self.sources, self.mapping.name)


def listener_specification(
    section: ListenerSettings,
    definitions: Sequence[DefinitionSources],
    stored: Sequence[ExampleMessage] = (),
    *,
    with_address: bool = False,
) -> Specification:
    """
    Return the specification of a listener.

    `stored` are de-identified examples. Without `with_address` the address of the service is left
    out.
    """
    segments = _Segments()
    tables: dict[str, CodeTableSpecification] = {}
    examples: list[ExampleMessage] = []
    control: list[ControlRow] = []
    for definition in definitions:
        known = definition.outline
        example = made_up_message(
            definition.mapping,
            known,
            first_codes(definition.sources),
            site=section.site or "SITE1",
            charset=section.charset,
            processing_id=next(iter(section.processing_ids), "P"),
        )
        segments.add(known, example)
        tables |= code_tables(definition.sources, known)
        control += _control(known)
        if example is not None:
            title = f"{definition.mapping.name}: a made-up message that is accepted"
            examples.append(ExampleMessage(title, "\n".join(example.draft.lines())))
    return Specification(
        kind="listener",
        name=section.name,
        definitions=[
            DefinitionUsed(item.mapping.name, item.mapping.version, item.active_since)
            for item in definitions
        ],
        transport=list(_transport(section, with_address=with_address)),
        messages=[message for item in definitions for message in _messages(item)],
        segments=segments.result(section, definitions),
        codes=list(tables.values()),
        acknowledgments=list(_acknowledgments(section)),
        control=control,
        replies=list(_replies(section, definitions)),
        examples=[*examples, *stored],
    )


def _transport(section: ListenerSettings, *, with_address: bool) -> Iterator[Fact]:
    address = section.bind
    if isinstance(address, FolderAddress):
        yield Fact("Protocol", "files in a folder; a file is taken when it is complete")
        written = "written to its folder acks" if section.answer_files else "not written"
        yield Fact("Acknowledgments", written)
    elif isinstance(address, WebAddress):
        yield Fact("Protocol", "HL7 over HTTP: one message in the body of a POST")
        if section.authorization_file is not None:
            yield Fact("Authorization", "the agreed Authorization header is required")
    else:
        release = " release 2, with a commit block" if section.commit_blocks else ""
        yield Fact("Protocol", f"MLLP{release}: <VT> message <FS><CR>")
        yield Fact("TLS", _tls(section))
        yield Fact(
            "Connections",
            f"up to {section.max_connections}, of one address up to "
            f"{section.per_source}; they may stay open",
        )
        yield Fact("Time-outs", _timeouts(section))
    if with_address:
        yield Fact("Address", str(address))
    yield Fact("Character set", f"that of MSH-18; {section.charset} if MSH-18 is empty")
    yield Fact("Largest message", f"{section.max_frame // 1024:,} KiB")
    yield Fact("Time zone", f"{section.time_zone}, for times without an offset")
    yield Fact("Processing id (MSH-11)", " or ".join(section.processing_ids))
    yield Fact("Duplicates", _duplicates(section))
    if section.sequence_numbers is not SequenceNumbers.OFF:
        needed = "required" if section.sequence_numbers is SequenceNumbers.REQUIRE else "checked"
        yield Fact("Sequence numbers (MSH-13)", needed)


def _tls(section: ListenerSettings) -> str:
    if section.tls is None:
        return "none"
    mutual = section.tls.client_ca is not None
    return "required, with a certificate of the sender" if mutual else "required"


def _timeouts(section: ListenerSettings) -> str:
    idle = f"; a silent connection is closed after {section.idle_timeout:g} s"
    silent = idle if section.idle_timeout else ""
    return f"{section.frame_timeout:g} s from the first to the last byte of a message{silent}"


def _duplicates(section: ListenerSettings) -> str:
    other = {
        "accept": "another message with a used MSH-10 is a new message",
        "refuse": "another message with a used MSH-10 is refused with AE 205",
    }[section.reused_control_id.value]
    return f"the same bytes again get the same acknowledgment and change nothing; {other}"


def _messages(definition: DefinitionSources) -> Iterator[MessageSpecification]:
    rules = definition.outline.rules
    events = {
        rule.target.partition(":")[2]: _action(_text(rule))
        for rule in rules
        if rule.target.startswith("event:")
    }
    if events:
        for event, purpose in events.items():
            shown = "any other event" if event == "*" else event
            yield MessageSpecification(f"ADT^{shown}", purpose)
        return
    is_outside = isinstance(definition.mapping.plan, OutsideRules)
    for kind in message_types(definition.mapping):
        yield MessageSpecification(kind, _OUTSIDE if is_outside else _ORDERS)
    for rule in rules:
        if rule.target.startswith("report-status:"):
            code = rule.target.partition(":")[2]
            shown = {NO_STATUS: "no status", OTHERWISE: "any other status"}.get(code, code)
            yield MessageSpecification(f"report status {shown}", _STATUSES[_text(rule)])
    only = next((rule.condition for rule in rules if rule.target == "only"), "")
    if only:
        purpose = f"those with: {only}; others are accepted without effect"
        yield MessageSpecification("orders that are processed", purpose)


def _text(rule: OutlineRule) -> str:
    return ", ".join(source.text for source in rule.sources)


def _action(text: str) -> str:
    name, _, more = text.partition(" ")
    return _ACTIONS.get(name, name) + (_EXAMINED if more == "examined" else "")


def _control(known: Outline) -> Iterator[ControlRow]:
    for rule in known.rules:
        if rule.target.startswith("row:"):
            control, _, status = rule.target.removeprefix("row:").partition("/")
            yield ControlRow(control, status, _action(_text(rule)))


def _replies(section: ListenerSettings, definitions: Sequence[DefinitionSources]) -> Iterator[Fact]:
    if section.replies is not Replies.ORDER:
        return
    for definition in definitions:
        for rule in definition.outline.rules:
            if rule.target.startswith("reply:"):
                done, _, unable = _text(rule).partition(", ")
                yield Fact(rule.target.removeprefix("reply:"), f"{done}, or {unable} if unable")


def _acknowledgments(section: ListenerSettings) -> Iterator[Fact]:
    yield Fact("AA, CA", _ACKNOWLEDGED[section.acknowledge])
    yield Fact("AE, CE", "An error, with its code and its place in the message in ERR.")
    yield Fact("AR, CR", "The message is not HL7, or its type, version or MSH-11 is not accepted.")
    yield Fact(
        "MSH-15 and MSH-16",
        "Both empty: original mode, one AA, AE or AR. Otherwise enhanced"
        " mode: AL, NE, ER and SU are honoured.",
    )
    form = "ORR, ORI or ORG with an ORC for each order" if section.replies is Replies.ORDER else ""
    yield Fact("Form", form or "ACK; MSA-2 is MSH-10 of the message, byte for byte")
    yield Fact("Order", "Send the next message after the acknowledgment of the one before.")
    yield Fact("No acknowledgment", "Send the same bytes again, also on a new connection.")
    if section.validation is not Validation.OFF:
        treated = (
            "refused" if section.validation is Validation.REFUSE else "accepted with a warning"
        )
        yield Fact(
            "Structure", f"A message that violates the structure of its version is {treated}."
        )
    for code, words in ERROR_DESCRIPTIONS.items():
        yield Fact(f"Error {code.value}", words)


@dataclass
class _Use:
    """What the rules of all definitions read from one field."""

    contents: dict[str, None] = field(default_factory=dict)
    conditions: dict[str, None] = field(default_factory=dict)
    codes: dict[str, None] = field(default_factory=dict)
    is_required: bool = False
    alternatives: tuple[str, ...] = ()
    repeats: bool = False
    example: str = ""


class _Segments:
    """Collects the fields that definitions read."""

    def __init__(self) -> None:
        self._uses: dict[tuple[str, int], _Use] = {}
        self._versions: dict[str, None] = {}
        self._example: MadeUpMessage | None = None

    def add(self, known: Outline, example: MadeUpMessage | None) -> None:
        for rule in known.rules:
            self._add_rule(rule)
            if rule.target.startswith("accept:versions"):
                self._versions |= dict.fromkeys(
                    source.text for source in rule.sources if source.text
                )
        if example is None:
            return
        self._example = self._example or example
        for place, use in self._uses.items():
            use.example = use.example or example.draft.value(*place)
            if place in example.required and not use.alternatives:
                use.is_required = True

    def _add_rule(self, rule: OutlineRule) -> None:
        content = _content_of(rule)
        places = dict.fromkeys(place for path in rule.paths if (place := _place(path)) is not None)
        repeated = {
            _place(path)
            for source in rule.sources
            if source.kind in {"all", "first"}
            for path in source.paths
        }
        for place in places:
            use = self._uses.setdefault(place, _Use())
            if content:
                use.contents[content] = None
            if rule.condition and rule.target.partition(":")[0] in _CONDITIONAL:
                use.conditions[rule.condition] = None
            use.repeats |= place in repeated
            use.codes |= dict.fromkeys(_codes_of(rule))
            if rule.modifiers.get("required") == "true":
                names = tuple(f"{segment}-{number}" for segment, number in places)
                use.is_required |= len(names) == 1
                use.alternatives = names if len(names) > 1 else use.alternatives

    def _header(
        self, section: ListenerSettings, definitions: Sequence[DefinitionSources]
    ) -> Iterator[FieldSpecification]:
        contents = {
            _PROCESSING: f"processing id: {' or '.join(section.processing_ids)}",
            _VERSION_ID: f"version: {', '.join(self._versions) or 'any'}",
        }
        for number, usual, content in _HEADER:
            usage = _sequence_usage(section) if number == _SEQUENCE_NUMBER else usual
            if usage is None:
                continue
            words = contents.get(number, content)
            demanded = [header_names(item.mapping).get(number, "") for item in definitions]
            if patterns := list(dict.fromkeys(filter(None, demanded))):
                words, usage = f"{words}: {' or '.join(patterns)}", Usage.REQUIRED
            info = dictionary.names(_VERSION).field("MSH", number)
            yield FieldSpecification(
                f"MSH-{number}",
                info.name,
                info.type,
                usage.value,
                f"{int(usage is Usage.REQUIRED)}..1",
                words,
                example=self._header_example(number),
            )

    def _header_example(self, number: int) -> str:
        if number == 1:
            return "|"
        return "" if self._example is None else self._example.draft.value("MSH", number)

    def result(
        self, section: ListenerSettings, definitions: Sequence[DefinitionSources]
    ) -> list[SegmentSpecification]:
        by_segment: dict[str, list[FieldSpecification]] = {
            "MSH": list(self._header(section, definitions))
        }
        for (segment, number), use in sorted(self._uses.items(), key=lambda item: item[0][1]):
            if segment != "MSH":
                by_segment.setdefault(segment, []).append(_field(segment, number, use))
        return [_segment(name, by_segment[name]) for name in sorted(by_segment, key=_segment_rank)]


def _segment_rank(name: str) -> tuple[int, str]:
    known = SEGMENT_ORDER.index(name) if name in SEGMENT_ORDER else len(SEGMENT_ORDER)
    return known, name


def _place(text: str) -> tuple[str, int] | None:
    try:
        path = Path.parse(text)
    except InvalidPath:
        return None
    return (path.segment, path.field) if path.segment and path.field else None


_KINDS: Final[Mapping[str, str]] = {
    "tag": "{}",
    "meta": "Metadata {}",
    "app": "option {}",
    "visit-value": "{} of the visit",
    "link": "links orders ({})",
    "each": "Metadata, for each {}",
}


def _content_of(rule: OutlineRule) -> str:
    """Return what the fields of a rule are used for, in words."""
    kind, _, name = rule.target.partition(":")
    return _USES.get(rule.target) or _KINDS.get(kind, "").format(name)


def _codes_of(rule: OutlineRule) -> Iterator[str]:
    for modifiers in (rule.modifiers, *(source.modifiers for source in rule.sources)):
        if "codes" in modifiers:
            yield modifiers["codes"]


def _field(segment: str, number: int, use: _Use) -> FieldSpecification:
    info = dictionary.names(_VERSION).field(segment, number)
    usage, condition = Usage.IF_KNOWN, "; ".join(use.conditions)
    if use.is_required:
        usage = Usage.REQUIRED
    elif use.alternatives:
        usage = Usage.CONDITIONAL
        condition = f"one of {', '.join(use.alternatives)} must have a value"
    tables = [*use.codes] or ([f"HL7 {info.table}"] if info.table else [])
    most = "*" if info.repeats or use.repeats else "1"
    return FieldSpecification(
        place=f"{segment}-{number}",
        name=info.name,
        type=info.type.partition("_")[0],
        usage=usage.value,
        cardinality=f"{int(usage is Usage.REQUIRED)}..{most}",
        content=", ".join(use.contents),
        condition=condition,
        codes=", ".join(tables),
        example=use.example,
    )


def _segment(name: str, found: Sequence[FieldSpecification]) -> SegmentSpecification:
    is_required = name == "MSH" or any(item.usage == Usage.REQUIRED for item in found)
    most = "*" if name in _MULTIPLE else "1"
    title = dictionary.SEGMENT_NAMES.get(name, "")
    return SegmentSpecification(name, title, f"{int(is_required)}..{most}", found)


_HEADER: Final = (
    (1, Usage.REQUIRED, "field separator"),
    (2, Usage.REQUIRED, "delimiters"),
    (3, Usage.IF_KNOWN, "the sender; it identifies retransmissions"),
    (4, Usage.IF_KNOWN, "the hospital of the sender"),
    (5, Usage.OPTIONAL, "the receiving application"),
    (6, Usage.OPTIONAL, "the receiving facility"),
    (7, Usage.IF_KNOWN, "time of the message: decides which of two messages is newer"),
    (9, Usage.REQUIRED, "message type: see Messages"),
    (10, Usage.REQUIRED, "number of the message, unique for the sender"),
    (11, Usage.REQUIRED, "processing id"),
    (12, Usage.IF_KNOWN, "version"),
    (13, Usage.OPTIONAL, "sequence number"),
    (15, Usage.OPTIONAL, "accept acknowledgment: AL, NE, ER or SU"),
    (16, Usage.OPTIONAL, "application acknowledgment: AL, NE, ER or SU"),
    (18, Usage.IF_KNOWN, "character set, such as UNICODE UTF-8"),
)
_PROCESSING: Final = 11
_VERSION_ID: Final = 12
_SEQUENCE_NUMBER: Final = 13


def _sequence_usage(section: ListenerSettings) -> Usage | None:
    return {
        SequenceNumbers.OFF: None,
        SequenceNumbers.CHECK: Usage.OPTIONAL,
        SequenceNumbers.REQUIRE: Usage.REQUIRED,
    }[section.sequence_numbers]
