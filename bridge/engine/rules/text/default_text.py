"""
Default text in brackets: `[Unremarkable.]` becomes report text unless the reader replaces it.

A bracket holds default text when it reads as a finished statement: it ends with a full stop or an
exclamation mark, or it is a common phrase for a normal finding. Signing removes its brackets.
Any other bracket requests a value (`[size]`, `[one / two]`, `[Describe the nodule.]`): it stays
open, and the checks before signing report it.
"""

import re
from typing import Any, Final

BRACKET = re.compile(r"\[([^\[\]]*)\]")

_MAX_LENGTH: Final = 500
_CHOICE = re.compile(r"\s/\s|\|")
_WORD = re.compile(r"\w{3}")
_REQUEST = re.compile(
    r"(?:please|describe|enter|insert|specify|select|choose|state|dictate|type|add|give|list|fill|"
    r"complete|indicate|bitte|beschreib\w*|eingeben|angeben|décri\w*|saisi\w*|describ\w*|indi[cq]\w*)\b"
    r"|.*(?:eingeben|angeben|beschreiben|auswählen)[.!]?$",
    re.IGNORECASE,
)
_NORMAL = re.compile(
    r"(?:normal\w?|within normal limits|unremarkable|clear|intact|negative|unchanged|none|"
    r"unauffällig|regelrecht|keine?|sin alteraciones|sem alterações|正常|未见异常|"
    r"異常なし|이상 없음)|no (?!of\b)\w[^?:]*\w",
    re.IGNORECASE,
)


def is_default(label: str) -> bool:
    """Return whether the text of a bracket is default text, not a request for a value."""
    text = label.strip()
    if not 0 < len(text) <= _MAX_LENGTH or _CHOICE.search(text) or _REQUEST.match(text):
        return False
    return _is_sentence(text) or _NORMAL.fullmatch(text) is not None


def _is_sentence(text: str) -> bool:
    if text.endswith(("\u3002", "\uff01", "\uff61")):
        return len(text) > 1
    return text[-1] in ".!" and text[-2:-1] not in (".", "…") and _WORD.search(text) is not None


def has_defaults(text: str) -> bool:
    """Return whether a plain text contains a bracket with default text."""
    return "[" in text and any(is_default(match[1]) for match in BRACKET.finditer(text))


def accept_defaults(document: Any) -> Any:
    """Return the JSON of a document with each default text accepted."""
    if isinstance(document, list):
        return [accept_defaults(each) for each in document]
    if not isinstance(document, dict):
        return document
    if document.get("type") == "text":
        return document | {"text": BRACKET.sub(_unbracketed, document["text"])}
    if document.get("type") == "field":
        label = document["label"]
        accepts = not document.get("value") and is_default(label)
        return document | ({"value": label.strip()} if accepts else {})
    return {name: accept_defaults(value) for name, value in document.items()}


def _unbracketed(match: re.Match[str]) -> str:
    return match[1].strip() if is_default(match[1]) else match[0]
