"""Identities, lanes and parts of stored messages, and the control ids of our acknowledgments.

Identities and lanes are hashes for database indexes (`bridge.queue.ledger.arrivals`). No index
contains patient data.

A message about more patients than one queue row has lanes for is split into parts: an A40 may
merge several pairs of patients. Each part is a queue row with the whole message. The worker
applies it for the part's own patients, in the order of their lanes. The flags of the row hold the
part's number.
"""

import re
import secrets
from collections.abc import Sequence
from itertools import count

from bridge.index_key import signed64
from bridge.queue.ledger.arrivals import (
    PART_NUMBER_SHIFT,
    MessageFlag,
    lane,
    sequential64,
)
from mappings.hl7.header import Header
from mappings.inbound.events import OrderEvent


class ControlIds:
    """
    Generates unique control ids of 20 characters: a random prefix and a counter.

    New random bytes for each id would cost as much as building the acknowledgment.
    """

    def __init__(self) -> None:
        self._renew_prefix()

    def __call__(self) -> str:
        """Return the next control id."""
        number = next(self._count)
        if number > _MAX_COUNT:
            self._renew_prefix()
            number = next(self._count)
        return f"{self._prefix}{number:06x}"

    def _renew_prefix(self) -> None:
        self._prefix = f"RB{secrets.token_hex(6)}"
        self._count = count()


_MAX_COUNT = 0xFFFFFF  # six hexadecimal digits
_OWN_CONTROL_ID = rb"RB[0-9a-f]{18}"  # the format of `ControlIds`
_ACKNOWLEDGES_US = re.compile(rb"[\r\n]MSA(.)[A-Z]{2}\1" + _OWN_CONTROL_ID + rb"(?:\1|[\r\n]|$)")


def acknowledges_us(payload: bytes) -> bool:
    """True if a message acknowledges one of ours. A reply could start an endless exchange."""
    return _ACKNOWLEDGES_US.search(payload) is not None


def message_identity(listener: str, header: Header) -> int:
    """
    Return the identity that a retransmit shares with its original.

    It is a hash of the listener and of MSH-3, MSH-4 and MSH-10 as sent.
    """
    sender = header.sending_application, header.sending_facility
    return sequential64(listener.encode(), *sender, header.control_id)


def payload_identity(listener: str, payload_digest: bytes) -> int:
    """Return the identity of a message without a control id: its content."""
    return signed64(b"payload", listener.encode(), payload_digest)


def unique_identity(listener: str, unique: str) -> int:
    """Return an identity that no other message has: `unique` is never used again."""
    return signed64(b"once", listener.encode(), unique.encode())


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
    return flags | MessageFlag.PART | number << PART_NUMBER_SHIFT


def part_number(flags: int) -> int | None:
    """Return the number of the part in a row; None if the row holds the whole message."""
    return flags >> PART_NUMBER_SHIFT if flags & MessageFlag.PART else None
