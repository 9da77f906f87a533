"""Print what a definition makes of messages."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from mappings.compiler import load
from mappings.events import Issue
from mappings.inbound import InboundMapping
from mappings.scope import Defaults
from mappings.trial import Trial, try_message


def show_trials(
    folder: Path, name: str, messages: Sequence[bytes], site: str, *, as_json: bool
) -> bool:
    """Try each message, print what came of it; give whether all were accepted."""
    mapping = load(folder, name)
    if not isinstance(mapping, InboundMapping):
        raise typer.BadParameter(f"{name} writes messages; only one that reads them can be tried")
    defaults = Defaults(site, "UTC", datetime.now(UTC))
    trials = [try_message(mapping, message, defaults) for message in messages]
    if as_json:
        print(json.dumps([_told(trial) for trial in trials], ensure_ascii=False, indent=2))
    else:
        for number, trial in enumerate(trials, start=1):
            _show(number, trial)
    return all(trial.accepted for trial in trials)


def _told(trial: Trial) -> dict[str, Any]:
    issues = [_issue(issue) for issue in trial.issues]
    return {
        "accepted": trial.accepted,
        "issues": issues,
        "events": list(trial.events),
        "used": list(trial.used),
        "unused": list(trial.unused),
    }


def _issue(issue: Issue) -> dict[str, Any]:
    return {
        key: value for key, value in asdict(issue).items() if isinstance(value, str | int) and value
    }


def _show(number: int, trial: Trial) -> None:
    print(f"message {number}: {'accepted' if trial.accepted else 'refused'}")
    for issue in trial.issues:
        print(f"  {issue}")
    for event in trial.events:
        print(json.dumps(event, ensure_ascii=False, indent=2))
    print(f"  used   {' '.join(trial.used)}")
    print(f"  unused {' '.join(trial.unused)}")
