"""Destinations from settings: their definitions and their reply table."""

from random import Random, SystemRandom

from bridge.delivery.destinations import Destination
from bridge.errors import BridgeError
from bridge.queue.retry import Policy
from bridge.wiring.rendering import outgoing
from bridge.wiring.shelf import Find
from config import Settings
from config.sections import Destination as DestinationSettings
from mappings.results import ResultEvent


class NoMessageFor(BridgeError):  # noqa: N818  # named for what happened
    """A destination lists an event that none of its definitions has a message for."""

    def __init__(self, destination: str, event: ResultEvent) -> None:
        super().__init__(f"destination {destination}: its mapping has no message for {event}")


def destinations(settings: Settings, find: Find | None = None) -> list[Destination]:
    """Compile what each that is on is sent; raises as `outgoing`, and NoMessageFor."""
    return [destination(settings, each, find) for each in settings.destination if each.enabled]


def destination(
    settings: Settings, chosen: DestinationSettings, find: Find | None = None
) -> Destination:
    """Compile what one destination is sent; raises as `destinations`."""
    events = frozenset(ResultEvent(each) for each in chosen.events)
    made = Destination(
        name=chosen.name,
        mappings=outgoing(settings, chosen, find),
        sites=frozenset(chosen.sites),
        events=events,
        replies=dict(chosen.replies),
        fields=dict(chosen.fields),
        time_zone=chosen.time_zone,
        retry=Policy(chosen.retry_first, chosen.retry_max),
        breaker_after=chosen.breaker_after,
    )
    for event in sorted(events):
        if made.mapping_for(event) is None:
            raise NoMessageFor(chosen.name, event)
    return made


def chance() -> Random:
    """Give the randomness of retries."""
    return SystemRandom()
