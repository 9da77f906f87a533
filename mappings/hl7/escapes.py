r"""
Escape sequences: delimiters and control characters inside text (HL7 v2.5.1 §2.7).

    \F\ \S\ \R\ \E\ \T\ \P\   the delimiters      \Xhh..\      bytes in the message's charset
    \.br\ \.sp\ \.ce\         line breaks         \H\ \N\      highlighting: dropped
    \Cxxyy\ \Mxxyyzz\        the bytes of an ISO 2022 escape sequence: another character set

Unknown sequences and a single escape character are kept as they are. Sequences do not nest. Local
sequences (`\Zdd\`) are kept literally, and so are hexadecimal ones that have no text: NUL and
control characters other than tab and line ends.

A character set applies until the next one, or to the end of the component. A set of G0 gives the
ASCII characters after it another meaning, as in `\M2442\;3ED\C2842\` for 山田. A set of G1 is about
bytes beyond ASCII, which are characters already if MSH-18 names the set. What is no text of its set
is kept as it was sent, with its sequences.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from unicodedata import category

from typing_extensions import override

from mappings.hl7.header import STANDARD, Delimiters

_HEX = re.compile(r"[Xx]((?:[0-9A-Fa-f]{2})++)")  # possessive: no memory for each repetition
_SWITCH = re.compile(r"[CM]([0-9A-Fa-f]{4}(?:[0-9A-Fa-f]{2})?)")
_OPAQUE = re.compile(r"Z\w*|C[0-9A-Fa-f]{4}|M[0-9A-Fa-f]{4}(?:[0-9A-Fa-f]{2})?")
_ASCII_SET = "2842"
_G0_SETS = {
    **dict.fromkeys(("284A", "2849", "2442", "2440", "242844"), "iso2022_jp_ext"),
    **dict.fromkeys(("2441", "242843"), "iso2022_jp_2"),
}
"""The codecs of sets that are designated to G0 (ISO-IR 14, 13, 87, 42, 159, 58, 149)."""
_G1_SETS = {
    **{f"2D{final}": f"iso8859-{part}" for part, final in (
        (1, "41"), (2, "42"), (3, "43"), (4, "44"), (5, "4C"), (6, "47"), (7, "46"), (8, "48"),
        (9, "4D"), (15, "62"),
    )},
    "2949": "shift_jis",  # half-width katakana are single bytes in it
    "242941": "gb2312",
    "242943": "euc_kr",
}  # fmt: skip
"""The codecs of sets that are designated to G1 (HL7 v2.5.1 §2.7.2, ISO-IR 58 and 149)."""
_RUN = re.compile("[!-~]+")
_BEYOND_ASCII = re.compile("[^\x00-\x7f]+")
_SINGLE_BYTES = ("iso8859", "cp125")
"""The first letters of codecs whose characters are bytes, which a set of G1 may read anew."""
_FORMAT = re.compile(r"\.(br|sp|ce|in|ti|fi|nf|sk)\s?([+-]?\d{1,3})?", re.IGNORECASE)
_HIGHLIGHTS = frozenset({"H", "N"})
_TEXT_CONTROLS = frozenset("\t\r\n")
_NO_TEXT = frozenset({"Cc", "Cn", "Co", "Cs"})
"""Unicode categories of controls, and of characters that are not assigned."""
_MAX_REPEATED = 60
r"""Limit of the lines or spaces of one sequence, so that `\.sp999\` does not inflate a text."""


def escape(text: str, delimiters: Delimiters = STANDARD, *, formatted: bool = False) -> str:
    r"""
    Escape text for a field; `unescape` is the inverse for text with no control character other than
    tab and line ends.

    Delimiters become their sequences. Control characters except tab become `\Xhh\`, so that no line
    end or framing byte of the text ends the message. With `formatted` (FT, TX) a line feed becomes
    `\.br\`. Raises ValueError if the delimiters are not `completed`.
    """
    if delimiters is STANDARD:  # a cached call takes longer than the translation
        return text.translate(_STANDARD_FORMATTED if formatted else _STANDARD_TABLE)
    return text.translate(_escape_table(delimiters, formatted))


@lru_cache(maxsize=64)
def _escape_table(delimiters: Delimiters, formatted: bool) -> dict[int, str]:
    """Return the table of `str.translate` that escapes a text."""
    mark = delimiters.escape
    if delimiters.completed() != delimiters:
        raise ValueError("escaping needs complete delimiters")
    table = {code: f"{mark}X{code:02X}{mark}" for code in (*range(0x20), 0x7F) if code != ord("\t")}
    if formatted:
        table[ord("\n")] = f"{mark}.br{mark}"
    return table | {
        ord(c): f"{mark}{name}{mark}" for name, c in delimiters_by_name(delimiters).items()
    }


@lru_cache(maxsize=64)
def delimiters_by_name(delimiters: Delimiters) -> Mapping[str, str]:
    """Return the declared delimiters by the names of their sequences: `|` by `F`."""
    sequences = {
        "F": delimiters.field,
        "S": delimiters.component,
        "T": delimiters.subcomponent,
        "R": delimiters.repetition,
        "E": delimiters.escape,
        "P": delimiters.truncation,
    }
    return {name: character for name, character in sequences.items() if character}


@lru_cache(maxsize=64)
def _simple(delimiters: Delimiters) -> Mapping[str, str]:
    """Return the common sequences with their texts."""
    return {**dict.fromkeys(_HIGHLIGHTS, ""), ".br": "\n", **delimiters_by_name(delimiters)}


_STANDARD_TABLE = _escape_table(STANDARD, formatted=False)
_STANDARD_FORMATTED = _escape_table(STANDARD, formatted=True)


def unescape(text: str, delimiters: Delimiters = STANDARD, codec: str = "utf-8") -> str:
    """Resolve the escapes of a field's text; `codec` decodes the bytes of hexadecimal escapes."""
    mark = delimiters.escape
    if not mark or mark not in text:
        return text
    parts = text.split(mark)
    simple = _simple(delimiters)
    if len(parts) % 2 and all(map(simple.__contains__, parts[1::2])):  # the usual case
        parts[1::2] = [simple[body] for body in parts[1::2]]
        return "".join(parts)
    return _Unescaper(text, mark, delimiters_by_name(delimiters), codec).read()


def unread_sets(text: str, delimiters: Delimiters = STANDARD) -> list[str]:
    """Return the sequences of character sets that an unescaped text still has, but for ASCII."""
    mark = delimiters.escape
    bodies = text.split(mark) if mark and mark in text else []
    found = (body for body in bodies if (one := _SWITCH.fullmatch(body)) and one[1] != _ASCII_SET)
    return [f"{mark}{body}{mark}" for body in dict.fromkeys(found)]


def transcribe(text: str, theirs: Delimiters, codec: str = "utf-8") -> str:
    """
    Rewrite a sender's text for the standard delimiters and keep escapes with the same meaning.

    Delimiters and non-ASCII bytes are rewritten. Formatting, highlighting, local sequences and
    hexadecimal ASCII are kept.
    """
    mark = theirs.escape
    if not mark or mark not in text:
        return escape(text)
    return _Transcriber(text, mark, delimiters_by_name(theirs), codec).read()


class _Unescaper:
    """Resolves the escapes of one text in one pass."""

    def __init__(self, text: str, mark: str, named: Mapping[str, str], codec: str) -> None:
        self._text = text
        self._mark = mark
        self._named = named
        self._codec = codec
        self._pending: list[tuple[str, bytes]] = []  # adjacent hexadecimal sequences
        self._done: list[str] = []
        self._set = ""  # the set in use: a key of _G0_SETS or _G1_SETS; '' is ASCII
        self._sent = ""  # its sequence
        self._run: list[str] = []  # the text in this set
        self._is_unread = False  # the last set was kept as sent, and so is the return to ASCII

    def read(self) -> str:
        at = 0
        while (start := self._text.find(self._mark, at)) >= 0:
            if start > at:
                self._write(self._text[at:start])
            at = self._sequence(start)
        self._write(self._text[at:])
        self._end_run()
        return "".join(self._done)

    def _sequence(self, start: int) -> int:
        """Resolve the sequence that begins at `start`; return the position after it."""
        end = self._text.find(self._mark, start + 1)
        body = self._text[start + 1 : end] if end > 0 else ""
        if found := _HEX.fullmatch(body):
            data = bytes.fromhex(found[1])
            if self._set in _G0_SETS and _RUN.fullmatch(data.decode("latin-1")):
                self._write(data.decode("ascii"))
            else:
                self._pending.append((f"{self._mark}{body}{self._mark}", data))
        elif found := _SWITCH.fullmatch(body):
            self._select(f"{self._mark}{body}{self._mark}", found[1].upper())
        elif (plain := self._plain(body)) is not None:
            self._write(plain)
        else:
            self._write(self._mark)
            return start + 1
        return end + 1

    def _plain(self, body: str) -> str | None:
        """Return the text of a sequence other than hexadecimal, None if it is not a sequence."""
        if body in self._named:
            return self._named[body]
        if body in _HIGHLIGHTS:
            return ""
        if found := _FORMAT.fullmatch(body):
            return _formatting(found[1].lower(), int(found[2] or 1))
        return f"{self._mark}{body}{self._mark}" if _OPAQUE.fullmatch(body) else None

    def _select(self, sent: str, chosen: str) -> None:
        """Use another character set; its sequence is kept if it is not known."""
        self._write("")  # first writes the pending sequences
        self._end_run()
        is_known = chosen in _G0_SETS or chosen in _G1_SETS
        self._set, self._sent = (chosen, sent) if is_known else ("", "")
        if not is_known and (chosen != _ASCII_SET or self._is_unread):
            self._done.append(self._written(sent))
        self._is_unread = not is_known and chosen != _ASCII_SET

    def _end_run(self) -> None:
        """Write the text in the set in use, as it was sent if it has no such characters."""
        sent, self._run = "".join(self._run), []
        if not sent:
            return
        text = _in_set(sent, self._set, self._codec)
        self._is_unread = text is None
        self._done.append(self._written(f"{self._sent}{sent}" if text is None else text))

    def _write(self, text: str) -> None:
        if self._pending:
            self._end_run()
            codec = _G1_SETS.get(self._set, self._codec)
            self._done.append(self._written(_text_of(self._pending, codec)))
            self._pending.clear()
        if text and self._set:
            self._run.append(text)
        elif text:
            self._done.append(self._written(text))

    def _written(self, text: str) -> str:
        """Return a piece of text as it is appended."""
        return text


class _Transcriber(_Unescaper):
    """Rewrites one text in one pass and keeps sequences that mean the same in both messages."""

    @override
    def _sequence(self, start: int) -> int:
        end = self._text.find(self._mark, start + 1)
        body = self._text[start + 1 : end] if end > 0 else ""
        if not self._is_kept(body, end):
            return super()._sequence(start)
        self._write("")  # first writes the pending sequences
        self._done.append(f"{STANDARD.escape}{body}{STANDARD.escape}")
        return end + 1

    def _is_kept(self, body: str, end: int) -> bool:
        if found := _HEX.fullmatch(body):
            data = bytes.fromhex(found[1])
            alone = not self._pending and self._text[end + 1 : end + 3].upper() != f"{self._mark}X"
            return alone and data.isascii() and _decoded(data, self._codec) == data.decode()
        return body in _HIGHLIGHTS or bool(_FORMAT.fullmatch(body) or _OPAQUE.fullmatch(body))

    @override
    def _written(self, text: str) -> str:
        return escape(text)


def _formatting(command: str, number: int) -> str:
    if command == "sp":
        return "\n" * min(max(number, 1), _MAX_REPEATED)
    if command == "sk":
        return " " * min(max(number, 0), _MAX_REPEATED)
    return "\n" if command in {"br", "ce"} else ""  # indentation and fill modes have no text


def _in_set(sent: str, chosen: str, codec: str) -> str | None:
    """Return the characters of a text in a set of ISO 2022; None if it has none of them."""
    try:
        if chosen in _G0_SETS:
            escape_sequence = b"\x1b" + bytes.fromhex(chosen)
            return _RUN.sub(
                lambda run: (escape_sequence + run[0].encode()).decode(_G0_SETS[chosen]), sent
            )
        if not codec.startswith(_SINGLE_BYTES) or codec == _G1_SETS[chosen]:
            return sent
        return _BEYOND_ASCII.sub(lambda run: run[0].encode(codec).decode(_G1_SETS[chosen]), sent)
    except UnicodeError:
        return None


def _text_of(sequences: Sequence[tuple[str, bytes]], codec: str) -> str:
    r"""
    Decode adjacent hexadecimal sequences: `\XC3\\XA9\` is é.

    Some senders write UTF-16, whose bytes contain NUL (`\X00E0\`): each sequence is then read
    alone. A sequence without text is kept as it is.
    """
    joined = b"".join([data for _, data in sequences])
    if 0 not in joined and (text := _decoded(joined, codec)) is not None:
        return text
    texts = [_decoded(data, codec) for _, data in sequences]
    if None in texts and 0 in joined and (text := _decoded_utf_16(joined)) is not None:
        return text
    return "".join(
        [sent if text is None else text for text, (sent, _) in zip(texts, sequences, strict=True)]
    )


def _decoded(data: bytes, codec: str) -> str | None:
    """Decode the bytes of hexadecimal sequences; None if they have no text."""
    if 0 in data:
        return _decoded_utf_16(data)
    for candidate in (codec, "cp1252", "latin-1"):
        with suppress(UnicodeDecodeError):
            text = data.decode(candidate)
            controls = {character for character in text if category(character) == "Cc"}
            if text and controls <= _TEXT_CONTROLS:
                return text
            if len(text) != len(data):  # not a charset of single bytes
                return None
    return None


def _decoded_utf_16(data: bytes) -> str | None:
    """Decode UTF-16; big-endian, unless the second byte of each character is NUL."""
    for codec in ("utf-16-be",) if any(data[1::2]) else ("utf-16-le", "utf-16-be"):
        with suppress(UnicodeDecodeError):
            text = data.decode(codec).removeprefix("\ufeff")
            if text and all(
                character in _TEXT_CONTROLS or category(character) not in _NO_TEXT
                for character in text
            ):
                return text
    return None
