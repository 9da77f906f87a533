"""
Normal sentences of a template, and their replacement by findings.

A template describes a normal examination: "Lungs: Clear.", "No nodules.", or a bracket field such
as `[Unremarkable.]`. A finding replaces the sentences that call its region normal and those that
deny its words, so that the report does not contradict itself.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

from bridge.engine.rules.text.document import BracketField, Inline, Mark, Text
from bridge.engine.rules.text.negation import affirms, split

_NORMAL = re.compile(
    r"(?<!\w)(?:clear|normal\w*|unremarkable|intact|negative|patent|preserved|wnl|none|nil|"
    r"no (?:\w+ ){0,2}(?:abnormalit\w+|abnormal findings?|findings?|disease|process|pathology)|"
    r"unauffällig\w*|regelrecht\w*|normgerecht\w*|altersentsprechend\w*|o\.\s?b\.?|"
    r"sans (?:particularité|anomalie)s?|sin (?:alteraciones|hallazgos|particularidades)|"
    r"conservad[oa]s?|nella norma|nei limiti|regolar[ei]|geen (?:afwijkingen|bijzonderheden)|"
    r"sem (?:alterações|particularidades)|preservad[oa]s?|prawidłow\w+|bez zmian|"
    r"în limite normale|fără modificări|dalam batas normal|tidak tampak kelainan)(?!\w)|"
    r"異常(?:所見)?(?:は|を)?(?:なし|無し|認めず|認めない)|特記(?:すべき)?(?:所見|事項)なし|"
    r"正常|清晰|未见(?:明显)?异常|未見(?:明顯)?異常|정상|이상\s?(?:소견)?\s?없음"
)
_DENIES: Final = re.compile(
    r"\s*(?:no|without|not|kein\w*|ohne|pas d|aucun|sans|sin|geen|zonder|nessun|senza|sem|brak|bez|"
    r"fără|tidak|无|無|未见|未見)\b|.*(?:なし|無し|ない|認めず|없음)\W*$"
)
_SENTENCE_ENDS = re.compile(
    r"(?<=[.!?])(?<!\b(?:dr|vs|ca|cf|li|re|st)\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bz\.b\.)"
    r"(?<!\bapprox\.)(?<!\bbds\.)(?<!\bbzw\.)(?<!\bggf\.)(?<!\binkl\.)(?<!\bincl\.)(?<!^\d\.)"
    r"(?<!^\d\d\.)\s+|(?<=[。！？])\s*",  # noqa: RUF001  # full-width marks
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]{4,}")
_PLACE_AND_SIZE: Final = frozenset(
    """
    left right upper lower middle lobe lobes lung lungs pulmonary pleural heart cardiac liver
    hepatic spleen splenic kidney kidneys renal bone bones osseous brain base apex bilateral
    side with without this that there from have been seen noted small large mild moderate
    severe acute chronic focal rechts links rechten linken
    """.split()  # noqa: SIM905  # more readable than a list
)
"""Words for place and size of a finding, not for its kind."""
_COMPARED_LENGTH: Final = 1000
"""Characters of a finding whose words are searched in the template."""
_MAX_NORMAL_WORDS: Final = 6
"""Maximum words of a sentence that only states normality."""


def sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a line; their concatenation is the line."""
    at = [0, *(found.end() for found in _SENTENCE_ENDS.finditer(text)), len(text)]
    return tuple(text[a:b] for a, b in pairwise(at) if a < b)


def is_normal_finding(text: str) -> bool:
    """True if a finding only states that something is normal or absent."""
    return all(
        not re.search(r"\d", part)
        and len(part.split()) <= _MAX_NORMAL_WORDS
        and bool(_NORMAL.search(part) or _DENIES.match(part))
        for part in (split(text) or ("",))
    )


class Replacement:
    """
    The replacement of normal sentences in the blocks of one part by a finding.

    `region` is the body region of the finding, None if unknown; `region_of` returns the region of a
    sentence. The finding takes the place of the first removed sentence and sets `placed`.
    """

    def __init__(
        self, finding: str, region: str | None, region_of: Callable[[str], str | None]
    ) -> None:
        self.placed = False
        self._finding = finding
        self._region = region
        self._region_of = region_of
        compared = finding[:_COMPARED_LENGTH]
        clauses = split(compared)
        words = {word.removesuffix("s") for word in _WORD.findall(compared.casefold())}
        self._words = tuple(
            form
            for word in sorted(words - _PLACE_AND_SIZE)
            for form in (word, f"{word}s")
            if affirms(clauses, word) or affirms(clauses, f"{word}s")
        )

    def rewrite(self, content: tuple[Inline, ...], start: int = 0) -> tuple[Inline, ...]:
        """Return inlines without the sentences that the finding replaces, from `start` on."""
        removed = [span for span in _spans(content, start) if self._replaces(span[2])]
        if not removed:
            return content
        kept: list[Inline] = []
        at = 0
        for inline in content:
            end = at + len(_bare_text(inline))
            for piece in _cut(inline, at, end, removed):
                if piece is None:
                    self._place(kept)
                else:
                    kept.append(piece)
            at = end
        return tuple(kept)

    def _place(self, kept: list[Inline]) -> None:
        if not self.placed:
            self.placed = True
            kept.append(Text(self._finding, (Mark.SUGGESTED,)))
        elif kept and isinstance(kept[-1], Text) and kept[-1].text.isspace():
            kept.pop()

    def _replaces(self, sentence: str) -> bool:
        clauses = split(sentence)
        if any(_NORMAL.search(clause) for clause in clauses):
            region = self._region_of(sentence)
            if region is None or region == self._region:
                return True
        folded = sentence.casefold()
        return any(word in folded and _deny(clauses, word) for word in self._words)


def _deny(clauses: tuple[str, ...], word: str) -> bool:
    found = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
    return any(found.search(clause) for clause in clauses) and not affirms(clauses, word)


def _bare_text(inline: Inline) -> str:
    """Return the text of an inline; an open field gives its label without brackets."""
    return inline.value or inline.label if isinstance(inline, BracketField) else inline.text


def _spans(content: tuple[Inline, ...], start: int) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and text of each sentence after `start`, without suggested ones."""
    # NUL characters replace suggested text: a sentence with one is left out.
    text = "".join(
        "\u0000" * len(_bare_text(inline))
        if isinstance(inline, Text) and Mark.SUGGESTED in inline.marks
        else _bare_text(inline)
        for inline in content
    )
    at = start
    for sentence in sentences(text[start:]):
        end = at + len(sentence)
        if sentence.strip() and "\u0000" not in sentence:
            yield at, at + len(sentence.rstrip()), sentence
        at = end


def _cut(
    inline: Inline, start: int, end: int, removed: list[tuple[int, int, str]]
) -> Iterator[Inline | None]:
    """Yield the rest of an inline; None in place of each removed sentence."""
    touched = [(a, b) for a, b, _ in removed if a < end and b > start]
    if isinstance(inline, BracketField):
        yield None if touched else inline
        return
    at = start
    for a, b in touched:
        if a > at:
            yield replace(inline, text=inline.text[at - start : a - start])
        yield None
        at = min(b, end)
    if at < end:
        yield replace(inline, text=inline.text[at - start :])
