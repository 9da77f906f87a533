"""
Billing codes from the code map of a site.

A CPT row matches the ProcedureCode of an order, else its StudyDescription. An ICD-10 row matches a
phrase in the reason for the exam or in the report that is not negated (`negation`). The cost grows
with the sum of the lengths of text and code map, not with their product.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bridge.engine.rules.text.negation import affirms, is_denied, is_unspaced, split

MAX_PHRASE = 300
"""Maximum characters of a phrase. Each word in a text needs at most this many steps."""

_MAX_OCCURRENCES = 200
"""Occurrences of one phrase that are examined; later ones are ignored."""

_WORD = re.compile(r"\w+|\W")
_END = "\0end"
"""The key of a whole phrase in the tree of `_Phrases`; no word is equal to it."""


class CodeSystem(StrEnum):
    """The code system of a row of a code map."""

    CPT = "cpt"
    ICD10 = "icd10"


@dataclass(frozen=True, slots=True)
class CodeRow:
    """One row of a code map: the phrase or procedure to match, and its code."""

    system: CodeSystem
    match: str
    code: str
    description: str


def derive_codes(
    rows: Sequence[CodeRow], orders: Sequence[Mapping[str, Any]], content: str
) -> dict[str, Any]:
    """Return `{cpt: {Code, Description} | None, icd10: [{Code, Description}]}` for a report."""
    cpt = {row.match.casefold(): row for row in rows if row.system is CodeSystem.CPT}
    keys = (str(order.get(tag, "")).strip().casefold() for tag in _KEYS for order in orders)
    procedure = next((cpt[key] for key in keys if key in cpt), None)
    texts = [*(str(order.get("ReasonForExam", "")) for order in orders), content]
    diagnoses = [row for row in rows if row.system is CodeSystem.ICD10]
    affirmed = _affirmed({_folded(row.match) for row in diagnoses}, split("\n".join(texts)))
    found = {row.code: row for row in diagnoses if _folded(row.match) in affirmed}
    return {
        "cpt": None if procedure is None else _json(procedure),
        "icd10": [_json(row) for row in found.values()],
    }


_KEYS = ("ProcedureCode", "StudyDescription")


def _folded(phrase: str) -> str:
    return " ".join(phrase.casefold().split())


def _affirmed(phrases_to_find: set[str], sentences: Sequence[str]) -> set[str]:
    text = "\n".join(sentences)
    # A script without spaces has no words to look up in the tree.
    unspaced = {term for term in phrases_to_find if term and is_unspaced(term[0] + term[-1])}
    found = {term for term in unspaced if term in text and affirms(sentences, term)}
    phrases = _Phrases(phrases_to_find - unspaced)
    examined: Counter[str] = Counter()
    for sentence in sentences:
        for phrase, start, end in phrases.occurrences(sentence):
            if phrase in found or examined[phrase] >= _MAX_OCCURRENCES:
                continue
            examined[phrase] += 1
            if not is_denied(sentence, start, end):
                found.add(phrase)
    return found


class _Phrases:
    """
    A tree of folded phrases by words, so that a text is read once for any number of phrases.

    A phrase occurs where its words and the characters between them occur. A letter next to a
    punctuation mark at the edge of a phrase prevents a match.
    """

    def __init__(self, phrases: Iterable[str]) -> None:
        self._root: dict[str, Any] = {}
        for phrase in phrases:
            branch = self._root
            for word in _WORD.findall(phrase):
                branch = branch.setdefault(word, {})
            branch[_END] = phrase

    def occurrences(self, sentence: str) -> Iterator[tuple[str, int, int]]:
        """Yield each phrase that occurs in a folded sentence, with its start and end."""
        words = [(found[0], found.end()) for found in _WORD.finditer(sentence)]
        for at, (word, end) in enumerate(words):
            if at and _touches(words[at - 1][0], word):
                continue
            branch, last = self._root.get(word), at
            while branch is not None:
                following = words[last + 1][0] if last + 1 < len(words) else ""
                if _END in branch and not _touches(following, words[last][0]):
                    yield branch[_END], end - len(word), words[last][1]
                branch, last = branch.get(following), last + 1


def _touches(neighbour: str, edge: str) -> bool:
    """True if a word is next to the punctuation mark at the edge of a phrase."""
    return _is_word(neighbour) and not _is_word(edge)


def _is_word(text: str) -> bool:
    return text[:1].isalnum() or text[:1] == "_"


def _json(row: CodeRow) -> dict[str, str]:
    return {"Code": row.code, "Description": row.description}
