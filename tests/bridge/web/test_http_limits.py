"""HTTP connections are limited for each address and in total; probes are answered."""

from dataclasses import replace

import pytest

from bridge.web.connections import RESERVED, STARTS_PER_TURN
from tests.bridge.web.http_server import GET, PATIENT, POST, ended, served, status
from tests.eventually import eventually_async


async def test_half_open_connections() -> None:
    """Beyond the limit the oldest unfinished connections are closed for new addresses."""
    async with served(PATIENT) as to:
        for at in range(3 * PATIENT.connections):
            await to.connect(b"GET / HTTP/1.1\r\n", f"127.0.1.{1 + at}")
        assert await to.status(GET % b"", "127.0.0.2") == 200
        assert to.closed["made_room"] >= 2 * PATIENT.connections


@pytest.mark.parametrize("length", [b"9", b"99999999"])
async def test_unfinished_bodies(length: bytes) -> None:
    """Connections with an unfinished body are closed for new addresses."""
    half = POST % b"read" + b"Content-Length: " + length + b"\r\n\r\nhalf"
    async with served(PATIENT) as to:
        for at in range(3 * PATIENT.connections):
            await to.connect(half, f"127.0.1.{1 + at}")
        assert await to.status(GET % b"", "127.0.0.2") == 200


async def test_unfinished_bodies_do_not_close_a_connection_without_a_request() -> None:
    """A connection of a flood is closed for the next one; a probe keeps its own."""
    async with served(PATIENT) as to:
        half = POST % b"read" + b"Content-Length: 9\r\n\r\nhalf"
        for source in ("127.0.0.2", "127.0.0.3"):
            for _ in range(4):
                await to.connect(half, source)
        await eventually_async(lambda: len(to.application.scopes) == 8)
        reader, writer = await to.connect()
        await to.connect(half, "127.0.0.4")
        await eventually_async(lambda: len(to.application.scopes) == 9)
        await to.connect(half, "127.0.0.4")
        await eventually_async(lambda: len(to.application.scopes) == 10)
        writer.write(GET % b"readyz")
        assert await status(reader) == 200


async def test_one_address_has_its_own_limit() -> None:
    """Connections of one address beyond its limit are closed. Those of others stay."""
    async with served(replace(PATIENT, connections=100)) as to:
        other, other_writer = await to.connect(source="127.0.0.2")
        held = [await to.connect() for _ in range(4 * PATIENT.per_source)]
        await eventually_async(lambda: to.closed["made_room"] == 3 * PATIENT.per_source)
        assert await ended(held[0][0]) == b""
        other_writer.write(GET % b"")
        assert await status(other) == 200


async def test_a_proxy_has_no_limit_of_its_own() -> None:
    """The limit per address does not apply to a trusted proxy."""
    async with served(replace(PATIENT, connections=100, proxies=("127.0.0.0/8",))) as to:
        held = [await to.connect(GET % b"hold") for _ in range(2 * PATIENT.per_source)]
        await eventually_async(lambda: len(to.application.scopes) == len(held))
        to.application.released.set()
        assert [await status(reader) for reader, _ in held] == [200] * len(held)


async def test_probes_are_answered_while_all_connections_work() -> None:
    """While all connections are busy, others get 503, but health and metrics respond."""
    async with served(PATIENT) as to:
        held = [
            await to.connect(GET % b"hold", f"127.0.1.{1 + at}")
            for at in range(PATIENT.connections)
        ]
        await eventually_async(lambda: len(to.application.scopes) == len(held))
        for at in range(2 * RESERVED):
            await to.connect(source=f"127.0.2.{1 + at}")
        assert await to.status(GET % b"readyz", "127.0.0.2") == 200
        assert await to.status(GET % b"metrics", "127.0.0.2") == 200
        assert await to.status(GET % b"worklist", "127.0.0.2") == 503
        to.application.released.set()
        assert [await status(reader) for reader, _ in held] == [200] * len(held)


async def test_requests_of_one_address_do_not_delay_others() -> None:
    """Few requests start in one turn of the loop, and another address overtakes waiting ones."""
    limits = replace(PATIENT, connections=300, per_source=200)
    async with served(limits) as to:
        connections = [await to.connect() for _ in range(150)]
        other, one = await to.connect(source="127.0.0.2")
        probe, probing = await to.connect(source="127.0.0.3")
        for _, writer in connections:
            writer.write(GET % b"many")
        one.write(GET % b"other")
        probing.write(GET % b"readyz")
        assert (await status(other), await status(probe)) == (200, 200)
        assert [await status(reader) for reader, _ in connections] == [200] * len(connections)
        paths = [scope["path"] for scope in to.application.scopes]
    assert paths.index("/readyz") < 3 * STARTS_PER_TURN
    assert paths.index("/other") < 5 * STARTS_PER_TURN
