"""Values and link signals of an order after a message. The later message takes precedence.

Pure. An older message that arrives late still adds values that the newer one did not have. Values
that a message does not repeat remain, and so does its message group. Other signals that are not
repeated are removed.

A hold or release after a cancellation shows that the order was placed again, and that the order
message has not arrived yet. The last such event is stored as a signal of the cancelled order, with
its time as the value. It is applied when the order arrives. Only times of the cancellation's clock
are stored.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from bridge.intake.process.order_hierarchy import FROM_PARENT, REPLACED_SIGNAL
from bridge.intake.process.order_rules import CREATING_ACTIONS, OPEN_STATES, OrderState
from bridge.intake.receive.identity import signal
from bridge.store.records.message_time import MessageTime, are_comparable
from bridge.store.records.order_index import IndexedOrder, SignalHash
from mappings.inbound.events import CHILD_OF, OrderAction, OrderEvent
from mappings.inbound.procedures import (
    Procedure,
    join_procedures,
    procedures_left,
    procedures_not_named,
    split_procedures,
    update_procedures,
)

MERGED_FROM = "merged-from"
"""The kind of signal of an order that a merge moved from another patient; its value is the MRN."""

CLOSED_BY = "closed-by"
"""The kind of signal of an order that was closed before it arrived, by a single number."""

LASTING_KINDS = frozenset({"study-uid", "accession", CHILD_OF, CLOSED_BY, MERGED_FROM})
"""Signals that are values of the order: a message without them does not change them."""

MESSAGE_GROUP = "message-group"
"""Orders of one message stay linked when one of them changes alone."""

MOVED_AWAY = "moved"
"""The kind of signal of the row that remains when an order moved to another patient."""

UNORDERED = "unordered"
"""The kind of signal of an order that is known by a number only and was not ordered yet."""

HELD_LATER, OPENED_LATER = "held-later", "opened-later"
"""The kinds of signal of a cancelled order that was later held, or released."""

NON_LINKING_KINDS = frozenset(
    {CHILD_OF, REPLACED_SIGNAL, MOVED_AWAY, UNORDERED, CLOSED_BY, HELD_LATER, OPENED_LATER}
    | {MERGED_FROM}
)
"""Signals that do not link orders."""


def linking_signals(signals: Iterable[SignalHash]) -> frozenset[int]:
    return frozenset(each.signal for each in signals if each.kind not in NON_LINKING_KINDS)


def merged_from(mrn: str) -> SignalHash:
    """Return the signal of orders that a merge moved from a patient."""
    return SignalHash(MERGED_FROM, signal(MERGED_FROM, mrn))


def as_moved_by_merge(order: IndexedOrder, prior_mrn: str) -> IndexedOrder:
    """Mark an order that a merge moved, so that it can be checked if the merge is undone."""
    return replace(order, signals=order.signals | {merged_from(prior_mrn)})


def as_moved_away(order: IndexedOrder) -> IndexedOrder:
    """Return the row that remains of an order that moved to another patient."""
    mark = SignalHash(MOVED_AWAY, signal(MOVED_AWAY, order.key.accession))
    state = OrderState.CANCELLED
    return replace(order, state=state, report_id="", signals=frozenset({mark}))


def as_ordered(order: IndexedOrder) -> IndexedOrder:
    """Return an order without the mark of one that is known by a number only."""
    rest = frozenset(each for each in order.signals if each.kind != UNORDERED)
    return replace(order, signals=rest)


def has_moved_away(order: IndexedOrder) -> bool:
    """True if an order has moved to another patient."""
    return any(each.kind == MOVED_AWAY for each in order.signals)


def with_unordered_mark(
    signals: frozenset[SignalHash], event: OrderEvent, before: IndexedOrder | None
) -> frozenset[SignalHash]:
    by_number = event.accession in {event.placer, event.filler}
    known = by_number if before is None else is_unordered(before)
    if known and event.action not in CREATING_ACTIONS:
        return signals | {SignalHash(UNORDERED, signal(UNORDERED, event.accession))}
    if before is None or not known:
        return signals
    return frozenset(each for each in signals if each.kind != UNORDERED)


def combined_signals(
    one: frozenset[SignalHash], other: frozenset[SignalHash]
) -> frozenset[SignalHash]:
    """Return the signals of an order that is combined from two rows."""
    marks = {each for each in one | other if each.kind in {UNORDERED, REPLACED_SIGNAL}}
    return (one | other) - (marks - (one & other))


def as_closed_by(order: IndexedOrder, number: str) -> IndexedOrder:
    mark = SignalHash(CLOSED_BY, signal(CLOSED_BY, number))
    return replace(order, signals=order.signals | {mark})


def is_closed_by(order: IndexedOrder, numbers: Iterable[str]) -> bool:
    shown = {each.signal for each in order.signals if each.kind == CLOSED_BY}
    closed = order.state in {OrderState.CANCELLED, OrderState.HELD}
    return closed and not shown.isdisjoint(signal(CLOSED_BY, each) for each in numbers)


def is_unordered(order: IndexedOrder) -> bool:
    """True if an order is known by a number only and was not ordered yet."""
    return any(each.kind == UNORDERED for each in order.signals)


def updated_signals(
    base: IndexedOrder, event: OrderEvent, *, closing: bool
) -> frozenset[SignalHash]:
    """Return the signals after an event; an event that only closes the order changes none."""
    silent = event.note == FROM_PARENT or (closing and base.signals)
    shown = base.signals if silent else signals_after(base.signals, event)
    if event.action is not OrderAction.REPLACE:
        return shown
    return shown | {SignalHash(REPLACED_SIGNAL, signal(REPLACED_SIGNAL, base.key.accession))}


def lasting_signals(signals: frozenset[SignalHash], event: OrderEvent) -> frozenset[SignalHash]:
    """Return the signals of an event whose kinds remain if they are not repeated."""
    known = {each.kind for each in signals}
    return frozenset(
        each
        for each in signals_after(frozenset(), event)
        if each.kind == MESSAGE_GROUP or (each.kind in LASTING_KINDS and each.kind not in known)
    )


def signals_after(before: frozenset[SignalHash], event: OrderEvent) -> frozenset[SignalHash]:
    """
    Return the signals of an order after an event.

    Signals of `LASTING_KINDS` and `MESSAGE_GROUP` remain.
    """
    shown = frozenset(
        SignalHash(each.kind, signal(each.kind, each.value)) for each in event.link_signals
    )
    kinds = {each.kind for each in shown}
    kept = {
        each
        for each in before
        if each.kind == MESSAGE_GROUP or (each.kind in LASTING_KINDS and each.kind not in kinds)
    }
    return shown | kept


_TIMED_KINDS = frozenset({HELD_LATER, OPENED_LATER})
_TimedEvent = tuple[str, MessageTime]
"""A kind of `_TIMED_KINDS`, and the time at which the hold or release was sent."""


def later_event(
    before: IndexedOrder, event: OrderEvent, sent_at: MessageTime | None
) -> SignalHash | None:
    """Return the hold or release that was sent after a late order; its value is the time in ms."""
    if before.state != OrderState.CANCELLED or event.action not in CREATING_ACTIONS:
        return None
    if sent_at is None or not are_comparable(sent_at, before.state_changed_at):
        return None
    later = [
        each for each in before.signals if each.kind in _TIMED_KINDS and each.signal > sent_at.at
    ]
    return max(later, key=lambda each: each.signal, default=None)


def with_later_event(
    before: IndexedOrder, after: IndexedOrder, event: OrderEvent, sent_at: MessageTime | None
) -> IndexedOrder:
    """Add the last hold or release after its cancellation to a cancelled order."""
    timed_events = [*_timed_events(before)]
    if sent_at is not None and event.action is OrderAction.HOLD:
        timed_events.append((HELD_LATER, sent_at))
    if sent_at is not None and (event.examined or event.action is OrderAction.RELEASE):
        timed_events.append((OPENED_LATER, sent_at))
    return _with_latest(after, timed_events)


def with_later_events_of(after: IndexedOrder, rows: Iterable[IndexedOrder]) -> IndexedOrder:
    """Add the last hold or release to a cancelled order that is combined from several rows."""
    return _with_latest(after, [event for each in rows for event in _timed_events(each)])


def _with_latest(after: IndexedOrder, timed_events: Iterable[_TimedEvent]) -> IndexedOrder:
    """Store the last event after the cancellation as a signal; its value is the time in ms."""
    signals = frozenset(each for each in after.signals if each.kind not in _TIMED_KINDS)
    state_changed_at = after.state_changed_at
    if after.state == OrderState.CANCELLED and state_changed_at is not None:
        later = [
            SignalHash(kind, time.at)
            for kind, time in timed_events
            if are_comparable(time, state_changed_at) and time.at > state_changed_at.at
        ]
        signals |= {max(later, key=lambda each: each.signal)} if later else set()
    return after if signals == after.signals else replace(after, signals=signals)


def _timed_events(row: IndexedOrder) -> Iterator[_TimedEvent]:
    """Return the known holds and releases of a row."""
    if row.state_changed_at is None:
        return
    for each in row.signals:
        if each.kind in _TIMED_KINDS:
            yield each.kind, row.state_changed_at._replace(at=each.signal)
    if row.state == OrderState.HELD:
        yield HELD_LATER, row.state_changed_at
    if row.state in OPEN_STATES:
        yield OPENED_LATER, row.state_changed_at


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
    for each in others:
        procedures += _procedures(each)[1]
    echo, description = join_procedures(head, list(dict.fromkeys(procedures)))
    info: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for each in reversed(groups):
        info |= each.clinical_info
        metadata |= each.clinical_info.get("Metadata", {})
    metadata |= _joined_lists([each.clinical_info for each in groups], first.lists)
    info |= {"Metadata": metadata} if metadata else {}
    return replace(
        first,
        clinical_info=info | ({DESCRIPTION: description} if description else {}),
        echo=echo,
        link_signals=tuple(
            dict.fromkeys(signal for each in groups for signal in each.link_signals)
        ),
        placer=next((each.placer for each in groups if each.placer), ""),
        filler=next((each.filler for each in groups if each.filler), ""),
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
    base: IndexedOrder,
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


def with_older_values(base: IndexedOrder, event: OrderEvent) -> IndexedOrder:
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
    info = dict(event.clinical_info)
    metadata = info.pop("Metadata", {})
    known = after.tags.get("Metadata", {})
    return any(after.tags.get(tag) != value for tag, value in info.items()) or any(
        known.get(key) != value for key, value in metadata.items()
    )


def uncancelled_procedures(before: IndexedOrder, event: OrderEvent) -> list[Procedure]:
    """Return the procedures of an order that a cancellation or hold does not name."""
    _, known = split_procedures(before.echo, str(before.tags.get(DESCRIPTION, "")))
    return procedures_not_named(known, _procedures(event)[1]) if len(known) > 1 else []


def with_procedures(
    before: IndexedOrder, parts: Sequence[Procedure], message_id: int
) -> IndexedOrder:
    head, _ = split_procedures(before.echo, "")
    echo, description = join_procedures(head, parts)
    tags = {**before.tags, DESCRIPTION: description}
    return replace(before, last_message=message_id, tags=tags, echo=echo)
