"""A specification as a document: its sections, as a partner reads them."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from bridge.admin.specification.document import (
    Block,
    Document,
    Literal,
    Paragraph,
    Section,
    Table,
)
from bridge.admin.specification.model import (
    Fact,
    SegmentSpecification,
    Specification,
    SpecificationChange,
)

_USAGE: Final = (
    "Usage: R required, C required under the named condition, RE sent if known, O optional."
    " Other fields are not used."
)
_FIELDS: Final = (
    ("Field", 1.1),
    ("Name", 2.2),
    ("Type", 0.8),
    ("Usage", 0.8),
    ("Card.", 0.8),
    ("Content", 3.4),
    ("Codes", 1.2),
    ("Example", 2.2),
)


def document_of(
    found: Specification,
    changes: Sequence[SpecificationChange] | None = None,
    compared: str = "",
) -> Document:
    """
    Return the document of a specification.

    `changes` are those since the version `compared`; None: there is no comparison.
    """
    sections = [section for section in _sections(found) if section.blocks]
    if changes is not None:
        sections.insert(0, _changes(changes, compared))
    return Document(
        title=f"HL7 interface: {found.kind} {found.name}",
        facts=[_definition_line(found), _purpose(found)],
        sections=sections,
    )


def _definition_line(found: Specification) -> str:
    used = [f"{item.name} {item.version}{_since(item.active_since)}" for item in found.definitions]
    return f"Definitions: {', '.join(used)}"


def _since(moment: int | None) -> str:
    if moment is None:
        return ""
    day = datetime.fromtimestamp(moment / 1000, UTC).date().isoformat()
    return f" (active since {day})"


def _purpose(found: Specification) -> str:
    if found.kind == "listener":
        return (
            "What Report Bridge accepts from the sender. All examples are made up or de-identified."
        )
    return "What Report Bridge sends to the receiver. All examples are made up."


def _sections(found: Specification) -> Iterator[Section]:
    yield Section("Transport", _facts(found.transport))
    messages = [[item.type, item.purpose] for item in found.messages]
    yield Section("Messages", _table((("Message", 1), ("Purpose", 4)), messages))
    yield Section("Segments", list(_segments(found.segments)))
    yield Section("Codes", list(_codes(found)))
    yield Section("Acknowledgments", _facts(found.acknowledgments))
    control = [[row.control, row.status or "any other", row.action] for row in found.control]
    blocks = _table((("ORC-1", 1), ("ORC-5/OBR-25", 1), ("Effect", 4)), control)
    replies = [[fact.name, fact.value] for fact in found.replies]
    blocks += _table((("ORC-1", 1), ("ORC-1 of the reply", 4)), replies)
    yield Section("Order control", blocks)
    yield Section("Examples", [Literal(item.title, item.text) for item in found.examples])


def _table(
    columns: Sequence[tuple[str, float]], rows: Sequence[Sequence[str]], title: str = ""
) -> list[Block]:
    if not rows:
        return []
    names, shares = zip(*columns, strict=True)
    return [Table(names, rows, shares, title)]


def _facts(facts: Sequence[Fact]) -> list[Block]:
    rows = [[fact.name, fact.value] for fact in facts]
    return _table((("Property", 1), ("Value", 3)), rows)


def _segments(segments: Sequence[SegmentSpecification]) -> Iterator[Block]:
    if segments:
        yield Paragraph(_USAGE)
    for segment in segments:
        rows = [
            [
                item.place,
                item.name,
                item.type,
                item.usage,
                item.cardinality,
                "; ".join(filter(None, (item.content, item.condition))),
                item.codes,
                item.example,
            ]
            for item in segment.fields
        ]
        within = f" in messages of {segment.within}" if segment.within else ""
        title = f"{segment.name} {segment.title}".strip() + f", {segment.cardinality}{within}"
        if segment.note or not rows:
            yield Paragraph(f"{segment.name}: {segment.note or 'without fields'}")
        yield from _table(_FIELDS, rows, title)


def _codes(found: Specification) -> Iterator[Block]:
    columns = (("Code", 1), ("Meaning", 2), ("Remark", 2))
    for table in found.codes:
        rows = [[row.code, row.value, row.remark] for row in table.rows]
        yield from _table(columns, rows, table.name)
        if table.note:
            yield Paragraph(table.note)


def _changes(changes: Sequence[SpecificationChange], compared: str) -> Section:
    title = f"Changes since {compared}"
    if not changes:
        return Section(title, [Paragraph("Nothing changes for the partner.")])
    columns = (("Place", 1.4), ("Change", 1), ("Before", 3), ("Now", 3))
    rows = [
        [change.place, f"{change.kind} {change.fact}".strip(), change.before, change.after]
        for change in changes
    ]
    return Section(title, _table(columns, rows))
