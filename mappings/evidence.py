"""
What stands where in sample messages: how often, how differently, how long. Counts, no values.

The charset is judged by the bytes: what MSH-18 says is often wrong.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mappings.fetch import compile_path, repetitions
from mappings.hl7.delimiters import Delimiters
from mappings.hl7.message import Message
from mappings.hl7.refusals import Refusal
from mappings.hl7.values import is_uid
from mappings.nodes import Node
from mappings.notebook import Notebook
from mappings.scope import Defaults, Scope, order_groups

_NOWHERE = Node(None, "", 0, 0)
_EURO_OR_C1 = frozenset({0xA4, 0xA6, 0xA8, 0xB4, 0xB8, 0xBC, 0xBD, 0xBE})
"""Bytes that ISO 8859-15 reads otherwise than 8859-1: €, Š, š, Ž, ž, Œ, œ, Ÿ."""
_LAST_C1 = 0x9F


@dataclass(frozen=True, slots=True)
class Field:
    """One place over all order groups."""

    path: str
    filled: int
    different: int
    longest: int
    digits: int
    """How many values have a digit."""
    uids: bool
    """Whether all values are DICOM UIDs."""

    def told(self, total: int) -> str:
        """Say it in words."""
        return f"{self.filled} of {total} groups, {self.different} different values"


@dataclass(frozen=True, slots=True)
class Samples:
    """Messages that could be read, and their order groups."""

    messages: tuple[Message, ...]
    groups: tuple[Scope, ...]
    unread: int

    def value(self, group: Scope, path: str) -> str:
        """Give what a path finds in a group."""
        return compile_path(path, _NOWHERE, Notebook())(group)

    def field(self, path: str) -> Field:
        """Count a place."""
        get = compile_path(path, _NOWHERE, Notebook())
        values = [value for group in self.groups if (value := get(group))]
        return Field(
            path,
            len(values),
            len(set(values)),
            max(map(len, values), default=0),
            sum(any(each.isdigit() for each in value) for value in values),
            bool(values) and all(map(is_uid, values)),
        )

    def z_fields(self) -> list[Field]:
        """Count every field of every Z segment that has a value, set ids left out."""
        widths: dict[str, int] = {}
        for message in self.messages:
            for segment in message.segments:
                if segment.id.startswith("Z"):
                    widths[segment.id] = max(widths.get(segment.id, 0), len(segment))
        paths = [f"{name}-{at}.1" for name, width in widths.items() for at in range(1, width + 1)]
        found = [self.field(path) for path in paths]
        return [each for each in found if each.filled and not self._is_set_id(each)]

    def _is_set_id(self, field: Field) -> bool:
        first = field.path.endswith("-1.1")
        return first and field.longest == 1 and field.digits == field.filled

    @property
    def most_repetitions(self) -> int:
        """How many identifiers PID-3 has at most."""
        return max((len(_identifiers(group)) for group in self.groups), default=0)

    def picked(self, kind: str, component: str) -> Counter[str]:
        """Count the groups in which PID-3 has a repetition with each value of CX-4 or CX-5."""
        counts: Counter[str] = Counter()
        for group in self.groups:
            parts = [_part(each, int(component), group.delimiters) for each in _identifiers(group)]
            counts.update({each for each in parts if each and not {"[", "]", "="} & set(each)})
        return counts


def _identifiers(group: Scope) -> list[str]:
    places = group.rows("PID")
    text = group.message.segment(places[0]).field_text(3) if places else ""
    return [each for each in repetitions(text, group.delimiters) if each]


def _part(text: str, number: int, delimiters: Delimiters) -> str:
    parts = text.split(delimiters.component) if delimiters.component else [text]
    part = parts[number - 1] if len(parts) >= number else ""
    return part.split(delimiters.subcomponent)[0].strip() if delimiters.subcomponent else part


def read_samples(raw: Sequence[bytes]) -> Samples:
    """Read what can be read."""
    charset, _ = charset_of(raw)
    defaults = Defaults("", "UTC", datetime.now(UTC))
    messages: list[Message] = []
    for each in raw:
        try:
            messages.append(Message.parse(each, fallback=charset))
        except Refusal:
            continue
    groups = [group for message in messages for group in order_groups(message, defaults)]
    return Samples(tuple(messages), tuple(groups), len(raw) - len(messages))


def charset_of(raw: Sequence[bytes]) -> tuple[str, str]:
    """Judge the charset by the bytes; give it with the reason."""
    foreign = [each for each in raw if not each.isascii()]
    if not foreign:
        return "utf-8", "All bytes are ASCII: any will do."
    others = [each for each in foreign if not _is_utf8(each)]
    if not others:
        return "utf-8", f"{len(foreign)} samples have other letters, all valid UTF-8."
    seen = {byte for each in others for byte in each if byte > 0x7F}  # noqa: PLR2004  # ASCII
    why = f"{len(others)} of {len(foreign)} samples with other letters are no UTF-8"
    if any(byte <= _LAST_C1 for byte in seen):
        return "cp1252", f"{why}; bytes 80 to 9F are letters of Windows-1252 only."
    if seen & _EURO_OR_C1:
        return "iso8859-15", f"{why}; some are the euro sign, Š, Ž, Œ or Ÿ of ISO 8859-15."
    return "iso8859-1", f"{why}; one byte a letter, the same in ISO 8859-1 and 8859-15."


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
