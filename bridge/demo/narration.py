"""
Output of the demonstration: numbered scenes, a line for each step, messages, and a table.

The output is at most 100 columns wide, on a terminal and in a pipe.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import Final, TextIO

from rich.cells import chop_cells
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from mappings.hl7.message import Message

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
