r"""
De-identification: a message without patient data that a definition reads as it read the original.

Values are replaced in place. The numbers of segments, fields, repetitions and components stay, and
so do lengths, case, separators, delimiters, character set, line ends and faults. With the same key
equal values have equal replacements in all messages, and different numbers have different ones.

The data type of a component decides what happens to it:

* names, addresses and telephone numbers: words and digits of the same length and script
* numbers (MRN, accession, placer, filler, UID): permuted by the key; the check digit is computed
* dates: shifted by whole weeks, the same for each patient; birth dates of the very old are moved
* free text: each letter becomes `x`, each digit `0` (`keep`: without the names and numbers that
  other fields of the message have)
* documents: the same number of bytes without content
* codes: kept if they are of the standard or of the definition, or have at most five characters
  and three digits
* procedures (OBR-4, OBR-44, OBX-3), systems, facilities and wards: kept
* Z segments and unknown segments: removed as free text is, but for the fields that the definition
  reads

Codes, procedures and kept text are searched for the names (three letters or more) and numbers (four
digits or more) that other fields of the message have. A name that stands only in one of them is not
found.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from enum import Enum, auto
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from typing import Final, Literal
from unicodedata import category
from unicodedata import name as character_name

from mappings.hl7 import dictionary
from mappings.hl7.charset import UTF_8_WITH_STRAYS
from mappings.hl7.dictionary import VARIES, Dictionary
from mappings.hl7.header import Delimiters
from mappings.hl7.message import NULL, Message, Segment, cut
from mappings.hl7.refusals import MessageRefusal
from mappings.language.diagnostics import Sources
from parsers.limits import TABLE, DocumentRefused
from parsers.readers import read_csv


class NotDeidentified(ValueError):
    """A message that cannot be de-identified, because it cannot be read or written without loss."""

    def __init__(self) -> None:
        super().__init__("the message cannot be de-identified")


@dataclass(frozen=True, slots=True)
class Options:
    """What to keep. `options_for` adds what the definition that reads the messages needs."""

    text: Literal["remove", "keep"] = "remove"
    keep_sites: bool = True
    """Keep the names of systems, facilities, authorities and wards."""
    oldest: int = 89
    """Years; a date further before the message is moved to this age."""
    codes: frozenset[str] = frozenset()
    """
    Codes in upper case that are kept in coded fields and in `fields`, in addition to those of the
    standard. Letters beside digits, as in ACC7001, are kept if they are one of them.
    """
    fields: frozenset[str] = frozenset()
    """Fields of Z segments and unknown segments (`ZXX-3`) that are replaced, not removed."""


_COMMENT = re.compile(r"(?:^|\s)#.*")
_TOKEN = re.compile(r"[^\W_][\w.+/-]{0,19}")
_Z_FIELD = re.compile(r"\b(Z[A-Z0-9]{2})(?:\[[^\]]*\])?-(\d{1,3})\b")


def options_for(sources: Sources, options: Options | None = None) -> Options:
    """
    Return options with the codes and Z fields that the files of a definition name.

    Codes are the cells of code tables, and the words of rules without comments.
    """
    options = options or Options()
    codes, fields = set(options.codes), set(options.fields)
    for file, text in sources.items():
        if file.endswith(".csv"):
            with suppress(DocumentRefused):
                for _, cells in read_csv(text, TABLE):
                    codes.update(cell.strip().upper() for cell in cells)
        elif file.endswith((".yaml", ".yml")):
            rules = _COMMENT.sub("", text)
            codes.update(token.upper() for token in _TOKEN.findall(rules))
            codes.update(word.upper() for word in _words(rules))  # the prefix in `^HOSP-`
            fields.update("-".join(found) for found in _Z_FIELD.findall(rules))
    return replace(options, codes=frozenset(codes - {""}), fields=frozenset(fields))


class _Kind(Enum):
    """What a component has."""

    KEPT = auto()
    SITE = auto()
    CODE = auto()
    PROCEDURE = auto()
    IDENTIFIER = auto()
    CHECK_DIGIT = auto()
    NAME = auto()
    AFFIX = auto()
    ADDRESS = auto()
    NUMERIC = auto()
    DATE = auto()
    TIME = auto()
    TEXT = auto()
    REMOVED = auto()
    BINARY = auto()
    ANY = auto()
    """A string: its form decides."""


_PERSON = {
    **dict.fromkeys((1, 2, 3), _Kind.NAME),
    **dict.fromkeys((4, 5, 6, 14), _Kind.AFFIX),
    15: _Kind.NAME,
}
_NUMBERED_PERSON = {
    1: _Kind.IDENTIFIER,
    **dict.fromkeys((2, 3, 4), _Kind.NAME),
    **dict.fromkeys((5, 6, 7, 21), _Kind.AFFIX),
    8: _Kind.SITE,
    9: _Kind.SITE,
    11: _Kind.CHECK_DIGIT,
    14: _Kind.SITE,
}
_ADDRESS = {
    **dict.fromkeys((1, 2, 3, 5, 8, 9, 10, 11), _Kind.ADDRESS),
    **dict.fromkeys((4, 6, 7), _Kind.CODE),
}
_NUMBER_OF_AUTHORITY = {
    1: _Kind.IDENTIFIER,
    2: _Kind.CHECK_DIGIT,
    3: _Kind.CODE,
    4: _Kind.SITE,
    5: _Kind.CODE,
    6: _Kind.SITE,
}
_CODED = {
    **dict.fromkeys((1, 4, 10), _Kind.CODE),
    **dict.fromkeys((2, 5, 9, 11), _Kind.TEXT),
    **dict.fromkeys((3, 6, 7, 8, 12, 13), _Kind.SITE),
}
_SITES = dict.fromkeys(range(1, 30), _Kind.SITE)
_BY_LENGTH: Final = frozenset({_Kind.CODE, _Kind.ANY, _Kind.NUMERIC})
"""Kinds of which short values are kept."""
_COMPONENTS: Final[dict[str, dict[int, _Kind]]] = {
    "PN": _PERSON,
    "XPN": _PERSON,
    "FN": dict.fromkeys(range(1, 6), _Kind.NAME),
    "CN": _NUMBERED_PERSON,
    "XCN": _NUMBERED_PERSON,
    "PPN": _NUMBERED_PERSON,
    "CNN": _NUMBERED_PERSON,
    "AD": _ADDRESS,
    "XAD": _ADDRESS,
    "SAD": dict.fromkeys((1, 2, 3), _Kind.ADDRESS),
    "XTN": {
        **dict.fromkeys((1, 4, 5, 6, 7, 8, 9, 10, 11, 12), _Kind.ADDRESS),
        **dict.fromkeys((2, 3), _Kind.CODE),
    },
    "CK": _NUMBER_OF_AUTHORITY,
    "CX": _NUMBER_OF_AUTHORITY,
    "CM_PAT_ID": _NUMBER_OF_AUTHORITY,
    "EI": {1: _Kind.IDENTIFIER, 2: _Kind.SITE, 3: _Kind.SITE, 4: _Kind.CODE},
    "CM_PLACER": {1: _Kind.IDENTIFIER, 2: _Kind.SITE},
    "CM_FILLER": {1: _Kind.IDENTIFIER, 2: _Kind.SITE},
    "DLN": {1: _Kind.IDENTIFIER, 2: _Kind.CODE, 3: _Kind.DATE},
    "HD": _SITES,
    "XON": _SITES,
    "PL": _SITES,
    "CE": _CODED,
    "CWE": _CODED,
    "CNE": _CODED,
    "CF": _CODED,
    "ED": {**dict.fromkeys((1, 2, 3, 4), _Kind.SITE), 5: _Kind.BINARY},
    "RP": {1: _Kind.BINARY, **dict.fromkeys((2, 3, 4), _Kind.SITE)},
    "TS": {1: _Kind.DATE, 2: _Kind.CODE},
    "number": {1: _Kind.IDENTIFIER, **dict.fromkeys(range(2, 30), _Kind.CODE)},
    "study": {1: _Kind.IDENTIFIER, **dict.fromkeys((2, 3, 4), _Kind.SITE)},
    "MSG": dict.fromkeys((1, 2, 3), _Kind.CODE),
}
_MEASURES: Final = frozenset({"NM", "SN", "DT", "TM", "DTM"})
"""Primitive types of OBX-5 that are not text."""
_PRIMITIVES: Final = {
    "ID": _Kind.CODE,
    "IS": _Kind.CODE,
    "SI": _Kind.NUMERIC,
    "NM": _Kind.NUMERIC,
    "DT": _Kind.DATE,
    "DTM": _Kind.DATE,
    "TM": _Kind.TIME,
    "TN": _Kind.ADDRESS,
    "TX": _Kind.TEXT,
    "FT": _Kind.TEXT,
}
_FIELDS: Final = {
    **dict.fromkeys(
        (*(f"MSH-{number}" for number in (1, 2, 9, 11, 12, 15, 16, 18, 20)), "OBX-2"), _Kind.KEPT
    ),
    **dict.fromkeys(("MSH-3", "MSH-4", "MSH-5", "MSH-6", "MSH-21"), _Kind.SITE),
    **dict.fromkeys(("OBR-4", "OBR-44", "OBR-45", "OBX-3", "OBX-6"), _Kind.PROCEDURE),
    **dict.fromkeys(("OBR-13", "NTE-3", "PID-23", "DG1-4", "OBR-39"), _Kind.TEXT),
    **dict.fromkeys(("PID-6",), _Kind.NAME),
}
"""Fields whose kind their type does not say, in all versions."""
_NUMBERS: Final = frozenset(
    [
        *("MSH-10", "MSH-14", "MSA-2", "PID-2", "PID-3", "PID-4", "PID-18", "PID-19", "PID-20"),
        *("MRG-1", "ORC-2", "ORC-3", "ORC-4", "OBR-2", "OBR-3"),
        *("OBR-18", "OBR-19", "OBR-20", "OBR-21"),
    ]
)
"""Fields that have a number where their type is a string."""
_STUDY: Final = "ZDS-1"
_HEADERS: Final = frozenset({"MSH", "FHS", "BHS"})
_AFFIXES: Final = frozenset(
    [
        *("jr", "sr", "ii", "iii", "iv", "esq", "mr", "mrs", "ms", "miss", "dr", "prof", "frau"),
        *("herr", "dipl", "ing", "med", "md", "do", "phd", "rn", "np", "pa", "ba", "bs", "ma"),
        *(
            "ms",
            "mba",
            "dds",
            "dvm",
            "pharmd",
            "univ",
            "priv",
            "doz",
            "pd",
            "hr",
            "fr",
            "von",
            "van",
        ),
    ]
)
_SHORT_CODE: Final = 5
_SHORT_STRING: Final = 2
_SHORT_NUMBER: Final = 5  # digits of a measured value
_PREFIX: Final = 3  # letters beside digits, as in ACC7001
_MIN_DIGITS: Final = 3  # beside a prefix
_MIN_NAME: Final = 3  # letters of a name that is searched in other values
_MIN_NUMBER: Final = 4  # digits of a number that is searched in other values


class Deidentifier:
    """
    De-identifies messages with one key.

    Whoever has the key can find short numbers by trying all of them: create it for one export.
    """

    def __init__(self, key: bytes, options: Options | None = None) -> None:
        self._replacement = _Replacement(key)
        self._options = options or Options()

    def message(self, raw: bytes, patient: str = "", charset: str = "utf-8") -> bytes:
        """
        Return a message without patient data. Raises NotDeidentified.

        `patient` selects by how much dates are shifted; by default it is PID-3.1. `charset` is the
        codec of a message without MSH-18.
        """
        try:
            message = Message.parse(raw, fallback=charset)
        except MessageRefusal:
            raise NotDeidentified from None
        patient = patient or message.value("PID-3.1")
        done = _MessageWriter(message, patient, self._replacement, self._options).write()
        try:
            written = Message.parse(done, fallback=charset)
        except MessageRefusal:
            raise NotDeidentified from None
        if _shape(written) != _shape(message):
            raise NotDeidentified
        return done


def _shape(message: Message) -> tuple[str, Delimiters, list[tuple[str, int]]]:
    sizes = [(segment.id, len(segment)) for segment in message.segments]
    return message.encoding, message.delimiters, sizes


_PATIENT_SEGMENTS: Final = frozenset({"PID", "PD1", "NK1", "GT1", "IN1", "IN2", "MRG"})


@dataclass(slots=True)
class _Known:
    """The names (lower case) and numbers that the fields of a message have."""

    words: set[str] = field(default_factory=set)
    patients: set[str] = field(default_factory=set)
    """The names of patients and relatives among them."""
    addresses: set[str] = field(default_factory=set)
    """The words of addresses."""
    numbers: set[str] = field(default_factory=set)
    """Digits of identifiers."""
    identifiers: set[str] = field(default_factory=set)
    """Whole identifiers."""
    latest: date | None = None
    """The latest date."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A text without separators, its kind, and the code table of its place."""

    text: str
    kind: _Kind
    table: str = ""
    segment: str = ""


