"""Measurement groups of structured reports (TID 1410, 1411, 1501) become one sentence each."""

from typing import Any

import pytest
from pydicom.dataset import Dataset

from bridge.engine.documents.uploads.structured_report import StructuredReport, printed_unit, read
from bridge.engine.rules.text.document import Document, Heading, Paragraph, Text
from bridge.engine.rules.text.key_findings import apply_template
from bridge.engine.rules.text.plain_text import from_outline, plain_text
from tests.bridge.engine.documents.test_structured_report import (
    COMPREHENSIVE,
    code,
    file_of,
    item,
    report,
)

CODES = {
    "Long Axis": "G-A185",
    "Short Axis": "G-A186",
    "Finding": "121071",
    "Finding Site": "363698007",
    "Laterality": "272741003",
    "Tracking Identifier": "112039",
    "Tracking Unique Identifier": "112040",
    "Measurement Group": "125007",
    "Imaging Measurements": "126010",
    "Image Library": "111028",
    "Procedure Reported": "121058",
    "Derivation": "121401",
    "Measurement Method": "370129005",
}


def coded(name: str, value: str, *below: Dataset, value_code: str = "T-1") -> Dataset:
    return named("CODE", name, *below, ConceptCodeSequence=[code(value, value_code)])


def named(kind: str, name: str, *below: Dataset, **values: Any) -> Dataset:
    """An item with the code of its concept, and items below it."""
    made = item(kind, name, **values)
    made.ConceptNameCodeSequence = [code(name, CODES.get(name, "T-1"))]
    if below:
        made.ContentSequence = list(below)
    return made


def measured(name: str, value: str, unit: str, *below: Dataset, meaning: str = "") -> Dataset:
    number = Dataset()
    number.NumericValue = value
    number.MeasurementUnitsCodeSequence = [code(meaning or unit, unit)]
    return named("NUM", name, *below, MeasuredValueSequence=[number])


def group(tracking: str, *content: Dataset) -> Dataset:
    context = [
        named(
            "TEXT", "Tracking Identifier", RelationshipType="HAS OBS CONTEXT", TextValue=tracking
        ),
        named("UIDREF", "Tracking Unique Identifier", UID="1.2.3"),
    ]
    return named("CONTAINER", "Measurement Group", *(context if tracking else []), *content)


def site(name: str, side: str = "") -> Dataset:
    return coded("Finding Site", name, *([coded("Laterality", side)] if side else []))


def measurement_report(*groups: Dataset) -> Dataset:
    """A report of TID 1500, with an image library and the procedure."""
    library = named(
        "CONTAINER", "Image Library", coded("Modality", "Computed Tomography"), named("IMAGE", "")
    )
    top = named("CONTAINER", "Imaging Measurements", *groups)
    made = report(coded("Procedure Reported", "CT chest"), library, top, sop_class=COMPREHENSIVE)
    made.ConceptNameCodeSequence = [code("Imaging Measurement Report", "126000")]
    return made


def read_groups(*groups: Dataset) -> StructuredReport:
    return read(file_of(measurement_report(*groups)))


NODULE = (
    coded("Finding", "Nodule"),
    site("Upper lobe of lung", "Right"),
    measured("Long Axis", "8.2", "mm"),
    measured("Short Axis", "6.1", "mm"),
)
NODE = (coded("Finding", "Lymph node"), site("Mediastinum"), measured("Short Axis", "11", "mm"))
LIVER = (site("Liver"), measured("Volume", "3.4", "cm3", coded("Derivation", "Mean")))


def test_groups_are_sentences_instead_of_the_raw_tree() -> None:
    """Name, finding, site with side, values with units; nothing of the structure around them."""
    got = read_groups(
        group("Nodule 1", *NODULE), group("Node A", *NODE), group("Liver lesion", *LIVER)
    )

    assert got.text.splitlines() == [
        "Nodule 1 (Right upper lobe of lung), 8.2 \u00d7 6.1 mm (Long Axis \u00d7 Short Axis).",
        "Node A (Lymph node, Mediastinum), Short Axis 11 mm.",
        "Liver lesion, Volume 3.4 cm\u00b3 (Mean).",
    ]
    assert [measurement.name for measurement in got.measurements] == [
        *("Long Axis", "Short Axis", "Short Axis", "Volume")
    ]


