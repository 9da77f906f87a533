"""The sites that a message or delivery belongs to, as one hash. No I/O."""

from collections.abc import Collection
from itertools import combinations
from typing import Any

from bridge.index_key import signed64


def delivery_sites(content: Any) -> frozenset[str]:
    """Return the sites of a delivery's orders; `content` is the JSON that the outbox stores."""
    orders = content.get("orders", ()) if isinstance(content, dict) else ()
    return frozenset(str(order["SiteID"]) for order in orders if order.get("SiteID"))


def sites_hash(sites: Collection[str]) -> int:
    """Return the 64-bit hash of all sites that one message or delivery belongs to, without key."""
    return signed64(b"site", *(site.encode() for site in sorted(sites)))


def visible_sites_hashes(visible_sites: Collection[str]) -> list[int]:
    """
    Return the site hashes of the rows that a user limited to these sites may list.

    A row of three or more sites is visible only to users who are not limited to sites.
    """
    sites = sorted(visible_sites)
    return [
        sites_hash(combination)
        for combination in (*((one,) for one in sites), *combinations(sites, 2))
    ]
