"""
A history checker. It compares observations of senders, receivers and readers with the guarantees.

It imports nothing of the product. Soak runs, power cuts, fault sweeps and cluster tests record
events and call it. It returns an empty list if every guarantee held:

* An order whose message was acknowledged is in the worklist at the end, once.
* The last acknowledged change of an order is the one that is seen, unless a later one was sent.
* An order whose last message removed it is not in the worklist.
* Every release that was confirmed to its signer reaches the receiver.
* One release has one control id, and one control id has one content.
* For each report, versions reach the receiver in the order of their release. An older version does
  not come again after a newer one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    SENT = "sent"
    """A sender wrote a message about an order; `step` counts the changes of the order."""
    ACKNOWLEDGED = "acknowledged"
    """The sender read a positive acknowledgment of the step."""
    LISTED = "listed"
    """A reader saw the order in the worklist at the end, with `step` as its content."""
    RELEASED = "released"
    """A signer got the confirmation that the version `step` of the report is signed."""
    DELIVERED = "delivered"
    """A receiver got the version `step` of the report, as `control_id` with `content`."""


@dataclass(frozen=True, slots=True)
class Event:
    """
    One observation. `order` is an accession; events are in the order of observation.

    `removes`: the step that was sent or acknowledged removes the order from the worklist.
    """

    kind: Kind
    order: str
    step: int = 0
    control_id: str = ""
    content: bytes = b""
    removes: bool = False


def violations(events: Iterable[Event]) -> list[str]:
    """Return each violation as a sentence."""
    by_order: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_order[event.order].append(event)
    found: list[str] = []
    for order, history in sorted(by_order.items()):
        for rule in (_applied, _released, _control_ids, _versions):
            found += [f"{order}: {problem}" for problem in rule(history)]
    return found + list(_contents(by_order))


def _steps(history: Iterable[Event], kind: Kind) -> list[int]:
    return [event.step for event in history if event.kind is kind]


def _applied(history: list[Event]) -> Iterator[str]:
    acknowledged, listed = _steps(history, Kind.ACKNOWLEDGED), _steps(history, Kind.LISTED)
    if len(listed) > 1:
        yield f"listed {len(listed)} times"
    if listed and not acknowledged and not _steps(history, Kind.SENT):
        yield "listed and never sent"
    if not acknowledged:
        return
    removed = max((event.step for event in history if event.removes), default=-1)
    if removed > max(acknowledged):
        return  # it may have been applied
    if removed == max(acknowledged):
        if listed and listed[0] <= removed:
            yield f"step {removed} removed it and it is listed"
    elif not listed:
        yield "acknowledged and not listed"
    elif listed[0] < max(acknowledged):
        yield f"step {max(acknowledged)} was acknowledged and step {listed[0]} is listed"


def _released(history: list[Event]) -> Iterator[str]:
    delivered = set(_steps(history, Kind.DELIVERED))
    for step in _steps(history, Kind.RELEASED):
        if step not in delivered:
            yield f"version {step} was released and not delivered"


def _control_ids(history: list[Event]) -> Iterator[str]:
    names: dict[int, set[str]] = defaultdict(set)
    for event in history:
        if event.kind is Kind.DELIVERED:
            names[event.step].add(event.control_id)
    for step, ids in sorted(names.items()):
        if len(ids) > 1:
            yield f"version {step} was delivered under {len(ids)} control ids"


def _versions(history: list[Event]) -> Iterator[str]:
    newest = 0
    seen: set[int] = set()
    for step in _steps(history, Kind.DELIVERED):
        if step < newest:
            how = "again" if step in seen else "first"
            yield f"version {step} was delivered {how} after version {newest}"
        seen.add(step)
        newest = max(newest, step)


def _contents(by_order: dict[str, list[Event]]) -> Iterator[str]:
    first: dict[str, tuple[str, bytes]] = {}
    for order, history in by_order.items():
        for item in history:
            if item.kind is not Kind.DELIVERED:
                continue
            known = first.setdefault(item.control_id, (order, item.content))
            if known[1] != item.content:
                yield f"{order}: control id {item.control_id} has two contents"
            elif known[0] != order:
                yield f"{order}: control id {item.control_id} belongs to {known[0]}"
