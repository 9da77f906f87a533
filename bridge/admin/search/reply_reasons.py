"""
Why a receiver did not accept a message, for display: its errors, with the fields of our message.

Texts of a receiver may contain patient data. They are left out unless the user may read content.
"""

from typing import Any

from bridge.queue.attempts import Attempt
from mappings.hl7.acknowledgment import ERROR_DESCRIPTIONS, ReceivedError, read_ack
from mappings.hl7.field_names import field_name

MAX_SHOWN_BYTES = 512
"""Bytes of something that is not an acknowledgment that are shown."""

DESCRIPTIONS = {code.value: words for code, words in ERROR_DESCRIPTIONS.items()}
"""The descriptions of table 0357 by code."""


def reply_errors(reply: bytes, *, with_texts: bool) -> list[dict[str, Any]]:
    """Return the errors of a reply: code, description, severity, place, field name and text."""
    return [_error(error, with_texts=with_texts) for error in read_ack(reply).errors]


def _error(error: ReceivedError, *, with_texts: bool) -> dict[str, Any]:
    places = [place for place in error.place.split(", ") if place]
    described = error.description if with_texts else ""
    return {
        "code": error.code if with_texts or error.code in DESCRIPTIONS else "",
        "description": described or DESCRIPTIONS.get(error.code, ""),
        "severity": error.severity[:1],
        "place": error.place,
        "field": ", ".join(filter(None, dict.fromkeys(map(field_name, places)))),
        "text": error.text if with_texts else "",
    }


def attempt_view(attempt: Attempt, *, with_texts: bool) -> dict[str, Any]:
    """Return an attempt or further reply with its errors, and the reason in one line."""
    return {
        "kind": attempt.kind.value,
        "at": attempt.at,
        "code": attempt.code,
        "detail": attempt.detail,
        "retry_at": attempt.retry_at,
        "errors": reply_errors(attempt.reply, with_texts=with_texts),
        "reason": reason_of(attempt, with_texts=with_texts),
        "reply": shown_bytes(attempt.reply) if with_texts else "",
    }


def reason_of(attempt: Attempt, *, with_texts: bool) -> str:
    """Return why an attempt was not accepted, in one line."""
    errors = reply_errors(attempt.reply, with_texts=with_texts)
    if errors:
        return "; ".join(map(error_line, errors))
    text = read_ack(attempt.reply).text if with_texts else ""
    return text or attempt.detail


def error_line(error: dict[str, Any]) -> str:
    """Return one error in one line: `102 Data type error at OBR-16.2 (Ordering Provider): …`."""
    line = f"{error['code']} {error['description']}".strip()
    if error["severity"] in {"W", "I"}:
        line += f" ({'warning' if error['severity'] == 'W' else 'information'})"
    if error["place"]:
        field = f" ({error['field']})" if error["field"] else ""
        line += f" at {error['place']}{field}"
    return f"{line}: {error['text']}".strip(": ") if error["text"] else line.strip()


def shown_bytes(data: bytes) -> str:
    """Return the first bytes that a receiver sent, with control characters as escapes."""
    text = data[:MAX_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    shown = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
    return shown + ("…" if len(data) > MAX_SHOWN_BYTES else "")
