"""Connections are tried for real: what is there is told step by step, and nothing is sent."""

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


class Listening(asyncio.Protocol):
    """Takes what comes, or hangs up."""

    def __init__(self, got: list[bytes], *, hangs_up: bool) -> None:
        self._got, self._hangs_up = got, hangs_up

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
    """Listen; give the port and what was received."""
    got: list[bytes] = []
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    server = await asyncio.get_running_loop().create_server(
        lambda: Listening(got, hangs_up=hangs_up), "127.0.0.1", 0, ssl=context
    )
    async with server:
        yield server.sockets[0].getsockname()[1], got


def outcome(steps: list[ProbeStep]) -> dict[str, bool]:
    """Which steps went well."""
    return {each.name: each.ok for each in steps}


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """Trust one authority."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def tried(
    target: Callable[[int], ProbeTarget], *, tls: bool = False, hangs_up: bool = False
) -> tuple[list[ProbeStep], list[bytes]]:
    """Try a receiver; give the steps, and what it got until we hung up."""

    async def run() -> tuple[list[ProbeStep], list[bytes]]:
        async with receiver(tls=tls, hangs_up=hangs_up) as (port, got):
            return await probe_connection(target(port)), got

    return asyncio.run(run())


def nearby(port: int) -> ProbeTarget:
    """A receiver on this machine, in clear."""
    return ProbeTarget("127.0.0.1", port, 20)


def test_a_receiver_in_clear_is_reached_and_is_sent_nothing() -> None:
    """It stays connected; not a byte goes out."""
    steps, got = tried(nearby)
    assert outcome(steps) == {"resolve": True, "connect": True, "stays": True}
    assert b"".join(got) == b""


def test_who_hangs_up_at_once_is_told() -> None:
    """As one does whose list of senders does not have us."""
    steps, _ = tried(nearby, hangs_up=True)
    assert outcome(steps) == {"resolve": True, "connect": True, "stays": False}


def test_nobody_there_is_told_apart_from_no_such_name() -> None:
    """The step that failed is the one that is named."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening
        steps = asyncio.run(probe_connection(nearby(taken.getsockname()[1])))
    assert outcome(steps) == {"resolve": True, "connect": False}
    assert steps[-1].code == "connection refused"
    unknown = asyncio.run(probe_connection(ProbeTarget("no-such-host.invalid", 1, 20)))
    assert outcome(unknown) == {"resolve": False}


def test_a_certificate_is_shown_with_its_end() -> None:
    """Of a receiver that we trust; of one that we do not, why."""
    steps, _ = tried(lambda port: ProbeTarget("127.0.0.1", port, 20, trusting(AUTHORITY)), tls=True)
    names = ("resolve", "connect", "tls", "certificate", "stays")
    assert outcome(steps) == dict.fromkeys(names, True)
    assert next(each.expires for each in steps if each.name == "certificate") is not None
    stranger = trusting(trustme.CA())
    doubted, _ = tried(lambda port: ProbeTarget("127.0.0.1", port, 20, stranger), tls=True)
    assert outcome(doubted) == {"resolve": True, "connect": True, "tls": False}
    assert "certificate" in doubted[-1].code


def test_silence_in_the_greeting_ends() -> None:
    """One who never answers our TLS is given up in time."""
    steps, _ = tried(lambda port: ProbeTarget("127.0.0.1", port, 0.3, trusting(AUTHORITY)))
    assert (steps[-1].name, steps[-1].code) == ("tls", "timeout")


def test_a_folder_is_tried_by_writing(tmp_path: Path) -> None:
    """It leaves nothing behind."""
    assert outcome(asyncio.run(probe_folder(tmp_path))) == {"folder": True, "write": True}
    assert list(tmp_path.iterdir()) == []
    assert outcome(asyncio.run(probe_folder(tmp_path / "none"))) == {"folder": False}
