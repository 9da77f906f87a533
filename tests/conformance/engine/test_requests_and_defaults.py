"""Requests and default text from the template to the signed report."""

from typing import Any

import pytest

from tests.bridge.engine.http.engine_service import Page, Service, user
from tests.conformance.engine.cases import Case, ok

OURS = "Findings:\nLungs: [lungs := \u6e05\u660e\u3002]\nNodule: [Opisa\u0107 guzek.]\n"
MRRT = (
    "<section><header>Findings</header>"
    '<p>Lungs: <input type="text" title="lungs" value="\u6e05\u660e\u3002"></p>'
    '<p>Nodule: <input type="text" title="Opisa\u0107 guzek."></p></section>'
)
TEXT = "Findings\nLungs: \u6e05\u660e\u3002\nNodule: [Opisa\u0107 guzek.]"


def template(service: Service, kind: str) -> None:
    """Store template 7 in one of the formats."""
    address = "/api/admin/sites/SITE1/templates/7"
    if kind == "mrrt":
        ok(service.call("PUT", f"{address}/mrrt", json={"name": "CT", "html": MRRT}))
    else:
        ok(service.call("PUT", address, json={"name": "CT", "text": OURS}))


def stored(service: Service) -> dict[str, Any]:
    (found,) = service.get("admin/sites/SITE1/templates").json()
    return dict(found)


def reported(page: Page) -> list[str]:
    """Return the words that the checks before signing report."""
    found = ok(page("checks")).json()
    return [finding["words"] for finding in found["findings"]]


@pytest.mark.parametrize("kind", ["ours", "mrrt"])
def test_the_template_says_what_is_a_request(service: Service, kind: str) -> None:
    """Only the request is reported before signing, and the default survives saving."""
    case = Case(service)
    template(service, kind)
    page = service.page(ok(service.launch(userInfo=user(), reportingApp={"ApplyTemplate": 7})))

    report = page("report").json()
    assert report["content"] == TEXT
    assert reported(page) == ["[Opisa\u0107 guzek.]"]
    saved = ok(page("save", {"version": report["version"], "document": report["document"]}))
    assert "default" in str(page("report").json()["document"])
    assert saved.status_code in (200, 204)

    response = ok(case.post("sign", "A1"))

    assert (response.content, response.headers["x-warnings"]) == (b"", "open_brackets;count=1")
    assert case.content("A1") == TEXT


@pytest.mark.parametrize("kind", ["ours", "mrrt"])
def test_a_template_keeps_its_kinds_in_both_formats(service: Service, kind: str) -> None:
    """Exported, imported, and edited as text."""
    template(service, kind)
    first = stored(service)
    html = ok(service.get("admin/sites/SITE1/templates/7/mrrt")).json()["html"]

    ok(
        service.call(
            "PUT", "/api/admin/sites/SITE1/templates/7/mrrt", json={"name": "CT", "html": html}
        )
    )
    assert stored(service)["document"] == first["document"]
    body = {"name": "CT", "text": first["text"]}
    ok(service.call("PUT", "/api/admin/sites/SITE1/templates/7", json=body))
    assert stored(service) == first


@pytest.mark.parametrize("text", ["[Unremarkable.]", "[\uc774\uc0c1 \uc5c6\uc74c.]", "[x := y]"])
def test_brackets_of_other_texts_are_requests(service: Service, text: str) -> None:
    """Key findings of a host declare no default text, and signing does not change them."""
    case = Case(service)
    case.draft("A1", text)
    page = case.page("A1")

    words = reported(page)
    response = ok(case.post("sign", "A1"))

    assert words == [text]
    assert response.headers["x-warnings"] == "open_brackets;count=1"
    assert case.content("A1") == text


def test_an_addendum_is_checked_like_a_report(service: Service) -> None:
    """A request in an addendum is reported, and a site can prohibit signing with it."""
    case = Case(service)
    case.draft("A1")
    case.sign("A1", now=True)
    page = case.page("A1")
    ok(page("addendum/create", {}))
    (draft,) = page("report").json()["addenda"]
    text = {"version": draft["version"], "text": "Nodule: [Opisa\u0107 guzek.]"}
    saved = ok(page("addendum/save", text)).json()["addenda"][0]

    found = ok(page("checks?addendum=true")).json()["findings"]
    assert [row["words"] for row in found] == ["[Opisa\u0107 guzek.]"]
    assert reported(page) == []

    settings = {"settings": {"signChecks": {"openBracket": "prohibit"}}}
    ok(service.call("PATCH", "/api/admin/sites/SITE1", json=settings))
    refused = page("addendum/sign", {"version": saved["version"]})
    assert (refused.status_code, refused.json()["code"]) == (400, "signing_prohibited")

    settings = {"settings": {"signChecks": {"openBracket": "alert"}}}
    ok(service.call("PATCH", "/api/admin/sites/SITE1", json=settings))
    ok(page("addendum/sign", {"version": saved["version"]}))


def test_a_macro_has_both_kinds(service: Service) -> None:
    """A macro that is written as text has the fields of a template."""
    body = {"name": "", "text": "Liver [liver := Normal.], [size] cm"}
    ok(service.call("PUT", "/api/admin/sites/SITE1/macros/.l", json=body))

    (macro,) = service.get("admin/sites/SITE1/macros").json()
    assert macro["text"] == body["text"]
    fields = [row for row in macro["document"]["content"][0]["content"] if row["type"] == "field"]
    assert fields == [
        {"type": "field", "label": "liver", "value": "Normal.", "default": "Normal."},
        {"type": "field", "label": "size", "value": ""},
    ]
