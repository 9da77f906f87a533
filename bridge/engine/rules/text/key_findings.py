"""
Insert key findings into the sections of a template, by rules.

A sentence goes to the section of its label, else to the section of the body region that it names,
else to the findings. It replaces the normal sentences that it contradicts (`normal_findings`).
Inserted text has the mark `suggested`; the other text of the template is unchanged.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from bridge.engine.rules.text.document import (
    Block,
    BracketField,
    Document,
    Heading,
    Inline,
    ListBlock,
    Mark,
    Paragraph,
    Text,
    inline_text,
    item_parts,
)
from bridge.engine.rules.text.normal_findings import Replacement, is_normal_finding, sentences
from bridge.engine.rules.text.word_lists import ANATOMY, CLUES, FINDINGS, IMPRESSION, region_of

NO_PLACES: Mapping[str, str] = {}
Groups = Mapping[str, Sequence[str]]
"""Lines that are placed as a whole, and the texts that choose their section, the best first."""
NO_GROUPS: Groups = {}
_TITLE_LENGTHS = (3, 40)
"""Minimum and maximum characters of a heading without a colon."""
_LABELLED = re.compile("^([^:\uff1a\n]{1,60})[:\uff1a]\\s*(.*)$")
_BULLET = re.compile(r"^\s*(?:[-*•\u2013]|\d{1,3}[.)])(?:\s+|$)")
_REREAD_LIMIT = 50
"""A paragraph with at most so many inlines is compared again after each filled field."""
_COMPARISON_BUDGET = 400_000
"""Compared characters after which findings are only added and replace nothing."""
_REMOVED = Paragraph()
"""Marks a block that findings have replaced."""
_COMPARISON_COST = 500
"""The fixed cost of a comparison, in characters."""


class _TemplatePart:
    """
    The blocks below one heading; `label` is the folded heading, empty before the first one.

    A finding replaces normal sentences, else it is added before the empty lines at the end.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.blocks: list[Block] = []
        self._added: list[Block] = []
        self._values: dict[int, dict[int, str]] = {}  # field values by block and place
        self._open: dict[int, dict[str, deque[int]]] = {}  # open fields by block and label

    def append(self, block: Block) -> None:
        self._open[len(self.blocks)] = _open_fields(block)
        self.blocks.append(block)

    def open_fields(self) -> Iterator[tuple[int, str]]:
        """Yield the block and the folded label of each field without a value."""
        for index, labels in self._open.items():
            for label, places in labels.items():
                yield from ((index, label) for _ in places)

    @cached_property
    def _texts(self) -> Counter[str]:
        return Counter(text for block in self.blocks for text in _folded_texts(block))

    @cached_property
    def size(self) -> int:
        """The number of characters of the part."""
        return sum(_size(block) for block in self.blocks)

    def insert(self, text: str, *, compare: bool) -> None:
        """
        Insert a finding into the part, unless a line has the same text.

        With `compare` the finding replaces normal sentences that it contradicts. Its region is the
        one of the part's label, else the one that the finding names.
        """
        if self._texts[_folded(text)] > 0:
            return
        if compare and not is_normal_finding(text):
            region = region_of(self.label) or region_of(text)
            replacement = Replacement(text, region, region_of)
            self._rewrite(replacement)
            if replacement.placed:
                return
        added = Paragraph((_suggested(text),))
        self._added.append(added)
        self._texts.update(_folded_texts(added))

    def fill(self, index: int, label: str, text: str) -> bool:
        """Fill an open field of a block; return False if a finding has replaced the field."""
        places = self._open[index].get(label)
        if not places:
            return False
        place, values = places.popleft(), self._values.setdefault(index, {})
        if _inline_count(self.blocks[index]) > _REREAD_LIMIT:  # too long to compare again
            self._texts[_folded(text)] += 1
            values[place] = text
            return True
        self._texts.subtract(_folded_texts(self._filled(index)))
        values[place] = text
        self._texts.update(_folded_texts(self._filled(index)))
        return True

    def finished(self) -> list[Block]:
        at = len(self.blocks)
        while at > 1 and self.blocks[at - 1] == Paragraph():
            at -= 1
        blocks = [self._filled(index) for index in range(len(self.blocks))]
        return [
            block for block in (*blocks[:at], *self._added, *blocks[at:]) if block is not _REMOVED
        ]

    def _rewrite(self, replacement: Replacement) -> None:
        for index in range(len(self.blocks)):
            block = self._filled(index)
            rewritten = _rewritten(block, replacement)
            if rewritten is not block:
                self._texts.subtract(_folded_texts(block))
                self._texts.update(_folded_texts(rewritten))
                self.blocks[index], self._open[index] = rewritten, _open_fields(rewritten)
                self._values.pop(index, None)

    def _filled(self, index: int) -> Block:
        block, values = self.blocks[index], self._values.get(index)
        if not values or not isinstance(block, Paragraph):
            return block
        content = list(block.content)
        for place, text in values.items():
            content[place] = _suggested(text)
        return replace(block, content=tuple(content))