class _MessageWriter:
    """Writes one message again."""

    def __init__(
        self, message: Message, patient: str, replacement: "_Replacement", options: Options
    ) -> None:
        self._message = message
        self._marks = message.delimiters
        self._options = options
        self._dictionary = dictionary.names(message.header.version)
        self._codec = _Codec(message.encoding)
        self._known = _Known()
        self._replacement = replacement
        self._dates = _DateShift(
            replacement.weeks(patient), _read_date(message.value("MSH-7")), options.oldest
        )
        self._by_kind: dict[_Kind, Callable[[_Leaf, str], str]] = {
            _Kind.SITE: self._site,
            _Kind.CODE: self._code,
            _Kind.PROCEDURE: lambda leaf, text: self._searched(text, self._known.words),
            _Kind.IDENTIFIER: lambda leaf, text: self._number(text),
            _Kind.CHECK_DIGIT: lambda leaf, text: self._number(text),
            _Kind.NAME: lambda leaf, text: self._words(text),
            _Kind.ADDRESS: lambda leaf, text: self._words(text),
            _Kind.AFFIX: lambda leaf, text: text if _is_affix(text) else self._words(text),
            _Kind.NUMERIC: self._numeric,
            _Kind.DATE: lambda leaf, text: self._dates.shift(text) or self._number(text),
            _Kind.TIME: lambda leaf, text: text if _is_time(text) else self._number(text),
            _Kind.TEXT: lambda leaf, text: self._text(text),
            _Kind.REMOVED: lambda leaf, text: self._blank(text),
            _Kind.ANY: lambda leaf, text: self._any(text),
        }

    def write(self) -> bytes:
        for segment in self._message.segments:
            self._segment(segment, self._learn)
        if self._dates.sent is None:
            self._dates = replace(self._dates, sent=self._known.latest)
        done, position, raw = [], 0, self._message.raw
        for segment in self._message.segments:
            text = self._segment(segment, self._replaced)
            old = segment.raw.split(b"\n")
            new = text.split("\n")
            for before, after in zip(old, new, strict=True):
                start = raw.index(before, position)
                done += [raw[position:start], self._codec.encode(after, before)]
                position = start + len(before)
        return b"".join([*done, raw[position:]])

    def _segment(self, segment: Segment, leaf: Callable[[_Leaf], str]) -> str:
        r"""Return the text of a segment with each leaf replaced; line ends in it are `\n`."""
        text = "\n".join(map(self._codec.decode, segment.raw.split(b"\n")))
        fields = text.split(self._marks.field)
        first = 2 if segment.id in _HEADERS else 1
        kind = segment.value("2").strip() if segment.id == "OBX" else ""
        kind = kind if kind in _COMPONENTS or kind in _MEASURES else ""
        for index in range(1, len(fields)):
            number = index + first - 1
            if fields[index] and not (first == 2 and number == 2):  # noqa: PLR2004  # MSH-2
                rules = _FieldRules.of(self._dictionary, segment.id, number, kind, self._options)
                fields[index] = self._field(fields[index], segment.id, rules, leaf)
        return self._marks.field.join(fields)

    def _field(
        self, text: str, segment: str, rules: "_FieldRules", leaf: Callable[[_Leaf], str]
    ) -> str:
        marks = self._marks
        repetitions = cut(text, marks.repetition)
        for number, repetition in enumerate(repetitions):
            components = cut(repetition, marks.component)
            leaves = [
                [
                    _Leaf(part, *rules.part(index, below), segment)
                    for below, part in enumerate(cut(component, marks.subcomponent), start=1)
                ]
                for index, component in enumerate(components, start=1)
            ]
            new = [[leaf(part) for part in parts] for parts in leaves]
            _compute_check_digit(leaves, new)
            repetitions[number] = marks.component.join(map(marks.subcomponent.join, new))
        return marks.repetition.join(repetitions)

    def _learn(self, leaf: _Leaf) -> str:
        """Remember the names, numbers and dates of a leaf."""
        text, known = leaf.text, self._known
        if leaf.kind in {_Kind.NAME, _Kind.ADDRESS}:
            found = {word.casefold() for word in _words(text) if len(word) >= _MIN_NAME}
            if leaf.kind is _Kind.ADDRESS:
                known.addresses |= found
            else:
                known.words |= found
                known.patients |= found if leaf.segment in _PATIENT_SEGMENTS else set()
        elif leaf.kind is _Kind.IDENTIFIER:
            known.identifiers.add(text.strip())
            known.numbers.update(run for run in _DIGITS.findall(text) if len(run) >= _MIN_NUMBER)
        elif leaf.kind is _Kind.DATE and (day := _read_date(text)):
            known.latest = max(day, known.latest or day)
        return text

    def _replaced(self, leaf: _Leaf) -> str:
        text = leaf.text
        if leaf.kind is _Kind.KEPT or not text.strip() or text.strip() == NULL:
            return text
        if leaf.kind is _Kind.BINARY:
            return self._emptied(text)
        mark = self._marks.escape
        if not mark or mark not in text:
            return self._by_kind[leaf.kind](leaf, text)
        # The parts between escapes are shorter than the value: none passes for a short code.
        kind = _Kind.IDENTIFIER if leaf.kind in _BY_LENGTH else leaf.kind
        replaced = self._by_kind[kind]
        parts = []
        for part, form in _escapes(text, mark):
            match form:
                case _Form.TEXT:
                    parts.append(replaced(leaf, part))
                case _Form.MARKUP:
                    parts.append(part)
                case _Form.VALUE:
                    parts.append(_neutral(part))
        return "".join(parts)

    def _site(self, leaf: _Leaf, text: str) -> str:
        return text if self._options.keep_sites else self._number(text)

    def _code(self, leaf: _Leaf, text: str) -> str:
        code = text.strip()
        if code.upper() in self._options.codes or (
            leaf.table and dictionary.meaning(leaf.table, code)
        ):
            return text
        return self._short(text, _SHORT_CODE)

    def _numeric(self, leaf: _Leaf, text: str) -> str:
        is_measure = _is_measure(text) and text.strip() not in self._known.numbers
        return text if is_measure else self._number(text)

    def _words(self, text: str) -> str:
        return self._replacement.words(text, self._codec)

    def _short(self, text: str, longest: int) -> str:
        """Keep a short code that is neither a name nor a number of the message."""
        code = text.strip()
        own = code.casefold() in self._known.patients or code in self._known.identifiers
        digits = sum(character.isdecimal() for character in code)
        if len(code) <= longest and digits < _MIN_NUMBER and " " not in code and not own:
            return text
        return self._number(text)

    def _any(self, text: str) -> str:
        if text.strip().upper() in self._options.codes:
            return text
        if " " in text.strip() or "\n" in text:
            return self._text(text)
        if text.strip() not in self._known.numbers and (shifted := self._dates.shift_day(text)):
            return shifted
        if not any(map(str.isalpha, text)):  # such as the range 0-9
            return self._short(text, _SHORT_CODE)
        return self._short(text, _SHORT_STRING)

    def _number(self, text: str) -> str:
        if _UID.fullmatch(text.strip()):
            return self._replacement.uid(text)
        return self._replacement.identifier(text, self._is_prefix, self._codec)

    def _is_prefix(self, letters: str) -> bool:
        """True if letters beside digits are no name but what definitions recognize a number by."""
        is_short = len(letters) <= _PREFIX or letters.upper() in self._options.codes
        return is_short and letters.casefold() not in self._known.words

    def _text(self, text: str) -> str:
        if self._options.text == "remove":
            return self._blank(text)
        return self._searched(text, self._known.words | self._known.addresses, is_text=True)

    def _blank(self, text: str) -> str:
        if text.isascii():
            return text.translate(_BLANKS)
        return "".join(map(self._codec.blank, text))

    def _searched(self, text: str, names: Collection[str], *, is_text: bool = False) -> str:
        """
        Return a text in which these names and the numbers of the message are replaced.

        `is_text`: also dates, and all other numbers of four digits or more.
        """
        if is_text:
            for pattern in _WRITTEN_DATES:
                text = pattern.sub(self._dates.written, text)
        done = []
        for run in _runs(text):
            if run.casefold() in names:
                done.append(self._words(run))
            elif run in self._known.numbers:
                done.append(self._replacement.digits(run))
            elif is_text and run.isdecimal() and len(run) >= _MIN_NUMBER and not _is_year(run):
                done.append(self._dates.shift_day(run) or self._replacement.digits(run))
            else:
                done.append(run)
        return "".join(done)

    def _emptied(self, text: str) -> str:
        """Return a document of the same length without content; padding and line ends stay."""
        return self._blank(text).translate(_CONTENT)


