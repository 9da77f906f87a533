"""
What a definition makes of one message, as the console shows it: patient data, for a screen only.

The message goes along field by field, so that the page can mark used and unused fields,
repetitions and components in it.
"""

import base64
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bridge.wiring.authoring.told import issue
from bridge.wiring.order_readers import OrderReader
from bridge.wiring.samples import Sample
from mappings.compiler import Compiled
from mappings.dependence import dependence
from mappings.errors import MappingError
from mappings.hl7.message import Message
from mappings.hl7.refusals import Refusal
from mappings.outbound import OutboundMapping
from mappings.specimen import specimens
from mappings.trial import try_message
from mappings.variants import Late, never


def sample(found: Sample) -> Mapping[str, Any]:
    """Tell a stored message, its bytes as base64."""
    return {
        "label": found.label,
        "listener": found.listener,
        "mapping": found.mapping,
        "version": found.version,
        "payload": base64.b64encode(found.payload).decode(),
    }


def trial(
    mapping: Compiled, found: Sample, reader: OrderReader, late: Late = never
) -> Mapping[str, Any]:
    """Try a message until it is too `late`; raises nothing for what is wrong with it."""
    shown = {"segments": _segments(found)}
    if isinstance(mapping, OutboundMapping):
        return {**shown, **_written(mapping, found, reader, late)}
    done = try_message(mapping, found.payload, found.defaults, found.charset, components=True)
    return {
        **shown,
        "accepted": done.accepted,
        "issues": [issue(each) for each in done.issues],
        "lanes": list(done.lanes),
        "events": list(done.events),
        "used": list(done.used),
        "unused": list(done.unused),
        "facts": [],
        "hl7": [],
    }


def _written(
    mapping: OutboundMapping, found: Sample, find: OrderReader, late: Late
) -> Mapping[str, Any]:
    told: dict[str, Any] = {key: [] for key in ("lanes", "events", "used", "unused", "facts")}
    written: list[str] = []
    issues: list[dict[str, Any]] = []
    try:
        reader = find(found)
        if reader is not None:
            known = (found.payload, found.defaults, found.charset)
            made = specimens(mapping, reader, *known)
            written = [each.decode().replace("\r", "\n") for each in made]
            told |= asdict(dependence(mapping, reader, *known, late))
    except MappingError as error:
        text = {"message": str(error), "path": "", "severity": "error", "code": "rule"}
        issues.append({**text, "file": "", "line": 0, "column": 0})
    return {**told, "accepted": bool(written), "issues": issues, "hl7": written}


def _segments(found: Sample) -> list[dict[str, Any]]:
    """Give segments with all their fields as texts, delimiters and escapes as they were sent."""
    try:
        message = Message.parse(found.payload, fallback=found.charset)
    except Refusal:
        return []
    told = []
    for segment, number in zip(message.segments, message.numbers, strict=True):
        place = segment.id if number == 1 else f"{segment.id}[{number}]"
        fields = [segment.field_text(index) for index in range(1, len(segment) + 1)]
        told.append({"name": segment.id, "place": place, "fields": fields})
    return told
