"""
Try a definition on a message: what comes out, what is wrong, which fields were looked at.

For `bridge mapping try` and the console. Everything in a Trial can be written as JSON; it
holds patient data, so it belongs on a screen and in no log.
"""

from dataclasses import asdict, dataclass
from typing import Any

from typing_extensions import override

from mappings.errors import HookFailed
from mappings.events import Issue, OrderEvent
from mappings.hl7.message import Message
from mappings.hl7.refusals import Refusal
from mappings.inbound import InboundMapping
from mappings.scope import Defaults, Row, Scope

_DELIMITER_FIELDS = frozenset({"MSH-1", "MSH-2"})


@dataclass(frozen=True, slots=True)
class Trial:
    """What a definition makes of one message."""

    accepted: bool
    issues: tuple[Issue, ...]
    lanes: tuple[str, ...]
    events: tuple[dict[str, Any], ...]
    used: tuple[str, ...]
    """Fields with a value that some rule looked at, in the order of the message: OBR[2]-4."""
    unused: tuple[str, ...]
    """Fields with a value that no rule looked at."""


class _Watched(list[str]):
    """A row that remembers which of its fields were read."""

    def __init__(self, row: Row) -> None:
        super().__init__(row)
        self.read: set[int] = set()

    @override
    def __getitem__(self, index: Any) -> Any:
        self.read.add(index)
        return super().__getitem__(index)


def try_message(mapping: InboundMapping, raw: bytes, defaults: Defaults) -> Trial:
    """Run everything a message meets on its way in; raises nothing for bad messages."""
    try:
        message = Message.parse(raw)
    except Refusal as refusal:
        return _refused(refusal)
    examination = mapping.examine(message, defaults)
    issues = examination.issues
    if not mapping.accepts(message.header):
        issues = (Issue("MSH-9", "accept", "this mapping does not accept the message"), *issues)
    accepted = not examination.refusals and mapping.accepts(message.header)
    scopes = mapping.plan.scopes(message, defaults)
    watched = _watch(scopes)
    events: list[OrderEvent] = []
    try:
        events = mapping.events(scopes, message)
    except Refusal:
        accepted = False  # the examination has said why
    except HookFailed as failure:
        accepted = False
        issues = (*issues, Issue("", "hook", str(failure)))
    used, unused = _fields(message, watched)
    told = tuple(_told(event) for event in events) if accepted else ()
    return Trial(accepted, issues, examination.lanes, told, used, unused)


def _refused(refusal: Refusal) -> Trial:
    issue = Issue(refusal.place, refusal.error_code.value, refusal.text, refusal=refusal)
    return Trial(False, (issue,), (), (), (), ())


def _told(event: OrderEvent) -> dict[str, Any]:
    """Write an event as JSON has it."""
    told = asdict(event)
    told["action"] = event.action.value
    told["link_signals"] = [f"{signal.kind}={signal.value}" for signal in event.link_signals]
    told["echo"] = list(event.echo)
    return told


def _watch(scopes: list[Scope]) -> dict[str, list[_Watched]]:
    """Replace the rows of all scopes by watched ones, each row once."""
    made: dict[int, _Watched] = {}
    order: dict[str, list[_Watched]] = {}
    for scope in scopes:
        for rows in (scope.header, scope.own):
            for key, found in rows.items():
                rows[key] = [_watch_row(row, key, made, order) for row in found]
        scope.close()
    return order


def _watch_row(
    row: Row, key: str, made: dict[int, _Watched], order: dict[str, list[_Watched]]
) -> _Watched:
    if isinstance(row, _Watched):
        return row
    if id(row) not in made:
        made[id(row)] = _Watched(row)
        order.setdefault(key.rpartition(">")[2], []).append(made[id(row)])
    return made[id(row)]


def _fields(
    message: Message, watched: dict[str, list[_Watched]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the fields that have a value, used ones and unused ones."""
    used: list[str] = []
    unused: list[str] = []
    counts: dict[str, int] = {}
    for segment in message.segments:
        number = counts[segment.id] = counts.get(segment.id, 0) + 1
        rows = watched.get(segment.id, [])
        read = rows[number - 1].read if len(rows) >= number else set()
        name = segment.id if number == 1 else f"{segment.id}[{number}]"
        for index in range(1, len(segment) + 1):
            place = f"{name}-{index}"
            if segment.field_text(index) and place not in _DELIMITER_FIELDS:
                (used if index in read else unused).append(place)
    return tuple(used), tuple(unused)
