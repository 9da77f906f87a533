"""
Checks before a report is signed in the reporting app.

They find open fields, a wrong side or sex, and suggestions that no user has accepted. The site
configures the consequence of a finding (`Behaviour`). Signing by the API runs no checks.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import islice
from typing import Any

from bridge.engine.rules.text.document import (
    Block,
    BracketField,
    Document,
    Heading,
    Inline,
    ListBlock,
    Mark,
    Paragraph,
    Table,
    Text,
    inline_text,
    item_parts,
)
from bridge.engine.rules.text.plain_text import BRACKET
from bridge.engine.rules.text.word_lists import (
    BOTH_SIDES,
    FEMALE,
    LEFT,
    LEFT_SHORT,
    MALE,
    RIGHT,
    RIGHT_SHORT,
)


class SigningCheck(StrEnum):
    """A check, in the spelling of the site settings."""

    EMPTY_FIELD = "emptyField"
    OPEN_BRACKET = "openBracket"
    LATERALITY = "laterality"
    SEX_MISMATCH = "sexMismatch"
    SUGGESTION = "suggestion"


class Behaviour(StrEnum):
    """The consequence of a finding (IHE MRRT: field behaviour on signing)."""

    SILENT = "silent"
    ALERT = "alert"
    PROHIBIT = "prohibit"


@dataclass(frozen=True, slots=True)
class SigningFinding:
    """
    One finding; `start` and `end` count characters of the text at `block` and `item`.

    `item` numbers the lines of a list or table in reading order: list items, each before its
    sublists, and the paragraphs and list items of table cells, row by row.
    """

    check: SigningCheck
    block: int
    start: int
    end: int
    words: str
    item: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the JSON for the report page."""
        place = {"block": self.block, "item": self.item, "start": self.start, "end": self.end}
        return {"check": self.check.value, "words": self.words, **place}


@dataclass(frozen=True)
class _Line:
    """One line of inlines, and its place in the document."""

    block: int
    item: int | None
    content: tuple[Inline, ...]
    heading: bool = False

    @cached_property
    def text(self) -> str:
        return inline_text(self.content)

    def finding(self, check: SigningCheck, start: int, end: int) -> SigningFinding:
        return SigningFinding(check, self.block, start, end, self.text[start:end], self.item)


MAX_FINDINGS = 1000
_SENTENCE = re.compile(r"(?:[^.!?;\u3002\uff01\uff1f\uff1b]|(?<=\d)\.(?=\d))+")


def run_checks(document: Document, orders: Sequence[Mapping[str, Any]]) -> list[SigningFinding]:
    """
    Return the findings of all checks; `orders` are clinicalInfo tags, the anchor first.

    At most `MAX_FINDINGS` of each check are returned.
    """
    lines = list(_lines(document))
    checks = (
        _empty_fields(lines),
        _open_brackets(lines),
        _laterality(lines, orders),
        _sex(lines, orders),
        _suggestions(lines),
    )
    return [finding for findings in checks for finding in islice(findings, MAX_FINDINGS)]


def _lines(document: Document) -> Iterator[_Line]:
    for index, block in enumerate(document.content):
        match block:
            case Heading(title):
                yield _Line(index, None, (Text(title),), heading=True)
            case Paragraph(content):
                yield _Line(index, None, content)
            case _:
                for number, content in enumerate(_inner_lines(block)):
                    yield _Line(index, number, content)


def _inner_lines(block: Block) -> Iterator[tuple[Inline, ...]]:
    """
    Return the lines of a block in reading order.

    A list gives its items, each before its sublists; a table its cells row by row.
    """
    match block:
        case Heading(title):
            yield (Text(title),)
        case Paragraph(content):
            yield content
        case ListBlock(items):
            for item in items:
                text, sublists = item_parts(item)
                yield text
                for sublist in sublists:
                    yield from _inner_lines(sublist)
        case Table(rows):
            for row in rows:
                for cell in row:
                    for part in cell.content:
                        yield from _inner_lines(part)


