"""
What the loops of an outbound definition go through: text, files, Metadata.

Each row holds the variables of one turn. Which segments are written in a turn is the
definition's; which rows there are, its words' (`mappings.manner`).
"""

import json
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Mapping

from mappings.encode import NOTHING, Encoded, formatted, plain, segment
from mappings.frames import Frame
from mappings.layout import code_of
from mappings.manner import TEXT
from mappings.results import WITHDRAWALS

REPORT_FILE = ("18748-4", "Diagnostic imaging report", "LN")
"""OBX-3 of files, as the shared part `documents` writes it."""


def text_rows(frame: Frame) -> list[dict[str, Encoded]]:
    """One row per OBX of text; no text where only files are wanted and there are some."""
    if frame.context.event in WITHDRAWALS:
        text = frame.manner.layout.rows(frame) if TEXT in frame.manner.content else []
        return [*text, *_withdrawn_files(frame)]
    if TEXT not in frame.manner.content and frame.context.files:
        return []
    return [*frame.manner.layout.rows(frame), *_left_out(frame)]


def _left_out(frame: Frame) -> list[dict[str, Encoded]]:
    """Delete what an earlier text had and this one has not; a document replaces all of itself."""
    if frame.statuses.get("message", "").startswith("MDM"):
        return []
    return [
        {
            **code_of(section),
            "sub_id": plain(str(section.sub_id)),
            "line": NOTHING,
            "observation_status": plain("D"),
        }
        for section in frame.manner.layout.left_out(frame.context)
    ]


def _withdrawn_files(frame: Frame) -> list[dict[str, Encoded]]:
    """Take back each file that may stand at the receiver, under its own OBX-3 and OBX-4."""
    names = ("section.code", "section.text", "section.system")
    code = dict(zip(names, map(plain, REPORT_FILE), strict=True))
    line = plain(frame.context.report_text)
    return [{**code, "sub_id": plain(each), "line": line} for each in sorted(frame.manner.formats)]


def document_rows(frame: Frame) -> list[dict[str, Encoded]]:
    """One row per file, in base64 without line ends; its name is its sub-id for ever."""
    return [
        {
            "format": plain(each),
            "sub_id": plain(each),
            "data": plain(b64encode(frame.context.files[each]).decode("ascii")),
        }
        for each in sorted(frame.manner.formats & frame.context.files.keys())
    ]


def metadata_rows(frame: Frame) -> list[dict[str, Encoded]]:
    """One row per Metadata key; what is no text is written as JSON."""
    return [
        {
            "key": plain(key),
            "value": formatted(_as_text(value)),
            "entry": formatted(f"{key}: {_as_text(value)}"),
            "sub_id": plain(str(number)),
            "target": plain(frame.manner.target(key)),
        }
        for number, (key, value) in enumerate(frame.order.metadata.items(), start=1)
        if frame.manner.wanted(key) and value not in ("", None)
    ]


def metadata_fields(frame: Frame) -> dict[str, dict[int, Encoded]]:
    """Give what Metadata go into fields: by segment and number, several joined by a blank."""
    found: defaultdict[str, dict[int, Encoded]] = defaultdict(dict)
    for row in metadata_rows(frame):
        segment, dash, number = row["target"].partition("-")
        if dash:
            before = found[segment].get(int(number), NOTHING)
            both = f"{before} {row['value']}" if before else row["value"]
            found[segment][int(number)] = Encoded(both)
    return found


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def metadata_segments(frame: Frame) -> list[Encoded]:
    """Write the Z segments that keys go to: one a key, or one of all that name its fields."""
    rows = [row for row in metadata_rows(frame) if _is_whole_segment(row["target"])]
    written = [
        segment(row["target"], [plain(str(number)), row["key"], row["value"]])
        for number, row in enumerate(rows, start=1)
    ]
    for name, fields in metadata_fields(frame).items():
        if name.startswith("Z"):
            numbers = range(1, max(fields) + 1)
            written.append(segment(name, [fields.get(number, NOTHING) for number in numbers]))
    return written


def _is_whole_segment(target: str) -> bool:
    return target.startswith("Z") and "-" not in target


LOOPS: Mapping[str, Callable[[Frame], list[dict[str, Encoded]]]] = {
    "text": text_rows,
    "documents": document_rows,
    "metadata": metadata_rows,
}
"""What can be gone through within an order."""