class _FieldRules:
    """The kinds of the components of one field."""

    def __init__(self, known: Dictionary, data_type: str, kind: _Kind | None, table: str) -> None:
        """`kind`: of the whole field; None: the data type decides."""
        self._known = known
        self._type = data_type
        self._kind = kind
        self._table = table

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(
        known: Dictionary, segment: str, number: int, value_type: str, options: Options
    ) -> "_FieldRules":
        """`value_type` is OBX-2, if it names neither text nor something unknown."""
        place = f"{segment}-{number}"
        info = known.field(segment, number)
        data_type = info.type
        kind = _FIELDS.get(place)
        if segment in _PATIENT_SEGMENTS and data_type == "XON":
            kind = _Kind.ADDRESS  # an employer
        elif segment == "OBX" and data_type == VARIES:
            kind, data_type = (None, value_type) if value_type else (_Kind.TEXT, "")
        elif place == _STUDY:
            data_type = "study"
        elif not known.segment(segment):
            kind = _Kind.ANY if place in options.fields else _Kind.REMOVED
        elif place in _NUMBERS and not known.type(data_type):
            data_type = "number"
        return _FieldRules(known, data_type, kind, info.table)

    def part(self, component: int, subcomponent: int) -> tuple[_Kind, str]:
        """Return the kind and the code table of a subcomponent."""
        if self._kind is _Kind.PROCEDURE and component in {3, 6}:
            return _Kind.SITE, ""
        if self._kind is not None:
            return self._kind, ""
        if not self._known.type(self._type) and self._type not in _COMPONENTS:
            whole = component == subcomponent == 1
            return _PRIMITIVES.get(self._type, _Kind.ANY) if whole else _Kind.ANY, self._table
        part = self._known.component(self._type, component)
        table = self._table if component == 1 and self._type in {"CE", "CWE", "CNE"} else part.table
        if kind := _COMPONENTS.get(self._type, {}).get(component):
            return kind, table
        if part.type in _COMPONENTS or self._known.type(part.type):
            below = self._known.component(part.type, subcomponent)
            kind = _COMPONENTS.get(part.type, {}).get(subcomponent)
            return kind or _primitive(below.type), below.table or table
        return _primitive(part.type), table


