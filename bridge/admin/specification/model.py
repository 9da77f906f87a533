"""
The model of a partner specification: plain values, which are rendered as a document or as JSON.

A specification describes one listener or destination with one version of its definitions. It
contains no patient data. No I/O.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Usage(StrEnum):
    """How a field is used, with the codes of the standard (HL7 v2.5.1 §2.12.6)."""

    REQUIRED = "R"
    CONDITIONAL = "C"  # required under the condition that is named
    IF_KNOWN = "RE"  # sent if it is known; it may be empty
    OPTIONAL = "O"  # not read


@dataclass(frozen=True, slots=True)
class Fact:
    """A property with its value, in words."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class DefinitionUsed:
    """A definition with its version; `active_since` is in ms, None if it was never activated."""

    name: str
    version: str
    active_since: int | None = None


@dataclass(frozen=True, slots=True)
class MessageSpecification:
    """A message type, and what it is for."""

    type: str
    purpose: str


@dataclass(frozen=True, slots=True)
class FieldSpecification:
    """
    A field. `usage` is one of `Usage`, `cardinality` is like `0..1`.

    `content` says what the field is used for, or what it contains. `condition` says when. `codes`
    names a code table of the specification, or a table of the standard.
    """

    place: str
    name: str
    type: str
    usage: str
    cardinality: str
    content: str
    condition: str = ""
    codes: str = ""
    example: str = ""


@dataclass(frozen=True, slots=True)
class SegmentSpecification:
    """
    A segment. `note` says when it is there.

    `within` is the definition that writes it, if a destination has several.
    """

    name: str
    title: str
    cardinality: str
    fields: Sequence[FieldSpecification]
    note: str = ""
    within: str = ""


@dataclass(frozen=True, slots=True)
class CodeRow:
    code: str
    value: str
    remark: str = ""


@dataclass(frozen=True, slots=True)
class CodeTableSpecification:
    """A code table; `note` says what happens to other codes."""

    name: str
    rows: Sequence[CodeRow]
    note: str = ""


@dataclass(frozen=True, slots=True)
class ControlRow:
    """What ORC-1 leads to with a status: that is ORC-5, ORC-5/OBR-25, or '' for any."""

    control: str
    status: str
    action: str


@dataclass(frozen=True, slots=True)
class ExampleMessage:
    """A made-up or de-identified message, one segment a line."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Specification:
    """What a partner must know about a listener or a destination; `kind` is one of these words."""

    kind: str
    name: str
    definitions: Sequence[DefinitionUsed]
    transport: Sequence[Fact]
    messages: Sequence[MessageSpecification]
    segments: Sequence[SegmentSpecification]
    codes: Sequence[CodeTableSpecification]
    acknowledgments: Sequence[Fact]
    control: Sequence[ControlRow] = ()
    replies: Sequence[Fact] = ()
    """The order control codes of replies, for a listener that replies with orders."""
    examples: Sequence[ExampleMessage] = field(default_factory=tuple)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class ChangeKind(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class SpecificationChange:
    """
    A difference of two specifications.

    `place` is where: `transport`, a field such as `PID-3`, `codes sex: F`. `fact` is the property
    that changed, '' if all of it was added or removed.
    """

    place: str
    fact: str
    before: str
    after: str
    kind: ChangeKind


def changes(before: Specification, after: Specification) -> list[SpecificationChange]:
    """Return what a partner must change; examples are not compared."""
    old, new = _facts(before), _facts(after)
    found = []
    for place in [*new, *(place for place in old if place not in new)]:
        if place not in old:
            found.append(_whole(place, new[place], ChangeKind.ADDED))
        elif place not in new:
            found.append(_whole(place, old[place], ChangeKind.REMOVED))
        else:
            found += _changed(place, old[place], new[place])
    return found


_Values = dict[str, str]


def _whole(place: str, values: _Values, kind: ChangeKind) -> SpecificationChange:
    shown = "; ".join(value for value in values.values() if value)
    before, after = ("", shown) if kind is ChangeKind.ADDED else (shown, "")
    return SpecificationChange(place, "", before, after, kind)


def _changed(place: str, old: _Values, new: _Values) -> Iterator[SpecificationChange]:
    for name in old | new:
        before, after = old.get(name, ""), new.get(name, "")
        if before != after:
            yield SpecificationChange(place, name, before, after, ChangeKind.CHANGED)


def _facts(of: Specification) -> dict[str, _Values]:
    """Return the comparable properties by place."""
    named: dict[str, Sequence[Fact]] = {
        "transport: ": of.transport,
        "acknowledgment ": of.acknowledgments,
        "reply ": of.replies,
    }
    return {
        **{
            f"{kind}{fact.name}": {"value": fact.value}
            for kind, facts in named.items()
            for fact in facts
        },
        **{f"message {item.type}": {"purpose": item.purpose} for item in of.messages},
        **dict(_fields_of(of)),
        **dict(_codes_of(of)),
        **{
            f"order control {'/'.join(filter(None, (row.control, row.status)))}": {
                "action": row.action
            }
            for row in of.control
        },
    }


_COMPARED = ("usage", "cardinality", "content", "condition", "codes")


def _fields_of(of: Specification) -> Iterator[tuple[str, _Values]]:
    for segment in of.segments:
        prefix = f"{segment.within}: " if segment.within else ""
        facts = {"cardinality": segment.cardinality, "note": segment.note}
        yield f"{prefix}{segment.name}", facts
        for item in segment.fields:
            yield f"{prefix}{item.place}", {name: str(getattr(item, name)) for name in _COMPARED}


def _codes_of(of: Specification) -> Iterator[tuple[str, _Values]]:
    for table in of.codes:
        if table.note:
            yield f"codes {table.name}", {"note": table.note}
        for row in table.rows:
            yield f"codes {table.name}: {row.code}", {"value": row.value}
