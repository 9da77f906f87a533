"""
Person names: the parts of XPN and XCN, and the comparison of two spellings of a name.

`are_compatible` accepts omissions, abbreviations and transliterations. Names that differ in a part
which both spell out are different names. `docs/reference/hl7-conformance.md` lists the rules. They
compare the names of orders and DICOM files; they are not a search.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import dropwhile
from types import MappingProxyType
from typing import NamedTuple

from mappings.hl7.escapes import unescape
from mappings.hl7.message import Field, MessageSyntax, Repetition, cut

_NULL_OR_EMPTY = frozenset({"", '""'})
_NAME_TYPE = 7  # XPN.7, table 0200
_LEGAL, _DISPLAY = "L", "D"
_NAME_FORM = 8  # XPN.8, table 4000
_FORMS: Mapping[str, int] = MappingProxyType({"A": 0, "I": 1, "P": 2})
"""The groups of a DICOM name: alphabetic, ideographic, phonetic."""
GROUPS = "="
"""Separates the alphabetic, ideographic and phonetic group of a DICOM name (PS3.5 6.2.1.2)."""
_LINE_ENDS = re.compile(r"[\r\n\t]+")


class PersonName(NamedTuple):
    """The parts of a person's name; absent ones and nulls are ''. `identifier` is XCN.1 or CN.1."""

    family: str = ""
    given: str = ""
    further: str = ""
    suffix: str = ""
    prefix: str = ""
    degree: str = ""
    identifier: str = ""

    @staticmethod
    def from_xpn(repetition: Repetition) -> "PersonName":
        """Parse PN or XPN: family^given^further^suffix^prefix^degree."""
        return PersonName(*_parts(repetition, 6))

    @staticmethod
    def from_xcn(repetition: Repetition) -> "PersonName":
        """Parse CN or XCN: identifier^family^given^further^suffix^prefix^degree."""
        identifier, *parts = _parts(repetition, 7)
        return PersonName(*parts)._replace(identifier=identifier)

    @property
    def display(self) -> str:
        """`prefix given further family suffix`, or the identifier if there is no name."""
        parts = (self.prefix, self.given, self.further, self.family, self.suffix)
        return " ".join(part for part in parts if part) or self.identifier

    @property
    def dicom(self) -> str:
        """One group of a DICOM PN: family^given^middle^prefix^suffix (PS3.5 6.2.1)."""
        parts = (self.family, self.given, self.further, self.prefix, self.suffix)
        return "^".join(_LINE_ENDS.sub(" ", part.replace("^", " ")) for part in parts).rstrip("^")


def _parts(repetition: Repetition, count: int) -> list[str]:
    """Return the texts of the first components."""
    syntax = repetition.syntax
    return [
        _part_text(part, syntax)
        for part in cut(repetition.raw, syntax.delimiters.component)[:count]
    ]


def _part_text(component: str, syntax: MessageSyntax) -> str:
    """Return the text of a component; of a family name with subcomponents (FN) the surname."""
    marks = syntax.delimiters
    if marks.subcomponent and marks.subcomponent in component:
        component = component[: component.index(marks.subcomponent)]
    text = unescape(component, marks, syntax.codec).strip()
    return "" if text in _NULL_OR_EMPTY else text


def preferred_name(field: Field) -> Repetition | None:
    """Return the legal name (type L) of a repeating field, else the first non-empty name."""
    names = [one for one in field.repetitions if any(_parts(one, 2))]
    if len(names) <= 1:
        return names[0] if names else None
    legal = (one for one in names if _code(one, _NAME_TYPE) == _LEGAL)
    return next(legal, names[0])


def name_forms(field: Field) -> list[Repetition | None]:
    """
    Return the forms of the preferred name, in the order of DICOM's groups.

    The repetitions of PID-5 may have them in any order (XPN.8). A form has the type of the
    preferred name, or none; one without XPN.8 is alphabetic. Returns one name if there is one form.
    """
    preferred = preferred_name(field)
    if preferred is None:
        return []
    if len(field.repetitions) == 1:
        return [preferred]
    kind = _code(preferred, _NAME_TYPE)
    forms: list[Repetition | None] = [None, None, None]
    names = [one for one in field.repetitions if any(_parts(one, 2))]
    for others in ({kind}, {""} | ({_DISPLAY} if kind == _LEGAL else set())):
        for one in names:
            form = _FORMS.get(_code(one, _NAME_FORM))
            if form is not None and forms[form] is None and _code(one, _NAME_TYPE) in others:
                forms[form] = one
    if forms[0] is None:
        plain = (one for one in names if _code(one, _NAME_FORM) not in _FORMS)
        forms[0] = next((one for one in plain if _code(one, _NAME_TYPE) == kind), None)
    found = [one for one in forms if one is not None]
    return forms if len(found) > 1 else [preferred]


