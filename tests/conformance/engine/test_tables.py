"""A table and a nested list, from the save on the page to every export."""

import base64
from typing import Any

from tests.bridge.engine.http.engine_service import Service
from tests.conformance.engine.cases import Case, ok


def paragraph(text: str, *marks: str) -> dict[str, Any]:
    run = {"type": "text", "text": text, **({"marks": list(marks)} if marks else {})}
    return {"type": "paragraph", "content": [run] if text else []}


def row(*cells: str, kind: str = "tableCell") -> dict[str, Any]:
    made = [{"type": kind, "content": [paragraph(each)]} for each in cells]
    return {"type": "tableRow", "content": made}


SUBLIST = {"type": "list", "ordered": True, "items": [[{"type": "text", "text": "apical"}]]}
DOCUMENT = {
    "type": "doc",
    "content": [
        {"type": "section", "title": "FINDINGS"},
        {
            "type": "table",
            "content": [
                row("Organ", "Size", kind="tableHeader"),
                row("Liver <b>", "15 cm"),
                row("Right kidney", ""),
            ],
        },
        {"type": "list", "ordered": False, "items": [[{"type": "text", "text": "Lung"}, SUBLIST]]},
    ],
}
TEXT = "FINDINGS\nOrgan         Size\nLiver <b>     15 cm\nRight kidney\n- Lung\n  1. apical"


def test_every_export_contains_a_table(service: Service) -> None:
    """The saved document is stored unchanged, and each export has rows and cells."""
    case = Case(service)
    case.draft("A1", "")
    page = case.page("A1")
    version = page("report").json()["version"]
    ok(page("save", {"version": version, "document": DOCUMENT}))

    assert page("report").json()["document"] == DOCUMENT
    assert case.content("A1") == TEXT
    assert case.export("A1")["reportInfo"]["content"] == TEXT
    html = ok(case.post("export/html", "A1")).json()["html"]
    assert "<tr><td><p>Liver &lt;b&gt;</p></td><td><p>15 cm</p></td></tr>" in html
    assert "<li>Lung<ol><li>apical</li></ol></li>" in html
    coded = ok(case.post("export/rtf", "A1", responseType="base64")).json()["rtf"]
    assert base64.b64decode(coded).count(b"\\row\n") == 3


def test_invalid_tables_are_refused(service: Service) -> None:
    case = Case(service)
    case.draft("A1", "Before.")
    page = case.page("A1")
    version = page("report").json()["version"]
    bad = {"type": "doc", "content": [{"type": "table", "content": [paragraph("x")]}]}

    response = page("save", {"version": version, "document": bad})

    assert response.status_code == 400
    assert case.content("A1") == "Before."


def test_the_place_of_a_finding_in_a_table(service: Service) -> None:
    """An open field in a cell is found; its item is the line in the table."""
    case = Case(service)
    case.draft("A1", "")
    page = case.page("A1")
    field = {"type": "paragraph", "content": [{"type": "field", "label": "cm", "value": ""}]}
    cells = [{"type": "tableCell", "content": [each]} for each in (paragraph("Liver"), field)]
    table = {"type": "table", "content": [{"type": "tableRow", "content": cells}]}
    version = page("report").json()["version"]
    ok(page("save", {"version": version, "document": {"type": "doc", "content": [table]}}))

    findings = ok(page("checks")).json()["findings"]

    assert [(each["check"], each["block"], each["item"]) for each in findings] == [
        ("emptyField", 0, 1)
    ]
