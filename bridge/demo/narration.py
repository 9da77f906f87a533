"""
Output of the demonstration: numbered scenes, a line for each step, messages, and a table. Its
checks: compare values, and wait for results; and the errors that end it early.

The output is at most 100 columns wide, on a terminal and in a pipe.

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
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar

from rich.cells import chop_cells
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from mappings.hl7.message import Message


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


MAX_WIDTH: Final = 100
_TIME_WIDTH: Final = 6
_WHOLE_SECONDS: Final = 99.95
"""From here on a time has no decimal, so that it fits into its column."""

_INDENT: Final = 7
_NAME: Final = 3


class _SilentConsole(Console):
    """A console that ignores a closed pipe (`make demo | head`)."""

    @override
    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class Narrator:
    """Prints the demonstration; `clock` returns seconds."""

    def __init__(
        self, out: TextIO = sys.stdout, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if isinstance(out, TextIOWrapper):
            out.reconfigure(errors="replace")  # an ASCII terminal must not cause an error
        self._console = _SilentConsole(file=out, highlight=False, markup=False, emoji=False)
        on_terminal = self._console.is_terminal
        self._console.width = min(self._console.width, MAX_WIDTH) if on_terminal else MAX_WIDTH
        self._clock = clock
        self._began = clock()
        self._scene = 0

    @property
    def seconds(self) -> float:
        """Elapsed seconds."""
        return self._clock() - self._began

    def title(self, title: str, *lines: str) -> None:
        self._console.print()
        self._console.print(Text(title, "bold"))
        for line in lines:
            self._console.print(Text(line))

    def scene(self, name: str) -> None:
        self._scene += 1
        self._console.print()
        self._console.print(Text(f"{self._scene}. {name}", "bold cyan"))

    def begun(self, text: str) -> None:
        """Print a step that is in progress."""
        self._line(" ", text, "", "dim")

    def done(self, text: str, note: str = "") -> None:
        """Print a step that succeeded."""
        self._line("✓", text, note, "")

    def message(self, raw: bytes) -> None:
        """Print a message, one segment per line; long lines continue indented."""
        room = self._console.width - _INDENT - _NAME
        for segment in Message.parse(raw).segments:
            text = segment.text()
            name = Text(" " * _INDENT + text[:_NAME], "bold cyan")
            for part in chop_cells(text[_NAME:], room) or [""]:
                self._console.print(name + Text(part, "default"), soft_wrap=True)
                name = Text(" " * (_INDENT + _NAME))

    def table(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Print the summary: name, value, and parts."""
        table = Table(show_header=False, title="Summary", title_justify="left", title_style="bold")
        table.add_column(style="bold", no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self._console.print()
        self._console.print(table)

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Print names with values; values are not wrapped, so that they can be copied."""
        widest = max(len(name) for name, _ in rows)
        for name, value in rows:
            line = Text(f"  {name:<{widest}}  ", "bold") + Text(value)
            self._console.print(line, soft_wrap=True)

    def say(self, text: str, style: str = "") -> None:
        """Print a line."""
        self._console.print(Text(text, style))

    def failed(self, text: str, log: Sequence[str]) -> None:
        """Print the reason of a failure, and the end of the service's log."""
        self._console.print()
        if log:
            self.say("The service's last lines:", "bold")
            for line in log:
                self._console.print(Text(f"  {line}", "dim"), soft_wrap=True)
            self._console.print()
        self._console.print(Text("The demo failed: ", "bold red") + Text(text))

    def _line(self, mark: str, text: str, note: str, style: str) -> None:
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(width=_TIME_WIDTH, justify="right", style="dim")
        grid.add_column(width=1, style="green")
        grid.add_column(ratio=1)
        grid.add_column(justify="right", no_wrap=True, style="dim")
        seconds = self.seconds
        grid.add_row(
            f"{seconds:.{1 if seconds < _WHOLE_SECONDS else 0}f} s", mark, Text(text, style), note
        )
        self._console.print(grid)
