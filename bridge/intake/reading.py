"""
From a stored message to a job: its events, and when its sender says it was sent.

Reads with the version of the definition that the message was accepted under; the one in force
now, where that was never kept. Blocking only where an older version is looked up.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from bridge.intake.listening import Definition, Listening, Merged
from bridge.intake.names import Words
from bridge.intake.parts import number_of, parts_of
from bridge.intake.planning import Occasion
from bridge.queue.work import Claimed
from bridge.store.moved_visits import Moves
from mappings.codes import Missed
from mappings.events import OrderEvent
from mappings.hl7 import lines
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.path import Path
from mappings.hl7.times import Precision, parse_timestamp
from mappings.scope import Defaults

_SENT_AT = Path.parse("MSH-7.1")
_SHORT = 16 * 2**10  # bytes of a message that is read at once
_DIGITS = re.compile(rb"[0-9]*")


class NoDefinition(Exception):  # noqa: N818  # says what is missing
    """The listener or the mapping of a stored message is no longer configured."""

    def __init__(self, what: str) -> None:
        """Say which of the two."""
        super().__init__(f"no such {what} in the settings")


class ContentUnreadable(Exception):  # noqa: N818  # as above
    """The content of a stored message cannot be read now; `code` is that of the system's error."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(f"its content cannot be read now ({code})")


class ContentGone(Exception):  # noqa: N818  # as above
    """The content of a stored message is not where it is kept, or not all of it."""

    def __init__(self) -> None:
        """Name the place where SQLite has it."""
        super().__init__("its content is missing: see the folder of large messages")


@dataclass(frozen=True, slots=True)
class Job:
    """One message, read."""

    claimed: Claimed
    occasion: Occasion
    events: Sequence[OrderEvent]
    merged: Merged = Merged.REDIRECT
    doubt: str = ""
    """The code by which it wants a person: a number of several orders, another accession."""
    words: Words = field(default_factory=dict)
    """What was last said of its patients by messages before it."""
    moves: Moves = field(default_factory=dict)
    """Which of its patients' visits moved."""
    heard: bool = False
    """Whether orders of its batch were named by a number alone, and not ordered yet."""


def read(claimed: Claimed, listeners: Mapping[str, Listening]) -> Job:
    """
    Map a stored message.

    Raises Refusal, NoDefinition, ContentGone, ContentUnreadable, and what hooks raise.
    """
    if claimed.unreadable:
        raise ContentUnreadable(claimed.unreadable)
    if not claimed.payload:
        raise ContentGone
    listening = listeners.get(claimed.listener)
    if listening is None:
        raise NoDefinition("listener")
    definition = _definition(listening, claimed.mapping, claimed.mapping_version)
    missed: list[Missed] = []
    asked = definition.read(claimed.payload, listening.charset, _given(claimed, listening, missed))
    return _job(claimed, listening, definition, asked, missed)


def readily(claimed: Claimed, listeners: Mapping[str, Listening]) -> Job | None:
    """Map a message as `read` does, in microseconds; None where it may take longer, or fail."""
    listening = listeners.get(claimed.listener)
    if listening is None or not 0 < len(claimed.payload) <= _SHORT:
        return None
    definition = _in_force(listening, claimed.mapping, claimed.mapping_version)
    if definition is None:
        return None
    missed: list[Missed] = []
    given = _given(claimed, listening, missed)
    asked = definition.readily(claimed.payload, listening.charset, given)
    if asked is None or missed or number_of(claimed.flags) is not None:
        return None  # what is missed is told once, and a batch may still be read anew as a whole
    return _job(claimed, listening, definition, asked, missed)


def _given(claimed: Claimed, listening: Listening, missed: list[Missed]) -> Defaults:
    received = datetime.fromtimestamp(claimed.received_at / 1000, UTC)
    return Defaults(listening.site, listening.time_zone, received, missed)


def _job(
    claimed: Claimed,
    listening: Listening,
    definition: Definition,
    asked: Sequence[OrderEvent],
    missed: Sequence[Missed],
) -> Job:
    events = _part(asked, claimed.flags)
    if missed:
        listening.missing(definition.name, definition.version, missed)
    occasion = Occasion(claimed.message_id, sent_at(claimed.payload, listening))
    return Job(claimed, occasion, events, listening.merged)


def _part(events: Sequence[OrderEvent], flags: int) -> Sequence[OrderEvent]:
    """Give the events that a row is for, where it is one part of its message."""
    number = number_of(flags)
    if number is None:
        return events
    parts = parts_of(events)
    if number >= len(parts):  # a definition of today cuts it otherwise
        raise NoDefinition("part of the message")
    return parts[number]


def sent_at(payload: bytes, listening: Listening) -> int | None:
    """Give MSH-7 in milliseconds; None when it is missing or no more precise than a day."""
    field = peek(payload).fields[_SENT_AT.field]
    if _DIGITS.fullmatch(field):  # nearly always: nothing in it can part it
        said = field.decode("ascii")
    else:
        head = lines.first_line(lines.untrailed(payload)[0])  # what follows may be long
        said = Message.parse(head, fallback=listening.charset).value(_SENT_AT)
    return _moment(said, listening.time_zone)


@lru_cache(maxsize=1024)
def _moment(said: str, time_zone: str) -> int | None:
    """Read a time; many messages are sent within a second."""
    stamp = parse_timestamp(said)
    if stamp is None or stamp.precision < Precision.MINUTE:
        return None
    return round(stamp.moment(ZoneInfo(time_zone)).timestamp() * 1000)


def _definition(listening: Listening, name: str, version: str) -> Definition:
    if found := _in_force(listening, name, version):
        return found
    earlier = listening.recall(name, version) if version else None
    if earlier is not None:
        return earlier
    for definition in listening.definitions:
        if definition.name == name:
            return definition
    raise NoDefinition("mapping")


def _in_force(listening: Listening, name: str, version: str) -> Definition | None:
    for definition in listening.definitions:
        if definition.name == name and definition.version == version:
            return definition
    return None
