"""
Whether a DICOM file is of the patient of an order.

A file contradicts an order by its PatientID, name or date of birth. A value that the file or the
order lacks contradicts nothing. Spellings of one name agree: case, diacritics, punctuation,
component groups (`Yamada^Tarou=山田^太郎`), a missing or abbreviated middle name, a missing prefix.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping

from bridge.engine.rules.patients import certain_date

MRN, NAME, BIRTH_DATE = "PatientMRN", "PatientName", "PatientBirthDate"
GENERATIONS = frozenset({"jr", "sr", "ii", "iii", "iv"})
TITLES = frozenset({"dr", "prof", "mr", "mrs", "ms", "md", "phd", "frau", "herr"})
UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "ø": "oe"})
_WORD = re.compile(r"[^\W_]+")
_PIECES = re.compile("[\\s,\u3000]+")
_LATIN_MARKS = re.compile("[\u0300-\u036f]")
_LONGEST = 256  # characters of a name that are compared


def contradictions(
    file: Mapping[str, str],
    *,
    mrns: Iterable[str],
    names: Iterable[str],
    birth_dates: Iterable[str],
) -> tuple[str, ...]:
    """
    Return the tags by which a file contradicts what is known of a patient.

    Several known values are alternatives: the file has to agree with one of them.
    """
    known_ids = {each.strip() for each in mrns} - {""}
    given_id = file.get(MRN, "").strip()
    found = [MRN] if given_id and known_ids and given_id not in known_ids else []
    known_names = [each for each in names if _groups(each)]
    given_name = file.get(NAME, "")
    if _groups(given_name) and known_names:
        certain = bool(given_id) and given_id in known_ids
        if not any(compatible_names(given_name, each, same_id=certain) for each in known_names):
            found.append(NAME)
    dates = {day for each in birth_dates if (day := certain_date(each))}
    born = certain_date(file.get(BIRTH_DATE, ""))
    if born and dates and born not in dates:
        found.append(BIRTH_DATE)
    return tuple(found)


def compatible_names(one: str, other: str, *, same_id: bool = False) -> bool:
    """
    Tell whether two names can be those of one person.

    Names in different scripts cannot be compared; they are compatible only with `same_id`.
    """
    first, second = _groups(one), _groups(other)
    pairs = [(a, b) for a in first for b in second if _scripts(a) == _scripts(b)]
    if not pairs:
        return same_id
    return any(_compatible(a, b, same_id=same_id) for a, b in pairs)


def _groups(name: str) -> list[str]:
    """Return the component groups of a PN value that have letters."""
    folded = unicodedata.normalize("NFKC", name[:_LONGEST]).casefold()
    return [group for group in folded.split("=") if _WORD.search(group)]


def _scripts(group: str) -> frozenset[str]:
    """Return `LATIN`, `CJK`, `HIRAGANA` and so on, as the names of the letters begin."""
    names = (unicodedata.name(each, "") for each in group if each.isalpha())
    return frozenset(name.partition(" ")[0] for name in names if "PROLONGED" not in name)


def _compatible(one: str, other: str, *, same_id: bool) -> bool:
    if _generations(one) and _generations(other) and _generations(one) != _generations(other):
        return False
    if "^" in one and "^" in other:
        given = _given(one), _given(other)
        return _families_agree(one, other) and _given_agree(*given, same_id=same_id)
    return _words_agree(one, other)


def _families_agree(one: str, other: str) -> bool:
    first, second = (_spellings(each.partition("^")[0]) for each in (one, other))
    return bool(first & second)


def _given(group: str) -> list[str]:
    """Return the given and middle names."""
    parts = group.split("^")[1:3]
    pieces = [piece for part in parts for piece in _PIECES.split(part) if _WORD.search(piece)]
    return [piece for piece in pieces if _letters(piece) not in GENERATIONS | TITLES]


def _given_agree(one: list[str], other: list[str], *, same_id: bool) -> bool:
    """Compare given names in order: those behind the first may be missing or initials."""
    for place, (first, second) in enumerate(zip(one, other, strict=False)):
        if _spellings(first) & _spellings(second):
            continue
        short, long = sorted((_letters(first), _letters(second)), key=len)
        initial = len(short) == 1 and long.startswith(short) and (place or same_id)
        if not initial:
            return False
    return True


def _words_agree(one: str, other: str) -> bool:
    """Compare names without components: the words of one are among those of the other."""
    first, second = _words(one), _words(other)
    if not first or not second:
        return True
    if "".join(sorted(first)) == "".join(sorted(second)) or _solid(one) & _solid(other):
        return True
    short, long = sorted((first, second), key=len)
    return all(
        any(
            _spellings(word) & _spellings(each) or (len(word) == 1 and each.startswith(word))
            for each in long
        )
        for word in short
    )


def _words(group: str) -> list[str]:
    words = [_plain(word) for word in _WORD.findall(group)]
    return [word for word in words if word not in GENERATIONS | TITLES]


def _solid(group: str) -> set[str]:
    return _spellings(group.replace("^", ""))


def _generations(group: str) -> set[str]:
    return {_letters(each) for each in re.split(r"[\s^,]+", group)} & GENERATIONS


def _letters(text: str) -> str:
    return "".join(_WORD.findall(_plain(text)))


def _spellings(text: str) -> set[str]:
    """Return how a word is written without diacritics: `ü` as `u` and as `ue`."""
    transliterated = unicodedata.normalize("NFC", text).translate(UMLAUTS)
    return {_letters(text), _letters(transliterated)}


def _plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", _LATIN_MARKS.sub("", decomposed))
