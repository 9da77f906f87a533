"""Try a definition on a message: what comes out, what is wrong, which fields were looked at.

For `bridge mapping try` and the console. Everything in a Trial can be written as JSON; it
holds patient data, so it belongs on a screen and in no log.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from typing_extensions import override

from mappings.authoring.variants import sort_parts
from mappings.hl7.elements import MessageSyntax
from mappings.hl7.message import Message, SegmentLines
from mappings.hl7.refusals import MessageRefusal
from mappings.inbound.definition import InboundMapping
from mappings.inbound.events import OrderEvent
from mappings.language.diagnostics import Issue
from mappings.language.errors import RuleFailed
from mappings.language.scope import ListenerDefaults

_DELIMITER_FIELDS = frozenset({"MSH-1", "MSH-2"})


@dataclass(frozen=True, slots=True)
class Trial:
    """What a definition makes of one message."""

    accepted: bool
    issues: tuple[Issue, ...]
    lanes: tuple[str, ...]
    events: tuple[dict[str, Any], ...]
    used: tuple[str, ...]
    """
    Fields with a value that some rule looked at, in the order of the message: OBR[2]-4. After them
    repetitions and components without which the events differ, where these were asked for.
    """
    unused: tuple[str, ...]
    """Fields with a value that no rule looked at; parts of used fields that change nothing."""
    parked: bool = False
    """A hook or pattern failed that no identifier needs: it is acknowledged, then parked."""


class _Fields(list[str]):
    """Fields that tell which of them were read."""

    __slots__ = ("read",)

    read: set[int]

    @override
    def __getitem__(self, number: Any) -> Any:
        self.read.add(number)
        return super().__getitem__(number)


class _WatchedLines(SegmentLines):
    """Lines that remember which of their fields were read."""

    __slots__ = ("read",)

    def __init__(
        self,
        raw: list[bytes],
        names: Sequence[str],
        syntax: MessageSyntax,
        text: str | None = None,
    ) -> None:
        super().__init__(raw, names, syntax, text)
        self.read: list[set[int]] = [set() for _ in raw]

    @override
    def split(self, index: int) -> list[str]:
        known = self.fields[index]
        if known is None:
            known = self.fields[index] = _Fields(super().split(index))
            known.read = self.read[index]
        return known


class _WatchedMessage(Message):
    """A message of such lines."""

    __slots__ = ()

    lines: _WatchedLines
    lines_type = _WatchedLines


def try_message(
    mapping: InboundMapping,
    raw: bytes,
    defaults: ListenerDefaults,
    charset: str = "utf-8",
    *,
    components: bool = False,
) -> Trial:
    """
    Run everything a message meets on its way in; raises nothing for bad messages.

    `charset` is the listener's, for messages that declare none. `components`: sort repetitions
    and components of used fields, too. This maps the message once or twice for each of them, and
    is left out for a definition with hooks.
    """
    try:
        message = Message.parse(raw, fallback=charset)
    except MessageRefusal as refusal:
        return _refused(refusal)
    examination = mapping.examine(message, defaults)
    issues = examination.issues
    if not mapping.accepts(message.header):
        issues = (Issue("MSH-9", "accept", "this mapping does not accept the message"), *issues)
    accepted = not examination.refusals and mapping.accepts(message.header)
    watched = _WatchedMessage.parse(raw, fallback=charset)
    events: list[OrderEvent] = []
    parked = False
    try:
        events = mapping.apply(watched, defaults)
    except MessageRefusal:
        accepted = False  # the examination has said why
    except RuleFailed as failure:
        parked, accepted = accepted, False
        issues = (*issues, Issue("", "rule", str(failure)))
    if parked:
        issues = (*issues, Issue("", "parked", "the message is acknowledged, and parked"))
    used, unused = _fields(watched)
    if components and accepted and not mapping.takes_long:
        whole = [replace(event, echo=()) for event in events]
        known = (message.encoding, defaults)
        matter, idle = sort_parts(
            message, frozenset(used), lambda raw: _mapped(mapping, raw, *known) != whole
        )
        used, unused = (*used, *matter), (*unused, *idle)
    told = tuple(_told(event) for event in events) if accepted else ()
    return Trial(accepted, issues, examination.lanes, told, used, unused, parked)


def _refused(refusal: MessageRefusal) -> Trial:
    issue = Issue(refusal.place, refusal.error_code.value, refusal.text, refusal=refusal)
    return Trial(False, (issue,), (), (), (), ())


def _told(event: OrderEvent) -> dict[str, Any]:
    """Write an event as JSON has it."""
    told = asdict(event)
    told["action"] = event.action.value
    told["link_signals"] = [f"{signal.kind}={signal.value}" for signal in event.link_signals]
    told["echo"] = list(event.echo)
    for rare in ("visit", "renumbers"):
        if not told[rare]:
            del told[rare]
    return told


def _fields(message: _WatchedMessage) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the fields that have a value, used ones and unused ones."""
    used: list[str] = []
    unused: list[str] = []
    counts: dict[str, int] = {}
    for segment in message.segments:
        number = counts[segment.id] = counts.get(segment.id, 0) + 1
        read = frozenset(message.lines.read[segment.index])
        name = segment.id if number == 1 else f"{segment.id}[{number}]"
        for index in range(1, len(segment) + 1):
            place = f"{name}-{index}"
            if segment.field_text(index) and place not in _DELIMITER_FIELDS:
                (used if index in read else unused).append(place)
    return tuple(used), tuple(unused)


def _mapped(
    mapping: InboundMapping, raw: bytes, charset: str, defaults: ListenerDefaults
) -> list[OrderEvent] | None:
    """Map a variant; None where it is refused. What is echoed of the order is left aside."""
    try:
        message = Message.parse(raw, fallback=charset)
        return [replace(event, echo=()) for event in mapping.apply(message, defaults)]
    except (MessageRefusal, RuleFailed):
        return None
