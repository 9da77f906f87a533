r"""Delimiters as MSH-1 and MSH-2 declare them (HL7 v2.5.1 §2.5.4)."""

import pytest

from mappings.hl7.header import STANDARD, Delimiters, read_delimiters
from mappings.hl7.refusals import MalformedMessage, MalformedReason


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        (rb"|^~\&", STANDARD),
        (rb"|^~\&#", Delimiters(truncation="#")),
        (rb"^~|\&", Delimiters("^", "~", "|", "\\", "&")),
        (rb"@~&#\ ".strip(), Delimiters("@", "~", "&", "#", "\\")),
        (rb"|^~\&  ", STANDARD),
        (rb"|^~\\&", STANDARD),
        (rb"|^~", Delimiters(escape="", subcomponent="")),
        (rb"|^", Delimiters(repetition="", escape="", subcomponent="")),
        (rb"|^~}", Delimiters(escape="}", subcomponent="")),
    ],
)
def test_read(declaration: bytes, expected: Delimiters) -> None:
    """Any punctuation is accepted; missing characters are absent; a doubled backslash is one."""
    assert read_delimiters(declaration) == expected


@pytest.mark.parametrize(
    ("declaration", "place"),
    [
        (b"", "MSH-1"),
        (b" ^~\\&", "MSH-1"),
        (b"A^~\\&", "MSH-1"),
        (b"\x0b^~\\&", "MSH-1"),
        (b"\xa6^~\\&", "MSH-1"),
        (b"|", "MSH-2"),
        (b"|   ", "MSH-2"),
        (b"|^^\\&", "MSH-2"),
        (b"|^~\\&#!", "MSH-2"),
        (b"|^~\\A", "MSH-2"),
        (b"|^\xcb\x9c\\&", "MSH-2"),
        (b"|^~ &", "MSH-2"),
    ],
)
def test_refused(declaration: bytes, place: str) -> None:
    """An ambiguous declaration is malformed, with its location."""
    with pytest.raises(MalformedMessage) as raised:
        read_delimiters(declaration)
    assert raised.value.place == place
    assert raised.value.reason in {
        MalformedReason.FIELD_SEPARATOR,
        MalformedReason.ENCODING_CHARACTERS,
    }


@pytest.mark.parametrize(
    ("declaration", "completed"),
    [
        (rb"|^~\&", "^~\\&"),
        (rb"|^~\&#", "^~\\&#"),
        (rb"|^~", "^~\\&"),
        (rb"|&", "&~\\$"),
        (rb"\^", "^~$&"),
    ],
)
def test_completed(declaration: bytes, completed: str) -> None:
    """Undeclared characters are completed without duplicates."""
    assert read_delimiters(declaration).completed().encoding_characters == completed
