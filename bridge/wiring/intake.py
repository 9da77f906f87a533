"""Listeners from settings: definitions, policy, handler, MLLP factory, and the port they bind."""

import secrets
from datetime import UTC, datetime
from typing import Any, Protocol

from twisted.internet.endpoints import SSL4ServerEndpoint, TCP4ServerEndpoint, TCP6ServerEndpoint
from twisted.internet.ssl import CertificateOptions

from bridge.errors import BridgeError
from bridge.intake.counting import AckCounter, WireCounter
from bridge.intake.handler import Inbox, IntakeHandler, Outcomes
from bridge.intake.listening import Acknowledge, Listening, Reuse
from bridge.observability.metrics import Metrics
from config import Settings
from config.sections import Listener, ListenerTLS
from mappings.compiler import load
from mappings.hl7.charset import is_codec
from mappings.inbound import InboundMapping
from mllp.contract import ServerLimits
from mllp.server import MLLPServerFactory
from mllp.tls import server_options


class WrongKind(BridgeError):  # noqa: N818  # named for what happened
    """A listener names a definition that reads no messages."""

    def __init__(self, listener: str, mapping: str) -> None:
        super().__init__(f"listener {listener}: {mapping} is not a mapping of incoming messages")


class UnknownCharset(BridgeError):  # noqa: N818  # named for what happened
    """A listener names a charset that messages cannot be read in."""

    def __init__(self, listener: str) -> None:
        super().__init__(f"listener {listener}: charset is none that messages can be read in")


class Endpoint(Protocol):
    """What the runtime needs of a Twisted server endpoint."""

    def listen(self, factory: Any) -> Any:
        """Bind, and listen."""


def listenings(settings: Settings) -> dict[str, Listening]:
    """Compile what each listener reads with. Raises MappingErrors, WrongKind."""
    return {each.name: _listening(settings, each) for each in settings.listener}


def _listening(settings: Settings, listener: Listener) -> Listening:
    return Listening(
        name=listener.name,
        definitions=compiled(settings, listener),
        site=listener.site,
        time_zone=listener.time_zone,
        acknowledge=Acknowledge(listener.acknowledge.value),
        reuse=Reuse(listener.reused_control_id.value),
        processing_ids=frozenset(listener.processing_ids),
        charset=listener.charset,
    )


def compiled(settings: Settings, listener: Listener) -> tuple[InboundMapping, ...]:
    """Compile a listener's definitions, in their order. Raises MappingErrors, WrongKind."""
    made = [load(settings.home / "mappings", name) for name in listener.mappings]
    for name, each in zip(listener.mappings, made, strict=True):
        if not isinstance(each, InboundMapping):
            raise WrongKind(listener.name, name)
    if not is_codec(listener.charset):
        raise UnknownCharset(listener.name)
    return tuple(each for each in made if isinstance(each, InboundMapping))


def listener_factory(
    listener: Listener,
    listening: Listening,
    inbox: Inbox,
    outcomes: Outcomes,
    metrics: Metrics,
    reactor: Any,
) -> MLLPServerFactory:
    """Join one listener's policy, transport limits and counters."""
    handler = IntakeHandler(
        listening,
        inbox,
        outcomes,
        AckCounter(metrics, listener.name),
        clock=lambda: datetime.now(UTC),
        new_id=new_control_id,
    )
    limits = ServerLimits(
        max_frame=listener.max_frame,
        max_connections=listener.max_connections,
        frame_timeout=listener.frame_timeout,
        idle_timeout=listener.idle_timeout,
    )
    observer = WireCounter(metrics, listener.name)
    return MLLPServerFactory(
        handler, limits, clock=reactor, observer=observer, on_unframed=handler.unframed
    )


def listener_endpoint(settings: Settings, listener: Listener, reactor: Any) -> Endpoint:
    """Say where a listener binds, with TLS where it is set. Raises TLSConfigurationError."""
    host, port = listener.bind.host, listener.bind.port
    backlog = min(listener.max_connections, 1024)
    if listener.tls is not None:
        options = tls_options(settings, listener.tls)
        return SSL4ServerEndpoint(reactor, port, options, backlog=backlog, interface=host)  # type: ignore[no-untyped-call]
    kind = TCP6ServerEndpoint if ":" in host else TCP4ServerEndpoint
    return kind(reactor, port, backlog=backlog, interface=host)


def tls_options(settings: Settings, tls: ListenerTLS) -> CertificateOptions:
    """Read a listener's certificates and key. Raises TLSConfigurationError."""
    client_ca = settings.path(tls.client_ca) if tls.client_ca else None
    return server_options(settings.path(tls.certificate), settings.path(tls.key), client_ca)


def new_control_id() -> str:
    """Give a control id of our own: 18 characters, never given before."""
    return f"RB{secrets.token_hex(8)}"
