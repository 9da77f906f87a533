"""
The form of a message: its segments' names, its delimiters and charset, which marks it uses.

Read from the bytes in a few microseconds. What is unusual has no form, and is mapped by the
rules themselves.
"""

from functools import lru_cache
from operator import itemgetter
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
_HEAD = itemgetter(slice(4))
_make = tuple.__new__  # what a NamedTuple does itself, without its detour
_MOST_ESCAPES = 100  # that are looked at
_LONGEST_DECLARED = 60  # bytes of MSH-2 and MSH-18


class Manner:
    """How the text of messages is read. The same one for the same declarations."""

    __slots__ = ("_utf_8", "codec", "delimiters", "start")

    def __init__(self, marks: Delimiters, codec: str, start: int) -> None:
        self.delimiters = marks
        self.codec = codec
        self._utf_8: Manner | None = None
        self.start = start
        """Where the text begins, behind MSH-2."""

    def in_utf_8(self) -> "Manner":
        """Give the same in UTF-8; the same one each time."""
        if self._utf_8 is None:
            self._utf_8 = Manner(self.delimiters, "utf-8", self.start)
        return self._utf_8

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
    manner = None
    if len(head) >= _DECLARED and len(head[1]) + len(said) <= _LONGEST_DECLARED:
        manner = _manner(separator, head[1], said, fallback)
    if manner is None:
        return None
    try:
        if body.isascii():
            text = body.decode("ascii")
        elif head[_FIELDS:] and _is_split_otherwise(head[_FIELDS], separator):
            return None
        elif manner.codec in WESTERN:
            text, manner = _western(body, manner)
        else:
            text = body.decode(manner.codec)
    except UnicodeDecodeError:
        return None
    lines = text.split("\r")
    form = _form(text, lines, manner)
    return None if len(lines) > MOST_LINES else _make(Sent, (form, lines, raw, fallback))


def _form(text: str, lines: list[str], manner: Manner) -> Form:
    marks, start = manner.delimiters, manner.start
    escape = text.find(marks.escape, start) if marks.escape else -1
    form = (
        "\r".join(map(_HEAD, lines)),
        manner,
        bool(marks.repetition) and text.find(marks.repetition, start) >= 0,
        escape >= 0,
        bool(marks.subcomponent) and text.find(marks.subcomponent, start) >= 0,
        '"' in text or (escape >= 0 and manner.may_hide(text, escape)),
    )
    return _make(Form, form)


def _western(body: bytes, manner: Manner) -> tuple[str, Manner]:
    """Decode as `charset.detect` would: what is valid UTF-8 is UTF-8 in truth."""
    try:
        return body.decode("utf-8"), manner.in_utf_8()
    except UnicodeDecodeError:
        return body.decode(manner.codec), manner


def _is_split_otherwise(rest: bytes, separator: bytes) -> bool:
    """Whether a field behind MSH-18 names a charset in which separators may be parts of letters."""
    codecs = (charset.known_codec(each.decode("latin-1")) for each in rest.split(separator))
    return any(codec in DELIMITERS_IN_CHARACTERS for codec in codecs)


@lru_cache(maxsize=256)
def _manner(separator: bytes, marks: bytes, said: bytes, fallback: str) -> Manner | None:
    try:
        found = delimiters.read(separator + marks)
    except Malformed:
        return None
    names = charset.declared(said, found.repetition)
    chosen = charset.codec_for(names, fallback)
    if chosen in DELIMITERS_IN_CHARACTERS or chosen.startswith("iso2022"):
        return None
    return Manner(found, chosen, 4 + len(marks))
