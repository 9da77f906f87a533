"""Independent parsers accept every rendering of a result in every version."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations as combinations_of
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hl7apy import load_library
from hl7apy.consts import VALIDATION_LEVEL

from mappings.compiler import compile_sources
from mappings.hl7 import versions as hl7_versions
from mappings.hl7.message import Message
from mappings.language.definition_files import overlay_settings
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import (
    DocumentNames,
    FileFormat,
    ResultContext,
    ResultEvent,
    ResultOrder,
    SignedAddendum,
    Signer,
)
from tests.conformance.parsers import agree, parsed, structure_errors
from tests.mappings.definitions import SHIPPED
from tests.mappings.results import NOW, ORDERS

Options = Mapping[str, Any]

VERSIONS = ("2.3", "2.3.1", "2.4", "2.5.1")
LAYOUTS = ("lines", "repetitions", "formatted")
SECTIONS = ("none", "loinc", "dicom")
ADDENDA = ("whole", "newest", "child", "none")
LINKED = ("separate", "combined", "grouped")
INTERPRETERS = ("ndl", "xcn", "name")
TIMES = ("offset", "local")
ECHOES = ("fields", "whole")
CONTENTS = (["text"], ["pdf"], ["rtf"], ["text", "pdf", "rtf"])
TARGETS: tuple[dict[str, str], ...] = (
    {"*": "OBX"},
    {"*": "NTE"},
    {"*": "none"},
    {"*": "ZMD"},
    {"Room": "OBR-21", "Dose": "ZMD-3", "Plan": "ORC-19", "*": "NTE"},
    {"Room": "PV1-50", "Dose": "PID-2", "Plan": "ZMD-2"},
)
METADATA = {"Room": "12 | ^ & ~ \\", "Dose": "3 mGy", "Plan": {"steps": ["a", "b"]}}

REPORT = """Clinical history: cough & fever | 3 days
TECHNIQUE
CT ^ of the chest.

Befund:
  No nodule ~ none \\ at all.

