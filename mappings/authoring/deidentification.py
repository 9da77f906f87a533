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
digits or more) that other fields of the message have. A name that occurs only in one of them is not
found.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from enum import Enum, auto
from functools import lru_cache
from typing import Final, Literal

from mappings.authoring.alphabets import Codec, runs, words
from mappings.authoring.date_shift import WRITTEN_DATES, DateShift, read_date
from mappings.authoring.pseudonyms import Pseudonyms
from mappings.hl7 import dictionary
from mappings.hl7.check_digits import mod_10, mod_11
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
            codes.update(word.upper() for word in words(rules))  # the prefix in `^HOSP-`
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
_MIN_NAME: Final = 3  # letters of a name that is searched in other values
_MIN_NUMBER: Final = 4  # digits of a number that is searched in other values


class Deidentifier:
    """
    De-identifies messages with one key.

    A person who has the key can find short numbers by trying all: create it for one export.
    """

    def __init__(self, key: bytes, options: Options | None = None) -> None:
        self._pseudonyms = Pseudonyms(key)
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
        try:
            done = _MessageWriter(message, patient, self._pseudonyms, self._options).write()
            written = Message.parse(done, fallback=charset)
        except (MessageRefusal, UnicodeEncodeError):
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
        self, message: Message, patient: str, pseudonyms: Pseudonyms, options: Options
    ) -> None:
        self._message = message
        self._marks = message.delimiters
        self._options = options
        self._dictionary = dictionary.names(message.header.version)
        self._codec = Codec(message.encoding)
        self._known = _Known()
        self._pseudonyms = pseudonyms
        self._dates = DateShift(
            pseudonyms.weeks(patient), read_date(message.value("MSH-7")), options.oldest
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
            found = {word.casefold() for word in words(text) if len(word) >= _MIN_NAME}
            if leaf.kind is _Kind.ADDRESS:
                known.addresses |= found
            else:
                known.words |= found
                known.patients |= found if leaf.segment in _PATIENT_SEGMENTS else set()
        elif leaf.kind is _Kind.IDENTIFIER:
            known.identifiers.add(text.strip())
            known.numbers.update(run for run in _DIGITS.findall(text) if len(run) >= _MIN_NUMBER)
        elif leaf.kind is _Kind.DATE and (day := read_date(text)):
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
        return self._pseudonyms.words(text, self._codec)

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
            return self._pseudonyms.uid(text)
        return self._pseudonyms.identifier(text, self._is_prefix, self._codec)

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
            for pattern in WRITTEN_DATES:
                text = pattern.sub(self._dates.written, text)
        done = []
        for run in runs(text):
            if run.casefold() in names:
                done.append(self._words(run))
            elif run in self._known.numbers:
                done.append(self._pseudonyms.digits(run))
            elif is_text and run.isdecimal() and len(run) >= _MIN_NUMBER and not _is_year(run):
                done.append(self._dates.shift_day(run) or self._pseudonyms.digits(run))
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
_UID = re.compile(r"[012](?:\.(?:0|[1-9]\d*)){3,}")
_TIME = re.compile(r"([01]\d|2[0-3])([0-5]\d([0-5]\d(\.\d{1,4})?)?)?([+-]\d{4})?")
_MEASURE = re.compile(r"[<>=]{0,2}[+-]?\d{0,8}(\.\d{0,5})?")
_MARKUP = re.compile(r"[FSTREPHN]|\.[a-z]{2}\s?(?:[+-]?\d{1,3})?|X(?:0D|0A|09)+", re.IGNORECASE)
_OPAQUE = re.compile(r"[Xx](?:[0-9A-Fa-f]{2})+|[CM](?:[0-9A-Fa-f]{4}(?:[0-9A-Fa-f]{2})?)|Z\w*")


def _is_year(text: str) -> bool:
    """True if a number of a text is rather a year: definitions and readers need `since 2020`."""
    return len(text) == len("YYYY") and text[:2] in {"19", "20"}


def _is_affix(text: str) -> bool:
    return all(word.casefold() in _AFFIXES for word in words(text)) and not _DIGITS.search(text)


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
    """An escape sequence for text."""


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


def _compute_check_digit(before: Sequence[Sequence[_Leaf]], after: list[list[str]]) -> None:
    """Write the check digit of the new number, if the old number had the right one."""
    if len(before) < 2 or before[1][0].kind is not _Kind.CHECK_DIGIT:  # noqa: PLR2004  # CX.2
        return
    number, digit = before[0][0].text.strip(), before[1][0].text.strip()
    for check in (mod_10, mod_11):
        if digit and check(number) == digit:
            after[1][0] = check(after[0][0].strip())
            return
