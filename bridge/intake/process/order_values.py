"""Values of an order after a message: tags, echo, procedures. The later message takes precedence.

Pure. An older message that arrives late still adds values that the newer one did not have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bridge.intake.process.link_signals import lasting_signals
from bridge.store.records.order_index import IndexedOrder
from mappings.inbound.events import OrderEvent
from mappings.inbound.procedures import (
    Procedure,
    join_procedures,
    procedures_left,
    split_procedures,
    update_procedures,
)

DESCRIPTION = "StudyDescription"
_PROCEDURE_TAGS = (DESCRIPTION, "ProcedureCode")


def names_procedure(event: OrderEvent) -> bool:
    """Tell whether an event names the procedure. Many cancellations name the order only."""
    return any(event.clinical_info.get(tag) for tag in _PROCEDURE_TAGS)


def combined_event(first: OrderEvent, second: OrderEvent) -> OrderEvent:
    """Combine two groups of a message about one order; the first one's values take precedence."""
    head, parts = _procedures(first)
    more = [each for each in _procedures(second)[1] if each not in parts]
    echo, description = join_procedures(head, [*parts, *more])
    info = merged_tags(second.clinical_info, first.clinical_info)
    return replace(
        first,
        clinical_info=info | ({DESCRIPTION: description} if description else {}),
        echo=echo,
        link_signals=tuple(dict.fromkeys([*first.link_signals, *second.link_signals])),
        placer=first.placer or second.placer,
        filler=first.filler or second.filler,
    )


def _procedures(event: OrderEvent) -> tuple[tuple[str, ...], list[Procedure]]:
    return split_procedures(event.echo, str(event.clinical_info.get(DESCRIPTION, "")))


def merged_tags(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    """Merge newer tags over older ones; Metadata by key."""
    found = {**older, **newer}
    if "Metadata" in older and "Metadata" in newer:
        found["Metadata"] = {**older["Metadata"], **newer["Metadata"]}
    return found


def updated_values(
    base: IndexedOrder, echo: tuple[str, ...], info: Mapping[str, Any]
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return echo and tags of an order after a newer event about it or about a part of it."""
    tags = merged_tags(base.tags, info)
    if not base.echo:
        return echo, tags
    _, known = split_procedures(base.echo, str(base.tags.get(DESCRIPTION, "")))
    head, parts = split_procedures(echo, str(info.get(DESCRIPTION, "")))
    all_parts = update_procedures(known, parts) if parts else known
    lines, description = join_procedures(head, all_parts)
    if len(all_parts) <= len(parts):
        return lines or base.echo, tags
    return lines, {**tags, DESCRIPTION: description} if description else tags


def with_older_values(base: IndexedOrder, event: OrderEvent) -> IndexedOrder:
    """Add the values of an older event that the order does not have."""
    tags = merged_tags(event.clinical_info, base.tags)
    head, known = split_procedures(base.echo, str(base.tags.get(DESCRIPTION, "")))
    more = procedures_left(_procedures(event)[1], known)
    echo, description = join_procedures(head, [*known, *more])
    return replace(
        base,
        placer=base.placer or event.placer,
        filler=base.filler or event.filler,
        tags={**tags, DESCRIPTION: description} if known and more and description else tags,
        echo=echo if known else base.echo or event.echo,
        signals=base.signals | lasting_signals(base.signals, event),
    )


def differs_from(event: OrderEvent, after: IndexedOrder) -> bool:
    """Tell whether an order has another value than the event."""
    info = dict(event.clinical_info)
    metadata = info.pop("Metadata", {})
    known = after.tags.get("Metadata", {})
    return any(after.tags.get(tag) != value for tag, value in info.items()) or any(
        known.get(key) != value for key, value in metadata.items()
    )


def uncancelled_procedures(before: IndexedOrder, event: OrderEvent) -> list[Procedure]:
    """Return the procedures of an order that a cancellation or hold does not name."""
    _, known = split_procedures(before.echo, str(before.tags.get(DESCRIPTION, "")))
    return procedures_left(known, _procedures(event)[1]) if len(known) > 1 else []


def with_procedures(
    before: IndexedOrder, parts: Sequence[Procedure], message_id: int
) -> IndexedOrder:
    """Reduce an order to these procedures."""
    head, _ = split_procedures(before.echo, "")
    echo, description = join_procedures(head, parts)
    tags = {**before.tags, DESCRIPTION: description}
    return replace(before, last_message=message_id, tags=tags, echo=echo)
