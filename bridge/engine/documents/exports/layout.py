"""
The layout of a printed report, independent of the format.

    header image / title / orders / banner / report, signature / addenda, signatures / footer

Labels and dates are in the language of the report, images are re-encoded, and characters that a
format cannot represent are removed. HTML, RTF, DOCX and PDF draw the same layout. The text is the
text of GET content and of the JSON record.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from bridge.engine.documents.errors import BadImage
from bridge.engine.documents.exports.model import (
    EAST_ASIAN,
    ExportedImage,
    ExportedReport,
    ExportedUser,
    PageSize,
    age_text,
    day_text,
    labels,
    moment_text,
    person_name,
)
from bridge.engine.documents.uploads.images import EncodedImage, accept_stored
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
    TableCell,
    Text,
)
from bridge.engine.rules.text.plain_text import plain_text

# C0 and C1 controls, surrogates, noncharacters: XML 1.0 §2.2 and RTF readers reject most.
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
LINE_ENDS = re.compile("\r\n|[\r\n\x85\u2028\u2029]")

ROWS = (
    ("patient", "PatientName"),
    ("mrn", "PatientMRN"),
    ("birth_date", "PatientBirthDate"),
    ("age", "PatientAge"),
    ("sex", "PatientSex"),
    ("accession", "Accession"),
    ("study", "StudyDescription"),
    ("modality", "Modality"),
    ("body_part", "BodyPartExamined"),
    ("study_date", "StudyDate"),
    ("reason", "ReasonForExam"),
    ("referring", "ReferringPhysician"),
    ("reporting", "ReportingPhysician"),
)
RUNNING_LENGTH, RUNNING_ORDERS = 64, 4  # characters of a value, accessions of the page header
NARROWEST, WIDEST = 6, 40  # characters of a column when widths are shared out


DATES = frozenset({"PatientBirthDate", "StudyDate"})
NAMES = frozenset({"PatientName", "ReferringPhysician", "ReportingPhysician"})


@dataclass(frozen=True, slots=True)
class OrderRow:
    """One line of the data of an order."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class LayoutPart:
    """The text of the report or of an addendum, with its signature line."""

    body: Document
    heading: str = ""
    signature: str = ""
    signature_image: EncodedImage | None = None


@dataclass(frozen=True, slots=True)
class ReportLayout:
    """The parts of a printed report, in drawing order."""

    language: str
    header: EncodedImage | None
    site: str
    title: str
    orders: tuple[tuple[OrderRow, ...], ...]
    banner: str
    report: LayoutPart
    addenda: tuple[LayoutPart, ...]
    footer: EncodedImage | None
    page_size: PageSize = PageSize.A4
    running: str = ""  # the page header with the patient
    page: str = ""  # the page number, with `{page}` and `{pages}`
    images_heading: str = ""
    images: tuple[EncodedImage, ...] = ()
    images_left_out: str = ""


def lay_out(exported: ExportedReport, zone: tzinfo) -> ReportLayout:
    """Return the layout of a report, its times in `zone`."""
    words, language = labels(exported.language), exported.language
    signature, image = _signature(exported.signed_by, exported.signed_at, zone, language)
    return ReportLayout(
        language=language,
        header=_picture(exported.site.header_image),
        site=clean(exported.site.name),
        title=words["report"],
        orders=tuple(_rows(tags, words, language) for tags in exported.orders),
        banner="" if exported.signed_at else words["not_signed"],
        report=LayoutPart(clean_document(exported.body), "", signature, image),
        addenda=tuple(
            LayoutPart(
                clean_document(addendum.body),
                words["addendum"],
                *_signature(addendum.signed_by, addendum.signed_at, zone, language),
            )
            for addendum in exported.addenda
        ),
        footer=_picture(exported.site.footer_image),
        page_size=exported.site.page_size,
        running=_page_header(exported.orders, words, language),
        page=words["page"],
        images_heading=words["images"] if exported.key_images or exported.images_left_out else "",
        images=exported.key_images,
        images_left_out=words["images_left_out"].replace("{count}", str(exported.images_left_out))
        if exported.images_left_out
        else "",
    )


