r"""
Escapes: delimiters and control characters inside text (HL7 v2.5.1 §2.7).

    \F\ \S\ \R\ \E\ \T\ \P\   the delimiters      \Xhh..\      bytes in the message's charset
    \.br\ \.sp\ \.ce\         line breaks         \H\ \N\      highlighting: dropped

What is no escape sequence we know stays as it is, a lone escape character too. Sequences do
not nest. Charset switches (`\Cxxyy\`, `\Mxxyyzz\`) and local ones (`\Zdd\`) are kept literally.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from typing_extensions import override

from mappings.hl7.delimiters import STANDARD, Delimiters

_HEX = re.compile(r"[Xx]((?:[0-9A-Fa-f]{2})+)")
_OPAQUE = re.compile(r"Z\w*|C[0-9A-Fa-f]{4}|M[0-9A-Fa-f]{4}(?:[0-9A-Fa-f]{2})?")
_FORMAT = re.compile(r"\.(br|sp|ce|in|ti|fi|nf|sk)\s?([+-]?\d{1,3})?", re.IGNORECASE)
_HIGHLIGHTS = frozenset({"H", "N"})
_HIGH = 0x80
_CODE_UNIT = 2
_MOST_REPEATED = 60
r"""Lines or spaces of one sequence: `\.sp999\` must not make a text a hundred times as long."""


def escape(text: str, delimiters: Delimiters = STANDARD, *, formatted: bool = False) -> str:
    r"""
    Write text so that it can stand in a field; `unescape` is its inverse.

    Delimiters become their escapes; control characters but the tab become `\Xhh\`, so that
    neither a line end nor a framing byte of the text ends the message. `formatted` (FT, TX):
    a line feed becomes `\.br\`. The delimiters must be `completed`: ValueError otherwise.
    """
    if delimiters is STANDARD:  # nearly always: to look up its table takes longer than to write
        return text.translate(_WRITING_LINES if formatted else _WRITING)
    return text.translate(_writing(delimiters, formatted))


@lru_cache(maxsize=64)
def _writing(delimiters: Delimiters, formatted: bool) -> dict[int, str]:
    mark = delimiters.escape
    if delimiters.completed() != delimiters:
        raise ValueError("delimiters to write with must be complete")
    table = {code: f"{mark}X{code:02X}{mark}" for code in (*range(0x20), 0x7F) if code != ord("\t")}
    if formatted:
        table[ord("\n")] = f"{mark}.br{mark}"
    return table | {ord(c): f"{mark}{name}{mark}" for name, c in named(delimiters).items()}


@lru_cache(maxsize=64)
def named(delimiters: Delimiters) -> Mapping[str, str]:
    """Return the sequences that stand for the delimiters; undeclared ones are left out."""
    standing = {
        "F": delimiters.field,
        "S": delimiters.component,
        "T": delimiters.subcomponent,
        "R": delimiters.repetition,
        "E": delimiters.escape,
        "P": delimiters.truncation,
    }
    return {name: character for name, character in standing.items() if character}


@lru_cache(maxsize=64)
def _simple(delimiters: Delimiters) -> Mapping[str, str]:
    """Return the usual sequences with the text of each."""
    return {**dict.fromkeys(_HIGHLIGHTS, ""), ".br": "\n", **named(delimiters)}


_WRITING, _WRITING_LINES = _writing(STANDARD, formatted=False), _writing(STANDARD, formatted=True)


def unescape(text: str, delimiters: Delimiters = STANDARD, codec: str = "utf-8") -> str:
    """Read text from a field; `codec` is the message's, for the bytes of hexadecimal escapes."""
    mark = delimiters.escape
    if not mark or mark not in text:
        return text
    parts = text.split(mark)
    simple = _simple(delimiters)
    if len(parts) % 2 and all(map(simple.__contains__, parts[1::2])):  # nearly always
        parts[1::2] = [simple[body] for body in parts[1::2]]
        return "".join(parts)
    return _Reader(text, mark, named(delimiters), codec).read()


def transcribe(text: str, theirs: Delimiters, codec: str = "utf-8") -> str:
    """
    Write a sender's text with standard delimiters: the same escapes, wherever they mean the same.

    Delimiters and bytes of a charset are written anew; formatting, highlighting, local sequences
    and hexadecimal ASCII stay the sequences that they were.
    """
    mark = theirs.escape
    if not mark or mark not in text:
        return escape(text)
    return _Transcriber(text, mark, named(theirs), codec).read()


class _Reader:
    """One pass over one text."""

    def __init__(self, text: str, mark: str, named: Mapping[str, str], codec: str) -> None:
        self._text = text
        self._mark = mark
        self._named = named
        self._codec = codec
        self._bytes = bytearray()  # of hexadecimal escapes that touch: `\XC3\\XA9\` is one é
        self._done: list[str] = []

    def read(self) -> str:
        at = 0
        while (start := self._text.find(self._mark, at)) >= 0:
            if start > at:
                self._write(self._text[at:start])
            at = self._sequence(start)
        self._write(self._text[at:])
        return "".join(self._done)

    def _sequence(self, start: int) -> int:
        """Read what begins at `start`; return where to go on."""
        end = self._text.find(self._mark, start + 1)
        body = self._text[start + 1 : end] if end > 0 else ""
        if found := _HEX.fullmatch(body):
            self._bytes += bytes.fromhex(found[1])
        elif (plain := self._plain(body)) is not None:
            self._write(plain)
        else:
            self._write(self._mark)
            return start + 1
        return end + 1

    def _plain(self, body: str) -> str | None:
        """Return what a sequence other than hexadecimal stands for, None when it is none."""
        if body in self._named:
            return self._named[body]
        if body in _HIGHLIGHTS:
            return ""
        if found := _FORMAT.fullmatch(body):
            return _formatting(found[1].lower(), int(found[2] or 1))
        return f"{self._mark}{body}{self._mark}" if _OPAQUE.fullmatch(body) else None

    def _write(self, text: str) -> None:
        if self._bytes:
            self._done.append(_decoded(bytes(self._bytes), self._codec))
            self._bytes.clear()
        self._done.append(text)


class _Transcriber(_Reader):
    """One pass over one text, that leaves sequences what they are."""

    @override
    def _sequence(self, start: int) -> int:
        end = self._text.find(self._mark, start + 1)
        body = self._text[start + 1 : end] if end > 0 else ""
        if not self._stays(body):
            return super()._sequence(start)
        self._write("")
        self._done.append(f"{STANDARD.escape}{body}{STANDARD.escape}")
        return end + 1

    def _stays(self, body: str) -> bool:
        if found := _HEX.fullmatch(body):
            data = bytes.fromhex(found[1])
            return not self._bytes and data.isascii() and _decoded(data, self._codec).isascii()
        return body in _HIGHLIGHTS or bool(_FORMAT.fullmatch(body) or _OPAQUE.fullmatch(body))

    @override
    def _write(self, text: str) -> None:
        before = len(self._done)
        super()._write(text)
        self._done[before:] = map(escape, self._done[before:])


def _formatting(command: str, number: int) -> str:
    if command == "sp":
        return "\n" * min(max(number, 1), _MOST_REPEATED)
    if command == "sk":
        return " " * min(max(number, 0), _MOST_REPEATED)
    return "\n" if command in {"br", "ce"} else ""  # indents and fill modes leave no text


def _decoded(data: bytes, codec: str) -> str:
    r"""Decode the bytes of hexadecimal escapes; some senders write UTF-16 (`\X00E0\`)."""
    if len(data) == _CODE_UNIT and data[0] == 0 and data[1] >= _HIGH:
        return chr(data[1])
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        return data.decode("latin-1")