def _primitive(data_type: str) -> _Kind:
    if kind := _PRIMITIVES.get(data_type):
        return kind
    return _COMPONENTS.get(data_type, {}).get(1, _Kind.ANY)


_DIGITS = re.compile(r"\d+")
_YEAR = r"(?P<year>(?:1[89]|20|21)\d\d)"
_MONTH, _DAY = r"(?P<month>\d{1,2})", r"(?P<day>\d{1,2})"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WORD = rf"(?P<word>(?:{'|'.join(_MONTHS)})[a-z]{{0,6}})"
_WRITTEN_DATES = [
    re.compile(rf"(?<!\d){pattern}(?!\d)", re.IGNORECASE | re.ASCII)
    for pattern in (
        rf"{_YEAR}-{_MONTH}-{_DAY}",
        rf"{_YEAR}/{_MONTH}/{_DAY}",
        rf"{_MONTH}/{_DAY}/{_YEAR}",
        rf"{_DAY}\.{_MONTH}\.{_YEAR}",
        rf"{_WORD}\.?\s+{_DAY}(?:st|nd|rd|th)?,?\s+{_YEAR}",
        rf"{_DAY}[\s-]{_WORD}[\s-]{_YEAR}",
    )
]
"""The formats that senders use instead of that of HL7, as in `mappings.hl7.times`."""
_UID = re.compile(r"[012](?:\.(?:0|[1-9]\d*)){3,}")
_UID_ROOT = 3  # arcs that stay
_TIME = re.compile(r"([01]\d|2[0-3])([0-5]\d([0-5]\d(\.\d{1,4})?)?)?([+-]\d{4})?")
_MEASURE = re.compile(r"[<>=]{0,2}[+-]?\d{0,8}(\.\d{0,5})?")
_MARKUP = re.compile(r"[FSTREPHN]|\.[a-z]{2}\s?(?:[+-]?\d{1,3})?|X(?:0D|0A|09)+", re.IGNORECASE)
_OPAQUE = re.compile(r"[Xx](?:[0-9A-Fa-f]{2})+|[CM](?:[0-9A-Fa-f]{4}(?:[0-9A-Fa-f]{2})?)|Z\w*")