class _TemplateIndex:
    """The parts of a template, indexed by label, body region and field."""

    def __init__(self, template: Document) -> None:
        self.parts = list(_parts(template))
        self._labels: dict[str, int] = {}
        self._fields: dict[str, deque[tuple[_TemplatePart, int]]] = {}
        self._regions: dict[str, _TemplatePart | None] = {}
        self._compared = 0
        for at, part in enumerate(self.parts):
            self._labels.setdefault(part.label, at)
            for index, label in part.open_fields():
                self._fields.setdefault(label, deque()).append((part, index))

    def named(self, label: str) -> _TemplatePart | None:
        """Return the part with a label, or with a synonym of findings or impression."""
        if not label:
            return None
        return self._first(
            next((labels for labels in (FINDINGS, IMPRESSION) if label in labels), {label})
        )

    def headed(self, line: str) -> _TemplatePart | None:
        """Return the part whose heading is this line, such as `IMPRESSION`."""
        label, text = _labelled(line)
        if label and not text:
            return self.named(label)
        return self.named(_folded(line)) if not label and _is_title(line) else None

    def default(self) -> _TemplatePart:
        """Return the findings part, else the last part."""
        return self._first(FINDINGS) or self.parts[-1]

    def by_region(self, text: str) -> _TemplatePart | None:
        """Return the part of the first body region that a text names and the template has."""
        words = text.casefold()
        found = (self._of_region(region) for region, clues in CLUES.items() if clues.search(words))
        return next((part for part in found if part is not None), None)

    def about(self, texts: Iterable[str]) -> _TemplatePart:
        """Return the part whose heading a text names, or the one of its body region."""
        for text in texts:
            words = _folded(text)
            named = [
                part
                for part in self.parts
                if len(part.label) >= _TITLE_LENGTHS[0] and _names(words, part.label)
            ]
            part = max(named, key=lambda other: len(other.label), default=self.by_region(text))
            if part is not None:
                return part
        return self.default()

    def fill(self, label: str, text: str) -> bool:
        """Fill the first open field with a label; return whether there is one."""
        waiting = self._fields.get(label, deque())
        while waiting:
            part, index = waiting.popleft()
            if part.fill(index, label, text):
                return True
        return False

    def insert(self, part: _TemplatePart, text: str) -> None:
        """Insert a finding into a part; compare it while the comparison budget lasts."""
        compare = self._compared < _COMPARISON_BUDGET
        if compare:
            self._compared += part.size + len(text) + _COMPARISON_COST
        part.insert(text, compare=compare)

    def _first(self, labels: Iterable[str]) -> _TemplatePart | None:
        at = min((self._labels[label] for label in labels if label in self._labels), default=None)
        return None if at is None else self.parts[at]

    def _of_region(self, region: str) -> _TemplatePart | None:
        if region not in self._regions:
            clues = CLUES[region]
            matching = (
                part for part in self.parts if region in part.label or clues.search(part.label)
            )
            self._regions[region] = next(matching, None)
        return self._regions[region]


