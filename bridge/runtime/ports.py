"""Ports of listeners from settings: MLLP, HTTP, or a folder. All use the same `IntakeHandler`."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any

from twisted.internet.endpoints import SSL4ServerEndpoint, TCP4ServerEndpoint, TCP6ServerEndpoint

from bridge.intake.receive.acknowledgments import ControlIds
from bridge.intake.receive.completion import CompletionWaiter
from bridge.intake.receive.handler import IntakeHandler
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.intake.receive.sequence_numbers import Sequencer
from bridge.intake.receive.statistics import AckCounter, WireCounter
from bridge.metrics import Metrics
from bridge.queue.ledger.ledger import ArrivalStore
from bridge.store.database import Database
from bridge.store.records.sequence_numbers import SequenceLinks
from bridge.transports.connection_paths import authorization_path, folder_at
from bridge.transports.folder_listener import FolderListener, FolderRules
from bridge.transports.http_listener import HttpListener, HttpListenerRules
from bridge.transports.http_protocol import read_authorization
from bridge.transports.tls import listener_tls_options
from config import Settings
from config.addresses import FolderAddress, WebAddress
from config.listeners import ListenerSettings, SequenceNumbers
from config.quantities import Address
from mllp.contract import Handler, NakBuilder, ServerLimits
from mllp.limits import FrameBudget, SharedConnectionLimit
from mllp.server import MLLPServerFactory
from mllp.transport import SharedPort


@dataclass(frozen=True, slots=True)
class ListeningPort:
    """A protocol factory, its endpoint, and a function that drains it."""

    factory: Any
    endpoint: Any
    drain: Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """Limits that all listeners of a process share."""

    budget: FrameBudget
    connections: SharedConnectionLimit


@dataclass(frozen=True, slots=True)
class FrameHandlers:
    """`handle` handles complete frames, `unframed` incomplete ones."""

    handle: Handler
    unframed: NakBuilder
    frame_counts: Counter[str]
    """Frames by listener."""


def make_handler(
    listener: ListenerPolicy,
    ledger: ArrivalStore,
    completions: CompletionWaiter,
    metrics: Metrics,
    sequencer: Sequencer | None = None,
) -> IntakeHandler:
    return IntakeHandler(
        listener,
        ledger,
        completions,
        AckCounter(metrics, listener.name),
        clock=lambda: datetime.now(UTC),
        new_id=ControlIds(),
        sequencer=sequencer,
    )


def sequencer(
    listener: ListenerSettings, inbox: ArrivalStore, database: Database
) -> Sequencer | None:
    """Return the sequence number check of a listener, or None."""
    mode = listener.sequence_numbers
    if mode is SequenceNumbers.OFF:
        return None
    return Sequencer(inbox, SequenceLinks(database, listener.name), mode)


def folder_listener(
    settings: Settings, listener: ListenerSettings, handlers: FrameHandlers, metrics: Metrics
) -> FolderListener | None:
    """Return the listener of a folder; None for other kinds of addresses."""
    if not isinstance(listener.bind, FolderAddress):
        return None
    rules = FolderRules(
        scan_interval=listener.scan_every,
        max_file=listener.max_frame,
        answer_files=listener.answer_files,
    )
    folder = folder_at(settings, listener)
    observer = WireCounter(metrics, listener.name, handlers.frame_counts)
    return FolderListener(
        listener.name, folder, handlers.handle, handlers.unframed, rules, observer
    )


def make_port(
    settings: Settings,
    listener: ListenerSettings,
    handlers: FrameHandlers,
    metrics: Metrics,
    reactor: Any,
    shared: SharedLimits,
) -> ListeningPort:
    """Return the port of a listener. Raises TLSConfigurationError, AuthorizationUnusable."""
    address = listener.bind
    if isinstance(address, FolderAddress):
        raise TypeError("a folder has no port")
    limits = server_limits(listener)
    observer = WireCounter(metrics, listener.name, handlers.frame_counts)
    endpoint = listener_endpoint(settings, listener, address, reactor)
    if isinstance(address, WebAddress):
        site = HttpListener(
            handlers.handle,
            web_rules(settings, listener, address),
            limits,
            clock=reactor,
            observer=observer,
            refuse=handlers.unframed,
            budget=shared.budget,
            shared_limit=shared.connections,
        )
        return ListeningPort(site, endpoint, site.drain)
    factory = MLLPServerFactory(
        handlers.handle,
        limits,
        clock=reactor,
        observer=observer,
        on_unframed=handlers.unframed,
        budget=shared.budget,
        shared_limit=shared.connections,
    )
    return ListeningPort(
        factory, endpoint, lambda: factory.drain().asFuture(asyncio.get_running_loop())
    )


def server_limits(listener: ListenerSettings) -> ServerLimits:
    """Return the limits of a listener's connections and frames."""
    return ServerLimits(
        max_frame=listener.max_frame,
        max_connections=listener.max_connections,
        max_connections_per_source=listener.per_source,
        allow=[ip_network(each) for each in listener.allow],
        frame_timeout=listener.frame_timeout,
        idle_timeout=listener.idle_timeout,
    )


def web_rules(
    settings: Settings, listener: ListenerSettings, address: WebAddress
) -> HttpListenerRules:
    """Return the rules of an HTTP listener. Raises AuthorizationUnusable."""
    authorization = read_authorization(
        f"listener {listener.name}", authorization_path(settings, listener)
    )
    return HttpListenerRules(address.path, listener.charset, authorization)


def listener_endpoint(
    settings: Settings, listener: ListenerSettings, address: Address | WebAddress, reactor: Any
) -> Any:
    """Return the endpoint of a listener, with TLS if set. Raises TLSConfigurationError."""
    host, port = address.host, address.port
    backlog = 1024  # beyond it, senders repeat their SYN after a second
    options = None if listener.tls is None else listener_tls_options(settings, listener.tls)
    if listener.share_port:
        return SharedPort(reactor, host, port, backlog=backlog, tls=options)
    if options is not None:
        return SSL4ServerEndpoint(reactor, port, options, backlog=backlog, interface=host)  # type: ignore[no-untyped-call]
    kind = TCP6ServerEndpoint if ":" in host else TCP4ServerEndpoint
    return kind(reactor, port, backlog=backlog, interface=host)
