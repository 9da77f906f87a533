"""Print what a definition makes of messages."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from bridge.admin.definitions.comparison import OrderReader, reader_of, reader_of_files
from bridge.admin.definitions.drafts import FILES, chosen
from bridge.admin.definitions.samples import Sample, from_files, stored
from bridge.intake.validation.findings import Finding
from bridge.store.database import Database
from bridge.wiring import active_settings
from bridge.wiring.stores import bridge_database
from config import Settings
from config import load as load_settings
from config.listeners import Listener
from mappings.authoring.sample_results import render_samples
from mappings.authoring.trial import Trial, try_message
from mappings.compiler import Compiled, load
from mappings.inbound.definition import InboundMapping
from mappings.language.diagnostics import Issue
from mappings.language.errors import RuleFailed
from mappings.outbound.definition import OutboundMapping

Validate = Callable[[bytes], Sequence[Finding]]


@dataclass(frozen=True, slots=True)
class Asked:
    """Which version of a definition, and which messages: files, else the last stored ones."""

    home: Path
    name: str
    version: str
    files: tuple[Path, ...]
    last: int
    site: str
    orders: str
    listener: str = ""


def show_trials(asked: Asked, validate: Validate | None, *, as_json: bool) -> bool:
    """Try each message, print what came of it; give whether all were accepted, and valid."""
    mapping, samples, reader = _chosen(asked)
    if not samples:
        raise typer.BadParameter("there is no HL7 message to try")
    if not isinstance(mapping, InboundMapping):
        return _show_written(mapping, reader, samples, as_json)
    told, good = [], True
    for number, sample in enumerate(samples, start=1):
        trial = try_message(
            mapping, sample.payload, sample.defaults, sample.charset, components=True
        )
        found = () if validate is None else validate(sample.payload)
        good &= trial.accepted and not any(each.grave for each in found)
        if as_json:
            told.append(
                {"message": sample.label, **_told(trial, None if validate is None else found)}
            )
        else:
            _show(f"message {number} ({sample.label})", trial, found)
    if as_json:
        print(json.dumps(told, ensure_ascii=False, indent=2))
    return good


def _show_written(
    mapping: OutboundMapping, reader: OrderReader, samples: Sequence[Sample], as_json: bool
) -> bool:
    """Print what would be sent for each order, with a report that nobody dictated."""
    told = []
    for each in samples:
        try:
            found = reader(each)
            if found is None:
                print(f"{each.label}: no definition reads its orders", file=sys.stderr)
            known = (each.payload, each.defaults, each.charset)
            written = [] if found is None else render_samples(mapping, found, *known)
        except RuleFailed as failure:
            print(f"{each.label}: {failure}", file=sys.stderr)
            written = []
        texts = [one.decode().replace("\r", "\n") for one in written]
        told.append({"message": each.label, "hl7": texts})
    if as_json:
        print(json.dumps(told, ensure_ascii=False, indent=2))
    else:
        for one in told:
            print(one["message"], *one["hl7"], sep="\n")
    return all(one["hl7"] for one in told)


def _chosen(asked: Asked) -> tuple[Compiled, list[Sample], OrderReader]:
    """Compile and read; for files, a data directory without a database or settings is enough."""
    if asked.version == FILES and asked.files and not asked.listener:
        mapping = load(asked.home / "mappings", asked.name)
        return (
            mapping,
            from_files(asked.files, asked.site),
            reader_of_files(asked.home, asked.orders),
        )
    settings = load_settings(asked.home)
    with bridge_database(asked.home) as database:
        mapping = chosen(settings, database, asked.name, asked.version)
        listener = _listener(asked, settings, database)
        samples = (
            from_files(asked.files, asked.site, listener)
            if asked.files
            else stored(settings, database, asked.name, asked.last)
        )
        reader = reader_of(settings, database, samples, asked.orders)
    return mapping, samples, reader


def _listener(asked: Asked, settings: Settings, database: Database) -> Listener | None:
    """Give the listener that was asked for, as it is in force."""
    if not asked.listener:
        return None
    known = {each.name: each for each in active_settings.current(settings, database).listener}
    if asked.listener not in known:
        raise typer.BadParameter(f"--listener must be one of {', '.join(known)}")
    return known[asked.listener]


def _told(trial: Trial, findings: Sequence[Finding] | None) -> dict[str, Any]:
    issues = [_issue(issue) for issue in trial.issues]
    validation = {} if findings is None else {"validation": [_finding(each) for each in findings]}
    return {
        **validation,
        "accepted": trial.accepted,
        "parked": trial.parked,
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


def _show(label: str, trial: Trial, findings: Sequence[Finding]) -> None:
    outcome = "accepted" if trial.accepted else "parked" if trial.parked else "refused"
    print(f"{label}: {outcome}")
    for issue in trial.issues:
        print(f"  {issue}")
    for finding in findings:
        print(f"  structure {finding}")
    for event in trial.events:
        print(json.dumps(event, ensure_ascii=False, indent=2))
    print(f"  used   {' '.join(trial.used)}")
    print(f"  unused {' '.join(trial.unused)}")
