"""
Of which sites something is, so that people see no other's.

Pure. A message belongs to the sites that the definition which read it yields, and to its
listener's where none reads it; a delivery to those of its orders.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bridge.queue.listing_rows import MessageDetail
from mappings.inbound.definition import Subjects


@dataclass(frozen=True, slots=True)
class MessageOrigin:
    """What tells whose a message is; `received_at` in ms."""

    listener: str
    mapping: str
    version: str
    received_at: int
    payload: bytes


SubjectReader = Callable[[MessageOrigin], Subjects]
"""
Returns what the definition of a message reads in it: sites, patient ids, order numbers.

No site: nobody can tell whose the message is. May query the database.
"""


def origin_of(detail: MessageDetail) -> MessageOrigin:
    """Say where a stored message came from."""
    row = detail.row
    return MessageOrigin(
        row.listener, row.mapping, row.mapping_version, row.received_at, detail.payload
    )


def delivery_sites(content: Any) -> frozenset[str]:
    """Give the sites of a delivery's orders, as the outbox keeps them."""
    orders = content.get("orders", ()) if isinstance(content, dict) else ()
    return frozenset(str(each["SiteID"]) for each in orders if each.get("SiteID"))
