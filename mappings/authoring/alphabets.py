"""
Characters by their kind, and the letters that can replace one without a change of its bytes.

A replaced text keeps its length in the character set of the message, so that fixed fields stay.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import Final
from unicodedata import category
from unicodedata import name as character_name

from mappings.hl7.charset import UTF_8_WITH_STRAYS


def kind_of(character: str) -> str:
    """Return `letter`, `digit` or `other`; a byte that is no character is a letter."""
    if character.isdecimal():
        return "digit"
    return "letter" if character.isalpha() or "\udc80" <= character <= "\udcff" else "other"


def runs(text: str) -> Iterator[str]:
    """Yield the maximal runs of letters, of digits, and of other characters."""
    for _, run in groupby(text, kind_of):
        yield "".join(run)


def words(text: str) -> Iterator[str]:
    """Yield the maximal runs of letters."""
    return (run for run in runs(text) if kind_of(run[0]) == "letter")


class Codec:
    """Decodes and encodes the bytes of one message, also those that are no characters."""

    def __init__(self, name: str) -> None:
        self.name, self._errors = name, "strict"
        if name == UTF_8_WITH_STRAYS:
            self.name, self._errors = "utf-8", "surrogateescape"

    def decode(self, data: bytes) -> str:
        return data.decode(self.name, self._errors)

    def encode(self, text: str, original: bytes) -> bytes:
        """Return the bytes of a text; those of the original if it is unchanged."""
        if text == self.decode(original):
            return original
        return text.encode(self.name, self._errors)

    def blank(self, character: str) -> str:
        """Return the character that replaces any letter or digit of a removed text."""
        if character.isdecimal():
            return chr(ord(character) - int(character))
        if kind_of(character) != "letter":
            return character
        return alphabet(character, self.name)[0]


_STRAYS = "".join(chr(0xDC00 + byte) for byte in (0xE4, 0xF6, 0xFC, 0xE9, 0xE8, 0xE0, 0xE7, 0xF1))
_BLOCK = 256


@lru_cache(maxsize=8192)
def alphabet(character: str, codec: str) -> str:
    """
    Return letters that can replace a letter: of its script, case, and number of bytes in a codec.

    The first one replaces a removed letter. The letters of both cases have the same order.
    """
    if character.isascii():
        return "X" if character.isupper() else "x"
    if "\udc80" <= character <= "\udcff":
        return _STRAYS
    model = character.lower() if len(character.lower()) == 1 else character
    lengths = _length(model, codec), _length(_upper(model), codec)
    script = _script(model)
    block = 0 if script in _LARGE_SCRIPTS else ord(model) // _BLOCK * _BLOCK
    letters = _letters(script, block, category(model), lengths, codec)
    return (letters if character == model else "".join(map(_upper, letters))) or character


@lru_cache(maxsize=256)
def _letters(script: str, block: int, letters: str, lengths: tuple[int, int], codec: str) -> str:
    """`block`: the first of the characters that are examined, 0 in large scripts."""
    examined = _LARGE_SCRIPTS.get(script) or [range(block, block + _BLOCK)]
    return "".join(
        other
        for part in examined
        for other in map(chr, part)
        if (_script(other), category(other)) == (script, letters)
        if (_length(other, codec), _length(_upper(other), codec)) == lengths
    )


_LARGE_SCRIPTS: Final = {
    "CJK": [range(0x4E00, 0x9FA0, 16), range(0x20000, 0x2A6D0, 64)],
    "HANGUL": [range(0xAC00, 0xD7A0, 8)],
}
"""
Characters of scripts with thousands of them.

The other ones in the block of a character would tell much about the character.
"""


def _upper(character: str) -> str:
    upper = character.upper()
    return upper if len(upper) == 1 and upper.lower() == character else character


def _script(character: str) -> str:
    return character_name(character, "").partition(" ")[0].partition("-")[0]


def _length(character: str, codec: str) -> int:
    try:
        encoded = character.encode(codec)
    except UnicodeEncodeError:
        return 0
    return len(encoded) if encoded.decode(codec) == character else 0
