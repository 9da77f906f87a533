"""Destinations from settings: their definitions, their reply table, their MLLP client."""

from random import Random, SystemRandom
from typing import Any

from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS

from bridge.delivery.destinations import Destination
from bridge.delivery.replies import answers
from bridge.errors import BridgeError
from bridge.queue.retry import Policy
from config import Settings
from config.sections import Destination as DestinationSettings
from mappings.compiler import load
from mappings.outbound import OutboundMapping
from mappings.results import ResultEvent
from mllp.client import MLLPClient
from mllp.tls import client_options

STATUS_MAPPING = "status"
"""The definition of messages that are no results, where a destination wants to be told."""

_RESULTS = frozenset({ResultEvent.FINAL, ResultEvent.ADDENDUM})


class NotOutgoing(BridgeError):  # noqa: N818  # named for what happened
    """A destination names a definition that writes no messages."""

    def __init__(self, destination: str, mapping: str) -> None:
        super().__init__(f"destination {destination}: {mapping} is no mapping of outgoing messages")


class NoMessageFor(BridgeError):  # noqa: N818  # named for what happened
    """A destination lists an event that none of its definitions has a message for."""

    def __init__(self, destination: str, event: ResultEvent) -> None:
        super().__init__(f"destination {destination}: its mapping has no message for {event}")


def destinations(settings: Settings) -> list[Destination]:
    """Compile what each destination is sent. Raises MappingErrors, NotOutgoing, NoMessageFor."""
    return [destination(settings, each) for each in settings.destination]


def destination(settings: Settings, chosen: DestinationSettings) -> Destination:
    """Compile what one destination is sent; raises as `destinations`."""
    events = frozenset(ResultEvent(each) for each in chosen.events)
    names = [chosen.mapping]
    if events - _RESULTS and chosen.mapping != STATUS_MAPPING:
        names.append(STATUS_MAPPING)
    made = Destination(
        name=chosen.name,
        mappings=tuple(_outgoing(settings, chosen.name, name) for name in names),
        sites=frozenset(chosen.sites),
        events=events,
        replies=dict(chosen.replies),
        fields=dict(chosen.fields),
        time_zone=chosen.time_zone,
        retry=Policy(chosen.retry_first, chosen.retry_max),
    )
    for event in sorted(events):
        if made.mapping_for(event) is None:
            raise NoMessageFor(chosen.name, event)
    return made


def _outgoing(settings: Settings, destination: str, name: str) -> OutboundMapping:
    made = load(settings.home / "mappings", name)
    if not isinstance(made, OutboundMapping):
        raise NotOutgoing(destination, name)
    return made


def sender(settings: Settings, chosen: DestinationSettings, reactor: Any) -> MLLPClient:
    """Make the connection to a destination. Raises TLSConfigurationError."""
    random = SystemRandom()
    policy = Policy(chosen.retry_first, chosen.retry_max)
    return MLLPClient(
        _endpoint(settings, chosen, reactor),
        clock=reactor,
        reply_timeout=chosen.ack_timeout,
        connect_timeout=chosen.connect_timeout,
        reply_matches=answers,
        backoff=lambda attempt: policy.delay(attempt, random),
    )


def _endpoint(settings: Settings, chosen: DestinationSettings, reactor: Any) -> Any:
    plain: Any = HostnameEndpoint(reactor, chosen.address.host, chosen.address.port)
    options = tls_options(settings, chosen)
    return plain if options is None else wrapClientTLS(options, plain)


def tls_options(settings: Settings, chosen: DestinationSettings) -> Any:
    """Read the TLS files of a destination; None without TLS. Raises TLSConfigurationError."""
    if chosen.tls is None:
        return None
    files = (chosen.tls.ca, chosen.tls.certificate, chosen.tls.key)
    ca, certificate, key = (None if file is None else settings.path(file) for file in files)
    return client_options(ca, certificate, key, chosen.tls.server_name or chosen.address.host)


def chance() -> Random:
    """Give the randomness of retries."""
    return SystemRandom()
