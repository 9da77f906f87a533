r"""
Character sets of data sets: which one an answer has, and texts in it (PS3.5 6.1). Pure.

A character set is a value of (0008,0005), as `ISO_IR 100` or `ISO 2022 IR 6\ISO 2022 IR 87`; ''
is ASCII. A character that a set does not have is replaced, so that no text can break an answer.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from config.dicom import parse_charset

UTF_8: Final = "ISO_IR 192"
REPLACEMENT: Final = "?"
_SMALLEST_FIRST: Final = (
    *("ISO_IR 100", "ISO_IR 101", "ISO_IR 109", "ISO_IR 110", "ISO_IR 148", "ISO_IR 144"),
    *("ISO_IR 126", "ISO_IR 127", "ISO_IR 138", "ISO_IR 166"),
)
_CODECS: Final = {
    "100": "latin_1",
    "101": "iso8859_2",
    "109": "iso8859_3",
    "110": "iso8859_4",
    "144": "iso8859_5",
    "127": "iso8859_6",
    "126": "iso8859_7",
    "138": "iso8859_8",
    "148": "iso8859_9",
    "166": "iso8859_11",
    "13": "shift_jis",
    "87": "iso2022_jp",
    "159": "iso2022_jp_1",
    "149": "euc_kr",
    "58": "gb2312",
}
"""Codecs of Python, by the number of the character set."""
_WHOLE: Final = {UTF_8: "utf_8", "GB18030": "gb18030", "GBK": "gbk"}
"""Character sets without parts."""
_ESCAPES: Final = {
    "100": b"-A",
    "101": b"-B",
    "109": b"-C",
    "110": b"-D",
    "144": b"-L",
    "127": b"-G",
    "126": b"-F",
    "138": b"-H",
    "148": b"-M",
    "166": b"-T",
    "13": b")I",
    "87": b"$B",
    "159": b"$(D",
    "149": b"$)C",
    "58": b"$)A",
}
_IN_G0: Final = frozenset({"87", "159"})
_LETTERS: Final = {"6": b"(B", "13": b"(J"}
"""The escape sequences that lead back to the letters of the first character set."""
_DELIMITERS: Final = frozenset("^=\\\r\n\f\t")
"""Code extensions end before each of them (PS3.5 6.1.2.5.3)."""
_TERM: Final = re.compile(r"ISO[ _-]?(?:2022[ _-]?)?IR[ _-]?(\d+)", re.IGNORECASE)
_OTHER_NAMES: Final = {"UTF-8": UTF_8, "UTF8": UTF_8, "": ""}


def read_charset(values: Iterable[str]) -> str | None:
    """
    Return the character set that values of (0008,0005) mean; None if it is unknown.

    Usual mistakes are understood: `ISO IR 100`, or a set for code extensions alone.
    """
    terms = [term.strip() for term in values]
    numbers = [found[1] if (found := _TERM.fullmatch(term)) else None for term in terms]
    match terms:
        case [] | [""]:
            return ""
        case [single] if numbers[0] in _CODECS and numbers[0] in _SINGLE_BYTE:
            return f"ISO_IR {numbers[0]}"
        case [single] if not numbers[0] or numbers[0] in {"6", "192"}:
            plain = f"ISO_IR {numbers[0]}" if numbers[0] else single.upper()
            plain = _OTHER_NAMES.get(plain, plain)
        case _:
            extended = [f"ISO 2022 IR {number}" if number else "" for number in numbers]
            first = [] if numbers[0] in _SINGLE_BYTE or not terms[0] else ["ISO 2022 IR 6"]
            if any(term and not number for term, number in zip(terms, numbers, strict=True)):
                return None
            plain = "\\".join([*first, *(term for term in extended if term or term is extended[0])])
    try:
        return parse_charset(plain)
    except ValueError:
        return None


_SINGLE_BYTE: Final = frozenset(_CODECS) - {"87", "159", "149", "58"} | {"6"}


def choose(text: str, requested: str, fixed: str = "") -> str:
    """
    Return the character set of an answer with these characters.

    It is `fixed`, if the peer has one, or else that of the request, if it has all characters, or
    the smallest one that has them.
    """
    if fixed:
        return fixed
    if can_represent(text, requested):
        return requested
    return next((found for found in _SMALLEST_FIRST if can_represent(text, found)), UTF_8)


def can_represent(text: str, charset: str) -> bool:
    """True if a character set has all characters of a text."""
    if charset == UTF_8:
        return True
    if text.isascii():
        return _sets(charset)[0] != "13" or not set(text) & set("\\~")
    return all(sign.isascii() or _find(sign, charset) is not None for sign in dict.fromkeys(text))


def encode(text: str, charset: str) -> bytes:
    """Return a text in a character set, with `?` for each character that the set does not have."""
    if codec := _WHOLE.get(charset):
        return text.encode(codec, "replace")
    if text.isascii():
        return text.encode()
    first = _sets(charset)[0]
    letters = b"\x1b" + _LETTERS.get(first, _LETTERS["6"])
    found = bytearray()
    left, right, in_letters = "", first, True  # the sets of G0 and G1, and if G0 has letters
    for sign in text:
        if sign in _DELIMITERS or sign.isascii():
            found += b"" if in_letters else letters
            in_letters = True
            right = first if sign in _DELIMITERS else right
            found += sign.encode()
            continue
        part = _find(sign, charset)
        if part is None:
            found += b"" if in_letters else letters
            in_letters = True
            found += REPLACEMENT.encode()
            continue
        name, code = part
        if name in _IN_G0:
            if in_letters or left != name:
                found += b"\x1b" + _ESCAPES[name]
            in_letters, left = False, name
        elif name != right:
            found += b"\x1b" + _ESCAPES[name]
            right = name
        found += code
    return bytes(found if in_letters else found + letters)


def decode(value: bytes, charset: str) -> str:
    """Return the text of bytes in a character set; what has no meaning becomes U+FFFD."""
    if codec := _WHOLE.get(charset):
        return value.decode(codec, "replace")
    if value.isascii() and b"\x1b" not in value:
        return value.decode()
    first = _sets(charset)[0]
    left, right, at, found = "", first, 0, []
    while at < len(value):
        byte = value[at]
        if byte == _ESC and (escape := _ESCAPE.match(value, at + 1)):
            name = _MEANINGS[escape[0]]
            if name in _CODECS and name not in _IN_G0:
                right = name
            else:
                left = name if name in _IN_G0 else ""
            at = escape.end()
            continue
        size = 1
        if byte < _HIGH:
            sign = chr(byte)
            if byte <= _SPACE:
                left = ""
            elif left:
                size = 2
                sign = _decode_pair(value[at : at + 2], left)
            if not left and sign in _DELIMITERS:
                right = first
        else:
            size = 1 if right in _SINGLE_BYTE else 2
            sign = value[at : at + size].decode(_CODECS.get(right, "ascii"), "replace")
        found.append(sign)
        at += size
    return "".join(found)


_ESC: Final = 0x1B
_SPACE: Final = 0x20
_HIGH: Final = 0x80
_MEANINGS: Final = {
    **{code: name for name, code in _ESCAPES.items()},
    **dict.fromkeys(_LETTERS.values(), ""),
}
_ESCAPE: Final = re.compile(b"|".join(re.escape(code) for code in _MEANINGS))


def _decode_pair(pair: bytes, name: str) -> str:
    return (b"\x1b" + _ESCAPES[name] + pair + b"\x1b(B").decode(_CODECS[name], "replace")


@lru_cache(64)
def _sets(charset: str) -> tuple[str, ...]:
    """Return the numbers of a character set and of its code extensions."""
    return tuple(part.rpartition(" ")[2] or "6" for part in charset.split("\\"))


@lru_cache(20_000)
def _find(sign: str, charset: str) -> tuple[str, bytes] | None:
    """Return the first set that has a character that is not in ASCII, and its code there."""
    if codec := _WHOLE.get(charset):
        code = _codes(sign, codec)
        return (charset, code) if code else None
    for name in _sets(charset):
        if name in _CODECS and (code := _code_in(sign, name)):
            return name, code
    return None


def _code_in(sign: str, name: str) -> bytes:
    code = _codes(sign, _CODECS[name])
    if name in _IN_G0:
        start = b"\x1b" + _ESCAPES[name]
        return code[len(start) : len(start) + 2] if code.startswith(start) else b""
    length = 1 if name in _SINGLE_BYTE else 2
    return code if len(code) == length and min(code) > 0xA0 - (length == 1) else b""


def _codes(sign: str, codec: str) -> bytes:
    try:
        return sign.encode(codec)
    except UnicodeEncodeError:
        return b""