def _empty_fields(lines: Sequence[_Line]) -> Iterator[SigningFinding]:
    if not any(line.text.strip() for line in lines if not line.heading):
        yield SigningFinding(SigningCheck.EMPTY_FIELD, 0, 0, 0, "")
        return
    for index, line in enumerate(lines):
        if line.heading:
            if not _has_text(lines[index + 1 :]):
                yield line.finding(SigningCheck.EMPTY_FIELD, 0, len(line.text))
            continue
        for start, inline in _with_starts(line.content):
            if isinstance(inline, BracketField) and not inline.value.strip():
                yield line.finding(
                    SigningCheck.EMPTY_FIELD, start, start + len(inline_text((inline,)))
                )


def _has_text(following: Sequence[_Line]) -> bool:
    for line in following:
        if line.heading:
            return False
        if line.text.strip():
            return True
    return False


def _open_brackets(lines: Sequence[_Line]) -> Iterator[SigningFinding]:
    """Find the brackets in the text, except fields without a value: those are empty fields."""
    for line in lines:
        fields = {
            start
            for start, inline in _with_starts(line.content)
            if isinstance(inline, BracketField) and not inline.value.strip()
        }
        for match in BRACKET.finditer(line.text):
            if match.start() not in fields:
                yield line.finding(SigningCheck.OPEN_BRACKET, *match.span())


def _suggestions(lines: Sequence[_Line]) -> Iterator[SigningFinding]:
    """Find suggestions that no user has accepted; adjacent ones become one finding."""
    for line in lines:
        found: list[tuple[int, int]] = []
        for start, inline in _with_starts(line.content):
            if not (
                isinstance(inline, Text) and Mark.SUGGESTED in inline.marks and inline.text.strip()
            ):
                continue
            before = found.pop() if found and found[-1][1] == start else (start, start)
            found.append((before[0], start + len(inline.text)))
        for start, end in found:
            yield line.finding(SigningCheck.SUGGESTION, start, end)


def _with_starts(content: tuple[Inline, ...]) -> Iterator[tuple[int, Inline]]:
    """Yield each inline with the position of its text in the line."""
    start = 0
    for inline in content:
        yield start, inline
        start += len(inline_text((inline,)))


def _laterality(
    lines: Sequence[_Line], orders: Sequence[Mapping[str, Any]]
) -> Iterator[SigningFinding]:
    """Find mentions of the opposite side, if all orders name the same side."""
    sides = {_side(order) for order in orders}
    if sides not in ({"left"}, {"right"}):
        return
    own, other = (LEFT, RIGHT) if sides == {"left"} else (RIGHT, LEFT)
    for line, start, sentence in _sentences(lines):
        if own.search(sentence) or BOTH_SIDES.search(sentence):
            continue
        for match in other.finditer(sentence):
            yield line.finding(SigningCheck.LATERALITY, start + match.start(), start + match.end())


def _side(order: Mapping[str, Any]) -> str:
    text = f"{order.get('StudyDescription', '')} {order.get('BodyPartExamined', '')}"
    if BOTH_SIDES.search(text):
        return ""
    left = bool(LEFT.search(text) or LEFT_SHORT.search(text))
    right = bool(RIGHT.search(text) or RIGHT_SHORT.search(text))
    return "" if left == right else "left" if left else "right"


def _sentences(lines: Sequence[_Line]) -> Iterator[tuple[_Line, int, str]]:
    for line in lines:
        for match in _SENTENCE.finditer(line.text):
            yield line, match.start(), match[0]


def _sex(lines: Sequence[_Line], orders: Sequence[Mapping[str, Any]]) -> Iterator[SigningFinding]:
    """Find words that do not apply to the sex of the patient."""
    known = {str(order.get("PatientSex", "")).strip()[:1].upper() for order in orders} - {""}
    if known not in ({"M"}, {"F"}):
        return
    unexpected = FEMALE if known == {"M"} else MALE
    for line in lines:
        for match in unexpected.finditer(line.text):
            yield line.finding(SigningCheck.SEX_MISMATCH, *match.span())
