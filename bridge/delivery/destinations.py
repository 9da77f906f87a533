"""
A receiver of results, and the identity of what it is sent.

Plain values; `bridge.wiring` makes them from settings and compiled mappings.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from bridge.queue.states import RetryPolicy
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultEvent

EVERY_SITE = "*"

FOLLOWS: Mapping[ResultEvent, ResultEvent] = {
    ResultEvent.CORRECTION: ResultEvent.FINAL,
    ResultEvent.CANCELLATION: ResultEvent.PRELIMINARY,
    ResultEvent.RETRACTION: ResultEvent.ADDENDUM,
}
"""Events that nobody subscribes to by name: who was told the one is told the other."""

_CONTROL_ID_BYTES = 12  # 96 bits: 20 characters of base 32, the longest MSH-10 of HL7 v2.5.1


@dataclass(frozen=True, slots=True)
class Destination:
    """
    One receiver. `mappings` are tried in order for an event's definition.

    `replies` says what each kind of reply leads to where that differs from the default;
    `fields` are `$destination.…` of the mapping, `retry` paces repeats of one result,
    and the pauses after `breaker_after` attempts in a row that nobody answered (0: none).
    """

    name: str
    mappings: tuple[OutboundMapping, ...]
    sites: frozenset[str] = frozenset({EVERY_SITE})
    events: frozenset[ResultEvent] = frozenset({ResultEvent.FINAL, ResultEvent.ADDENDUM})
    replies: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    time_zone: str = "UTC"
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    breaker_after: int = 5

    def wants(self, site: str, event: ResultEvent) -> bool:
        """Whether it is told of an event of a site."""
        listens = EVERY_SITE in self.sites or site in self.sites
        return listens and FOLLOWS.get(event, event) in self.events

    def mapping_for(self, event: ResultEvent) -> OutboundMapping | None:
        """Give the definition that has a message for an event."""
        return next((each for each in self.mappings if event in each.events), None)


def control_id(destination: str, release_key: str) -> str:
    """Derive MSH-10 from what is sent to whom, so that every repeat is recognizable."""
    digest = blake2b(
        f"{destination}\x1f{release_key}".encode(), digest_size=_CONTROL_ID_BYTES
    ).digest()
    return base64.b32encode(digest).decode().rstrip("=")