TEMPLATES = {
    "by organ": "Findings:\n\nLungs: Clear.\nMediastinum: Normal.\nLiver: Normal.\n\nImpression:\n",
    "sections": "Lungs:\nNo nodules.\nLymph nodes:\nNormal.\nLiver:\nNormal.\nImpression:\n",
    "other order": "Impression:\nLiver:\nSpleen:\nMediastinum:\nLungs:\n",
    "findings alone": "Findings:\nImpression:\n",
    "no section": "Normal examination.\n",
}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_group_is_never_divided_among_sections(template: str) -> None:
    """Each value stays on the line of its lesion, in one section."""
    got = read_groups(
        group("Nodule 1", *NODULE), group("Lesion no. 2", *NODE), group("Liver", *LIVER)
    )
    groups = {one.sentence: one.about for one in got.groups}

    document = apply_template(from_outline(TEMPLATES[template]), got.text, groups=groups)

    lines = plain_text(document).splitlines()
    for words in (
        ("Nodule 1", "Right upper lobe", "8.2 \u00d7 6.1 mm"),
        ("Lesion no. 2", "Lymph node", "11 mm"),
        ("Liver, Volume 3.4 cm\u00b3",),
    ):
        (line,) = [one for one in lines if words[0] in one]
        assert all(word in line for word in words)
    assert sum("mm" in line for line in lines) == 2


def section_of(document: Document, words: str) -> str:
    heading = ""
    for block in document.content:
        if isinstance(block, Heading):
            heading = block.title
        elif isinstance(block, Paragraph) and any(
            isinstance(one, Text) and words in one.text for one in block.content
        ):
            return heading
    raise AssertionError(words)


@pytest.mark.parametrize(
    ("content", "heading"),
    [
        ((coded("Finding", "Nodule"), site("Liver"), measured("Diameter", "9", "mm")), "Liver"),
        ((coded("Finding", "Nodule"), measured("Diameter", "9", "mm")), "Lungs"),
        ((site("Adrenal gland", "Left"), measured("Diameter", "9", "mm")), "Adrenal glands"),
        ((site("Prostate"), measured("Volume", "9", "ml")), "Prostate"),
        ((measured("Diameter", "9", "mm", site("Spleen")),), "Spleen"),
        ((site("Left foot"), measured("Diameter", "9", "mm")), "Findings"),
    ],
)
def test_the_finding_site_chooses_the_section(content: tuple[Dataset, ...], heading: str) -> None:
    """Then the finding; else the group belongs to the findings."""
    names = ("Findings", "Lungs", "Liver", "Spleen", "Adrenal glands", "Prostate", "Impression")
    template = from_outline("".join(f"{name}:\n\n" for name in names))
    got = read_groups(group("Target 1", *content))
    groups = {one.sentence: one.about for one in got.groups}

    document = apply_template(template, f"Impression: Stable.\n\n{got.text}", groups=groups)

    assert section_of(document, "Target 1") == heading


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            (site("Liver"), coded("Margin", "Spiculated"), measured("Diameter", "1E1", "mm")),
            "T (Liver), Margin Spiculated; Diameter 1E1 mm.",
        ),
        (
            (site("Kidney", "Left"), measured("Diameter", "9.199999809265137", "mm")),
            "T (Left kidney), Diameter 9.2 mm.",
        ),
        (
            (site("Left kidney", "Left"), measured("Diameter", "9", "mm")),
            "T (Left kidney), Diameter 9 mm.",
        ),
        (
            (measured("Diameter", "9", "mm", site("Liver")), measured("Mean", "55", "[hnsf'U]")),
            "T (Liver), Diameter 9 mm; Mean 55 HU.",
        ),
        (
            (
                measured("Diameter", "9", "mm", site("Liver")),
                measured("Size", "8", "mm", site("Spleen")),
            ),
            "T, Diameter 9 mm (Liver); Size 8 mm (Spleen).",
        ),
        (
            (measured("Long Axis", "9", "mm"), measured("Short Axis", "0.6", "cm")),
            "T, Long Axis 9 mm; Short Axis 0.6 cm.",
        ),
        (
            (
                measured("Long Axis", "9", "mm"),
                measured("Long Axis", "8", "mm"),
                measured("Short Axis", "6", "mm"),
            ),
            "T, Long Axis 9 mm; Long Axis 8 mm; Short Axis 6 mm.",
        ),
        (
            (
                named(
                    "CONTAINER",
                    "Details",
                    measured("Diameter", "9", "mm", coded("Measurement Method", "RECIST")),
                ),
            ),
            "T, Diameter 9 mm (RECIST).",
        ),
        ((named("TEXT", "Comment", TextValue="two\r\nlines"),), "T, Comment two lines."),
        ((site("Liver"),), "T (Liver)."),
    ],
)
def test_the_content_of_a_sentence(content: tuple[Dataset, ...], sentence: str) -> None:
    """Evaluations, sites of single values, diameters that do not belong together."""
    assert read_groups(group("T", *content)).text == sentence


