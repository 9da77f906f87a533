"""
The form of a message: its segments' names, its delimiters and charset, which marks it uses.

Read from the bytes in a few microseconds. What is unusual has no form, and is mapped by the
rules themselves.
"""

from functools import lru_cache
from typing import NamedTuple

from mappings.hl7 import charset, delimiters
from mappings.hl7.charset import DELIMITERS_IN_CHARACTERS, WESTERN
from mappings.hl7.delimiters import Delimiters
from mappings.hl7.lines import AFTER
from mappings.hl7.refusals import Malformed
from mappings.scope import Defaults

LONGEST = 64_000  # bytes of a message that has a form
MOST_LINES = 100
_HEADER = b"MSH"
_CHARSET = 17  # MSH-18, where the first field is MSH-2
_FIELDS = 18
_DECLARED = 3  # parts of an MSH that ends no sooner than behind its delimiters
_make = tuple.__new__  # what a NamedTuple does itself, without its detour
_MOST_ESCAPES = 100  # that are looked at
_LONGEST_DECLARED = 60  # bytes of MSH-2 and MSH-18


class Manner:
    """How the text of messages is read. The same one for the same declarations."""

    __slots__ = ("codec", "delimiters", "start")

    def __init__(self, marks: Delimiters, codec: str, start: int) -> None:
        self.delimiters = marks
        self.codec = codec
        self.start = start
        """Where the text begins, behind MSH-2."""

    def may_hide(self, text: str, at: int) -> bool:
        """Whether an escape, from the one at a place on, may stand for any character."""
        mark, most = self.delimiters.escape, _MOST_ESCAPES
        while at >= 0 and most:
            if text[at + 1 : at + 2] in "Xx":
                return True
            at, most = text.find(mark, at + 1), most - 1
        return not most


class Form(NamedTuple):
    """What messages that the same code can map have in common."""

    heads: str
    """The first four characters of every line."""
    manner: Manner
    repeated: bool
    """Whether there are repetitions anywhere; so the others."""
    escaped: bool
    parted: bool
    quoted: bool
    """Whether a value may be the null: there are quotation marks, or escapes that may be some."""


class Sent(NamedTuple):
    """A message that has a form: its lines as text."""

    form: Form
    lines: list[str]
    raw: bytes
    fallback: str


class Given(NamedTuple):
    """What values are read with, beside their text: a `Setting`."""

    delimiters: Delimiters
    encoding: str
    defaults: Defaults


def sent(raw: bytes, fallback: str) -> Sent | None:
    """Read the form of a message; `fallback` is the codec where MSH-18 is silent or unknown."""
    if raw[:3] != _HEADER or b"\n" in raw or len(raw) > LONGEST:
        return None
    body = raw.rstrip(AFTER)
    end = body.find(b"\r")
    separator = raw[3:4]
    head = (body if end < 0 else body[:end]).split(separator or b"|", _FIELDS)
    said = head[_CHARSET] if len(head) > _CHARSET else b""
    if len(head) < _DECLARED or len(head[1]) + len(said) > _LONGEST_DECLARED:
        return None
    if body.isascii():
        manner = _manner(separator, head[1], said, fallback)
        if manner is None:
            return None
        text = body.decode("ascii")
    else:
        manner, text = _decoded(body, separator, head, said, fallback)
        if manner is None:
            return None
    marks, start = manner.delimiters, manner.start
    lines = text.split("\r")
    if len(lines) > MOST_LINES:
        return None
    escape = text.find(marks.escape, start) if marks.escape else -1
    form = (
        "\r".join([line[:4] for line in lines]),
        manner,
        bool(marks.repetition) and text.find(marks.repetition, start) >= 0,
        escape >= 0,
        bool(marks.subcomponent) and text.find(marks.subcomponent, start) >= 0,
        '"' in text or (escape >= 0 and manner.may_hide(text, escape)),
    )
    return _make(Sent, (_make(Form, form), lines, raw, fallback))


def _decoded(
    body: bytes, separator: bytes, head: list[bytes], said: bytes, fallback: str
) -> tuple[Manner | None, str]:
    """Decode as `charset.detect` would; no manner where that is in doubt."""
    manner = _manner(separator, head[1], said, fallback)
    if manner is None or (head[_FIELDS:] and _is_split_otherwise(head[_FIELDS:], separator)):
        return None, ""
    codec = manner.codec
    try:
        if codec in WESTERN:  # what is valid UTF-8 is UTF-8 in truth
            return _manner(separator, head[1], said, fallback, "utf-8"), body.decode("utf-8")
        return manner, body.decode(codec)
    except UnicodeDecodeError:
        pass
    try:
        return (manner, body.decode(codec)) if codec in WESTERN else (None, "")
    except UnicodeDecodeError:
        return None, ""


def _is_split_otherwise(rest: list[bytes], separator: bytes) -> bool:
    """Whether a field behind MSH-18 names a charset in which separators may be parts of letters."""
    codecs = (
        charset.known_codec(each.decode("latin-1"))
        for part in rest
        for each in part.split(separator)
    )
    return any(codec in DELIMITERS_IN_CHARACTERS for codec in codecs)


@lru_cache(maxsize=256)
def _manner(
    separator: bytes, marks: bytes, said: bytes, fallback: str, codec: str = ""
) -> Manner | None:
    try:
        found = delimiters.read(separator + marks)
    except Malformed:
        return None
    names = charset.declared(said, found.repetition)
    chosen = codec or charset.codec_for(names, fallback)
    if chosen in DELIMITERS_IN_CHARACTERS or chosen.startswith("iso2022"):
        return None
    return Manner(found, chosen, 4 + len(marks))
