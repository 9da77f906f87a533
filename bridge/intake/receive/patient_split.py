"""Messages about more patients than one queue row has lanes for: split into parts.

Pure. An A40 may merge several pairs of patients. Each part is a queue row with the whole message.
The worker applies it for the part's own patients, in the order of their lanes. The flags of the row
hold the part's number.
"""

from collections.abc import Sequence

from bridge.intake.receive.identity import lane
from bridge.queue.ledger.arrivals import MessageFlag
from mappings.inbound.events import OrderEvent

_PART_NUMBER_SHIFT = 8  # bits of the flags below the part's number
"""The part's number is stored in the flags above this bit."""


def parts_of(events: Sequence[OrderEvent]) -> list[list[OrderEvent]]:
    """Group events by their patient, a merge by both patients, in the order of the message."""
    parts: dict[tuple[str, str, str], list[OrderEvent]] = {}
    for event in events:
        parts.setdefault((event.site, event.mrn, event.prior_mrn), []).append(event)
    return list(parts.values())


def lanes_of(part: Sequence[OrderEvent]) -> tuple[int, ...]:
    """Return the lanes of a part: one, or two for a merge."""
    event = part[0]
    mrns = [event.mrn, event.prior_mrn] if event.prior_mrn else [event.mrn]
    return tuple(dict.fromkeys(lane(f"{event.site}|{mrn}") for mrn in mrns))


def flags_of_part(flags: int, number: int) -> int:
    """Return the flags of the row with part `number` (from 0) of its message."""
    return flags | MessageFlag.PART | number << _PART_NUMBER_SHIFT


def part_number(flags: int) -> int | None:
    """Return the number of the part in a row; None if the row holds the whole message."""
    return flags >> _PART_NUMBER_SHIFT if flags & MessageFlag.PART else None
