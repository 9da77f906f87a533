"""Ports of listeners from settings: MLLP, HTTP, or a folder.

A listener reads every file of its folder and moves it, a destination writes there. An operator of
the console can set both, and must not reach secrets, databases, mappings or archives that way.
Files of the settings, such as those with an Authorization header, may not be our own keys.

What they do with a message is the same `IntakeHandler`; only how it comes and goes differs.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from twisted.internet.endpoints import SSL4ServerEndpoint, TCP4ServerEndpoint, TCP6ServerEndpoint

from bridge.errors import BridgeError
from bridge.intake.receive.handler import IntakeHandler
from bridge.intake.receive.listener import Inbox, Listening, Outcomes, SequenceNumbers
from bridge.intake.receive.sequence_numbers import Sequencer
from bridge.intake.receive.statistics import AckCounter, WireCounter
from bridge.metrics import Metrics
from bridge.store.database import Database
from bridge.store.records.sequence_numbers import SequenceLinks
from bridge.transports.folders.files import Folder
from bridge.transports.folders.listener import FolderListener, FolderRules
from bridge.transports.http.protocol import read_authorization
from bridge.transports.http.resource import HttpListenerRules, MessageResource
from bridge.transports.http.server import MessageSite
from bridge.wiring.listeners import ControlIds, tls_options
from config import Settings
from config.addresses import FolderAddress, WebAddress
from config.listeners import ListenerSettings
from config.quantities import Address
from mllp.admission import Ceiling
from mllp.contract import Handler, NakBuilder, ServerLimits
from mllp.memory_budget import FrameBudget
from mllp.server import MLLPServerFactory
from mllp.transport import SharedPort

_OWN_FOLDERS = ("secrets", "mappings", "run")


class ProtectedPath(BridgeError):  # noqa: N818  # named for what is there
    """A path that belongs to the installation itself."""

    def __init__(self, owner: str, path: Path) -> None:
        super().__init__(f"{owner}: {path} belongs to the installation; use another path")


def folder_at(settings: Settings, owner: str, address: FolderAddress) -> Folder:
    """Give the folder of a listener or destination. Raises ProtectedPath."""
    folder = settings.path(Path(address.path))
    real = folder.resolve()
    for own in _own(settings):
        if real.is_relative_to(own) or own.is_relative_to(real):
            raise ProtectedPath(owner, folder)
    return Folder(folder)


def require_foreign_secret(settings: Settings, owner: str, file: Path | None) -> Path | None:
    """Give the file of a peer's secret, resolved; None for none. Raises ProtectedPath."""
    if file is None:
        return None
    path = settings.path(file)
    engine = settings.engine
    own = [*engine.tokens.values(), engine.token_file, engine.link_keys_file]
    own.append(settings.database.index_key_file)
    assistance, provider = settings.assistance, settings.sign_in.oidc
    others = [assistance.transcription_key_file, assistance.placing_key_file]
    others.append(None if provider is None else provider.client_secret_file)
    own += [each for each in others if each is not None]
    if path.resolve() in {settings.path(each).resolve() for each in own}:
        raise ProtectedPath(owner, path)
    return path


def _own(settings: Settings) -> list[Path]:
    found = [settings.home / each for each in _OWN_FOLDERS]
    if settings.retention.archive is not None:
        found.append(settings.path(settings.retention.archive))
    for url in (settings.database_url(), settings.engine_database_url()):
        if url.startswith("sqlite:///"):
            found.append(Path(f"{url.removeprefix('sqlite:///')}-large"))
            found.append(Path(url.removeprefix("sqlite:///")))
    return [each.resolve() for each in found]


DRAIN_WITHIN = 10.0  # seconds for HTTP answers in hand


@dataclass(frozen=True, slots=True)
class ListeningPort:
    """A factory, where it listens, and how it ends."""

    factory: Any
    endpoint: Any
    drain: Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """What all listeners of a process share."""

    budget: FrameBudget
    ceiling: Ceiling


@dataclass(frozen=True, slots=True)
class FrameHandlers:
    """What answers frames, and what answers those that are given up."""

    handle: Handler
    unframed: NakBuilder
    seen: Counter[str]
    """Counts frames by listener."""


