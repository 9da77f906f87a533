"""export: HTML, JSON and RTF; time zones, images, signatures, contentOnly, and hostile text."""

import base64
import re
from html.parser import HTMLParser
from io import BytesIO
from typing import Any
from zoneinfo import available_timezones

import pytest
from PIL import Image
from striprtf.striprtf import rtf_to_text as strip
from typing_extensions import override

from tests.bridge.engine.http.engine_service import READER, Service
from tests.conformance.engine.cases import STATES, Case, ok

EXPORT = {"siteInfo", "clinicalInfo", "addendumInfo", "prelimInfo", "reportInfo"}
CLINICAL = {
    *("SiteID", "Modality", "Accession", "StudyDate", "StudyTime", "PatientAge", "PatientMRN"),
    *("PatientSex", "PatientName", "ReasonForExam", "BodyPartExamined", "PatientBirthDate"),
    *("StudyDescription", "StudyInstanceUID", "ReferringPhysician", "ReportingPhysician"),
}


def rtf_to_text(rtf: str) -> str:
    """Read RTF with striprtf, and join the halves of surrogate pairs."""
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
    """Set the header and footer images of the site."""
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
        assert [set(each) for each in record["clinicalInfo"]] == [CLINICAL]
        assert all(isinstance(each, str) for each in record["clinicalInfo"][0].values())
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
