"""
Values, links and relations of an order after a message. The later message takes precedence.

An older message that arrives late still adds values that the newer one did not have. Values that a
message does not repeat remain, and so do its message group and its parents. Other links that are
not repeated are removed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from bridge.index_key import signal_hash
from bridge.orders.hierarchy import FROM_PARENT
from bridge.orders.order import (
    LaterEvent,
    Link,
    Order,
    OrderState,
    closing_hash,
    merged_hash,
    parent_hash,
)
from bridge.orders.rules import CREATING_ACTIONS
from bridge.orders.times import MessageTime, are_comparable
from mappings.inbound.events import CHILD_OF, OrderAction, OrderEvent
from mappings.inbound.procedures import (
    Procedure,
    is_other_procedure,
    join_procedures,
    procedures_left,
    procedures_not_named,
    split_procedures,
    update_procedures,
)

LASTING_LINKS = frozenset({"study-uid", "accession"})
"""Kinds of links that are values of the order: a message without them does not change them."""

MESSAGE_GROUP = "message-group"
"""Orders of one message stay linked when one of them changes alone."""


def as_moved_by_merge(order: Order, prior_mrn: str) -> Order:
    """
    Mark an order that a merge moved, so that it returns if the merge is undone.

    The row that remains of an order that moved to another patient has no mark.
    """
    if order.moved_away:
        return order
    return replace(order, merged_from=order.merged_from | {merged_hash(prior_mrn)})


def as_moved_away(order: Order) -> Order:
    """Return the row that remains of an order that moved to another patient."""
    return replace(
        order,
        state=OrderState.CANCELLED,
        report_id="",
        links=frozenset(),
        parents=frozenset(),
        closed_by=frozenset(),
        merged_from=frozenset(),
        number_only=False,
        replaced=False,
        moved_away=True,
        later_event=None,
    )


def is_number_only_after(event: OrderEvent, before: Order | None) -> bool:
    """True if an order is still known by a number only after an event."""
    if event.action in CREATING_ACTIONS:
        return False
    return event.accession in {event.placer, event.filler} if before is None else before.number_only


def as_closed_by(order: Order, number: str) -> Order:
    return replace(order, closed_by=order.closed_by | {closing_hash(number)})


def is_closed_by(order: Order, numbers: Iterable[str]) -> bool:
    closed = order.state in {OrderState.CANCELLED, OrderState.HELD}
    return closed and not order.closed_by.isdisjoint(map(closing_hash, numbers))


def combined_relations(one: Order, other: Order) -> Order:
    """Return an order with the links and relations of two rows about it."""
    return replace(
        one,
        links=one.links | other.links,
        parents=one.parents | other.parents,
        closed_by=one.closed_by | other.closed_by,
        merged_from=one.merged_from | other.merged_from,
        number_only=one.number_only and other.number_only,
        replaced=one.replaced and other.replaced,
        moved_away=one.moved_away or other.moved_away,
    )


def with_links(base: Order, event: OrderEvent, *, closing: bool) -> Order:
    """Return an order with the links after an event; one that only closes it changes none."""
    has_facts = any((base.links, base.parents, base.closed_by, base.merged_from, base.later_event))
    has_facts = has_facts or base.number_only or base.replaced or base.moved_away
    if not (event.note == FROM_PARENT or (closing and has_facts)):
        base = replace(
            base,
            links=links_after(base.links, event),
            parents=parents_of(event) or base.parents,
            replaced=False,
            moved_away=False,
        )
    return replace(base, replaced=True) if event.action is OrderAction.REPLACE else base


def links_after(before: frozenset[Link], event: OrderEvent) -> frozenset[Link]:
    """Return the links after an event; message groups and `LASTING_LINKS` remain."""
    given = links_of(event)
    kinds = {link.kind for link in given}
    return given | {
        link
        for link in before
        if link.kind == MESSAGE_GROUP or (link.kind in LASTING_LINKS and link.kind not in kinds)
    }


def links_of(event: OrderEvent) -> frozenset[Link]:
    return frozenset(
        Link(link.kind, signal_hash(link.kind, link.value))
        for link in event.link_signals
        if link.kind != CHILD_OF
    )


def parents_of(event: OrderEvent) -> frozenset[int]:
    return frozenset(
        parent_hash(link.value) for link in event.link_signals if link.kind == CHILD_OF
    )


def _links_of_late(event: OrderEvent, known: frozenset[Link]) -> set[Link]:
    """Return the links that a message adds although a later one was applied before."""
    kinds = {link.kind for link in known}
    return {
        link
        for link in links_of(event)
        if link.kind == MESSAGE_GROUP or (link.kind in LASTING_LINKS and link.kind not in kinds)
    }


_TimedEvent = tuple[bool, MessageTime]
"""True for a hold, False for a release; and when it was sent."""


def applicable_later_event(
    before: Order, event: OrderEvent, sent_at: MessageTime | None
) -> LaterEvent | None:
    """Return the hold or release that was sent after a late order."""
    if before.state != OrderState.CANCELLED or event.action not in CREATING_ACTIONS:
        return None
    if sent_at is None or not are_comparable(sent_at, before.state_changed_at):
        return None
    later = before.later_event
    return later if later is not None and later.at > sent_at.at else None


def with_later_event(
    before: Order, after: Order, event: OrderEvent, sent_at: MessageTime | None
) -> Order:
    """Add the last hold or release after its cancellation to a cancelled order."""
    timed_events = [*_timed_events(before)]
    if sent_at is not None and event.action is OrderAction.HOLD:
        timed_events.append((True, sent_at))
    if sent_at is not None and (event.examined or event.action is OrderAction.RELEASE):
        timed_events.append((False, sent_at))
    return _with_latest(after, timed_events)


def with_later_events_of(after: Order, rows: Iterable[Order]) -> Order:
    """Add the last hold or release to a cancelled order that is combined from several rows."""
    return _with_latest(after, [event for row in rows for event in _timed_events(row)])


def _with_latest(after: Order, timed_events: Iterable[_TimedEvent]) -> Order:
    closed_at = after.state_changed_at
    later: list[LaterEvent] = []
    if after.state == OrderState.CANCELLED and closed_at is not None:
        later = [
            LaterEvent(is_hold, time.at)
            for is_hold, time in timed_events
            if are_comparable(time, closed_at) and time.at > closed_at.at
        ]
    latest = max(later, key=lambda event: event.at, default=None)
    return after if latest == after.later_event else replace(after, later_event=latest)


def _timed_events(row: Order) -> Iterator[_TimedEvent]:
    """Return the known holds and releases of a row."""
    if row.state_changed_at is None:
        return
    if row.later_event is not None:
        yield row.later_event.is_hold, row.state_changed_at._replace(at=row.later_event.at)
    if row.state == OrderState.HELD:
        yield True, row.state_changed_at
    if row.is_open:
        yield False, row.state_changed_at


DESCRIPTION = "StudyDescription"
MODALITIES = "Modalities"
"""The Metadata list of an order whose steps or groups have several modalities."""
_PROCEDURE_TAGS = (DESCRIPTION, "ProcedureCode")


def names_procedure(event: OrderEvent) -> bool:
    """True if an event names the procedure. Many cancellations name the order only."""
    return any(event.clinical_info.get(tag) for tag in _PROCEDURE_TAGS)


def combined_event(groups: Sequence[OrderEvent]) -> OrderEvent:
    """Combine the groups of a message about one order; the first one's values take precedence."""
    first, *others = groups
    if not others:
        return first
    head, procedures = _procedures(first)
    for group in others:
        procedures += _procedures(group)[1]
    echo, description = join_procedures(head, list(dict.fromkeys(procedures)))
    info: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for group in reversed(groups):
        info |= group.clinical_info
        metadata |= group.clinical_info.get("Metadata", {})
    metadata |= _joined_lists([group.clinical_info for group in groups], first.lists)
    info |= {"Metadata": metadata} if metadata else {}
    return replace(
        first,
        clinical_info=info | ({DESCRIPTION: description} if description else {}),
        echo=echo,
        link_signals=tuple(dict.fromkeys(link for group in groups for link in group.link_signals)),
        placer=next((group.placer for group in groups if group.placer), ""),
        filler=next((group.filler for group in groups if group.filler), ""),
    )


