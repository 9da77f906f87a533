"""A connection probe reports each step and sends no message."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trustme
from typing_extensions import override

from bridge.monitoring.connection_probe import (
    ProbeStep,
    ProbeTarget,
    probe_connection,
    probe_folder,
)

AUTHORITY = trustme.CA()


class FakeReceiver(asyncio.Protocol):
    def __init__(self, received: list[bytes], *, hangs_up: bool) -> None:
        self._got, self._hangs_up = received, hangs_up

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._hangs_up:
            transport.close()

    @override
    def data_received(self, data: bytes) -> None:
        self._got.append(data)


@asynccontextmanager
async def receiver(
    *, tls: bool = False, hangs_up: bool = False
) -> AsyncIterator[tuple[int, list[bytes]]]:
    received: list[bytes] = []
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    server = await asyncio.get_running_loop().create_server(
        lambda: FakeReceiver(received, hangs_up=hangs_up), "127.0.0.1", 0, ssl=context
    )
    async with server:
        yield server.sockets[0].getsockname()[1], received


def outcome(steps: list[ProbeStep]) -> dict[str, bool]:
    return {step.name: step.ok for step in steps}


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def probe(
    target: Callable[[int], ProbeTarget], *, tls: bool = False, hangs_up: bool = False
) -> tuple[list[ProbeStep], list[bytes]]:
    async def run() -> tuple[list[ProbeStep], list[bytes]]:
        async with receiver(tls=tls, hangs_up=hangs_up) as (port, received):
            return await probe_connection(target(port)), received

    return asyncio.run(run())


def nearby(port: int) -> ProbeTarget:
    """Return a local receiver without TLS."""
    return ProbeTarget("127.0.0.1", port, 20)


def test_a_plain_receiver_gets_no_data() -> None:
    """The connection stays open, and no byte is sent."""
    steps, received = probe(nearby)
    assert outcome(steps) == {"resolve": True, "connect": True, "stays": True}
    assert b"".join(received) == b""


def test_a_receiver_that_closes_at_once() -> None:
    """The receiver closes the connection, as an allow-list without our address does."""
    steps, _ = probe(nearby, hangs_up=True)
    assert outcome(steps) == {"resolve": True, "connect": True, "stays": False}


def test_the_failed_step_is_named() -> None:
    """An unknown name and a refused connection fail at different steps."""
    with socket.socket() as unbound:
        unbound.bind(("127.0.0.1", 0))  # bound and not listening
        steps = asyncio.run(probe_connection(nearby(unbound.getsockname()[1])))
    assert outcome(steps) == {"resolve": True, "connect": False}
    assert steps[-1].code == "connection refused"
    unknown = asyncio.run(probe_connection(ProbeTarget("no-such-host.invalid", 1, 20)))
    assert outcome(unknown) == {"resolve": False}


def test_the_certificate_is_reported() -> None:
    """The probe reports the expiry of a trusted certificate, or why it is not trusted."""
    steps, _ = probe(lambda port: ProbeTarget("127.0.0.1", port, 20, trusting(AUTHORITY)), tls=True)
    names = ("resolve", "connect", "tls", "certificate", "stays")
    assert outcome(steps) == dict.fromkeys(names, True)
    assert next(step.expires for step in steps if step.name == "certificate") is not None
    untrusting = trusting(trustme.CA())
    untrusted, _ = probe(lambda port: ProbeTarget("127.0.0.1", port, 20, untrusting), tls=True)
    assert outcome(untrusted) == {"resolve": True, "connect": True, "tls": False}
    assert "certificate" in untrusted[-1].code


def test_a_silent_tls_handshake_times_out() -> None:
    """A receiver that does not answer the handshake fails the step in time."""
    steps, _ = probe(lambda port: ProbeTarget("127.0.0.1", port, 0.3, trusting(AUTHORITY)))
    assert (steps[-1].name, steps[-1].code) == ("tls", "timeout")


def test_a_folder_is_probed_by_writing(tmp_path: Path) -> None:
    """The probe writes a file and removes it."""
    assert outcome(asyncio.run(probe_folder(tmp_path))) == {"folder": True, "write": True}
    assert list(tmp_path.iterdir()) == []
    assert outcome(asyncio.run(probe_folder(tmp_path / "none"))) == {"folder": False}
