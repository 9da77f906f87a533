"""
Billing codes from a site's own code maps; no code is shipped and none is guessed.

A CPT row matches the order's ProcedureCode, else its StudyDescription. An ICD-10 row matches a
phrase in the exam's reason or in the report, where the sentence does not deny it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_SENTENCE = re.compile(r"(?<=[.!?。])\s+|[\n;]+")
_DENIAL = re.compile(
    r"\b(no|not|without|negative for|rule out|exclude[ds]?|kein\w*|ohne|pas de|sans|sin|geen|"
    r"nessun\w*|sem|brak|fără|tidak ada)\b|無し|なし|无|無|없",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+|\W")
_END = "\0end"
"""The key of a whole phrase in the tree of `_Phrases`; no word is equal to it."""
MAX_PHRASE = 300
"""Characters of a phrase; so many steps at most are taken from each word of a text."""


class CodeSystem(StrEnum):
    """Which codes a row of a code map gives."""

    CPT = "cpt"
    ICD10 = "icd10"


@dataclass(frozen=True, slots=True)
class CodeRow:
    """One row of a code map: what it matches, and the code that follows."""

    system: CodeSystem
    match: str
    code: str
    description: str


def derive(
    rows: Sequence[CodeRow], orders: Sequence[Mapping[str, Any]], content: str
) -> dict[str, Any]:
    """Return `{cpt: {Code, Description} | None, icd10: [{Code, Description}]}` for a report."""
    cpt = {row.match.casefold(): row for row in rows if row.system is CodeSystem.CPT}
    keys = (str(order.get(tag, "")).strip().casefold() for tag in _KEYS for order in orders)
    procedure = next((cpt[key] for key in keys if key in cpt), None)
    texts = [*(str(order.get("ReasonForExam", "")) for order in orders), content]
    phrases = _Phrases(row.match for row in rows if row.system is CodeSystem.ICD10)
    occurring: set[str] = set()
    for sentence in _sentences(texts):
        if not _DENIAL.search(sentence):
            occurring |= phrases.found_in(sentence)
    found = {
        row.code: row
        for row in rows
        if row.system is CodeSystem.ICD10 and row.match.casefold() in occurring
    }
    return {
        "cpt": None if procedure is None else _json(procedure),
        "icd10": [_json(row) for row in found.values()],
    }


_KEYS = ("ProcedureCode", "StudyDescription")


def _sentences(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from _SENTENCE.split(text)


class _Phrases:
    """
    A tree of phrases by their words, so that a text is read once whatever the number of phrases.

    A phrase occurs where its words do, with the same characters between them, and is no part of
    a longer word.
    """

    def __init__(self, phrases: Iterable[str]) -> None:
        self._root: dict[str, Any] = {}
        for phrase in map(str.casefold, phrases):
            branch = self._root
            for word in _WORD.findall(phrase):
                branch = branch.setdefault(word, {})
            branch[_END] = phrase

    def found_in(self, text: str) -> set[str]:
        """Return the phrases that occur in a text."""
        words, found = _WORD.findall(text.casefold()), set[str]()
        for start, first in enumerate(words):
            if start and _joins(words[start - 1], first):
                continue
            branch, at = self._root.get(first), start + 1
            while branch is not None:
                following = words[at] if at < len(words) else ""
                if _END in branch and not _joins(following, words[at - 1]):
                    found.add(branch[_END])
                branch, at = branch.get(following), at + 1
        return found


def _joins(neighbour: str, own: str) -> bool:
    """Tell whether a word stands at a phrase's edge, which is a punctuation mark."""
    return _is_word(neighbour) and not _is_word(own)


def _is_word(text: str) -> bool:
    return text[:1].isalnum() or text[:1] == "_"


def _json(row: CodeRow) -> dict[str, str]:
    return {"Code": row.code, "Description": row.description}
