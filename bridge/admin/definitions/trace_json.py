"""
The trace of one message in JSON: for each order or patient, which rule gave which value, and where
the value is in the message.

The trace contains patient data: show it to users who may read content only, and do not log it.
"""

from collections.abc import Mapping
from typing import Any

from bridge.admin.messages.message_content import is_shown_whole
from mappings.authoring.trial import deadline
from mappings.hl7.message import Message
from mappings.hl7.refusals import MalformedMessage
from mappings.inbound.definition import InboundMapping
from mappings.inbound.trace import (
    EventTrace,
    MessageTrace,
    RefusalTrace,
    RowTrace,
    TargetTrace,
    trace,
)
from mappings.language.scope import ListenerDefaults
from mappings.language.trace import SourceTrace, TraceStep

_SECONDS = 2.0
MAX_SHOWN_CHARACTERS = 4_000
"""Characters of a value that are shown. A note may have megabytes."""
NO_TRACE: Mapping[str, Any] = {
    "definition": "",
    "version": "",
    "active": False,
    "note": "",
    "events": [],
    "refusal": None,
    "left": 0,
}


def trace_payload(
    mapping: InboundMapping,
    payload: bytes,
    defaults: ListenerDefaults,
    charset: str,
    *,
    first: int = 0,
) -> Mapping[str, Any]:
    """Trace the bytes of a message; one that is not HL7, or has too many fields, has a `note`."""
    nothing = {**NO_TRACE, "definition": mapping.name, "version": mapping.version}
    try:
        message = Message.parse(payload, fallback=charset)
    except MalformedMessage:
        return {**nothing, "note": "the bytes are not a message"}
    if not is_shown_whole(payload, charset):
        return {**nothing, "note": "the message has too many fields"}
    return {
        **nothing,
        **_message(trace(mapping, message, defaults, first=first, late=deadline(_SECONDS))),
    }


def _message(found: MessageTrace) -> dict[str, Any]:
    return {
        "definition": found.definition,
        "version": found.version,
        "events": [_event(event) for event in found.events],
        "refusal": None if found.refusal is None else _refusal(found.refusal),
        "left": found.left,
    }


def _refusal(found: RefusalTrace) -> dict[str, Any]:
    return {
        "code": found.code,
        "place": found.place,
        "text": found.text,
        "target": found.target,
        "file": found.file,
        "line": found.line,
    }


def _event(found: EventTrace) -> dict[str, Any]:
    return {
        "place": found.place,
        "action": found.action,
        "note": found.note,
        "site": found.site,
        "mrn": found.mrn,
        "accession": found.accession,
        "row": None if found.row is None else _row(found.row),
        "targets": [_target(target) for target in found.targets],
        "links": list(found.links),
    }


def _row(found: RowTrace) -> dict[str, Any]:
    return {"key": found.key, "text": found.text, "file": found.file, "line": found.line}


def _target(found: TargetTrace) -> dict[str, Any]:
    return {
        "target": found.target,
        "value": _shown(found.value),
        "present": found.present,
        "explained": found.explained,
        "file": found.file,
        "line": found.line,
        "sources": [_source(source) for source in found.sources],
        "steps": [_step(step) for step in found.steps],
    }


def _source(found: SourceTrace) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "text": found.text,
        "file": found.file,
        "line": found.line,
        "outcome": found.outcome.value,
        "places": [place.place for place in found.places],
        "spans": [[place.start, place.end] for place in found.places],
        "raw": _shown(found.raw),
        "value": _shown(found.value),
        "note": found.note,
        "steps": [_step(step) for step in found.steps],
    }


def _step(found: TraceStep) -> dict[str, str]:
    return {"name": found.name, "value": _shown(found.value)}


def _shown(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 1] + "…"
