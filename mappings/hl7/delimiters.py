"""
Delimiters: the separators a message declares for itself in MSH-1 and MSH-2.

Reading is tolerant where the meaning is beyond doubt and refuses where it is not. Says nothing
about text: escaping is in `mappings.hl7.escapes`.
"""

from dataclasses import dataclass
from functools import lru_cache
from string import punctuation

from mappings.hl7.refusals import MalformedMessage, MalformedReason

_STANDARD = "^~\\&"  # component, repetition, escape, subcomponent (HL7 v2.5.1 §2.5.4)
_SPARE = "$*+%!?"  # stand in where a sender has used a standard character for something else
_MAX_ENCODING_CHARACTERS = 5  # the fifth is the truncation character of v2.7
_PUNCTUATION = frozenset(punctuation.encode())


@dataclass(frozen=True, slots=True)
class Delimiters:
    """The separators of one message; an empty one was not declared and is never found."""

    field: str = "|"
    component: str = "^"
    repetition: str = "~"
    escape: str = "\\"
    subcomponent: str = "&"
    truncation: str = ""

    @property
    def encoding_characters(self) -> str:
        """MSH-2 as these delimiters declare it."""
        return self.component + self.repetition + self.escape + self.subcomponent + self.truncation

    @lru_cache(maxsize=256)  # noqa: B019  # frozen, few, and asked for with every ACK
    def completed(self) -> "Delimiters":
        r"""Fill what was not declared, so that anything can be written: `^~` gives `^~\&`."""
        chosen: list[str] = []
        declared = (self.component, self.repetition, self.escape, self.subcomponent)
        taken = {self.field, *declared}
        for character, standard in zip(declared, _STANDARD, strict=True):
            free = (spare for spare in standard + _SPARE if spare not in taken)
            chosen.append(character or next(free))
            taken.add(chosen[-1])
        component, repetition, escape, subcomponent = chosen
        return Delimiters(self.field, component, repetition, escape, subcomponent, self.truncation)


STANDARD = Delimiters()


@lru_cache(maxsize=256)
def read(declaration: bytes) -> Delimiters:
    r"""
    Read the delimiters from `|^~\&`: MSH-1, then MSH-2.

    * Fewer than four encoding characters: the missing ones are absent, and never split anything.
    * Five: the last is the truncation character (HL7 v2.7 §2.5.5).
    * `^~\\&`, a backslash doubled by somebody's string literal, is read as `^~\&`.
    * None, one twice, more than five, letters, digits, blanks or other bytes: Malformed.
    """
    separator, encoding = declaration[:1], declaration[1:].rstrip(b" ")
    if not separator or separator[0] not in _PUNCTUATION:
        raise MalformedMessage(MalformedReason.FIELD_SEPARATOR, "MSH-1")
    if len(encoding) == _MAX_ENCODING_CHARACTERS and encoding[2] == encoding[3]:
        encoding = encoding[:3] + encoding[4:]
    distinct = {*encoding, *separator}
    if (
        not 1 <= len(encoding) <= _MAX_ENCODING_CHARACTERS
        or len(distinct) != len(encoding) + 1
        or not distinct <= _PUNCTUATION
    ):
        raise MalformedMessage(MalformedReason.ENCODING_CHARACTERS, "MSH-2")
    characters = list(encoding.decode("ascii"))
    characters += [""] * (_MAX_ENCODING_CHARACTERS - len(characters))
    return Delimiters(chr(separator[0]), *characters)
