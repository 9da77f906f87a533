"""A call ends at the deadline with an ambiguous failure."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from typing_extensions import override

from bridge.engine_client.callers import InProcessCaller
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.transport import (
    AccessTokens,
    EngineCaller,
    EngineRequest,
    EngineResponse,
    EngineTransport,
)
from bridge.errors import FailureKind


class Silent(EngineCaller):
    """A service that never responds; `left` records the cancellation."""

    left = False

    @override
    async def send(self, request: EngineRequest) -> EngineResponse:
        return await self.silence()

    async def silence(self) -> EngineResponse:
        try:
            await asyncio.Event().wait()
        finally:
            self.left = True
        raise AssertionError

    @override
    async def aclose(self) -> None:
        """Nothing is open."""


class Slow(EngineCaller):
    """A service that responds after its long poll; records the read time-out of the request."""

    read_timeout = 0.0

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    @override
    async def send(self, request: EngineRequest) -> EngineResponse:
        self.read_timeout = request.read_timeout
        await asyncio.sleep(self._seconds)
        return EngineResponse(200, {}, b"")

    @override
    async def aclose(self) -> None:
        """Nothing is open."""


async def test_a_long_poll_extends_the_deadline() -> None:
    """The read time-out and the deadline exceed the wait that the call requests."""
    caller = Slow(0.1)
    transport = EngineTransport(caller, AccessTokens("token"), deadline=0.05)
    assert (await transport.send("GET", "/api/report/changes", "", wait=1)).status == 200
    assert caller.read_timeout > 1
    with pytest.raises(EngineFailure):
        await transport.send("GET", "/api/report/changes", "")


async def test_a_call_to_an_engine_that_hangs_ends() -> None:
    """The failure is ambiguous, so that the call is retried; the running request is cancelled."""
    silent = Silent()

    async def application(
        scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        await silent.silence()

    for caller in (silent, InProcessCaller(application, "http://here.test")):
        silent.left = False
        transport = EngineTransport(caller, AccessTokens("token"), deadline=0.05)
        for call in (
            lambda: transport.send("POST", "/api/report/sign", "SITE1", body={}),  # noqa: B023
            lambda: transport.forward("GET", "/api/admin/sites", "SITE1"),  # noqa: B023
            lambda: transport.get_as_browser("/reporting/api/account", "", unattended=True),  # noqa: B023
        ):
            with pytest.raises(EngineFailure) as failure:
                await call()
            assert failure.value.failure is FailureKind.AMBIGUOUS
            assert failure.value.code == "no_answer"
            assert silent.left