def _is_year(text: str) -> bool:
    """True if a number of a text is rather a year: definitions and readers need `since 2020`."""
    return len(text) == len("YYYY") and text[:2] in {"19", "20"}


def _is_affix(text: str) -> bool:
    return all(word.casefold() in _AFFIXES for word in _words(text)) and not _DIGITS.search(text)


def _is_time(text: str) -> bool:
    return bool(_TIME.fullmatch(text.strip()))


def _is_measure(text: str) -> bool:
    if not _MEASURE.fullmatch(text.strip()):
        return False
    return sum(character.isdigit() for character in text) <= _SHORT_NUMBER


_BLANKS: Final = {
    **dict.fromkeys(range(ord("A"), ord("Z") + 1), "X"),
    **dict.fromkeys(range(ord("a"), ord("z") + 1), "x"),
    **dict.fromkeys(range(ord("0"), ord("9") + 1), "0"),
}
_CONTENT: Final = {character: "A" for character in range(ord("!"), 0x7F) if character != ord("=")}


class _Form(Enum):
    TEXT = auto()
    MARKUP = auto()
    """Delimiters, line ends, highlighting."""
    VALUE = auto()
    """A sequence that stands for text."""


def _escapes(text: str, mark: str) -> Iterator[tuple[str, _Form]]:
    """Yield the parts of a text."""
    at = begin = 0
    while (start := text.find(mark, at)) >= 0:
        end = text.find(mark, start + 1)
        body = text[start + 1 : end] if end > 0 else ""
        is_markup = bool(_MARKUP.fullmatch(body))
        if not is_markup and not _OPAQUE.fullmatch(body):
            at = start + 1
            continue
        if start > begin:
            yield text[begin:start], _Form.TEXT
        yield text[start : end + 1], _Form.MARKUP if is_markup else _Form.VALUE
        at = begin = end + 1
    if begin < len(text):
        yield text[begin:], _Form.TEXT