def make_handler(
    listener: Listening,
    inbox: Inbox,
    outcomes: Outcomes,
    metrics: Metrics,
    counted: Sequencer | None = None,
) -> IntakeHandler:
    """Join one listener's policy with the ledger and its counters."""
    return IntakeHandler(
        listener,
        counted or inbox,
        outcomes,
        AckCounter(metrics, listener.name),
        clock=lambda: datetime.now(UTC),
        new_id=ControlIds(),
        rule=None if counted is None else counted.rule,
    )


def sequencer(listener: ListenerSettings, inbox: Inbox, database: Database) -> Sequencer | None:
    """Make what counts a listener's messages; None where nobody counts."""
    mode = SequenceNumbers(listener.sequence_numbers.value)
    if mode is SequenceNumbers.OFF:
        return None
    return Sequencer(inbox, SequenceLinks(database, listener.name), mode)


def folder_listener(
    settings: Settings, listener: ListenerSettings, answering: FrameHandlers, metrics: Metrics
) -> FolderListener | None:
    """Make a folder's listener; None where the listener is none of that kind."""
    if not isinstance(listener.bind, FolderAddress):
        return None
    rules = FolderRules(
        every=listener.scan_every, max_file=listener.max_frame, answers=listener.answer_files
    )
    folder = folder_at(settings, f"listener {listener.name}", listener.bind)
    observer = WireCounter(metrics, listener.name, answering.seen)
    return FolderListener(
        listener.name, folder, answering.handle, answering.unframed, rules, observer
    )


def make_port(
    settings: Settings,
    listener: ListenerSettings,
    answering: FrameHandlers,
    metrics: Metrics,
    reactor: Any,
    shared: SharedLimits,
) -> ListeningPort:
    """Make what listens on a socket. Raises TLSConfigurationError, AuthorizationUnusable."""
    address = listener.bind
    if isinstance(address, FolderAddress):
        raise TypeError("a folder is no socket")
    limits = server_limits(listener)
    observer = WireCounter(metrics, listener.name, answering.seen)
    endpoint = listener_endpoint(settings, listener, address, reactor)
    if isinstance(address, WebAddress):
        resource = MessageResource(
            answering.handle, web_rules(settings, listener, address), observer
        )
        site = MessageSite(
            resource,
            limits,
            clock=reactor,
            observer=observer,
            refuse=answering.unframed,
            budget=shared.budget,
            ceiling=shared.ceiling,
        )
        return ListeningPort(site, endpoint, lambda: _drain(site))
    factory = MLLPServerFactory(
        answering.handle,
        limits,
        clock=reactor,
        observer=observer,
        on_unframed=answering.unframed,
        budget=shared.budget,
        ceiling=shared.ceiling,
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
    """Say what an HTTP listener asks for. Raises AuthorizationUnusable."""
    file = listener.authorization_file
    authorization = read_authorization(
        f"listener {listener.name}", require_foreign_secret(settings, listener.name, file)
    )
    return HttpListenerRules(address.path, listener.charset, authorization)


async def _drain(site: MessageSite) -> None:
    """Let requests in hand be answered, refuse others, close."""
    site.pause()
    loop = asyncio.get_running_loop()
    until = loop.time() + DRAIN_WITHIN
    while site.resource.in_progress and loop.time() < until:  # noqa: ASYNC110  # it has no event
        await asyncio.sleep(0.02)
    site.close()


def listener_endpoint(
    settings: Settings, listener: ListenerSettings, address: Address | WebAddress, reactor: Any
) -> Any:
    """Say where a listener binds, with TLS where it is set. Raises TLSConfigurationError."""
    host, port = address.host, address.port
    backlog = 1024  # beyond it, senders would repeat their SYN a second later
    options = None if listener.tls is None else tls_options(settings, listener.tls)
    if listener.share_port:
        return SharedPort(reactor, host, port, backlog=backlog, tls=options)
    if options is not None:
        return SSL4ServerEndpoint(reactor, port, options, backlog=backlog, interface=host)  # type: ignore[no-untyped-call]
    kind = TCP6ServerEndpoint if ":" in host else TCP4ServerEndpoint
    return kind(reactor, port, backlog=backlog, interface=host)
