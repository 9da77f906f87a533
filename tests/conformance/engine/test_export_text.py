"""export: the text in every script and format, hostile text, RTF options."""

import base64
import re
from typing import Any

import pytest

from tests.bridge.engine.http.engine_service import OTHER, READER, identity
from tests.conformance.engine.cases import Case, ok
from tests.conformance.engine.test_export import Reader, html_of, rtf_to_text, with_images

SCRIPTS = {
    "en-US": "Clear lungs.", "zh-CN": "双肺清晰。", "zh-Hant": "雙肺清晰。", "nl-NL": "Geïsoleerd.",
    "fr-FR": "Œdème à gauche.", "de-DE": "Größe unverändert, ß.", "id-ID": "Paru-paru bersih.",
    "it-IT": "Città più là.", "ja-JP": "肺野は清明です。", "ko-KR": "폐야가 깨끗합니다.",
    "pl-PL": "Zażółć gęślą jaźń.", "pt-BR": "Não há lesões.", "ro-RO": "Plămâni fără leziuni ș ț.",
    "es-ES": "Sin lesión; ¿control?", "emoji": "Size 🙂 ≥ 4 µm ± ½", "rtl": "הריאות נקיות",
}  # fmt: skip


@pytest.mark.parametrize("language", SCRIPTS)
def test_the_same_text_in_every_format(case: Case, language: str) -> None:
    """export: Unicode text, including CJK, is unchanged in HTML, JSON and RTF."""
    text = SCRIPTS[language]
    app = {"AppLanguage": language} if "-" in language else {}
    ok(case.service.launch(READER, tags={"KeyFindings": text}, reportingApp=app))
    case.sign("A1", now=True)
    case.addendum("A1", f"Addendum: {text}")
    record = case.export("A1")
    assert record["reportInfo"]["content"] == text
    assert record["addendumInfo"][0]["content"] == f"Addendum: {text}"
    reader = Reader(html_of(case, "A1"))
    assert [each.strip() for each in reader.texts["report-content"]] == [text]
    assert [each.strip() for each in reader.texts["report-addendum-content"]] == [
        f"Addendum: {text}"
    ]
    data = case.post("export/rtf", "A1", contentOnly=True).content
    assert data.isascii()
    assert rtf_to_text(data.decode()).split("\n")[0].strip() == text


def test_html_classes_and_structure(case: Case) -> None:
    """html: one report-content, one report-addendum-content per addendum, no script."""
    case.draft("A1", "One.\n\nTwo.")
    reader = Reader(html_of(case, "A1"))
    assert len(reader.texts["report-content"]) == 1
    assert "report-addendum-content" not in reader.texts
    case.sign("A1", now=True)
    case.addendum("A1", "First.", "Second.")
    page = html_of(case, "A1")
    reader = Reader(page)
    assert [each.strip() for each in reader.texts["report-addendum-content"]] == [
        "First.",
        "Second.",
    ]
    assert page.lower().startswith("<!doctype html>")
    assert not {"script", "iframe", "object", "link"} & set(reader.tags)
    assert not reader.open
    assert "http://" not in page.replace("http://www.w3.org", "")


