"""
The shared state of the report engine: settings, database, keys, clock, addresses, background work.

`create_application` creates it once; a route gets it from its request (`engine_of`).

The public address of a request is for links in responses. Forwarded headers are used only if the
peer is a trusted proxy. An unknown host never gets into a link: the link then has the main address.
"""

import asyncio
import ipaddress
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from fastapi import Depends, Request
from sqlalchemy import Connection

from bridge.engine.http.requests.request_limits import (
    POLLS,
    POLLS_EACH,
    STREAMS,
    STREAMS_EACH,
    WaitingRequests,
)
from bridge.engine.http.sign_in.oidc_provider import OidcProvider
from bridge.engine.links import KeyRing
from bridge.engine.live.audit_buffer import AuditBuffer
from bridge.engine.live.credential_checks import PasswordHashing, TokenAuthenticator
from bridge.engine.live.database_executor import DatabaseExecutor, wait_notified
from bridge.engine.live.release_scheduler import ReleaseScheduler
from bridge.engine.live.stream_hub import StreamHub
from bridge.engine.live.untouched_sweep import sweep_repeatedly
from bridge.engine.service import idempotency
from bridge.engine.service.accounts import sessions, tokens
from bridge.engine.service.accounts.sign_in_limit import SignInLimiter
from bridge.engine.service.accounts.system_accounts import ConsoleRoles
from bridge.engine.service.caller import Caller
from bridge.engine.service.launch import links
from bridge.engine.service.launch.link_visits import LinkContext
from bridge.engine.service.launch.links import LinkKeys
from bridge.engine.service.work import FEED_CHANNEL
from bridge.engine.settings import EngineSettings
from bridge.executors import ThreadLimit, Threads
from bridge.network_source import Proxies
from bridge.quotas import QuotaMeter
from bridge.store.database import Database
from bridge.store.postgresql.dedicated_connections import NotificationListener

_DEFAULT_PORTS = {"http": 80, "https": 443}


class PublicAddresses:
    """The public addresses of this installation; `proxies` are the trusted proxies."""

    def __init__(self, public: str, regional: Sequence[str], proxies: Proxies) -> None:
        self._public = public.rstrip("/")
        self._known = {_origin(url): url.rstrip("/") for url in (*regional, public)}
        self._proxies = proxies

    @property
    def secure(self) -> bool:
        """Whether the main public address is https."""
        return self._public.startswith("https:")

    def cookie(self, name: str) -> str:
        """Return the name of a cookie; with https the prefix binds it to the host."""
        return f"__Host-{name}" if self.secure else name

    def base(self, scheme: str, headers: Mapping[str, str], peer: str) -> str:
        """Return the public address without a trailing slash."""
        host, schemes = headers.get("host", ""), [scheme]
        if self._proxies.is_trusted(peer):
            host = _first(headers.get("x-forwarded-host", "")) or host
            proto = _first(headers.get("x-forwarded-proto", ""))
            # A proxy without X-Forwarded-Proto may have terminated TLS.
            schemes = [proto] if proto else [scheme, "https"]
        found = (self._known.get(_origin(f"{known_scheme}://{host}")) for known_scheme in schemes)
        return next((address for address in found if address), self._public)


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _first(header: str) -> str:
    return header.split(",", maxsplit=1)[0].strip().lower()


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return ("", "", None)
    return (parts.scheme, (parts.hostname or "").lower(), port)


Clock = Callable[[], int]
Value = TypeVar("Value")


