"""export: HTML, JSON and RTF; time zones, images, signatures, contentOnly, and hostile text."""

import base64
import re
import zlib
from html.parser import HTMLParser
from io import BytesIO
from typing import Any
from zoneinfo import available_timezones

import pytest
from PIL import Image
from striprtf.striprtf import rtf_to_text as strip
from typing_extensions import override

from tests.bridge.engine.http.engine_service import OTHER, READER, Service, identity
from tests.conformance.engine.cases import STATES, Case, ok

EXPORT = {"siteInfo", "clinicalInfo", "addendumInfo", "prelimInfo", "reportInfo"}
CLINICAL = {
    *("SiteID", "Modality", "Accession", "StudyDate", "StudyTime", "PatientAge", "PatientMRN"),
    *("PatientSex", "PatientName", "ReasonForExam", "BodyPartExamined", "PatientBirthDate"),
    *("StudyDescription", "StudyInstanceUID", "ReferringPhysician", "ReportingPhysician"),
}


def rtf_to_text(rtf: str) -> str:
    return str(strip(rtf)).encode("utf-16", "surrogatepass").decode("utf-16")


class Reader(HTMLParser):
    """Collects the texts by the class of their element, and the names of all elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str]] = []
        self.texts: dict[str, list[str]] = {}
        self.tags: list[str] = []
        self.feed(page)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        classes = dict(attrs).get("class") or ""
        if classes:
            self.texts.setdefault(classes, []).append("")
        if tag not in ("br", "img", "meta", "link", "hr"):
            self.open.append((tag, classes))

    @override
    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open[-1][0] == tag, (self.open[-1], tag)
        self.open.pop()

    @override
    def handle_data(self, data: str) -> None:
        for _, classes in self.open:
            if classes:
                self.texts[classes][-1] += data


def html_of(case: Case, name: str, **more: Any) -> str:
    body = ok(case.post("export/html", name, **more)).json()
    assert set(body) == {"html"}
    page: str = body["html"]
    return page


def image() -> str:
    buffer = BytesIO()
    Image.new("RGB", (20, 10), (0, 0, 120)).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def with_images(service: Service) -> None:
    body = {
        "name": "First", "signDelay": 60, "timeZone": "Europe/Berlin",
        "headerImgType": "image/png", "headerImg": image(),
        "footerImg": f"data:image/png;base64,{image()}",
    }  # fmt: skip
    ok(service.call("PUT", "/api/admin/sites/SITE1", json=body))


def test_the_json_record_in_every_state(case: Case) -> None:
    """JSON export record: exactly its members in every status; null if nothing was signed."""
    for state, (bring, status) in STATES.items():
        bring(case, state)
        if status is None:
            assert case.post("export/json", state).status_code == 404
            continue
        record = case.export(state)
        assert set(record) == EXPORT
        assert set(record["siteInfo"]) == {"headerImgType", "headerImg", "footerImg"}
        assert [set(listed) for listed in record["clinicalInfo"]] == [CLINICAL]
        assert all(isinstance(listed, str) for listed in record["clinicalInfo"][0].values())
        assert set(record["reportInfo"]) == {"content", "signedAt", "signedBy"}
        signed = status in ("Final", "Addendum")
        assert (record["reportInfo"]["signedAt"] is not None) == signed
        assert (record["reportInfo"]["signedBy"] is not None) == signed
        addenda = {"addendum": 1, "addenda": 2, "addendum-to-cooling": 1, "addendum-elapsed": 1}
        assert len(record["addendumInfo"]) == addenda.get(state, 0)
        for addendum in record["addendumInfo"]:
            assert set(addendum) == {"content", "signedAt", "signedBy"}
        for part in [record["reportInfo"], *record["addendumInfo"]]:
            if part["signedBy"]:
                assert part["signedBy"].pop("name") in ("Rea Der", "Reader Person")
                assert part["signedBy"] == {"email": READER, "signature": None}


def test_site_images(case: Case) -> None:
    """siteInfo: headerImgType, headerImg and footerImg; each may be null."""
    case.draft("A1")
    assert set(case.export("A1")["siteInfo"].values()) == {None}
    with_images(case.service)
    info = case.export("A1")["siteInfo"]
    assert info["headerImgType"] == "image/png"
    assert base64.b64decode(info["headerImg"]).startswith(b"\x89PNG")
    assert info["footerImg"].startswith("data:image/png;base64,")
    page = html_of(case, "A1")
    assert len(re.findall(r'<img [^>]*src="data:image/png;base64,', page)) == 2
    rtf = case.post("export/rtf", "A1").content
    assert rtf.count(b"\\pngblip") == 2
    bare = case.post("export/rtf", "A1", contentOnly=True).content
    assert b"\\pict" not in bare


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "Asia/Kathmandu", "UTC"])
def test_time_zones(case: Case, zone: str) -> None:
    """timeZone: an IANA zone that applies to all formatted dates."""
    case.draft("A1")
    case.sign("A1", now=True)  # 2027-01-15 08:00 UTC
    case.addendum("A1", "More.")
    hours = {
        "America/New_York": "3:00",
        "Asia/Tokyo": "5:00",
        "Asia/Kathmandu": "1:45",
        "UTC": "8:00",
    }
    page = html_of(case, "A1", timeZone=zone)
    assert len(re.findall(rf"\b{hours[zone]}", page)) == 2
    rtf = rtf_to_text(case.post("export/rtf", "A1", timeZone=zone).content.decode())
    assert len(re.findall(rf"\b{hours[zone]}", rtf)) == 2
    assert case.export("A1")["reportInfo"]["signedAt"] == "2027-01-15T08:00:00.000Z"


def test_the_default_time_zone(case: Case) -> None:
    """TimeZone: the zone of the signature, else that of the site."""
    with_images(case.service)
    for name, more in (("A1", {}), ("A2", {"timeZone": "Asia/Tokyo"})):
        case.draft(name)
        ok(case.post("sign", name, ignoreSignDelay=True, **more))
    assert "9:00" in html_of(case, "A1")  # Berlin
    assert "5:00" in html_of(case, "A2")
    assert "3:00" in html_of(case, "A2", timeZone="America/New_York")


INVALID_ZONES = [
    *("Mars/Olympus", "../etc/passwd", "europe/berlin", "+01:00", "UTC\n", "a" * 5000, 5, {}, True),
    *("localtime", "Factory", "posixrules"),  # of the machine
]


@pytest.mark.parametrize("path", ["export/html", "export/rtf", "export/json", "sign"])
def test_invalid_time_zones_are_refused(case: Case, path: str) -> None:
    """TimeZone: an IANA zone; a request with another value has no effect."""
    case.draft("A1")
    for zone in INVALID_ZONES:
        assert case.post(path, "A1", timeZone=zone).status_code == 400
    assert case.record("A1")["status"] == "Draft"


def test_every_iana_zone_is_known(case: Case) -> None:
    """timeZone: a sample of the list."""
    case.draft("A1")
    for zone in sorted(available_timezones())[::40]:
        assert case.post("export/html", "A1", timeZone=zone).status_code == 200, zone


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
    assert [item.strip() for item in reader.texts["report-content"]] == [text]
    assert [item.strip() for item in reader.texts["report-addendum-content"]] == [
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
    assert [text.strip() for text in reader.texts["report-addendum-content"]] == [
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
        assert [listed["Accession"] for listed in case.export("A1")["clinicalInfo"]] == ["A2", "A1"]


def test_the_signer_is_the_owner(case: Case) -> None:
    """sign: the owner is the signer, also with the token of an administrator."""
    ok(case.service.launch(OTHER))
    case.sign("A1")
    signer = case.export("A1")["reportInfo"]["signedBy"]
    assert signer == {"name": "Other Person", "email": OTHER, "signature": None}


@pytest.fixture
def report(case: Case) -> Case:
    case.draft("A1", "Clear lungs.")
    case.sign("A1", now=True)
    case.addendum("A1", "Earlier text.", "Later text.")
    return case


def test_the_response_is_a_pdf(report: Case) -> None:
    """export/pdf: the media type and the bytes of a PDF."""
    response = ok(report.post("export/pdf", "A1", "service"))
    assert response.headers["content-type"] == "application/pdf"
    assert response.content.startswith(b"%PDF-")
    assert response.content.rstrip().endswith(b"%%EOF")


@pytest.mark.parametrize("kind", ["pdf", "docx", "PDF"])
def test_no_pdf_and_no_docx_for_integrators(report: Case, kind: str) -> None:
    """What the service does 8: PDF and DOCX are available inside the app only."""
    response = report.post(f"export/{kind}", "A1")
    assert (response.status_code, response.json()["code"]) == (404, "no_such_path")
    described = report.service.call("GET", "/openapi.json", None).json()["paths"]
    assert {text for text in described if text.startswith("/api/report/export/")} == {
        f"/api/report/export/{item}" for item in ("html", "json", "rtf")
    }


@pytest.mark.parametrize(("addenda", "shown"), [(0, []), (1, ["Earlier"]), (None, ["E", "L"])])
def test_the_number_of_addenda_in_an_rtf(
    report: Case, addenda: int | None, shown: list[str]
) -> None:
    """export/rtf: `addenda` limits the number; without it all are included."""
    more: dict[str, Any] = {} if addenda is None else {"addenda": addenda}
    text = rtf_to_text(ok(report.post("export/rtf", "A1", **more)).content.decode())
    assert "Clear lungs." in text
    assert ("Earlier text." in text) == (len(shown) > 0)
    assert ("Later text." in text) == (len(shown) > 1)


def test_the_number_of_addenda_in_a_pdf(report: Case) -> None:
    """export/pdf: fewer addenda give fewer text operators."""

    def size(**more: int) -> int:
        return text_operators(ok(report.post("export/pdf", "A1", "service", **more)).content)

    sizes = [size(addenda=count) for count in (0, 1, 2)]
    assert sizes[0] < sizes[1] < sizes[2]
    assert size() == sizes[2]


def text_operators(pdf: bytes) -> int:
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
    return sum(len(re.findall(rb"T[jJ]\b", unpacked(stream))) for stream in streams)


def unpacked(stream: bytes) -> bytes:
    """Return the content of a deflated stream; empty for others."""
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""


@pytest.mark.parametrize("wrong", [-1, "1", 1.5, True, 10_001])
@pytest.mark.parametrize("path", ["export/pdf", "export/rtf"])
def test_an_invalid_number_of_addenda_is_refused(report: Case, path: str, wrong: object) -> None:
    """`addenda` is an integer from 0 to 10,000."""
    assert report.post(path, "A1", addenda=wrong).status_code == 400


def test_a_pdf_of_an_unknown_report_or_zone_is_refused(case: Case) -> None:
    """export/pdf: 404 and 400."""
    assert case.post("export/pdf", "A1", "service").status_code == 404
    case.draft("A1")
    assert case.post("export/pdf", "A1", "service", timeZone="Mars/Base").status_code == 400


def paragraph(text: str, *marks: str) -> dict[str, Any]:
    run = {"type": "text", "text": text, **({"marks": list(marks)} if marks else {})}
    return {"type": "paragraph", "content": [run] if text else []}


def row(*cells: str, kind: str = "tableCell") -> dict[str, Any]:
    made = [{"type": kind, "content": [paragraph(cell)]} for cell in cells]
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
    cells = [{"type": "tableCell", "content": [item]} for item in (paragraph("Liver"), field)]
    table = {"type": "table", "content": [{"type": "tableRow", "content": cells}]}
    version = page("report").json()["version"]
    ok(page("save", {"version": version, "document": {"type": "doc", "content": [table]}}))

    findings = ok(page("checks")).json()["findings"]

    assert [(finding["check"], finding["block"], finding["item"]) for finding in findings] == [
        ("emptyField", 0, 1)
    ]
