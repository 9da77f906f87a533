"""
Name variants: when two spellings of a person's name, under one patient identifier, are one name.

Pure. The rules are one table in `docs/patient-names.md`. They explain omissions, abbreviations and
transliterations, and nothing else: two names that differ in a part which both spell out are two
names. They are no search: names are only compared where the identifiers are equal already.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

_EXPANDED: Mapping[int, str] = MappingProxyType(
    str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "æ": "ae", "œ": "oe"})
)
_REDUCED: Mapping[int, str] = MappingProxyType(
    str.maketrans({"ß": "ss", "ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ð": "d"})
    | str.maketrans({"þ": "th", "\N{LATIN SMALL LETTER DOTLESS I}": "i", "ħ": "h", "ŋ": "ng"})
)
_UMLAUT_DIGRAPH = re.compile(r"(?<![aeoq])([aou])e")
"""Behind a vowel, or q, it is none: Bauer is not Baur."""

_ALTERNATIVES = "="
"""Parts a DICOM name into its alphabetic, ideographic and phonetic forms."""

_SUFFIXES: Mapping[str, str] = MappingProxyType({"junior": "jr", "senior": "sr"})
_MALE = frozenset({"mr", "herr", "monsieur", "m"})
_FEMALE = frozenset({"mrs", "ms", "miss", "frau", "madame", "mme", "mlle"})
_LONGEST = 256  # characters; longer names are only compared as a whole
_PARTS = 5  # family, given, further, suffix, prefix


class _Name(NamedTuple):
    """The parts of a name, folded to lower case."""

    family: str
    given: tuple[str, ...]
    suffix: str
    prefix: str


@lru_cache(maxsize=512)
def are_compatible(one: str, other: str) -> bool:
    """
    Tell whether two names may be spellings of one: `DOE^JANE^QUINN` and `DOE^J`.

    Both as `family^given^further^suffix^prefix`, with or without alternatives behind `=`.
    """
    if max(len(one), len(other)) > _LONGEST:
        return one.casefold() == other.casefold()
    return any(
        _match(first, second) for first in _alternatives(one) for second in _alternatives(other)
    )


def _alternatives(text: str) -> Iterator[_Name]:
    for alternative in text.split(_ALTERNATIVES):
        parts = unicodedata.normalize("NFC", alternative).casefold().split("^")
        family, given, further, suffix, prefix = (parts + [""] * _PARTS)[:_PARTS]
        yield _Name(family, tuple(_words(f"{given} {further}")), suffix, prefix)


def _words(text: str) -> list[str]:
    """Part names at blanks and hyphens; the dot of an abbreviation stays with it."""
    return [word for word in re.split(r"[\s\-]+", text.replace(".", ". ")) if _letters(word)]


def _letters(text: str) -> str:
    return "".join(each for each in text if each.isalnum())


def _spellings(text: str) -> frozenset[str]:
    """Give a text without accents and punctuation, umlauts as one letter and as two."""
    both = (text.translate(dict(_REDUCED)), text.translate(dict(_EXPANDED)))
    return frozenset(_plain(each.translate(dict(_REDUCED))) for each in both)


def _plain(text: str) -> str:
    """Strip accents of letters; marks that are letters of their own script stay."""
    decomposed = unicodedata.normalize("NFKD", text)
    kept = (each for each in decomposed if unicodedata.category(each) != "Mn")
    return _letters(unicodedata.normalize("NFC", "".join(kept)))


def _same(one: str, other: str) -> bool:
    return not _spellings(one).isdisjoint(_spellings(other))


def _same_family(one: str, other: str) -> bool:
    if not _letters(one) or not _letters(other):
        return False
    first, second = (
        {_UMLAUT_DIGRAPH.sub(r"\1", spelling) for spelling in _spellings(each)}
        for each in (one, other)
    )
    return not first.isdisjoint(second)


def _match(one: _Name, other: _Name) -> bool:
    return (
        _same_family(one.family, other.family)
        and _same_given(one.given, other.given)
        and _same_suffix(one.suffix, other.suffix)
        and not _contradict(one.prefix, other.prefix)
    )


def _same_given(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Compare the first names, and those that both have behind it, in order."""
    if not one or not other:
        return not one and not other
    if _same("".join(one), "".join(other)):
        return True
    if not _same_word(one[0], other[0]):
        return False
    shorter, longer = sorted((one[1:], other[1:]), key=len)
    rest = iter(longer)
    return all(any(_same_word(word, each) for each in rest) for word in shorter)


def _same_word(one: str, other: str) -> bool:
    """Tell whether two names are equal, or one is the initial or abbreviation of the other."""
    if _same(one, other):
        return True
    shorter, longer = sorted((one, other), key=lambda each: len(_letters(each)))
    return _is_short(shorter) and any(
        full.startswith(short) for full in _spellings(longer) for short in _spellings(shorter)
    )


def _is_short(word: str) -> bool:
    """Tell whether a name is one letter of an alphabet, or ends with a dot."""
    letters = _letters(word)
    alphabetic = all(each.upper() != each.lower() for each in letters)
    return alphabetic and (len(letters) == 1 or word.endswith("."))


def _same_suffix(one: str, other: str) -> bool:
    first, second = (_letters(each) for each in (one, other))
    if not first or not second:
        return True
    return _SUFFIXES.get(first, first) == _SUFFIXES.get(second, second)


def _contradict(one: str, other: str) -> bool:
    """Tell whether two titles are of different sexes; any other difference means nothing."""
    first, second = ({_letters(word) for word in each.split()} for each in (one, other))
    return bool((first & _MALE and second & _FEMALE) or (first & _FEMALE and second & _MALE))
