"""Progress on a terminal, and the end of a command that the user interrupts."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from bridge.admin.progress import NOT_SHOWN, Report

INTERRUPTED = 130
"""The exit status after Ctrl-C: 128 and the number of SIGINT."""


@contextmanager
def shown_progress() -> Iterator[Report]:
    """
    Yield a function that shows the progress of an operation, with the remaining time.

    It shows nothing unless the error output is a terminal.
    """
    if not sys.stderr.isatty():
        yield NOT_SHOWN
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        Remaining(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks = {}

        def report(step: str, done: int, total: int) -> None:
            if step not in tasks:
                for task in progress.task_ids:  # the earlier steps are finished
                    size = progress.tasks[task].total or 1
                    progress.update(task, total=size, completed=size)
                tasks[step] = progress.add_task(step, total=None)
            progress.update(tasks[step], completed=done, total=total or None)

        yield report


@contextmanager
def interruptible(state: Callable[[], str] | str) -> Iterator[None]:
    """After Ctrl-C, print what was done and what was not, and exit with status 130."""
    try:
        yield
    except KeyboardInterrupt:
        text = state if isinstance(state, str) else state()
        print(f"bridge: interrupted: {text}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
