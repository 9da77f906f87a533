"""Templates and macros on the report page."""

import tracemalloc
from typing import Any

import pytest

from bridge.engine.errors import RuleBroken
from bridge.engine.http.models.fields import TextBody
from bridge.engine.rules.text.document import MAX_NODES, from_text, to_json
from tests.bridge.engine.http.engine_service import ADMIN, OTHER, READER, Page, Service

MACROS = "/api/admin/sites/SITE1/macros"


def own(page: Page, method: str, trigger: str, body: Any = None) -> int:
    """Change a macro of the page's user."""
    options = {} if body is None else {"json": body}
    return page.call(method, f"macros/{trigger}", **options).status_code


def triggers(page: Page) -> list[tuple[str, str, bool]]:
    """Return the macros of a page: trigger, text, the user's own."""
    return [
        (each["trigger"], each["document"]["content"][0]["content"][0]["text"], each["own"])
        for each in page("macros").json()["macros"]
    ]


def test_macros_of_the_site_and_of_the_user(service: Service) -> None:
    """All users have the macros of the site; an own macro has precedence and is private."""
    assert service.call("PUT", f"{MACROS}/.nl", json={"text": "Normal lungs."}).status_code == 200
    page, other = service.open_report(), service.open_report(OTHER, accession="A2")
    assert triggers(page) == [(".nl", "Normal lungs.", False)]
    assert own(page, "PUT", ".nl", {"text": "My normal lungs.", "name": "Mine"}) == 204
    assert triggers(page) == [(".nl", "My normal lungs.", True)]
    assert triggers(other) == [(".nl", "Normal lungs.", False)]
    assert own(page, "PUT", ".nl", {"text": "Better."}) == 204
    assert triggers(page) == [(".nl", "Better.", True)]
    assert own(page, "DELETE", ".nl") == 204
    assert own(page, "DELETE", ".nl") == 404
    assert triggers(page) == [(".nl", "Normal lungs.", False)]
    assert [each["trigger"] for each in service.call("GET", MACROS).json()] == [".nl"]
    assert service.call("DELETE", f"{MACROS}/.nl").status_code == 200
    assert triggers(page) == []


def test_invalid_macros_are_refused(service: Service) -> None:
    """A trigger is one word; the document must be valid; administrators set the site's macros."""
    page = service.open_report()
    assert own(page, "PUT", "two words", {"text": "x"}) == 400
    assert own(page, "PUT", "x" * 33, {"text": "x"}) == 400
    assert own(page, "PUT", ".x", {"document": {"type": "html"}}) == 400
    assert own(page, "PUT", ".x", {}) == 400
    assert service.call("PUT", f"{MACROS}/.x", READER, json={"text": "x"}).status_code == 403


@pytest.mark.parametrize("line_end", ["\n", "\r", "\r\n"], ids=["LF", "CR", "CRLF"])
def test_a_text_with_too_many_lines_is_refused(service: Service, line_end: str) -> None:
    """Everywhere with the same error; the longest permitted text is stored."""
    page, longest = service.open_report(), line_end * (MAX_NODES - 1)
    assert own(page, "PUT", ".x", {"text": longest}) == 204
    text = longest + line_end
    for refused in (
        page.call("PUT", "macros/.x", json={"text": text}),
        page("findings", {"text": text, "findings": "x"}),
        page("save", {"version": page("report").json()["version"], "text": text}),
        service.call("PUT", f"{MACROS}/.x", json={"text": text}),
    ):
        assert (refused.status_code, refused.json()["code"]) == (400, "bad_document")
        assert refused.json()["errors"][0]["pointer"].startswith("/document")


def test_lines_are_counted_before_paragraphs_are_built() -> None:
    """A refused text needs no memory for its paragraphs."""
    body = TextBody(text="\n" * 400_000)
    tracemalloc.start()
    try:
        with pytest.raises(RuleBroken):
            body.content()
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    finally:
        tracemalloc.stop()


def test_a_template_is_listed_mapped_and_saved_with_its_number(service: Service) -> None:
    """Applying a template saves nothing; its number is stored with the saved text."""
    template = to_json(from_text("Lungs: clear\nImpression:"))
    address = "/api/admin/sites/SITE1/templates/3"
    body = {"name": "Chest", "document": template}
    assert service.call("PUT", address, ADMIN, json=body).status_code == 200
    page = service.open_report()
    assert [each["number"] for each in page("templates").json()["templates"]] == [3]
    mapped = page("templates/3/map", {"findings": "Nodule in the left lung."}).json()
    lungs = mapped["document"]["content"][0]["content"]
    assert lungs[0] == {"type": "text", "text": "Lungs: "}
    assert lungs[1] == {"type": "text", "text": "Nodule in the left lung.", "marks": ["suggested"]}
    state = page("report").json()
    assert (state["content"], state["template"]) == ("", None)
    saved = page(
        "save", {"version": state["version"], "document": mapped["document"], "template": 3}
    )
    assert saved.json()["template"] == 3
    assert page("templates/4/map", {}).status_code == 404