def dicom_name(field: Field) -> str:
    """Return a DICOM PN; the forms of a name (XPN.8) are its groups: `Yamada^Tarou=山田^太郎`."""
    forms = name_forms(field)
    if len(forms) <= 1:
        return "".join(PersonName.from_xpn(one).dicom for one in forms if one)
    groups = ["" if one is None else PersonName.from_xpn(one).dicom for one in forms]
    return GROUPS.join(group.replace(GROUPS, " ") for group in groups).rstrip(GROUPS)


def _code(name: Repetition, component: int) -> str:
    return name.component(component).text().strip().upper()


def has_all_forms(name: str, other: str) -> bool:
    """True if a name has each form of another one, and further forms."""
    own, others = (
        [group.strip().casefold() for group in text.split(GROUPS)] for text in (name, other)
    )
    return len(set(own) - {""}) > len(set(others) - {""}) and set(others) - {""} <= set(own)


_EXPANDED: Mapping[int, str] = MappingProxyType(
    str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "æ": "ae", "œ": "oe"})
)
_REDUCED: Mapping[int, str] = MappingProxyType(
    str.maketrans({"ß": "ss", "ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ð": "d"})
    | str.maketrans({"þ": "th", "\N{LATIN SMALL LETTER DOTLESS I}": "i", "ħ": "h", "ŋ": "ng"})
)
_UMLAUT_DIGRAPH = re.compile(r"(?<![aeoq])([aou])e")
"""An umlaut written with e. After a vowel or q it is not an umlaut: Bauer is not Baur."""

_PART = "^"
_SUFFIXES: Mapping[str, str] = MappingProxyType({"junior": "jr", "senior": "sr"})
_GENERATIONS = frozenset({"jr", "sr", "ii", "iii", "iv"})
_TITLES = frozenset({"dr", "prof", "md", "phd"})
_MALE = frozenset({"mr", "herr", "monsieur", "m"})
_FEMALE = frozenset({"mrs", "ms", "miss", "frau", "madame", "mme", "mlle"})
_ADDRESSES = frozenset({"dr", "prof", "mr", "mrs", "ms", "herr", "frau"})
"""Titles that are left out if they stand before a family or given name: `DOE^Dr. JANE`."""
_LATIN_MARKS = re.compile("[\u0300-\u036f]")
"""Combining accents. Marks of other scripts change the letter: か is not が."""

_LONGEST = 256  # characters; longer names are only compared as a whole
_PARTS = 5  # family, given, further, suffix, prefix


class _Name(NamedTuple):
    """The parts of a name in lower case."""

    whole: str
    family: str
    given: tuple[str, ...]
    suffix: str
    prefix: str

    @property
    def has_parts(self) -> bool:
        """Whether the name is written with `^`."""
        return _PART in self.whole


@lru_cache(maxsize=512)
def are_compatible(one: str, other: str, *, same_id: bool = True) -> bool:
    """
    True if two texts may be spellings of one name: `DOE^JANE^QUINN` and `DOE^J`.

    Both have the form `family^given^further^suffix^prefix`, optionally with alternatives after
    `=`. In DICOM the prefix comes before the suffix. `same_id`: both belong to the same patient
    identifier; without it, an initial does not match a given name.
    """
    if max(len(one), len(other)) > _LONGEST:
        return one.casefold() == other.casefold()
    return any(
        _match(first, second, same_id=same_id)
        for first in _alternatives(one)
        for second in _alternatives(other)
    )


@lru_cache(maxsize=512)
def have_same_given_name(one: str, other: str) -> bool:
    """True if two names have the same first given names. Family names can change."""
    if max(len(one), len(other)) > _LONGEST:
        return False
    return any(
        bool(first.given and second.given) and _same_given(first.given, second.given, same_id=True)
        for first in _alternatives(one)
        for second in _alternatives(other)
    )


def share_script(one: str, other: str) -> bool:
    """True if two names have alternatives in the same script and can be compared."""
    own, others = (
        {
            _scripts(alternative.whole)
            for alternative in _alternatives(name[:_LONGEST])
            if _letters(alternative.whole)
        }
        for name in (one, other)
    )
    return not own.isdisjoint(others)


def is_name(text: str) -> bool:
    """True if a text contains a letter or digit."""
    return bool(_letters(text[:_LONGEST]))


def _scripts(text: str) -> frozenset[str]:
    """Return the scripts of a text: `LATIN`, `CJK`, `HIRAGANA` and so on."""
    names = (unicodedata.name(character, "") for character in text if character.isalpha())
    return frozenset(name.partition(" ")[0] for name in names if "PROLONGED" not in name)


def _alternatives(text: str) -> Iterator[_Name]:
    for alternative in text.split(GROUPS):
        whole = unicodedata.normalize("NFKC", alternative).casefold()
        family, given, further, suffix, prefix = (whole.split(_PART) + [""] * _PARTS)[:_PARTS]
        given, family = _without_titles(given), _without_titles(family)
        yield _Name(whole, family, tuple(_words(f"{given} {further}")), suffix, prefix)


def _without_titles(text: str) -> str:
    words = text.replace(".", ". ").split()
    names = list(dropwhile(lambda word: _letters(word) in _ADDRESSES, words))
    return " ".join(names) if names and len(names) < len(words) else text


