"""
Checks of the demonstration: compare values, and wait for results; and the errors that end it early.

* DemoError
    * SamplesMissing      the sample messages are missing
    * CommandFailed       a `bridge` command did not exit 0
    * ServiceEnded        the service ended by itself
    * NotReady            the service did not become ready
    * NoReply             a message got no acknowledgment
    * CallRefused         the service answered a call with an error
    * Unexpected          a value differs from the expected one
    * TooLate             a result did not arrive in time
    * Interrupted         Ctrl-C, or SIGTERM

All patients in the demonstration are invented, so error texts may contain their data.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar


class DemoError(Exception):
    """The demonstration cannot continue; the text contains the reason."""


class SamplesMissing(DemoError):
    """A sample message is missing: an installed package does not contain them."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"no {path}: the demo sends the messages of sample_messages/, which is part of the "
            "checkout; run it there with `make demo`"
        )


class CommandFailed(DemoError):
    """A `bridge` command exited with an error."""

    def __init__(self, command: str, status: int, output: str) -> None:
        super().__init__(f"`bridge {command}` ended with {status}\n{output}".rstrip())


class ServiceEnded(DemoError):
    def __init__(self, status: int) -> None:
        super().__init__(f"`bridge serve` ended by itself, with {status}")


class NotReady(DemoError):
    """/readyz did not report the service as ready in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the service was not ready after {seconds:.0f} s")


class NoReply(DemoError):
    """A message got no acknowledgment."""

    def __init__(self, system: str, trouble: str) -> None:
        super().__init__(f"{system} got no acknowledgment: {trouble}")


class CallRefused(DemoError):
    def __init__(self, call: str, status: int, code: str) -> None:
        super().__init__(f"{call} was answered with {status} {code}".rstrip())


class Unexpected(DemoError):
    """A value differs from the expected one."""

    def __init__(self, what: str, expected: object, found: object) -> None:
        super().__init__(f"{what}: expected {expected!r}, found {found!r}")


class TooLate(DemoError):
    """A result did not arrive in time; `found` is the last state."""

    def __init__(self, what: str, seconds: float, found: object) -> None:
        super().__init__(f"{what}: not within {seconds:.0f} s; at the end: {found!r}")


class Interrupted(DemoError):
    """The user ends the demonstration."""

    def __init__(self) -> None:
        super().__init__("interrupted")


Found = TypeVar("Found")

TIMEOUT_SECONDS: Final = 30.0
"""Generous, because the machine may be busy."""
POLL_SECONDS: Final = 0.05
CAUSE_SECONDS: Final = 2.0
"""Seconds in which the service may end after an error; its end is then the cause of the error."""


def expect(what: str, expected: object, found: object) -> None:
    """Raise Unexpected unless the values are equal."""
    if expected != found:
        raise Unexpected(what, expected, found)


async def until(
    what: str,
    look: Callable[[], Awaitable[Found]],
    enough: Callable[[Found], bool],
    *,
    within: float = TIMEOUT_SECONDS,
) -> Found:
    """Poll until `enough` returns True. Raises TooLate after `within` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while not enough(found := await look()):
        if loop.time() >= deadline:
            raise TooLate(what, within, found)
        await asyncio.sleep(POLL_SECONDS)
    return found


async def run_until_end(
    work: Awaitable[Found], stop: asyncio.Event, ended: "asyncio.Future[int]"
) -> Found:
    """Return the result of `work`. Raises Interrupted or ServiceEnded if one comes first."""
    task, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    watched: set[asyncio.Future[Any]] = {task, stopping, ended}
    try:
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        if stopping.done():
            raise Interrupted
        if task.done() and task.exception() is not None:
            await asyncio.wait({ended}, timeout=CAUSE_SECONDS)
        if ended.done() and not (task.done() and task.exception() is None):
            raise ServiceEnded(ended.result())
        return await task
    finally:
        stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
