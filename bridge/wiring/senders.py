"""The connection to a destination, by the kind of its address: MLLP, HTTP, or a folder."""

from datetime import UTC, datetime
from functools import partial
from random import SystemRandom
from typing import Any

from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.web.client import Agent
from twisted.web.iweb import IPolicyForHTTPS
from zope.interface import implementer  # type: ignore[import-untyped]

from bridge.delivery.courier import Sender
from bridge.delivery.replies import answers, answers_here
from bridge.queue.retry import Policy
from bridge.transports.folders.sender import FolderSender
from bridge.transports.web.dialect import read_authorization
from bridge.transports.web.sender import WebSender
from bridge.wiring.folders import folder_at, require_foreign_secret
from bridge.wiring.intake import not_reloaded
from config import Settings
from config.addresses import FolderAddress, WebAddress
from config.quantities import Address
from config.sections import Destination as DestinationSettings
from mllp.client import MLLPClient
from mllp.reloading import ReloadingClient
from mllp.tls import client_options


def sender(settings: Settings, chosen: DestinationSettings, reactor: Any) -> Sender:
    """Make the connection to a destination. Raises TLSConfigurationError, TransportError."""
    match chosen.address:
        case FolderAddress() as address:
            return _folder(settings, chosen, address)
        case WebAddress() as address:
            return _web(settings, chosen, address, reactor)
        case address:
            return _mllp(settings, chosen, address, reactor)


def _mllp(
    settings: Settings, chosen: DestinationSettings, address: Address, reactor: Any
) -> MLLPClient:
    random = SystemRandom()
    policy = Policy(chosen.retry_first, chosen.retry_max)
    plain: Any = HostnameEndpoint(reactor, address.host, address.port)
    options = tls_options(settings, chosen)
    return MLLPClient(
        plain if options is None else wrapClientTLS(options, plain),
        clock=reactor,
        reply_timeout=chosen.ack_timeout,
        connect_timeout=chosen.connect_timeout,
        reply_matches=answers_here,
        backoff=lambda attempt: policy.delay(attempt, random),
    )


def _folder(
    settings: Settings, chosen: DestinationSettings, address: FolderAddress
) -> FolderSender:
    return FolderSender(
        folder_at(settings, f"destination {chosen.name}", address),
        clock=lambda: datetime.now(UTC),
        answer_within=chosen.ack_timeout if chosen.answer_files else None,
        matches=answers,
    )


def _web(
    settings: Settings, chosen: DestinationSettings, address: WebAddress, reactor: Any
) -> WebSender:
    file = chosen.authorization_file
    authorization = read_authorization(
        f"destination {chosen.name}", require_foreign_secret(settings, chosen.name, file)
    )
    policy: Any = _Trust(tls_options(settings, chosen))
    agent = Agent(reactor, policy, connectTimeout=chosen.connect_timeout)  # type: ignore[no-untyped-call]
    return WebSender(
        agent,
        address.encode("ascii"),
        clock=reactor,
        reply_timeout=chosen.ack_timeout,
        matches=answers,
        authorization=authorization,
    )


@implementer(IPolicyForHTTPS)
class _Trust:
    """The TLS options of one destination, for the one address that is asked for."""

    def __init__(self, options: Any) -> None:
        self._options = options

    def creatorForNetloc(self, hostname: bytes, port: int) -> Any:  # noqa: N802  # Twisted's name
        return self._options


def tls_options(settings: Settings, chosen: DestinationSettings) -> Any:
    """Read the TLS files of a destination; None without TLS. Raises TLSConfigurationError."""
    address = chosen.address
    if isinstance(address, FolderAddress):
        return None
    if chosen.tls is None:
        secure = isinstance(address, WebAddress) and address.secure
        return client_options(None, None, None, address.host) if secure else None
    tls = chosen.tls
    named = (tls.ca, tls.certificate, tls.key, tls.crl)
    ca, certificate, key, crl = files = [
        None if file is None else settings.path(file) for file in named
    ]
    make = partial(client_options, ca, certificate, key, tls.server_name or address.host, crl)
    return ReloadingClient(make, [file for file in files if file], not_reloaded)
