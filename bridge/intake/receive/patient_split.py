"""Messages that speak of more patients than the queue has lanes for: cut into parts, one a pair.

Pure. An A40 may merge several pairs. Each part is stored with the whole message and applied for
its own patients only, so that it waits for what came before about them, and what comes after
waits for it. Which part a row is, its flags say.
"""

from collections.abc import Sequence

from bridge.intake.receive.identity import lane
from bridge.queue.ledger.arrivals import MessageFlag
from mappings.inbound.events import OrderEvent

_PLACE = 8  # bits of the flags below the part's number


def parts_of(events: Sequence[OrderEvent]) -> list[list[OrderEvent]]:
    """Cut events by whom they are about, a merge by both; in the order of the message."""
    parts: dict[tuple[str, str, str], list[OrderEvent]] = {}
    for event in events:
        parts.setdefault((event.site, event.mrn, event.prior_mrn), []).append(event)
    return list(parts.values())


def lanes_of(part: Sequence[OrderEvent]) -> tuple[int, ...]:
    """Give the lanes of a part: one, or those of the two patients of a merge."""
    event = part[0]
    mrns = [event.mrn, event.prior_mrn] if event.prior_mrn else [event.mrn]
    return tuple(dict.fromkeys(lane(f"{event.site}|{mrn}") for mrn in mrns))


def marked(flags: int, number: int) -> int:
    """Give the flags of a row that is part `number` (from 0) of its message."""
    return flags | MessageFlag.PART | number << _PLACE


def number_of(flags: int) -> int | None:
    """Say which part a row is; None: its message is whole."""
    return flags >> _PLACE if flags & MessageFlag.PART else None
