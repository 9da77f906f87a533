"""
Map key findings to the sections of a template: rules only, nothing is made up.

A finding goes where its own label says, else where the anatomy in it belongs, else to the
findings. Every inserted stretch bears the mark `suggested`; the template's own words stay.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from bridge.engine.rules.document import (
    Block,
    Document,
    Field,
    Inline,
    Mark,
    Paragraph,
    Section,
    Text,
    inline_text,
)

FINDINGS = frozenset(
    [
        "findings",
        "befund",
        "befunde",
        "résultats",
        "hallazgos",
        "bevindingen",
        "reperti",
        "achados",
        "rezultate",
        "wynik",
        "temuan",
        "所見",
        "所见",
        "檢查所見",
        "检查所见",
        "소견",
    ]
)
IMPRESSION = frozenset(
    [
        "impression",
        "conclusion",
        "opinion",
        "beurteilung",
        "impresión",
        "conclusie",
        "conclusioni",
        "impressão",
        "concluzie",
        "wnioski",
        "kesan",
        "診断",
        "诊断意见",
        "印象",
        "결론",
    ]
)
ANATOMY: Mapping[str, tuple[str, ...]] = {
    "lungs": ("lung", "lobe", "pulmonary", "nodule", "airspace", "consolidation", "atelectasis"),
    "pleura": ("pleura", "pleural", "effusion", "pneumothorax"),
    "heart": ("heart", "cardiac", "pericardial", "cardiomegaly", "aorta", "coronary"),
    "mediastinum": ("mediastinum", "mediastinal", "hilar", "hilum", "thyroid"),
    "bones": ("bone", "rib", "fracture", "vertebra", "vertebral", "osseous", "spine"),
    "liver": ("liver", "hepatic"),
    "gallbladder": ("gallbladder", "gallstone", "biliary", "bile"),
    "pancreas": ("pancreas", "pancreatic"),
    "spleen": ("spleen", "splenic"),
    "kidneys": ("kidney", "renal", "ureter", "hydronephrosis"),
    "bowel": ("bowel", "colon", "appendix", "stomach", "intestine"),
    "brain": ("brain", "cerebral", "intracranial", "infarct", "hemorrhage", "ventricle"),
    "soft tissues": ("soft tissue", "subcutaneous", "muscle"),
}
_CLUES = {
    region: re.compile(rf"\b(?:{'|'.join(map(re.escape, clues))})s?\b")
    for region, clues in ANATOMY.items()
}
_MANY = 50
"""Pieces of a paragraph that is read again after each field of it is filled."""
NOWHERE: Mapping[str, str] = {}
_LABELLED = re.compile(r"^([^:\n]{2,60}):\s*(.*)$")
_BULLET = re.compile(r"^\s*(?:[-*•\u2013]|\d{1,3}[.)])\s+")


class _Part:
    """
    A stretch of the template under one heading; `label` is folded, empty before the first.

    Findings go before the empty lines that end it, each once.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.blocks: list[Block] = []
        self._added: list[Block] = []
        self._values: dict[int, dict[int, str]] = {}  # of fields: by block, by place in it

    @cached_property
    def _said(self) -> Counter[str]:
        return Counter(each for block in self.blocks for each in _readings(block))

    def put(self, text: str) -> None:
        """Append a finding, unless a line of the part is this text."""
        if self._said[_folded(text)] > 0:
            return
        added = Paragraph((_suggested(text),))
        self._added.append(added)
        self._said.update(_readings(added))

    def fill(self, index: int, place: int, text: str) -> None:
        """Give the field at a place in a block its value."""
        values = self._values.setdefault(index, {})
        if _length(self.blocks[index]) > _MANY:  # too long to be read again for each field
            self._said[_folded(text)] += 1
            values[place] = text
            return
        self._said.subtract(_readings(self._filled(index)))
        values[place] = text
        self._said.update(_readings(self._filled(index)))

    def finished(self) -> list[Block]:
        """Return the blocks with what was added."""
        at = len(self.blocks)
        while at > 1 and self.blocks[at - 1] == Paragraph():
            at -= 1
        blocks = [self._filled(index) for index in range(len(self.blocks))]
        return [*blocks[:at], *self._added, *blocks[at:]]

    def _filled(self, index: int) -> Block:
        block, values = self.blocks[index], self._values.get(index)
        if not values or not isinstance(block, Paragraph):
            return block
        content = list(block.content)
        for place, text in values.items():
            content[place] = _suggested(text)
        return replace(block, content=tuple(content))


