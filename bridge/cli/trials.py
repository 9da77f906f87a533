"""Print what a definition makes of messages."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from bridge.validation.findings import Finding
from mappings.compiler import load
from mappings.events import Issue
from mappings.inbound import InboundMapping
from mappings.scope import Defaults
from mappings.trial import Trial, try_message

Validate = Callable[[bytes], Sequence[Finding]]


def show_trials(
    folder: Path,
    name: str,
    messages: Sequence[bytes],
    site: str,
    validate: Validate | None,
    *,
    as_json: bool,
) -> bool:
    """Try each message, print what came of it; give whether all were accepted, and valid."""
    mapping = load(folder, name)
    if not isinstance(mapping, InboundMapping):
        raise typer.BadParameter(f"{name} writes messages; only one that reads them can be tried")
    defaults = Defaults(site, "UTC", datetime.now(UTC))
    trials = [try_message(mapping, message, defaults) for message in messages]
    found = [() if validate is None else validate(message) for message in messages]
    both = list(zip(trials, found, strict=True))
    if as_json:
        told = [_told(trial, None if validate is None else each) for trial, each in both]
        print(json.dumps(told, ensure_ascii=False, indent=2))
    else:
        for number, (trial, findings) in enumerate(both, start=1):
            _show(number, trial, findings)
    return all(trial.accepted and not any(f.grave for f in each) for trial, each in both)


def _told(trial: Trial, findings: Sequence[Finding] | None) -> dict[str, Any]:
    issues = [_issue(issue) for issue in trial.issues]
    validation = {} if findings is None else {"validation": [_finding(each) for each in findings]}
    return {
        **validation,
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


def _finding(finding: Finding) -> dict[str, Any]:
    refusal = finding.refusal
    return {
        "severity": "error" if finding.grave else "warning",
        "code": refusal.error_code.value,
        "place": refusal.place,
        "message": refusal.text,
    }


def _show(number: int, trial: Trial, findings: Sequence[Finding]) -> None:
    print(f"message {number}: {'accepted' if trial.accepted else 'refused'}")
    for issue in trial.issues:
        print(f"  {issue}")
    for finding in findings:
        print(f"  structure {finding}")
    for event in trial.events:
        print(json.dumps(event, ensure_ascii=False, indent=2))
    print(f"  used   {' '.join(trial.used)}")
    print(f"  unused {' '.join(trial.unused)}")