def test_equal_groups_without_a_name_stay_two() -> None:
    """Two lesions of one size do not become one."""
    content = (site("Liver"), measured("Diameter", "9", "mm"))
    got = read_groups(group("", *content), group("", *content))

    assert got.text == "Liver, Diameter 9 mm.\nLiver #2, Diameter 9 mm."


def test_a_group_inside_a_group_has_its_own_sentence() -> None:
    """The values of two lesions are not mixed."""
    inner = group("Inner", measured("Diameter", "4", "mm"))
    got = read_groups(group("Outer", measured("Diameter", "9", "mm"), inner))

    assert got.text == "Outer, Diameter 9 mm.\nInner, Diameter 4 mm."


def test_a_value_with_its_site_is_one_line_in_other_reports() -> None:
    """A qualitative evaluation outside of a group keeps its site; other content is unchanged."""
    findings = named(
        "CONTAINER",
        "Findings",
        coded("Diagnosis", "Cyst", site("Kidney", "Left")),
        named("TEXT", "Lung", TextValue="Clear."),
        measured("Mean CTDIvol", "10", "mGy"),
    )
    assert read(file_of(report(findings))).text.splitlines() == [
        "Findings",
        "  Left kidney, Diagnosis Cyst.",
        "  Lung: Clear.",
        "  Mean CTDIvol: 10 mGy",
    ]


@pytest.mark.parametrize(
    ("value", "meaning", "printed"),
    [
        ("mm2", "square millimeter", "mm\u00b2"),
        ("cm3", "", "cm\u00b3"),
        ("ml", "", "ml"),
        ("um", "", "\u00b5m"),
        ("ug/ml", "", "\u00b5g/ml"),
        ("mm[Hg]", "", "mmHg"),
        ("[hnsf'U]", "Hounsfield unit", "HU"),
        ("g/ml{SUVbw}", "", "g/ml"),
        ("{SUVbw}g/ml", "SUV", "g/ml"),
        ("{beats}", "beats", "beats"),
        ("10*-6.mm2/s", "", "10\u207b\u2076\u00b7mm\u00b2/s"),
        ("cm/s", "", "cm/s"),
        ("%", "percent", "%"),
        ("1", "no units", ""),
        ("{ratio}", "ratio", ""),
        ("[arb'U]", "arbitrary unit", "arbitrary unit"),
        ("deg", "", "\u00b0"),
        ("", "millimeter", "millimeter"),
    ],
)
def test_units_are_printed_as_they_are_read(value: str, meaning: str, printed: str) -> None:
    """UCUM codes become the units of a report."""
    assert printed_unit(value, meaning) == printed