def _procedures(event: OrderEvent) -> tuple[tuple[str, ...], list[Procedure]]:
    return split_procedures(event.echo, str(event.clinical_info.get(DESCRIPTION, "")))


def _joined_lists(groups: Sequence[Mapping[str, Any]], lists: Mapping[str, str]) -> dict[str, str]:
    """Return the Metadata lists of several groups of one order, with each value once."""
    joined = {}
    for key, separator in lists.items():
        values = [group.get("Metadata", {}).get(key, "") for group in groups]
        if key == MODALITIES and any(values) | (len({*_modalities(groups)}) > 1):
            values = [
                value or group.get("Modality", "")
                for value, group in zip(values, groups, strict=True)
            ]
        parts = [part for value in values if value for part in value.split(separator)]
        if parts:
            joined[key] = separator.join(dict.fromkeys(parts))
    return joined


def _modalities(groups: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    return filter(None, (group.get("Modality", "") for group in groups))


def merged_tags(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    """Merge newer tags over older ones; Metadata by key."""
    found = {**older, **newer}
    if "Metadata" in older and "Metadata" in newer:
        found["Metadata"] = {**older["Metadata"], **newer["Metadata"]}
    return found


def updated_values(
    base: Order,
    echo: tuple[str, ...],
    info: Mapping[str, Any],
    lists: Mapping[str, str] = MappingProxyType({}),
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """
    Return echo and tags of an order after a newer event about it or about a part of it.

    `lists` are the Metadata lists, which keep the values of the other parts.
    """
    tags = merged_tags(base.tags, info)
    if not base.echo:
        return echo, tags
    _, known = split_procedures(base.echo, str(base.tags.get(DESCRIPTION, "")))
    head, parts = split_procedures(echo, str(info.get(DESCRIPTION, "")))
    all_parts = update_procedures(known, parts) if parts else known
    lines, description = join_procedures(head, all_parts)
    if len(all_parts) <= len(parts):
        return lines or base.echo, tags
    if joined := _joined_lists([base.tags, info], lists):
        tags = {**tags, "Metadata": {**tags.get("Metadata", {}), **joined}}
    return lines, {**tags, DESCRIPTION: description} if description else tags


def with_older_values(base: Order, event: OrderEvent) -> Order:
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
        links=base.links | _links_of_late(event, base.links),
        parents=base.parents or parents_of(event),
    )


def differs_from(event: OrderEvent, after: Order) -> bool:
    info = dict(event.clinical_info)
    metadata = info.pop("Metadata", {})
    known = after.tags.get("Metadata", {})
    return any(after.tags.get(tag) != value for tag, value in info.items()) or any(
        known.get(key) != value for key, value in metadata.items()
    )


def uncancelled_procedures(before: Order, event: OrderEvent) -> list[Procedure]:
    """
    Return the procedures of an order that a cancellation or hold does not name.

    The only procedure that is left counts as named, unless numbers and code are those of another
    one: a repeated cancellation of one procedure must not cancel the other.
    """
    _, known = split_procedures(before.echo, str(before.tags.get(DESCRIPTION, "")))
    sent = _procedures(event)[1]
    if len(known) == 1 and sent and all(is_other_procedure(known[0], part) for part in sent):
        return known
    return procedures_not_named(known, sent) if len(known) > 1 else []


def with_procedures(before: Order, parts: Sequence[Procedure], message_id: int) -> Order:
    head, _ = split_procedures(before.echo, "")
    echo, description = join_procedures(head, parts)
    tags = {**before.tags, DESCRIPTION: description}
    return replace(before, last_message=message_id, tags=tags, echo=echo)
