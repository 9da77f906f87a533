"""
Destinations with their compiled mappings, and the control ids of their messages.

Plain values. `bridge.wiring` makes them from the settings.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from bridge.queue.states import RetryPolicy
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultEvent

EVERY_SITE = "*"

SUBSCRIBED_WITH: Mapping[ResultEvent, ResultEvent] = {
    ResultEvent.CORRECTION: ResultEvent.FINAL,
    ResultEvent.CANCELLATION: ResultEvent.PRELIMINARY,
    ResultEvent.RETRACTION: ResultEvent.ADDENDUM,
}
"""Events without a separate setting: a receiver of the second event also gets the first one."""

_CONTROL_ID_BYTES = 12  # 96 bits: 20 characters of base 32, the longest MSH-10 of HL7 v2.5.1


@dataclass(frozen=True, slots=True)
class CompiledDestination:
    """
    One receiver of results. The first of `mappings` that has a message for an event is used.

    `replies` overrides the default reply policy. `fields` are the values of `$destination.…` in
    the mapping. `retry` is the back-off of one result, and of the circuit breaker, which opens
    after `breaker_after` attempts in a row without a reply (0: never).
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
        """Tell whether it receives an event of a site."""
        listens = EVERY_SITE in self.sites or site in self.sites
        return listens and SUBSCRIBED_WITH.get(event, event) in self.events

    def mapping_for(self, event: ResultEvent) -> OutboundMapping | None:
        """Return the first mapping that has a message for an event."""
        return next((each for each in self.mappings if event in each.events), None)


def control_id(destination: str, release_key: str) -> str:
    """Derive MSH-10 from receiver and release, so that every repetition has the same one."""
    digest = blake2b(
        f"{destination}\x1f{release_key}".encode(), digest_size=_CONTROL_ID_BYTES
    ).digest()
    return base64.b32encode(digest).decode().rstrip("=")