def apply_template(
    template: Document,
    findings: str,
    places: Mapping[str, str] = NO_PLACES,
    groups: Groups = NO_GROUPS,
) -> Document:
    """
    Return the template with each sentence of the findings inserted, marked as suggested.

    A sentence that the section contains already is not inserted again. `places` maps lines without
    a label to headings. Lines below a heading such as `Impression` belong to it. Lines below
    `Findings`, or below a line such as `Heart: enlarged`, belong to it only if they name no other
    body region. A line of `groups` is inserted whole. Beyond `_COMPARISON_BUDGET` findings replace
    nothing.
    """
    index = _TemplateIndex(template)
    whole = {
        line: (sentence, about)
        for sentence, about in groups.items()
        for line in statements(sentence)
    }
    current: _TemplatePart | None = None
    firm = False  # lines belong to `current` even if they name another body region
    for statement in statements(findings):
        if statement in whole:
            sentence, about = whole[statement]
            index.insert(index.about(about), sentence)
            continue
        heading = index.headed(statement)
        if heading is not None:
            current, firm = heading, heading.label not in FINDINGS
            continue
        chosen = index.named(_folded(places.get(statement, "")))  # by `places`
        placed: list[tuple[_TemplatePart, list[str]]] = []
        own: _TemplatePart | None = None  # the part of the line's label
        for sentence in sentences(statement):
            label, text = _labelled(sentence)
            named = index.named(label)
            if label and named is not None and text:
                general = named.label in FINDINGS
                current, own = named, None if general else named
                firm = not general and region_of(label) is None
                part = (index.by_region(text) or named) if general else named
                _add(placed, part, text)
            elif label and text and index.fill(label, text.strip()):
                continue
            else:
                by_region = index.by_region(sentence)
                if own is not None and (firm or region_of(own.label) == region_of(sentence)):
                    by_region = own
                first = (current if firm else None) or chosen
                _add(placed, first or by_region or own or current or index.default(), sentence)
        for part, texts in placed:
            index.insert(part, "".join(texts).strip())
    return Document(tuple(block for part in index.parts for block in part.finished()))


def _add(placed: list[tuple[_TemplatePart, list[str]]], part: _TemplatePart, text: str) -> None:
    """Add a sentence to a part; consecutive sentences of a part stay one text."""
    if placed and placed[-1][0] is part:
        before = placed[-1][1]
        before += [text] if before[-1].endswith((" ", "\u3002")) else [" ", text]
    else:
        placed.append((part, [text]))


def _names(words: str, label: str) -> bool:
    """Return whether a folded text has a heading as a word, also in the singular."""
    stem = label.removesuffix("s") if label.isascii() else label
    return re.search(rf"(?<!\w){re.escape(stem)}(?:e?s)?(?!\w)", words) is not None


def statements(findings: str) -> tuple[str, ...]:
    """Return the lines of the findings without their bullets; only a bullet is no line."""
    bare = (_BULLET.sub("", line).strip() for line in findings.splitlines())
    return tuple(line for line in bare if line)


def headings(document: Document) -> tuple[str, ...]:
    """Return the folded headings of a document in order."""
    return tuple(part.label for part in _parts(document) if part.label)


def _parts(template: Document) -> Iterator[_TemplatePart]:
    part = _TemplatePart("")
    for block in template.content:
        label = _heading(block)
        if label:
            yield part
            part = _TemplatePart(label)
        part.append(block)
    yield part