class EngineState:
    """The state of one engine; requests also work before `start` and without background work."""

    def __init__(
        self,
        settings: EngineSettings,
        database: Database,
        clock: Clock,
        roles: ConsoleRoles | None = None,
        operator: str = "",
    ) -> None:
        self.settings = settings
        self.roles = roles
        self.operator = operator
        self.clock = clock
        self.random = secrets.token_bytes
        self.work = DatabaseExecutor(database, settings.threads)
        self.audit_buffer = AuditBuffer(self.work, clock)
        self.keys = KeyRing(settings.link_keys, self.random, settings.changed_link_keys)
        self.quotas = QuotaMeter()
        self.streams = WaitingRequests(STREAMS, STREAMS_EACH)
        self.polls = WaitingRequests(POLLS, POLLS_EACH)
        self.proxies = Proxies(settings.trusted_proxies)
        self.addresses = PublicAddresses(settings.public_url, settings.regional_urls, self.proxies)
        self.stopping = False
        self.service: Caller | None = None
        """The bridge in this process, from the start; it has the service token."""
        self.hub = StreamHub(self.work, clock, lambda: self.stopping)
        self._loops: list[asyncio.Task[None]] = []
        self._listener = NotificationListener(database, FEED_CHANNEL, self.work.changed.notify)
        self._token_authenticator = TokenAuthenticator(self.work, clock)
        self.documents = ThreadLimit(Threads.WEB, "documents", 4, 64)
        """Threads that read what users upload."""
        self.exports = ThreadLimit(Threads.WEB, "exports", 2, 32)
        """Threads that write reports as files."""
        self.hashing = PasswordHashing()
        self.sign_in_limiter = SignInLimiter(database, settings.rates.failed_authentications)
        sso = settings.single_sign_on
        self.provider = None if sso is None else OidcProvider(sso)

    async def start(self) -> None:
        """Seal unsealed responses, store the service token, and start the background work."""
        await self.work.write(lambda c: idempotency.seal_unsealed(c, self.keys))
        if secret := self.settings.service_token:
            now = self.clock()
            self.service = await self.work.write(
                lambda c: tokens.ensure_service_token(c, secret, now)
            )
        loop = asyncio.get_running_loop()
        sweeping = sweep_repeatedly(self.work, self.clock)
        self._loops = [
            loop.create_task(ReleaseScheduler(self.work, self.clock).run(), name="releases"),
            loop.create_task(sweeping, name="untouched"),
        ]
        self._listener.start()

    async def tidy(self) -> None:
        """Remove expired rows; raise StoreError. The caller repeats this every few minutes."""
        now = self.clock()
        purges = (sessions.purge_sessions, links.purge, idempotency.purge_responses)
        for purge in purges:  # sessions refer to links
            while await self.work.run(partial(self._purge, purge, now)):
                pass

    def _purge(self, purge: Callable[[Connection, int], int], now: int) -> int:
        with self.work.database.write() as connection:  # without a change notification
            return purge(connection, now)

    async def stop(self) -> None:
        """Stop the background work and respond to the waiting requests."""
        self.stopping = True
        self.work.changed.notify()
        await self.hub.stop()
        await self.work.run(self._listener.stop)
        for task in self._loops:
            task.cancel()
        if self._loops:
            await asyncio.wait(self._loops)
        await self.audit_buffer.stop()
        await self.work.run(lambda: None)
        self.work.close()

    async def authenticate(self, secret: str) -> Caller | None:
        """Return the caller of a token, and record once a minute that the token is used."""
        return await self._token_authenticator.bearer(secret)

    async def read_until(
        self,
        seconds: float,
        poll_seconds: float,
        read: Callable[[Connection], Value],
        is_done: Callable[[Value], bool],
        *,
        is_gone: Callable[[], Awaitable[bool]] | None = None,
    ) -> Value:
        """
        Read after each change, and every `poll_seconds`, until done or the time is over.

        `is_gone` returns whether the client has closed its connection.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            notification = self.work.changed.notification()
            value = await self.work.read(read)
            left = deadline - loop.time()
            is_over = is_done(value) or left <= 0 or self.stopping
            if is_over or (is_gone is not None and await is_gone()):
                notification.cancel()
                return value
            await wait_notified(notification, min(left, poll_seconds))

    def base_url(self, request: Request) -> str:
        """Return the public address that a request came in on."""
        return self.addresses.base(request.url.scheme, request.headers, peer_of(request))

    def link_context(self) -> LinkContext:
        """Return the keys and lifetimes with which links are opened."""
        return LinkContext(LinkKeys(self.keys, self.random), self.settings.lifetimes)

    def client(self, request: Request) -> str:
        """Return the IP address of the client, as trusted proxies report it."""
        return self.proxies.client(request.headers, peer_of(request))


def peer_of(request: Request) -> str:
    """Return the IP address at the other end of the connection."""
    return request.client.host if request.client else ""


def engine_of(request: Request) -> EngineState:
    engine: EngineState = request.app.state.engine
    return engine


# Coroutines, because FastAPI runs plain functions in a thread.
async def _engine(request: Request) -> EngineState:
    return engine_of(request)


EngineDep = Annotated[EngineState, Depends(_engine)]
