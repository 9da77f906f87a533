"""Test data: releases to render, and combinations of the rendering options of destinations."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations as combinations_of
from itertools import product
from typing import Any

from mappings.compiler import compile_sources
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
    """Compile a shipped definition with the options of a destination."""
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
    usual = next(each for each in ORDERS if each.echo[0].startswith("MSH|^~\\&|RIS"))
    odd = next(each for each in ORDERS if not each.echo[0].startswith("MSH|^~"))
    first, second = (replace(each, metadata=METADATA) for each in (usual, odd))
    return first, second


def covering(choices: Sequence[Sequence[Any]], together: int) -> Iterator[tuple[Any, ...]]:
    """Yield combinations until each choice was combined with every choice of `together` lists."""
    covered: set[tuple[tuple[int, int], ...]] = set()
    for numbers in product(*(range(len(each)) for each in choices)):
        new = set(combinations_of(enumerate(numbers), together)) - covered
        if new:
            covered |= new
            yield tuple(each[number] for each, number in zip(choices, numbers, strict=True))


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
        (each.value("OBX-3.1"), each.value("OBX-4"))
        for each in Message.parse(raw).named("OBX")
        if each.value("OBX-11") != "O"
    ]
    return list(dict.fromkeys(found))