def _words(text: str) -> list[str]:
    """Split a name at blanks and hyphens. The dot of an abbreviation stays with it."""
    return [word for word in re.split(r"[\s\-]+", text.replace(".", ". ")) if _letters(word)]


def _letters(text: str) -> str:
    return "".join(character for character in text if character.isalnum())


def _spellings(text: str) -> frozenset[str]:
    """Return a text without accents and punctuation, with umlauts as one letter and as two."""
    both = (text.translate(dict(_REDUCED)), text.translate(dict(_EXPANDED)))
    return frozenset(_plain(spelling.translate(dict(_REDUCED))) for spelling in both)


def _plain(text: str) -> str:
    """Remove accents and punctuation."""
    decomposed = unicodedata.normalize("NFKD", text)
    return _letters(unicodedata.normalize("NFC", _LATIN_MARKS.sub("", decomposed)))


def _same(one: str, other: str) -> bool:
    return not _spellings(one).isdisjoint(_spellings(other))


def _same_family(one: str, other: str) -> bool:
    if not _letters(one) or not _letters(other):
        return False
    first, second = (
        {_UMLAUT_DIGRAPH.sub(r"\1", spelling) for spelling in _spellings(name)}
        for name in (one, other)
    )
    return not first.isdisjoint(second)


def _match(one: _Name, other: _Name, *, same_id: bool) -> bool:
    if not (one.has_parts and other.has_parts) and (
        _same_whole(one.whole, other.whole) or _has_name(one, other) or _has_name(other, one)
    ):
        return True
    return (
        _same_family(one.family, other.family)
        and _same_given(one.given, other.given, same_id=same_id)
        and _same_suffix(one, other)
        and not _contradict(one.prefix, other.prefix)
    )


def _same_whole(one: str, other: str) -> bool:
    """Compare two names of which one has no parts: the same words in any order, or joined."""
    first, second = _whole_words(one), _whole_words(other)
    if not first or not second:
        return False
    return _same("".join(first), "".join(second)) or _words_left(first, second) == []


def _has_name(name: _Name, other: _Name) -> bool:
    """True if a name without parts has family and given name of another one, and no more."""
    if not name.has_parts or other.has_parts or not name.given or not _letters(name.family):
        return False
    rest = _words_left([*_whole_words(name.family), name.given[0]], _whole_words(other.whole))
    return rest is not None and _words_left(rest, list(name.given[1:])) is not None


def _whole_words(text: str) -> list[str]:
    titles = {"", *_TITLES, *_ADDRESSES}
    words = [word for word in re.split(r"[\s,^]+", text) if _letters(word)]
    return [word for word in words if _letters(word) not in titles] or words


def _words_left(words: Iterable[str], others: Iterable[str]) -> list[str] | None:
    """Return the other words that are none of these; None if one of these is missing there."""
    left = list(others)
    for word in words:
        same = next((other for other in left if _same(word, other)), None)
        if same is None:
            return None
        left.remove(same)
    return left


def _same_given(one: tuple[str, ...], other: tuple[str, ...], *, same_id: bool) -> bool:
    """Compare the first given names, then the further names that both have, in order."""
    if not one or not other:
        return not one and not other
    if _same("".join(one), "".join(other)):
        return True
    if not (_same_word if same_id else _same)(one[0], other[0]):
        return False
    shorter, longer = sorted((one[1:], other[1:]), key=len)
    rest = iter(longer)
    return all(any(_same_word(word, candidate) for candidate in rest) for word in shorter)


def _same_word(one: str, other: str) -> bool:
    """True if two words are equal, or one is the initial or abbreviation of the other."""
    if _same(one, other):
        return True
    shorter, longer = sorted((one, other), key=lambda word: len(_letters(word)))
    return _is_abbreviation(shorter) and any(
        full.startswith(short) for full in _spellings(longer) for short in _spellings(shorter)
    )


def _is_abbreviation(word: str) -> bool:
    """True if a word is one letter of an alphabet or ends with a dot."""
    letters = _letters(word)
    alphabetic = all(letter.upper() != letter.lower() for letter in letters)
    return alphabetic and (len(letters) == 1 or word.endswith("."))


def _same_suffix(one: _Name, other: _Name) -> bool:
    """Compare generations, which DICOM has at the position of the prefix, and other suffixes."""
    pairs = (
        [_endings(f"{name.suffix} {name.prefix}") & _GENERATIONS for name in (one, other)],
        [_endings(name.suffix) - _TITLES for name in (one, other)],
    )
    return all(not first or not second or first == second for first, second in pairs)


def _endings(text: str) -> set[str]:
    words = {_letters(word) for word in text.split()} - {""}
    return {_SUFFIXES.get(word, word) for word in words}


def _contradict(one: str, other: str) -> bool:
    """True if two titles indicate different sexes. Any other difference is ignored."""
    first, second = ({_letters(word) for word in name.split()} for name in (one, other))
    return bool((first & _MALE and second & _FEMALE) or (first & _FEMALE and second & _MALE))
