"""
The sites that a stored message or delivery belongs to. A user sees nothing of other sites.

A message belongs to the sites that its definition reads from it. If the definition reads none,
the message belongs to the site of its listener. A delivery belongs to the sites of its orders.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bridge.queue.listing_rows import MessageDetail
from mappings.inbound.definition import Subjects


@dataclass(frozen=True, slots=True)
class MessageOrigin:
    """The arrival of a message, and the definition that read it; `received_at` in ms."""

    listener: str
    mapping: str
    version: str
    received_at: int
    payload: bytes


SubjectReader = Callable[[MessageOrigin], Subjects]
"""
Reads the sites, patient ids and order numbers of a message with the message's definition.

Returns no site if the message belongs to none. May query the database.
"""


def origin_of(detail: MessageDetail) -> MessageOrigin:
    """Return the origin of a stored message."""
    row = detail.row
    return MessageOrigin(
        row.listener, row.mapping, row.mapping_version, row.received_at, detail.payload
    )


def delivery_sites(content: Any) -> frozenset[str]:
    """Return the sites of a delivery's orders; `content` is the JSON that the outbox stores."""
    orders = content.get("orders", ()) if isinstance(content, dict) else ()
    return frozenset(str(each["SiteID"]) for each in orders if each.get("SiteID"))