def _heading(block: Block) -> str:
    """
    Return the folded heading of a block: a title, or the label of `Lungs: clear`.

    A line needs no colon if it is a known word, bold, or in capitals: `FINDINGS`.
    """
    if isinstance(block, Heading):
        return _folded(block.title)
    if not (isinstance(block, Paragraph) and block.content and isinstance(block.content[0], Text)):
        return ""
    whole = inline_text(block.content)
    bold = all(isinstance(inline, Text) and Mark.BOLD in inline.marks for inline in block.content)
    return _labelled(whole)[0] or (_folded(whole) if _is_title(whole, bold=bold) else "")


def _is_title(line: str, *, bold: bool = False) -> bool:
    folded, bare = _folded(line), line.strip()
    if folded in FINDINGS or folded in IMPRESSION or folded in ANATOMY:
        return bare[-1:] not in (".", "\u3002")
    if not _TITLE_LENGTHS[0] <= len(bare) <= _TITLE_LENGTHS[1] or bare[-1] in ".!?,;\u3002":
        return False
    capitals = bare.isupper() and not any(character.isdigit() for character in bare)
    return bare[0].isalpha() and (bold or capitals)


def _labelled(text: str) -> tuple[str, str]:
    match = _LABELLED.match(text)
    return (_folded(match[1]), match[2].strip()) if match else ("", text)


def _folded(text: str) -> str:
    return " ".join(text.casefold().strip(" \t:.").split())


def _open_fields(block: Block) -> dict[str, deque[int]]:
    """Return the places of the fields without a value in a paragraph, by their folded labels."""
    found: dict[str, deque[int]] = {}
    for position, inline in enumerate(block.content if isinstance(block, Paragraph) else ()):
        if isinstance(inline, BracketField) and not inline.value:
            found.setdefault(_folded(inline.label), deque()).append(position)
    return found


def _inline_count(block: Block) -> int:
    return len(block.content) if isinstance(block, Paragraph) else 0


def _size(block: Block) -> int:
    match block:
        case Paragraph(content):
            return len(inline_text(content))
        case ListBlock(items):
            return sum(
                len(inline_text(text)) + sum(map(_size, sublists))
                for text, sublists in map(item_parts, items)
            )
    return 0


def _rewritten(block: Block, replacement: Replacement) -> Block:
    """Return a block without the replaced sentences; `_REMOVED` if nothing is left."""
    if isinstance(block, Paragraph) and block.content:
        content = replacement.rewrite(block.content, _label_end(block))
        if content == block.content:
            return block
        return replace(block, content=content) if inline_text(content).strip() else _REMOVED
    if isinstance(block, ListBlock):
        return _rewritten_list(block, replacement) or _REMOVED
    return block


def _rewritten_list(block: ListBlock, replacement: Replacement) -> ListBlock | None:
    """Return a list without the replaced items; None if no item is left."""
    items: list[tuple[Inline | ListBlock, ...]] = []
    for item in block.items:
        text, sublists = item_parts(item)
        content = replacement.rewrite(text)
        inner = [_rewritten_list(sublist, replacement) for sublist in sublists]
        new = (*content, *(sublist for sublist in inner if sublist is not None))
        if new == item or inline_text(content).strip() or any(inner):
            items.append(new)
    if tuple(items) == block.items:
        return block
    return replace(block, items=tuple(items)) if items else None


def _label_end(block: Paragraph) -> int:
    label = _heading(block)
    if not label or not isinstance(block.content[0], Text):
        return 0
    whole = block.content[0].text
    found = re.match("[^:\uff1a\n]*[:\uff1a]\\s*", whole)
    return found.end() if found else len(inline_text(block.content))


def _folded_texts(block: Block) -> set[str]:
    """Return the folded texts of a block: whole, without its label, and each suggestion."""
    if not isinstance(block, Paragraph):
        return set()
    whole = inline_text(block.content)
    own = [inline.text for inline in block.content if isinstance(inline, Text) and inline.marks]
    return {_folded(text) for text in (whole, _labelled(whole)[1], *own)}


def _suggested(text: str) -> Inline:
    return Text(text, (Mark.SUGGESTED,))
