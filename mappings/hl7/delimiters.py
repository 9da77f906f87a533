"""
Delimiters: the separators that a message declares in MSH-1 and MSH-2.

Parsing tolerates deviations whose meaning is certain, and refuses all others. Escape sequences are
in `mappings.hl7.escapes`.
"""

from dataclasses import dataclass
from functools import lru_cache
from string import punctuation

from mappings.hl7.refusals import MalformedMessage, MalformedReason

_STANDARD = "^~\\&"  # component, repetition, escape, subcomponent (HL7 v2.5.1 §2.5.4)
_SPARE = "$*+%!?"  # replacements if a sender uses a standard character for something else
_MAX_ENCODING_CHARACTERS = 5  # the fifth is the truncation character of v2.7
_PUNCTUATION = frozenset(punctuation.encode())


@dataclass(frozen=True, slots=True)
class Delimiters:
    """The separators of one message. An empty one was not declared and never matches."""

    field: str = "|"
    component: str = "^"
    repetition: str = "~"
    escape: str = "\\"
    subcomponent: str = "&"
    truncation: str = ""

    @property
    def encoding_characters(self) -> str:
        """MSH-2 of these delimiters."""
        return self.component + self.repetition + self.escape + self.subcomponent + self.truncation

    @lru_cache(maxsize=256)  # noqa: B019  # immutable, few, and needed for each ACK
    def completed(self) -> "Delimiters":
        r"""
        Return delimiters with every character set, so that any text can be written.

        For example, `^~` becomes `^~\&`.
        """
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
    Parse the delimiters from MSH-1 and MSH-2: `|^~\&`.

    * Fewer than four encoding characters: the others are not declared.
    * Five: the last one is the truncation character (HL7 v2.7 §2.5.5).
    * `^~\\&` is read as `^~\&`: some senders double the backslash.
    * No character, a repeated one, more than five, letters, digits, blanks and other bytes raise
      MalformedMessage.
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
