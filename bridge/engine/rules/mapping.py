"""
Map key findings to the sections of a template: rules only, nothing is made up.

Each sentence goes where its own label says, else where the anatomy in it belongs, else to the
findings. There it replaces the normal sentences that it contradicts (`normals`). Every inserted
stretch bears the mark `suggested`; the template's other words stay.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bridge.engine.rules.anatomy import ANATOMY, CLUES, FINDINGS, IMPRESSION, region_of
from bridge.engine.rules.document import (
    Block,
    Document,
    Field,
    Inline,
    ListBlock,
    Mark,
    Paragraph,
    Section,
    Text,
    inline_text,
)
from bridge.engine.rules.normals import Replacement, is_normal_finding, sentences

NOWHERE: Mapping[str, str] = {}
_TITLE = (3, 40)
"""Characters of a heading without a colon, at least and at most."""
_LABELLED = re.compile("^([^:\uff1a\n]{1,60})[:\uff1a]\\s*(.*)$")
_BULLET = re.compile(r"^\s*(?:[-*•\u2013]|\d{1,3}[.)])\s+")


@dataclass(slots=True)
class _Part:
    """A stretch of the template under one heading; `label` is folded, empty before the first."""

    label: str
    blocks: list[Block] = field(default_factory=list)


def apply_template(
    template: Document, findings: str, places: Mapping[str, str] = NOWHERE
) -> Document:
    """
    Return the template with each sentence of the findings in its place, marked as suggested.

    A sentence that stands in its place already is not put there again. `places` gives headings for
    lines whose own label names none. Lines below a heading such as `Impression` are its own; those
    below the findings, or below an organ's own line such as `Heart: enlarged`, are so only if
    nothing else claims them.
    """
    parts = list(_parts(template))
    current: _Part | None = None
    firm = False
    for statement in statements(findings):
        heading = _headed(parts, statement)
        if heading is not None:
            current, firm = heading, heading.label not in FINDINGS
            continue
        chosen = _named(parts, _folded(places.get(statement, "")))
        placed: list[tuple[_Part, str]] = []
        own: _Part | None = None  # the part that the line's label names
        for sentence in sentences(statement):
            label, text = _labelled(sentence)
            named = _named(parts, label)
            if label and named is not None and text:
                general = named.label in FINDINGS
                current, own = named, None if general else named
                firm = not general and region_of(label) is None
                part = (_by_anatomy(parts, text) or named) if general else named
                _add(placed, part, text)
            elif label and text and _fill(parts, label, text.strip()):
                continue
            else:
                claimed = _by_anatomy(parts, sentence)
                if own is not None and (firm or region_of(own.label) == region_of(sentence)):
                    claimed = own
                first = (current if firm else None) or chosen
                _add(placed, first or claimed or own or current or _default(parts), sentence)
        for part, text in placed:
            _put(part, text.strip())
    return Document(tuple(block for part in parts for block in part.blocks))


def _add(placed: list[tuple[_Part, str]], part: _Part, text: str) -> None:
    """Note a sentence for a part; those that follow each other there stay one text."""
    if placed and placed[-1][0] is part:
        before = placed[-1][1]
        gap = "" if before.endswith((" ", "\u3002")) else " "
        placed[-1] = (part, before + gap + text)
    else:
        placed.append((part, text))


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
    """
    Return what a block is the heading of: a section's title, or the label of `Lungs: clear`.

    A line of its own needs no colon when it is a known word, bold, or in capitals: `FINDINGS`.
    """
    if isinstance(block, Section):
        return _folded(block.title)
    if not (isinstance(block, Paragraph) and block.content and isinstance(block.content[0], Text)):
        return ""
    whole = inline_text(block.content)
    bold = all(isinstance(each, Text) and Mark.BOLD in each.marks for each in block.content)
    return _labelled(whole)[0] or (_folded(whole) if _is_title(whole, bold=bold) else "")


def _is_title(line: str, *, bold: bool = False) -> bool:
    folded, bare = _folded(line), line.strip()
    if folded in FINDINGS or folded in IMPRESSION or folded in ANATOMY:
        return bare[-1:] not in (".", "\u3002")
    if not _TITLE[0] <= len(bare) <= _TITLE[1] or bare[-1] in ".!?,;\u3002":
        return False
    capitals = bare.isupper() and not any(each.isdigit() for each in bare)
    return bare[0].isalpha() and (bold or capitals)


def _headed(parts: Sequence[_Part], line: str) -> _Part | None:
    """Return the part that a line of the findings is the heading of, as `IMPRESSION` is."""
    label, text = _labelled(line)
    if label and not text:
        return _named(parts, label)
    return _named(parts, _folded(line)) if not label and _is_title(line) else None


def _labelled(text: str) -> tuple[str, str]:
    match = _LABELLED.match(text)
    return (_folded(match[1]), match[2].strip()) if match else ("", text)


def _folded(text: str) -> str:
    return " ".join(text.casefold().strip(" \t:.").split())


def _named(parts: Sequence[_Part], label: str) -> _Part | None:
    """Find a part by its label, or by another word for the findings or the impression."""
    if not label:
        return None
    wanted = next((group for group in (FINDINGS, IMPRESSION) if label in group), {label})
    return next((part for part in parts if part.label and part.label in wanted), None)


def _fill(parts: Sequence[_Part], label: str, text: str) -> bool:
    """Give an open field of this label its value."""
    for part in parts:
        for index, block in enumerate(part.blocks):
            if not isinstance(block, Paragraph):
                continue
            for place, inline in enumerate(block.content):
                if (
                    isinstance(inline, Field)
                    and not inline.value
                    and _folded(inline.label) == label
                ):
                    filled = (*block.content[:place], _suggested(text), *block.content[place + 1 :])
                    part.blocks[index] = replace(block, content=filled)
                    return True
    return False


def _by_anatomy(parts: Sequence[_Part], statement: str) -> _Part | None:
    words = statement.casefold()
    for region, pattern in CLUES.items():
        if pattern.search(words):
            found = next((part for part in parts if _is_about(part.label, region)), None)
            if found is not None:
                return found
    return None


def _is_about(label: str, region: str) -> bool:
    return region in label or CLUES[region].search(label) is not None


def _default(parts: list[_Part]) -> _Part:
    return next((part for part in parts if part.label in FINDINGS), parts[-1])


def _put(part: _Part, text: str) -> None:
    """
    Put a finding into a part, unless it is there: in place of normal sentences, else at the end.

    A part of an organ is about that organ; elsewhere the finding's own words say so.
    """
    if any(_reads(block, text) for block in part.blocks):
        return
    about = region_of(part.label)
    replacement = Replacement(text, about or region_of(text), region_of)
    if not is_normal_finding(text):
        part.blocks[:] = [each for block in part.blocks for each in _rewritten(block, replacement)]
    if replacement.placed:
        return
    at = len(part.blocks)
    while at > 1 and part.blocks[at - 1] == Paragraph():
        at -= 1
    part.blocks.insert(at, Paragraph((_suggested(text),)))


def _rewritten(block: Block, replacement: Replacement) -> Iterator[Block]:
    """Give a block without what the finding replaces; nothing where nothing is left of it."""
    if isinstance(block, Paragraph) and block.content:
        content = replacement.rewrite(block.content, _label_end(block))
        if content == block.content or inline_text(content).strip():
            yield replace(block, content=content)
    elif isinstance(block, ListBlock):
        rows = [(item, replacement.rewrite(item)) for item in block.items]
        items = tuple(new for old, new in rows if new == old or inline_text(new).strip())
        if items:
            yield replace(block, items=items)
    else:
        yield block


def _label_end(block: Paragraph) -> int:
    """Return where the text behind a paragraph's own label begins."""
    label = _heading(block)
    if not label or not isinstance(block.content[0], Text):
        return 0
    whole = block.content[0].text
    found = re.match("[^:\uff1a\n]*[:\uff1a]\\s*", whole)
    return found.end() if found else len(inline_text(block.content))


def _reads(block: Block, text: str) -> bool:
    """Tell whether a block says this, alone or after its label, or has it as a suggestion."""
    if not isinstance(block, Paragraph):
        return False
    whole = inline_text(block.content)
    own = [each.text for each in block.content if isinstance(each, Text) and each.marks]
    return _folded(text) in {_folded(each) for each in (whole, _labelled(whole)[1], *own)}


def _suggested(text: str) -> Inline:
    return Text(text, (Mark.SUGGESTED,))
