"""Output of commands: tables and records for people, JSON for scripts; progress on a terminal."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from unicodedata import category

import typer

from bridge.admin.progress import NOT_SHOWN, Report

if TYPE_CHECKING:
    from bridge.admin.background.jobs import JobRow
    from bridge.admin.definitions.commands import (
        InboundTrial,
        OutboundTrial,
        VersionComparison,
        WorklistTrial,
    )


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


_SHOWN_CHARACTERS = 40  # of a shortened document
_EMBEDDED = re.compile(r"[A-Za-z0-9+/]{400,}={0,2}")
"""An embedded document in base64, such as a PDF in OBX-5."""


def print_rows(
    items: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool
) -> None:
    """
    Print rows: every member as JSON, or the `columns` as a table.

    Long lines are not cut: the terminal wraps them.
    """
    if as_json:
        print(json.dumps(list(items), ensure_ascii=False, indent=2, default=str))
        return
    written = [
        [name.replace("_", " "), *(_line(_cell(item.get(name))) for item in items)]
        for name in columns
    ]
    widths = [max(map(len, column)) for column in written]
    for line in zip(*written, strict=True):
        print("  ".join(map(str.ljust, line, widths)).rstrip())


def print_record(item: Mapping[str, Any], texts: Mapping[str, str], *, as_json: bool) -> None:
    """
    Print one record as JSON, or as lines of name and value, followed by the long texts.

    The lines shorten embedded documents (base64). JSON contains them complete.
    """
    if as_json:
        print(json.dumps({**item, **texts}, ensure_ascii=False, indent=2, default=str))
        return
    width = max(len(name) for name in item)
    for name, value in item.items():
        print(f"{name.replace('_', ' '):<{width}}  {_line(_cell(value))}")
    for name, text in texts.items():
        lines = map(_line, _EMBEDDED.sub(_shortened, text).split("\n"))
        print(f"\n{name}", *(lines if text else ["(nothing)"]), sep="\n")


def with_times(item: dict[str, Any]) -> dict[str, Any]:
    """Convert the times of a row from milliseconds to ISO 8601."""
    return {
        name: iso(value) if name.endswith("_at") or name == "not_before" else value
        for name, value in item.items()
    }


def _shortened(found: re.Match[str]) -> str:
    shown = found[0][:_SHOWN_CHARACTERS]
    return f"{shown}… ({len(found[0])} characters of base64; --json has them all)"


def iso(value: int | None) -> str | None:
    """Convert a time in milliseconds to ISO 8601; None for none."""
    if not value:
        return None
    return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds")


def print_line(text: str) -> None:
    """Print a line; control characters of a sender are shown and not executed."""
    print(_line(text))


def _line(text: str) -> str:
    """Escape control characters: a sender may have sent them, and a terminal would obey them."""
    if text.isprintable():
        return text
    return "".join(ascii(c)[1:-1] if category(c).startswith("C") else c for c in text)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def print_requeue_results(results: Iterable["JobRow"], what: str, total: int) -> None:
    """
    Print the result of each of `total` replays or retries; exit 1 if one failed.

    After Ctrl-C, print how many were queued: each is done completely or not at all.
    """
    counts = {"queued": 0, "failed": 0}

    def state() -> str:
        left = total - sum(counts.values())
        return f"{counts['queued']} queued, {counts['failed']} failed, {left} are as before"

    with interruptible(state), shown_progress() as report:
        for at, result in enumerate(results, 1):
            _print_requeue_result(result, what, counts)
            report(f"queuing {total} again", at, total)
    queued, failed = counts["queued"], counts["failed"]
    if queued + failed != 1:
        print(f"{queued} queued, {failed} failed")
    if failed:
        sys.exit(1)


def _print_requeue_result(result: "JobRow", what: str, counts: dict[str, int]) -> None:
    if not result.is_done:
        counts["failed"] += 1
        print(f"{what} {result.row_id}: {result.detail or result.outcome}", file=sys.stderr)
        return
    counts["queued"] += 1
    print(f"queued {what} {result.row_id} again")
    if result.detail:
        print(f"note: {result.detail}")


def print_trials(
    trials: Sequence["InboundTrial"] | Sequence["OutboundTrial"] | Sequence["WorklistTrial"],
    *,
    as_json: bool,
) -> None:
    """Print what a definition makes of each message."""
    from bridge.admin.definitions.commands import InboundTrial, OutboundTrial, WorklistTrial

    if inbound := [trial for trial in trials if isinstance(trial, InboundTrial)]:
        _print_inbound_trials(inbound, as_json=as_json)
    if outbound := [trial for trial in trials if isinstance(trial, OutboundTrial)]:
        _print_outbound_trials(outbound, as_json=as_json)
    if worklist := [trial for trial in trials if isinstance(trial, WorklistTrial)]:
        _print_worklist_trials(worklist, as_json=as_json)


def _print_inbound_trials(trials: Sequence["InboundTrial"], *, as_json: bool) -> None:
    """Print the order events, issues and findings of each message."""
    if as_json:
        _print_json([_inbound_json(inbound) for inbound in trials])
        return
    for number, inbound in enumerate(trials, start=1):
        trial = inbound.trial
        outcome = "accepted" if trial.accepted else "parked" if trial.parked else "refused"
        print(f"message {number} ({inbound.label}): {outcome}")
        for issue in trial.issues:
            print(f"  {issue}")
        for finding in inbound.findings or ():
            print(f"  structure {finding}")
        for event in trial.events:
            _print_json(event)
        print(f"  used   {' '.join(trial.used)}")
        print(f"  unused {' '.join(trial.unused)}")


def _print_outbound_trials(trials: Sequence["OutboundTrial"], *, as_json: bool) -> None:
    """Print the messages that are written for the orders of each message."""
    for trial in trials:
        if trial.error:
            print(f"{trial.label}: {trial.error}", file=sys.stderr)
    if as_json:
        _print_json([{"message": trial.label, "hl7": trial.messages} for trial in trials])
        return
    for trial in trials:
        print(trial.label, *trial.messages, sep="\n")


def _print_worklist_trials(trials: Sequence["WorklistTrial"], *, as_json: bool) -> None:
    """Print the worklist items of each message, as DICOM JSON or as lines."""
    from mappings.authoring.trial import item_text

    for trial in trials:
        if trial.error:
            print(f"{trial.label}: {trial.error}", file=sys.stderr)
    if as_json:
        found = [
            {
                "message": trial.label,
                "items": [item.item for item in trial.items],
                "problems": [list(item.problems) for item in trial.items],
            }
            for trial in trials
        ]
        _print_json(found)
        return
    for trial in trials:
        for number, item in enumerate(trial.items, start=1):
            print(f"{trial.label}, step {number}", item_text(item), sep="\n")


def _inbound_json(inbound: "InboundTrial") -> dict[str, Any]:
    trial = inbound.trial
    found: dict[str, Any] = {"message": inbound.label}
    if inbound.findings is not None:
        found["validation"] = [
            {
                "severity": "error" if finding.is_error else "warning",
                "code": finding.refusal.error_code.value,
                "place": finding.refusal.place,
                "message": finding.refusal.text,
            }
            for finding in inbound.findings
        ]
    issues = [
        {
            name: value
            for name, value in asdict(issue).items()
            if isinstance(value, str | int) and value
        }
        for issue in trial.issues
    ]
    return {
        **found,
        "accepted": trial.accepted,
        "parked": trial.parked,
        "issues": issues,
        "events": list(trial.events),
        "used": list(trial.used),
        "unused": list(trial.unused),
    }


def print_comparison(found: "VersionComparison", *, as_json: bool) -> None:
    """Print the differences of each message that two versions map differently."""
    if as_json:
        messages = [
            {
                "message": sample.label,
                "differences": [asdict(difference) for difference in differences],
            }
            for sample, differences in found.differing
        ]
        _print_json(
            {
                "before": found.before,
                "after": found.after,
                "compared": found.count,
                "differing": len(found.differing),
                "messages": messages,
            }
        )
        return
    for sample, differences in found.differing:
        print(sample.label)
        for difference in differences:
            print(f"  {difference.field}")
            print(f"    - {_one_line(difference.before)}")
            print(f"    + {_one_line(difference.after)}")
    print(
        f"{len(found.differing)} of {found.count} messages differ "
        f"between {found.before} and {found.after}"
    )


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " / ")


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))
