"""
Map key findings to the sections of a template: rules only, nothing is made up.

A finding goes where its own label says, else where the anatomy in it belongs, else to the
findings. Every inserted stretch bears the mark `suggested`; the template's own words stay.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
NOWHERE: Mapping[str, str] = {}
_LABELLED = re.compile(r"^([^:\n]{2,60}):\s*(.*)$")
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
    Return the template with each line of the findings in its place, marked as suggested.

    A line that stands in its place already is not put there again. `places` gives headings for
    lines whose own label names none. Lines below a label are its own; those below an organ's
    own line, such as `Heart: enlarged`, are so only if nothing else claims them.
    """
    parts = list(_parts(template))
    current: _Part | None = None
    firm = False
    for statement in statements(findings):
        label, text = _labelled(statement)
        named = _named(parts, label)
        if label and named is not None:
            current, firm = named, not text or not any(each in label for each in ANATOMY)
            if text:
                _put(named, text)
        elif label and text and _fill(parts, label, text):
            continue
        else:
            chosen = _named(parts, _folded(places.get(statement, "")))
            own = current if firm else None
            claimed = own or chosen or _by_anatomy(parts, statement)
            _put(claimed or current or _default(parts), statement)
    return Document(tuple(block for part in parts for block in part.blocks))


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
    for region, clues in ANATOMY.items():
        if any(re.search(rf"\b{re.escape(clue)}s?\b", words) for clue in clues):
            found = next((part for part in parts if region in part.label), None)
            if found is not None:
                return found
    return None


def _default(parts: list[_Part]) -> _Part:
    return next((part for part in parts if part.label in FINDINGS), parts[-1])


def _put(part: _Part, text: str) -> None:
    """Append a finding to a part, before the empty lines that end it, unless it is there."""
    if any(_reads(block, text) for block in part.blocks):
        return
    at = len(part.blocks)
    while at > 1 and part.blocks[at - 1] == Paragraph():
        at -= 1
    part.blocks.insert(at, Paragraph((_suggested(text),)))


def _reads(block: Block, text: str) -> bool:
    """Tell whether a block says this, alone or after its label, or has it as a suggestion."""
    if not isinstance(block, Paragraph):
        return False
    whole = inline_text(block.content)
    own = [each.text for each in block.content if isinstance(each, Text) and each.marks]
    return _folded(text) in {_folded(each) for each in (whole, _labelled(whole)[1], *own)}


def _suggested(text: str) -> Inline:
    return Text(text, (Mark.SUGGESTED,))
