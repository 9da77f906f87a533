"""
The usual shapes of times and names, read at one look: digits without a zone, names of plain parts.

Says the same as `mappings.hl7.times` and `mappings.hl7.names`, or nothing: what is unusual in any
way is theirs.
"""

from functools import lru_cache

from mappings.hl7.delimiters import Delimiters

_LENGTHS = frozenset({8, 10, 12, 14})  # YYYYMMDD, and with hour, minute, second
_DAYS = frozenset(
    f"{month:02d}{day:02d}"
    for month, days in enumerate((31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), start=1)
    for day in range(1, days + 1)
)
_FIRST, _LAST = "1800", "2199"
_YEARS_FROM = 2
_OLDEST = 999
CARET = "^"
"""What parts the components of plain names."""
_DAY = 8
_YEAR = 10_000  # between two days written YYYYMMDD and read as numbers
_BEFORE_SUFFIX = 3


def looks_like_time(text: str) -> bool:
    """Whether a text is a day, or a time on a day, in digits that HL7's own form would have."""
    return (
        len(text) in _LENGTHS
        and text.isascii()
        and text.isdigit()
        and text[4:8] in _DAYS
        and _FIRST <= text[:4] <= _LAST
        and text[8:10] < "24"
        and text[10:12] < "60"
        and text[12:] < "60"
    )


is_time = lru_cache(maxsize=2048)(looks_like_time)
"""The same, for those that ask of one text several times."""


def years(birth: str, day: str) -> str:
    """Write the age between two plain times, where it is told in years; else nothing."""
    found = (int(day[:_DAY]) - int(birth[:_DAY])) // _YEAR
    return f"{min(found, _OLDEST):03d}Y" if found >= _YEARS_FROM else ""


def is_name(text: str, marks: Delimiters) -> bool:
    """Whether a field is one name of plain components: no mark in it but the caret."""
    return (
        marks.component == CARET
        and marks.repetition not in text  # what was not declared is in every text
        and marks.escape not in text
        and marks.subcomponent not in text
        and '"' not in text
        and text.isprintable()
    )


def person(text: str) -> str:
    """Write a plain XPN in the order of DICOM's PN, as `transforms` does."""
    parts = [part.strip() for part in text.split(CARET, 5)[:5]]
    if not any(parts[:2]):
        return ""
    if len(parts) > _BEFORE_SUFFIX:
        family, given, further, suffix, prefix = (*parts, "")[:5]
        parts = [family, given, further, prefix, suffix]
    return CARET.join(parts).rstrip(CARET)


@lru_cache(maxsize=4096)
def provider(text: str) -> str:
    """Write a plain XCN with its degree, as `transforms` does; few of them send everything."""
    parts = [part.strip() for part in text.split(CARET, 7)[:7]]
    _, family, given, further, suffix, prefix, degree = (*parts, *[""] * 7)[:7]
    said = (prefix, given, further, family, suffix)
    display = " ".join(filter(None, said))
    return f"{display}, {degree}" if degree and family else display
