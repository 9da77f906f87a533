"""
The reference of the report service interface agrees with the source, and the source refers to it.

`docs/reference/report-service-interface.md` is written by hand, because it is also the reference of
other services. These tests compare its tables with what this service does.
"""

import re
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from bridge.contract.requests import ClinicalInfo, ReportingApp
from bridge.engine.http.engine_application import ROUTERS
from bridge.engine.launch import LANGUAGES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "report-service-interface.md").read_text("utf-8")
HEADINGS = re.findall(r"^#{2,3} (.+)$", PAGE, re.MULTILINE)
PROTOCOL = (ROOT / "web" / "src" / "host-sdk" / "protocol.ts").read_text("utf-8")
WEB = (".css", ".svelte", ".ts")
SOURCES = [
    path
    for folder, kinds in {
        **dict.fromkeys(("bridge", "config", "tests"), (".py",)),
        "web/src": WEB,
    }.items()
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in kinds and path != Path(__file__)
]
REFERENCE = re.compile(r"\(interface reference,\s+([^).:\"]+)")
PART = re.compile(r"(?:rules? )?\d+(?: to \d+)?$")


def first_cells(heading: str) -> list[str]:
    """Return the codes in the first column of the first table of a section."""
    section = PAGE.split(f" {heading}\n", 1)[1].split("\n## ", 1)[0].split("\n### ", 1)[0]
    table = section.partition("|---")[2].partition("\n\n")[0]
    return re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)


def members(interface: str) -> set[str]:
    body = PROTOCOL.split(f"interface {interface} {{\n", 1)[1].split("\n}\n", 1)[0]
    return set(re.findall(r"^  (\w+): ", body, re.MULTILINE))


def test_the_tags() -> None:
    """The page lists each tag of clinicalInfo, and each parameter of reportingApp."""
    assert first_cells("clinicalInfo tags") == list(ClinicalInfo.model_fields)
    assert set(first_cells("reportingApp parameters")) == set(ReportingApp.model_fields)


def test_the_languages() -> None:
    """The page lists the languages of the service."""
    listed = PAGE.split("\nLanguages: ", 1)[1].split(". ", 1)[0]
    assert re.findall(r"`([^`]+)`", listed) == list(LANGUAGES)


def test_the_endpoints() -> None:
    """Each endpoint of the page is a route."""
    routes = {
        (method, route.path)
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    listed = {
        (method, path)
        for method, _, path in (heading.partition(" ") for heading in HEADINGS)
        if path.startswith("/api/")
    }
    assert listed
    assert listed <= routes


@pytest.mark.parametrize(
    ("heading", "interface"), [("Events", "EventPayloads"), ("Actions", "ActionParameters")]
)
def test_the_messages_of_the_app(heading: str, interface: str) -> None:
    """The page lists the events and actions whose types a host gets."""
    assert set(first_cells(heading)) == members(interface)


def test_each_reference_of_the_source_resolves() -> None:
    """A comment that names a section or a rule names one that the page has."""
    sections = {heading.lower() for heading in HEADINGS}
    endpoints = {heading.rpartition("/api/report/")[2].lower() for heading in HEADINGS}
    tails = {path.rpartition("/")[2] for path in endpoints} | {"export", "init", "launch"}
    found = [
        (path.relative_to(ROOT), part.strip())
        for path in SOURCES
        for text in REFERENCE.findall(path.read_text("utf-8"))
        for part in re.split(r"[,;]| and (?!transitions)", " ".join(text.split()))
    ]
    assert len(found) > 15
    unknown = [
        (path, part)
        for path, part in found
        if PART.sub("", part).strip().lower() not in sections | endpoints | tails
    ]
    assert unknown == []


def test_no_text_needs_a_document_outside_the_clone() -> None:
    """Nothing refers to the shared folder, except the tests that may use its corpus."""
    pages = [path for name in ("docs", "sample_messages") for path in (ROOT / name).rglob("*.md")]
    texts = [*SOURCES, *pages, *ROOT.glob("*.md"), ROOT / "Makefile"]
    named = {
        str(path.relative_to(ROOT))
        for path in texts
        # The web pages import from a folder `shared` of their own.
        if re.search(
            r"interface\s+document" + ("" if path.suffix in WEB else r"|\.\./shared"),
            path.read_text("utf-8"),
        )
    }
    assert named == set()