def _page_header(
    orders: Sequence[Mapping[str, str]], words: Mapping[str, str], language: str
) -> str:
    """Return the page header: patient name, MRN, birth date, and accessions of the orders."""
    first: Mapping[str, str] = orders[0] if orders else {}
    tags = ("patient", "PatientName"), ("mrn", "PatientMRN"), ("birth_date", "PatientBirthDate")
    parts = [
        (label, _clipped(_format_value(tag, first.get(tag) or "", language))) for label, tag in tags
    ]
    accessions = list(dict.fromkeys(filter(None, (order.get("Accession", "") for order in orders))))
    listed = ", ".join(_clipped(clean(accession)) for accession in accessions[:RUNNING_ORDERS])
    if len(accessions) > RUNNING_ORDERS:
        listed += f" +{len(accessions) - RUNNING_ORDERS}"
    parts.append(("accession", listed))
    return " · ".join(f"{words[label]}: {value}" for label, value in parts if value)


def _clipped(text: str) -> str:
    return text if len(text) <= RUNNING_LENGTH else f"{text[:RUNNING_LENGTH]}…"


def clean(text: str) -> str:
    """Return the text as one line of characters that every format can represent."""
    return FORBIDDEN.sub("", LINE_ENDS.sub(" ", text))


def clean_document(document: Document) -> Document:
    return Document(tuple(_clean_block(block) for block in document.content))


def _clean_block(block: Block) -> Block:
    match block:
        case Heading(title):
            return Heading(clean(title))
        case Table(rows):
            return Table(tuple(tuple(_clean_cell(cell) for cell in row) for row in rows))
        case _:
            return _clean_text(block)


def _clean_text(block: Paragraph | ListBlock) -> Paragraph | ListBlock:
    if isinstance(block, Paragraph):
        return Paragraph(tuple(_clean_inline(inline) for inline in block.content))
    return _clean_list(block)


def _clean_list(block: ListBlock) -> ListBlock:
    cleaned = (
        tuple(
            _clean_list(part) if isinstance(part, ListBlock) else _clean_inline(part)
            for part in item
        )
        for item in block.items
    )
    return ListBlock(tuple(cleaned), block.ordered)


def _clean_cell(cell: TableCell) -> TableCell:
    return TableCell(tuple(_clean_text(block) for block in cell.content), cell.header)


def column_shares(rows: tuple[tuple[TableCell, ...], ...]) -> tuple[float, ...]:
    """Return the share of the width of each column, by its longest text."""
    longest = [max(map(_text_width, column)) for column in zip(*rows, strict=True)]
    bounded = [min(max(width, NARROWEST), WIDEST) for width in longest]
    return tuple(width / sum(bounded) for width in bounded)


def _text_width(cell: TableCell) -> int:
    """Return the width of the longest line of a cell, in Latin characters."""
    lines = plain_text(Document(cell.content)).split("\n")
    return max(len(line) + len(EAST_ASIAN.findall(line)) for line in lines)


def _clean_inline(inline: Inline) -> Inline:
    if isinstance(inline, BracketField):
        return BracketField(clean(inline.label), clean(inline.value))
    # An export shows suggestions like any other text.
    return Text(clean(inline.text), tuple(m for m in inline.marks if m is not Mark.SUGGESTED))


def _rows(tags: Mapping[str, str], words: Mapping[str, str], language: str) -> tuple[OrderRow, ...]:
    values = (
        (words[label], _format_value(tag, tags.get(tag) or "", language)) for label, tag in ROWS
    )
    return tuple(OrderRow(label, value) for label, value in values if value)


def _format_value(tag: str, raw: str, language: str) -> str:
    """Format a stored value: dates, ages and names by language."""
    if tag in DATES:
        return clean(day_text(raw, language))
    if tag in NAMES and ("^" in raw or "=" in raw):
        return clean(person_name(raw, language))
    if tag == "PatientAge":
        return clean(age_text(raw, language))
    return clean(raw)


def _signature(
    person: ExportedUser | None, at: datetime | None, zone: tzinfo, language: str
) -> tuple[str, EncodedImage | None]:
    if person is None or at is None:
        return "", None
    name = ", ".join(clean(part) for part in (person.name or person.email, person.text) if part)
    template = labels(language)["signed"]
    line = template.replace("{time}", moment_text(at, zone, language)).replace("{name}", name)
    return line, _picture(person.signature)


def _picture(image: ExportedImage | None) -> EncodedImage | None:
    """Re-encode an image; one that cannot be decoded is omitted."""
    if image is None:
        return None
    try:
        return accept_stored(image.data, image.media_type)
    except BadImage:
        return None