HOSTILE = [
    "<script>alert(1)</script>",
    "</div></body><img src=x onerror=alert(1)>",
    "{\\rtf1 \\object \\bin5 x}",
    "\\par \\u8364? \\'41",
    "A|B^C~D\\E&F",
    "javascript:alert(1)",
    "&lt;b&gt; &amp;",
    "line\rone\r\ntwo\nthree",
    "tab\there",
    "\u202eright-to-left\u202c \u200b zero",
    "]]> --> <!--",
    "{{7*7}} ${7*7} #{7*7}",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_as_text(case: Case, text: str) -> None:
    """export: markup in a text is shown as text in each format."""
    tags = {"PatientName": text, "StudyDescription": text, "ReasonForExam": text}
    case.draft("A1", text, **tags)
    content = case.content("A1")
    assert content.split() == text.split()
    page = html_of(case, "A1")
    reader = Reader(page)
    assert not {"script", "iframe"} & set(reader.tags)
    assert " ".join(reader.texts["report-content"][0].split()) == " ".join(text.split())
    assert not re.search(r"<[^>]*\son\w+=", page)
    data = ok(case.post("export/rtf", "A1", contentOnly=True)).content
    assert not re.search(rb"\\(object|bin|field)", data)
    shown = rtf_to_text(data.decode())
    assert "".join(shown.split()) == "".join(text.split())


@pytest.mark.parametrize("kind", ["arraybuffer", "ArrayBuffer", "ARRAYBUFFER", None])
def test_rtf_as_bytes(case: Case, kind: str | None) -> None:
    """rtf: binary by default; responseType is case-insensitive."""
    case.draft("A1", "Text.")
    more = {"responseType": kind} if kind else {}
    response = ok(case.post("export/rtf", "A1", **more))
    assert response.headers["content-type"] == "application/rtf"
    named = r'attachment; filename="[^"/]* ?[0-9a-f]{8}\.rtf"; filename\*=UTF-8\'\'\S+\.rtf'
    assert re.fullmatch(named, response.headers["content-disposition"])
    assert response.content.startswith(b"{\\rtf1")
    assert "Text." in rtf_to_text(response.content.decode())


@pytest.mark.parametrize("kind", ["base64", "BASE64", "Base64"])
@pytest.mark.parametrize("bare", [False, True])
def test_rtf_in_base64(case: Case, kind: str, bare: bool) -> None:
    """rtf: base64 in an object, or as plain text if the client accepts only text."""
    case.draft("A1", "Text.")
    plain = case.post("export/rtf", "A1", contentOnly=bare).content
    response = ok(case.post("export/rtf", "A1", responseType=kind, contentOnly=bare))
    assert response.headers["content-type"] == "application/json"
    assert base64.b64decode(response.json()["rtf"], validate=True) == plain
    body = {"clinicalInfo": identity(), "responseType": kind, "contentOnly": bare}
    response = case.service.post("report/export/rtf", body, headers={"accept": "text/plain"})
    assert response.headers["content-type"].startswith("text/plain")
    assert base64.b64decode(response.text, validate=True) == plain


@pytest.mark.parametrize(
    "more",
    [
        {"responseType": "hex"}, {"responseType": ""}, {"responseType": {}},
        {"responseType": 64}, {"responseType": ["base64"]}, {"contentOnly": "true"},
        {"contentOnly": 1}, {"contentOnly": []},
    ],
)  # fmt: skip
def test_invalid_rtf_options_are_refused(case: Case, more: dict[str, Any]) -> None:
    """rtf: responseType is arraybuffer or base64, contentOnly a boolean."""
    case.draft("A1")
    assert case.post("export/rtf", "A1", **more).status_code == 400


def test_content_only_contains_no_users_and_patients(case: Case) -> None:
    """contentOnly: only report and addendum content, no site images, no user signatures."""
    with_images(case.service)
    case.draft("A1", "Body.", PatientName="NAMED^PERSON")
    case.sign("A1", now=True)
    case.addendum("A1", "Added.")
    complete = rtf_to_text(case.post("export/rtf", "A1").content.decode())
    assert "Reader Person" in complete or "Rea Der" in complete
    assert "PERSON" in complete
    bare = rtf_to_text(case.post("export/rtf", "A1", contentOnly=True).content.decode())
    assert bare.split() == ["Body.", "Added."]


def test_unsigned_exports_have_a_banner_outside_the_content(case: Case) -> None:
    """html, rtf: report-content does not contain it."""
    case.draft("A1", "Body.")
    reader = Reader(html_of(case, "A1"))
    assert reader.texts["report-content"][0].strip() == "Body."
    unsigned = set(rtf_to_text(case.post("export/rtf", "A1").content.decode()).split("\n"))
    case.sign("A1", now=True)
    signed = set(rtf_to_text(case.post("export/rtf", "A1").content.decode()).split("\n"))
    assert unsigned - signed


@pytest.mark.parametrize("path", ["export/html", "export/json", "export/rtf"])
def test_exports_of_linked_orders_list_all_orders(case: Case, path: str) -> None:
    """ClinicalInfo of an export: every order of the report, anchor first."""
    case.order("A2", PatientName="DOE^JANE")
    case.order("A1", PatientName="DOE^JANE")
    ok(case.orders("link-orders", "A2", "A1"))
    text = ok(case.post(path, "A1")).text
    assert text.index("A2") < text.index("A1")
    if path == "export/json":
        assert [each["Accession"] for each in case.export("A1")["clinicalInfo"]] == ["A2", "A1"]


def test_the_signer_is_the_owner(case: Case) -> None:
    """sign: the owner is the signer, also with the token of an administrator."""
    ok(case.service.launch(OTHER))
    case.sign("A1")
    signer = case.export("A1")["reportInfo"]["signedBy"]
    assert signer == {"name": "Other Person", "email": OTHER, "signature": None}
