"""Independent parsers accept every rendering of a result in every version."""

import base64
from dataclasses import replace

import pytest
from hl7apy import load_library
from hl7apy.consts import VALIDATION_LEVEL

from mappings.hl7.message import Message
from mappings.outbound import hl7_versions
from mappings.outbound.results import ResultEvent, ResultOrder
from tests.conformance.parsers import agree, parsed, structure_errors
from tests.conformance.renderings import (
    CONTEXT,
    EARLIER,
    LATE,
    TRIGGERS,
    VERSIONS,
    Options,
    combinations,
    compiled,
    keys,
    orders,
)
from tests.mappings.results import ORDERS

PAIR = orders()
STRICT = VALIDATION_LEVEL.STRICT


def named(options: Options) -> str:
    """Name a combination in the list of tests."""
    return ",".join(str(value) for value in options.values())


def assert_valid(raw: bytes, version: str, structure: str = "ORU_R01") -> Message:
    """Assert that both parsers accept a message of this version; return it."""
    theirs = parsed(raw)
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
        base64.b64decode(each.value("OBX-5.5"), validate=True)
        for each in message.named("OBX")
        if each.value("OBX-2") == "ED"
    ] == [context.files[each] for each in sorted(mapping.style.formats)] * (
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
    message = assert_valid(raw, version, structure)
    assert not structure_errors(raw, STRICT)
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


@pytest.mark.parametrize("sections", ["none", "loinc", "dicom"])
@pytest.mark.parametrize("layout", ["lines", "repetitions", "formatted"])
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