def _neutral(sequence: str) -> str:
    r"""Return a sequence of the same form and length: `\X4A6F\` becomes `\X7878\`."""
    mark, letter, body = sequence[0], sequence[1], sequence[2:-1]
    if letter in "Xx":
        body = "78" * (len(body) // 2)
    elif letter in "CM":
        body = ("2842" * 2)[: len(body)]
    else:
        body = "0" * len(body)
    return f"{mark}{letter}{body}{mark}"


def _kind_of(character: str) -> str:
    if character.isdecimal():
        return "digit"
    return "letter" if character.isalpha() or "\udc80" <= character <= "\udcff" else "other"


def _runs(text: str) -> Iterator[str]:
    """Yield the maximal runs of letters, of digits, and of other characters."""
    for _, run in groupby(text, _kind_of):
        yield "".join(run)


def _words(text: str) -> Iterator[str]:
    return (run for run in _runs(text) if _kind_of(run[0]) == "letter")


def _read_date(text: str) -> date | None:
    try:
        return date(int(text[:4]), int(text[4:6]), int(text[6:8]))
    except ValueError:
        return None


_DATE = re.compile(
    r"(?P<blank>\s*)(?P<year>(?:1[89]|20|21)\d\d)(?P<month>0[1-9]|1[0-2])?"
    r"(?P<day>(?<=\d{6})(?:0[1-9]|[12]\d|3[01]))?"
    r"(?P<rest>(?:(?<=\d{8})(?:[01]\d|2[0-4])(?:[0-5]\d(?:[0-5]\d)?)?(?:\.\d{1,6})?)?"
    r"(?:[+-]\d{4})?\s*)"
)


_CLOCK = re.compile(
    r"(?:(?:T|,?\s+)[\d:.,]{1,18}\s*(?:[ap]\.?m\.?)?[Z+\d:-]{0,6})?\s*", re.IGNORECASE
)


def _fitted(value: str, model: str) -> str:
    """Write a part of a date like another one, with as many characters; `9` for 10 to 31."""
    if not value.isdecimal():
        value = value.upper() if model.isupper() else value.capitalize()
        return value.ljust(len(model))
    return value.zfill(len(model)) if len(value) <= len(model) else "9" * len(model)


@dataclass(frozen=True, slots=True)
class _DateShift:
    """Shifts the dates of one message. `sent` is the date of the message."""

    weeks: int
    sent: date | None
    oldest: int

    def shift(self, text: str) -> str:
        """Return a shifted date with the same precision, "" if the text is none."""
        found = _DATE.fullmatch(text)
        if found is None:
            return self._shift_written(text)
        if not self._is_real(found):
            return ""
        year, month, day = (found[name] for name in ("year", "month", "day"))
        moved = self._moved(date(int(year), int(month or 7), int(day or 1)))
        digits = f"{moved.year:04}{moved.month:02}{moved.day:02}"
        return f"{found['blank']}{digits[: 8 if day else 6 if month else 4]}{found['rest']}"

    def _shift_written(self, text: str) -> str:
        for pattern in _WRITTEN_DATES:
            if (found := pattern.match(text)) and _CLOCK.fullmatch(text, found.end()):
                return self.written(found) + text[found.end() :]
        return ""

    def shift_day(self, text: str) -> str:
        """Return a shifted date, "" if the text is none, or may be a number: it has digits only."""
        digits = text.strip()
        is_day = digits.isdecimal() and len(digits) >= len("YYYYMMDD")
        return self.shift(text) if is_day else ""

    def written(self, found: re.Match[str]) -> str:
        """Return a date of `_WRITTEN_DATES` in its own format, with as many characters."""
        parts = found.groupdict()
        word = parts.get("word")
        month, day = (
            _MONTHS.index(word[:3].lower()) + 1 if word else int(parts["month"]),
            parts["day"],
        )
        if month > 12 and not word:  # noqa: PLR2004  # the day is first
            month, day = int(day), str(month)
        try:
            moved = self._moved(date(int(parts["year"]), month, int(day)))
        except ValueError:
            return _DIGITS.sub(lambda number: "0" * len(number[0]), found[0])
        values = {"year": f"{moved.year:04}", "month": str(moved.month), "day": str(moved.day)}
        values["word"] = _MONTHS[moved.month - 1]
        text = found[0]
        for name in (name for name in values if parts.get(name)):
            start, end = (position - found.start() for position in found.span(name))
            text = text[:start] + _fitted(values[name], text[start:end]) + text[end:]
        return text

    @staticmethod
    def _is_real(found: re.Match[str]) -> bool:
        try:
            date(int(found["year"]), int(found["month"] or 7), int(found["day"] or 1))
        except ValueError:
            return False
        return True

    def _moved(self, day: date) -> date:
        if self.sent is not None and self.sent.year - day.year > self.oldest:
            day = date(self.sent.year - self.oldest, day.month, min(day.day, 28))
        return day + timedelta(weeks=self.weeks)


class _Codec:
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
        try:
            return text.encode(self.name, self._errors)
        except UnicodeEncodeError:
            raise NotDeidentified from None

    def blank(self, character: str) -> str:
        """Return the character that stands for any letter or digit of a removed text."""
        if character.isdecimal():
            return chr(ord(character) - int(character))
        if _kind_of(character) != "letter":
            return character
        return alphabet(character, self.name)[0]


_STRAYS = "".join(chr(0xDC00 + byte) for byte in (0xE4, 0xF6, 0xFC, 0xE9, 0xE8, 0xE0, 0xE7, 0xF1))
_BLOCK = 256


@lru_cache(maxsize=8192)
def alphabet(character: str, codec: str) -> str:
    """
    Return letters that can replace a letter: of its script, case, and number of bytes in a codec.

    The first one stands for a removed letter. The letters of both cases have the same order.
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


_VOWELS = "aeiou"
_CONSONANTS = "bcdfghjklmnprstvwz"
_ROUNDS = 10
_LONGEST_RUN = 64  # characters that are permuted together
_MIN_WEEKS, _MAX_WEEKS = 4, 52


class _Replacement:
    """Replaces numbers and words by a key."""

    def __init__(self, key: bytes) -> None:
        self._key = blake2b(key, digest_size=32, person=b"deidentify").digest()

    def _digest(self, *parts: bytes) -> bytes:
        keyed = blake2b(key=self._key, digest_size=32)
        for part in parts:
            keyed.update(len(part).to_bytes(4))
            keyed.update(part)
        return keyed.digest()

    def _integer(self, *parts: bytes) -> int:
        return int.from_bytes(self._digest(*parts))

    def weeks(self, patient: str) -> int:
        """Return by how many weeks the dates of a patient are shifted: 4 to 52, either way."""
        number = self._integer(b"weeks", patient.strip().casefold().encode(errors="replace"))
        weeks = _MIN_WEEKS + number % (_MAX_WEEKS - _MIN_WEEKS + 1)
        return weeks if number >> 16 & 1 else -weeks

    def digits(self, run: str) -> str:
        """
        Permute a run of digits. Leading zeros stay, so does the length.

        A permutation of all numbers of a length never makes two numbers one.
        """
        ascii_digits = "".join(str(int(digit)) for digit in run)
        zeros = len(ascii_digits) - len(ascii_digits.lstrip("0"))
        rest = ascii_digits[zeros:]
        done = ascii_digits[:zeros]
        for start in range(0, len(rest), _LONGEST_RUN):
            done += self._permuted_number(rest[start : start + _LONGEST_RUN], first=not start)
        return "".join(
            chr(ord(old) - int(old) + int(new)) for old, new in zip(run, done, strict=True)
        )

    def _permuted_number(self, text: str, *, first: bool) -> str:
        """`first`: the number begins here, so its first digit is not 0, before and after."""
        done = self._permuted(text)
        while first and done[0] == "0":  # the permutation returns to such a number
            done = self._permuted(done)
        return done

    def _permuted(self, text: str) -> str:
        values = self._feistel([int(digit) for digit in text], 10, b"digits")
        return "".join(map(str, values))

    def letters(self, run: str) -> str:
        """Permute a run of the letters A to Z; case stays."""
        done = ""
        for start in range(0, len(run), _LONGEST_RUN):
            part = run[start : start + _LONGEST_RUN].lower()
            values = self._feistel([ord(letter) - ord("a") for letter in part], 26, b"letters")
            done += "".join(chr(ord("a") + value) for value in values)
        return _with_case(run, done)

    def _feistel(self, values: list[int], radix: int, tweak: bytes) -> list[int]:
        """Permute all sequences of this length by a Feistel network of two uneven halves."""
        count = len(values)
        tweak += count.to_bytes(2)
        if count == 1:
            order = sorted(range(radix), key=lambda value: self._digest(tweak, value.to_bytes(2)))
            return [order[values[0]]]
        sizes = count // 2, count - count // 2
        left, right = _number_of(values[: sizes[0]], radix), _number_of(values[sizes[0] :], radix)
        for turn in range(_ROUNDS):
            size = radix ** sizes[turn % 2]
            mixed = self._integer(tweak, bytes([turn]), right.to_bytes(40)) + left
            left, right = right, mixed % size
        return [*_values_of(left, radix, sizes[0]), *_values_of(right, radix, sizes[1])]

    def uid(self, text: str) -> str:
        """Permute the arcs of a UID after its root; its syntax stays valid."""
        arcs = text.split(".")
        return ".".join([*arcs[:_UID_ROOT], *map(self._arc, arcs[_UID_ROOT:])])

    def _arc(self, text: str) -> str:
        return "".join(self.digits(run) if run.isdecimal() else run for run in _runs(text))

    def identifier(self, text: str, is_prefix: Callable[[str], bool], codec: _Codec) -> str:
        """Replace a number with its letters. A prefix stays beside three digits or more."""
        has_number = sum(character.isdecimal() for character in text) >= _MIN_DIGITS
        done = []
        for run in _runs(text):
            if run[0].isdecimal():
                done.append(self.digits(run))
            elif _kind_of(run[0]) != "letter" or (has_number and is_prefix(run)):
                done.append(run)
            elif run.isascii():
                done.append(self.letters(run))
            else:
                done.append(self._word(run, codec))
        return "".join(done)

    def words(self, text: str, codec: _Codec) -> str:
        """Replace the words and numbers of a name or an address."""
        done = []
        for run in _runs(text):
            kind = _kind_of(run[0])
            if kind == "letter":
                done.append(self._word(run, codec))
            else:
                done.append(self.digits(run) if kind == "digit" else run)
        return "".join(done)

    def _word(self, word: str, codec: _Codec) -> str:
        """Return a word that can be pronounced, of the same letters' scripts, lengths and cases."""
        plain = word.casefold().encode(errors="surrogatepass")
        random = self._integer(b"word", plain) | 1 << 256
        done = []
        vowel = bool(random & 1)
        for index, letter in enumerate(word):
            if index and not index % 32:
                random = self._integer(b"word", plain, index.to_bytes(4)) | 1 << 256
            random >>= 7
            if letter.isascii():
                pool = _VOWELS if vowel else _CONSONANTS
                done.append(pool[random % 127 % len(pool)])
            else:
                pool = alphabet(letter, codec.name)
                done.append(pool[random % 127 * len(pool) // 127])
            vowel = not vowel
        return _with_case(word, "".join(done))


def _with_case(model: str, text: str) -> str:
    return "".join(
        new.upper() if old.isascii() and old.isupper() else new
        for old, new in zip(model, text, strict=True)
    )


def _number_of(values: Sequence[int], radix: int) -> int:
    number = 0
    for value in values:
        number = number * radix + value
    return number


def _values_of(number: int, radix: int, count: int) -> list[int]:
    values = []
    for _ in range(count):
        number, value = divmod(number, radix)
        values.append(value)
    return values[::-1]


def _compute_check_digit(before: Sequence[Sequence[_Leaf]], after: list[list[str]]) -> None:
    """Write the check digit of the new number, if the old number had the right one."""
    if len(before) < 2 or before[1][0].kind is not _Kind.CHECK_DIGIT:  # noqa: PLR2004  # CX.2
        return
    number, digit = before[0][0].text.strip(), before[1][0].text.strip()
    for check in (_mod_10, _mod_11):
        if digit and check(number) == digit:
            after[1][0] = check(after[0][0].strip())
            return


def _mod_10(number: str) -> str:
    """Return the check digit M10 of HL7 v2.5.1 §2A.14.2, "" if the text is not a number."""
    if not number.isdecimal() or len(number) > _LONGEST_RUN:
        return ""
    doubled = str(int(number[::-1][::2]) * 2) + number[::-1][1::2]
    return str(-sum(map(int, doubled)) % 10)


def _mod_11(number: str) -> str:
    """Return the check digit M11, "" if the text is not a number or has none."""
    if not number.isdecimal():
        return ""
    weights = (2 + index % 6 for index in range(len(number)))
    rest = (
        sum(int(digit) * weight for digit, weight in zip(number[::-1], weights, strict=True)) % 11
    )
    return {10: "0", 11: "1"}.get(11 - rest, str(11 - rest))