class _Template:
    """The parts of a template, and where a label, an organ or a field is: each found at once."""

    def __init__(self, template: Document) -> None:
        self.parts = list(_parts(template))
        self._labels: dict[str, int] = {}
        self._fields: dict[str, deque[tuple[_Part, int, int]]] = {}
        for at, part in enumerate(self.parts):
            self._labels.setdefault(part.label, at)
            for index, place, label in _open_fields(part.blocks):
                self._fields.setdefault(label, deque()).append((part, index, place))
        self._regions = {
            region: next((part for part in self.parts if region in part.label), None)
            for region in ANATOMY
        }

    def named(self, label: str) -> _Part | None:
        """Find a part by its label, or by another word for the findings or the impression."""
        if not label:
            return None
        wanted = next((group for group in (FINDINGS, IMPRESSION) if label in group), {label})
        return self._first(wanted)

    def default(self) -> _Part:
        """Return the part of the findings, else the last one."""
        return self._first(FINDINGS) or self.parts[-1]

    def by_anatomy(self, statement: str) -> _Part | None:
        """Find the part of the first organ that a statement names and the template has."""
        words = statement.casefold()
        for region, part in self._regions.items():
            if part is not None and _CLUES[region].search(words):
                return part
        return None

    def fill(self, label: str, text: str) -> bool:
        """Give the first open field of this label its value."""
        waiting = self._fields.get(label)
        if not waiting:
            return False
        part, index, place = waiting.popleft()
        part.fill(index, place, text)
        return True

    def _first(self, labels: Iterable[str]) -> _Part | None:
        at = min((self._labels[each] for each in labels if each in self._labels), default=None)
        return None if at is None else self.parts[at]


def apply_template(
    template: Document, findings: str, places: Mapping[str, str] = NOWHERE
) -> Document:
    """
    Return the template with each line of the findings in its place, marked as suggested.

    A line that stands in its place already is not put there again. `places` gives headings for
    lines whose own label names none. Lines below a label are its own; those below an organ's
    own line, such as `Heart: enlarged`, are so only if nothing else claims them.
    """
    form = _Template(template)
    current: _Part | None = None
    firm = False
    for statement in statements(findings):
        label, text = _labelled(statement)
        named = form.named(label)
        if label and named is not None:
            current, firm = named, not text or not any(each in label for each in ANATOMY)
            if text:
                named.put(text)
        elif label and text and form.fill(label, text):
            continue
        else:
            chosen = form.named(_folded(places.get(statement, "")))
            own = current if firm else None
            claimed = own or chosen or form.by_anatomy(statement)
            (claimed or current or form.default()).put(statement)
    return Document(tuple(block for part in form.parts for block in part.finished()))


def statements(findings: str) -> tuple[str, ...]:
    """Return the lines of the findings, without their bullets."""
    bare = (_BULLET.sub("", line).strip() for line in findings.splitlines())
    return tuple(line for line in bare if line)


def headings(document: Document) -> tuple[str, ...]:
    """Return what the parts of a document are headed by, folded, in their order."""
    return tuple(part.label for part in _parts(document) if part.label)


def _parts(template: Document) -> Iterator[_Part]:
    part = _Part("")
    for block in template.content:
        label = _heading(block)
        if label:
            yield part
            part = _Part(label)
        part.blocks.append(block)
    yield part


def _heading(block: Block) -> str:
    """Return what a block is the heading of: a section's title, or the label of `Lungs: clear`."""
    if isinstance(block, Section):
        return _folded(block.title)
    if isinstance(block, Paragraph) and block.content and isinstance(block.content[0], Text):
        return _labelled(inline_text(block.content))[0]
    return ""


def _labelled(text: str) -> tuple[str, str]:
    match = _LABELLED.match(text)
    return (_folded(match[1]), match[2].strip()) if match else ("", text)


def _folded(text: str) -> str:
    return " ".join(text.casefold().strip(" \t:.").split())


def _open_fields(blocks: Sequence[Block]) -> Iterator[tuple[int, int, str]]:
    """Yield the block, the place in it and the folded label of each field without a value."""
    for index, block in enumerate(blocks):
        for place, inline in enumerate(block.content if isinstance(block, Paragraph) else ()):
            if isinstance(inline, Field) and not inline.value:
                yield index, place, _folded(inline.label)


def _length(block: Block) -> int:
    return len(block.content) if isinstance(block, Paragraph) else 0


def _readings(block: Block) -> set[str]:
    """Return what a block says: whole, without its label, and each suggestion in it."""
    if not isinstance(block, Paragraph):
        return set()
    whole = inline_text(block.content)
    own = [each.text for each in block.content if isinstance(each, Text) and each.marks]
    return {_folded(each) for each in (whole, _labelled(whole)[1], *own)}


def _suggested(text: str) -> Inline:
    return Text(text, (Mark.SUGGESTED,))