所見\uff1a異常なし
IMPRESSION: normal.
"""
CONTEXT = ResultContext(
    event=ResultEvent.FINAL,
    control_id="C0001",
    now=NOW,
    site="SITE1",
    orders=(),
    report_text=REPORT,
    signed_at=NOW,
    signed_by=Signer("Dr. Anna-Maria Berg", identifier="R1"),
    report_status="Final",
    time_zone="Australia/Adelaide",
    files={FileFormat.PDF: b"%PDF-1.7\n" + bytes(range(256)), FileFormat.RTF: b"{\\rtf1 |^~&}"},
    document=DocumentNames("ABCDEFGHIJKLMNOP.A2", "ABCDEFGHIJKLMNOP"),
)
LATE = (
    SignedAddendum("Later:\nmore.", NOW, Signer("王, 小明")),
    SignedAddendum("Last.", NOW, Signer("Bob")),
)

EARLIER: tuple[tuple[ResultEvent, tuple[ResultEvent, ...]], ...] = (
    (ResultEvent.PRELIMINARY, ()),
    (ResultEvent.PRELIMINARY, (ResultEvent.PRELIMINARY,)),
    (ResultEvent.FINAL, ()),
    (ResultEvent.FINAL, (ResultEvent.PRELIMINARY,)),
    (ResultEvent.ADDENDUM, (ResultEvent.FINAL,)),
    (ResultEvent.CORRECTION, (ResultEvent.FINAL, ResultEvent.RETRACTION)),
    (ResultEvent.RETRACTION, (ResultEvent.ADDENDUM,)),
    (ResultEvent.CANCELLATION, (ResultEvent.PRELIMINARY,)),
)
TRIGGERS = ("T02", "T08", "T02", "T04", "T06", "T10", "T10", "T11")


def compiled(name: str = "results", **options: Any) -> OutboundMapping:
    return _compiled(name, json.dumps(options))


@cache
def _compiled(name: str, options: str) -> OutboundMapping:
    made = compile_sources(
        *overlay_settings(SHIPPED, name, json.loads(options), "destination test")
    )
    assert isinstance(made, OutboundMapping)
    return made


def orders() -> tuple[ResultOrder, ResultOrder]:
    """Return an order with the usual delimiters and one with other delimiters, with Metadata."""
    usual = next(order for order in ORDERS if order.echo[0].startswith("MSH|^~\\&|RIS"))
    odd = next(order for order in ORDERS if not order.echo[0].startswith("MSH|^~"))
    first, second = (replace(item, metadata=METADATA) for item in (usual, odd))
    return first, second


def covering(choices: Sequence[Sequence[Any]], together: int) -> Iterator[tuple[Any, ...]]:
    """Yield combinations until each choice was combined with every choice of `together` lists."""
    covered: set[tuple[tuple[int, int], ...]] = set()
    for numbers in product(*(range(len(choice)) for choice in choices)):
        new = set(combinations_of(enumerate(numbers), together)) - covered
        if new:
            covered |= new
            yield tuple(choice[number] for choice, number in zip(choices, numbers, strict=True))


def combinations() -> Iterator[Options]:
    """Yield combinations of related options: all pairs, and triples of the larger group."""
    cut = (*product(LAYOUTS, SECTIONS[:2]), ("lines", "dicom"))
    for version, (layout, sections), addenda in covering((VERSIONS, cut, ADDENDA), 2):
        yield {"version": version, "layout": layout, "sections": sections, "addenda": addenda}
    for version, linked, interpreter, times, echo in covering(
        (VERSIONS, LINKED, INTERPRETERS, TIMES, ECHOES), 3
    ):
        yield {
            "version": version, "orders": linked, "interpreter": interpreter, "times": times,
            "echo": echo,
        }  # fmt: skip
    for version, content, targets in covering((VERSIONS, CONTENTS, TARGETS), 2):
        yield {"version": version, "content": content, "metadata": targets}


def keys(raw: bytes) -> list[tuple[str, str]]:
    """Return the distinct pairs of OBX-3 and OBX-4 of the text of a message, in order."""
    found = [
        (segment.value("OBX-3.1"), segment.value("OBX-4"))
        for segment in Message.parse(raw).named("OBX")
        if segment.value("OBX-11") != "O"
    ]
    return list(dict.fromkeys(found))


PAIR = orders()


def named(options: Options) -> str:
    return ",".join(str(value) for value in options.values())


def assert_valid(
    raw: bytes, version: str, structure: str = "ORU_R01", level: int = VALIDATION_LEVEL.TOLERANT
) -> Message:
    theirs = parsed(raw, level)
    assert theirs.name == structure
    assert theirs.validate()
    assert agree(raw)
    message = Message.parse(raw)
    assert message.value("MSH-12") == version
    return message


@pytest.mark.parametrize("options", list(combinations()), ids=named)
def test_every_combination(options: Options) -> None:
    """A valid ORU^R01 of that version, read equally by all parsers."""
    mapping = compiled(**options)
    both = PAIR if mapping.combined else PAIR[:1]
    context = replace(CONTEXT, event=ResultEvent.ADDENDUM, addenda=LATE, orders=both)
    message = assert_valid(mapping.render(context), options["version"])
    assert len(message.named("OBR")) == len(both)
    assert [
        base64.b64decode(segment.value("OBX-5.5"), validate=True)
        for segment in message.named("OBX")
        if segment.value("OBX-2") == "ED"
    ] == [context.files[file_format] for file_format in sorted(mapping.style.formats)] * (
        1 if mapping.style.orders == "combined" else len(both)
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["results", "rad128", "mdm"])
@pytest.mark.parametrize(("event", "earlier"), EARLIER)
def test_every_event(
    version: str, name: str, event: ResultEvent, earlier: tuple[ResultEvent, ...]
) -> None:
    """Every event has a strictly valid message in every shipped definition."""
    trigger = TRIGGERS[EARLIER.index((event, earlier))]
    structure = "ORU_R01"
    if name == "mdm":
        structure = "MDM_T01" if trigger == "T11" else "MDM_T02"
    late = LATE if event is ResultEvent.ADDENDUM else ()
    context = replace(CONTEXT, event=event, earlier=earlier, addenda=late, orders=PAIR[:1])
    raw = compiled(name, version=version).render(context)
    message = assert_valid(raw, version, structure, VALIDATION_LEVEL.STRICT)
    assert message.value("MSH-9.2") == (trigger if name == "mdm" else "R01")


@pytest.mark.parametrize(
    ("name", "version"), [*(("results", version) for version in VERSIONS), ("mdm", "2.5.1")]
)
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.tags["Accession"])
def test_every_order(version: str, order: ResultOrder, name: str) -> None:
    """An echoed order of any version has no fields beyond those of the version of the result."""
    raw = compiled(name, version=version, echo="whole").render(replace(CONTEXT, orders=(order,)))
    message = assert_valid(raw, version, "MDM_T02" if name == "mdm" else "ORU_R01")
    for segment in message.segments:
        if segment.id in hl7_versions.VERSIONS[version].fields:
            assert len(segment) <= len(hl7_versions.VERSIONS[version].fields[segment.id])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("event", [ResultEvent.PRELIMINARY, ResultEvent.RECALL, "order-status"])
def test_progress(version: str, event: str) -> None:
    """Status messages are valid in every version."""
    context = replace(CONTEXT, event=ResultEvent(event), orders=PAIR[:1], report_status="Draft")
    assert_valid(compiled("status", version=version).render(context), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_progress_as_an_order(version: str) -> None:
    """`message` in the statuses makes it an ORM^O01; hl7apy cannot check its OBR or RQD."""
    mapping = compiled(
        "status",
        version=version,
        statuses={"recall": {"order": "IP", "result": "R", "message": "ORM^O01^ORM_O01"}},
    )
    context = replace(CONTEXT, event=ResultEvent.RECALL, orders=PAIR[:1])
    raw = mapping.render(context)
    assert parsed(raw).name == "ORM_O01"
    assert agree(raw)


@pytest.mark.parametrize("sections", SECTIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_observations_are_stable(layout: str, sections: str) -> None:
    """OBX-3 and OBX-4 do not change from preliminary to final, addendum and correction."""
    mapping = compiled(layout=layout, sections=sections, content=["text", "pdf"])
    sent = []
    for event, late in (
        (ResultEvent.PRELIMINARY, ()),
        (ResultEvent.FINAL, ()),
        (ResultEvent.ADDENDUM, LATE[:1]),
        (ResultEvent.ADDENDUM, LATE),
        (ResultEvent.CORRECTION, LATE),
    ):
        context = replace(CONTEXT, event=event, addenda=late, orders=PAIR[:1])
        sent.append(keys(mapping.render(context)))
    assert sent[0] == sent[1]
    assert [key for key in sent[2] if key in sent[1]] == sent[1]
    assert [key for key in sent[3] if key in sent[2]] == sent[2]
    assert sent[3] == sent[4]
    assert len(sent[4]) == len(set(sent[4]))


def test_our_tables_agree_with_hl7apy() -> None:
    """Our tables of fields and types equal those of hl7apy."""
    for version, shape in hl7_versions.VERSIONS.items():
        library = load_library(version)
        for segment, kinds in shape.fields.items():
            theirs = [
                (child[1][2] or "varies") + ("*" if child[2][1] == -1 else "")
                for child in library.SEGMENTS[segment][1]
            ]
            assert list(kinds) == theirs, (version, segment)
        for name, kinds in shape.types.items():
            theirs = [child[1][2] for child in library.DATATYPES_STRUCTS[name]]
            assert list(kinds) == theirs, (version, name)


RESULTS = sorted((Path(__file__).parents[2] / "sample_messages" / "results").glob("*.hl7"))


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_results(file: Path) -> None:
    """The strict validation of hl7apy finds no error; python-hl7 reads the same fields."""
    raw = file.read_bytes()

    assert not structure_errors(raw, VALIDATION_LEVEL.STRICT)
    assert parsed(raw).name in ("ORU_R01", "MDM_T01", "MDM_T02")
    assert agree(raw)
