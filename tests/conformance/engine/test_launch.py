"""Launch: every request object, tag and default, and every member of the response."""

import base64
import json
import re
from io import BytesIO
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from tests.bridge.engine.http.house import (
    ADMIN,
    BASE,
    FOREIGN,
    OTHER,
    READER,
    Service,
    boot,
    identity,
    launch_body,
    user,
)
from tests.conformance.engine.cases import Case, ok

TAGS = (
    *("PatientName", "PatientBirthDate", "PatientAge", "PatientSex", "Race", "Ethnicity"),
    *("Modality", "BodyPartExamined", "StudyDescription", "ProcedureCode", "StudyDate"),
    *("StudyTime", "StudyInstanceUID", "ReasonForExam", "KeyFindings", "ReferringPhysician"),
    *("ReportingPhysician", "Notes"),
)
LANGUAGES = (
    *("en-US", "en-GB", "en-AU", "zh-CN", "zh-Hant", "nl-NL", "fr-FR", "fr-CA", "de-DE"),
    *("id-ID", "it-IT", "ja-JP", "ko-KR", "pl-PL", "pt-BR", "ro-RO", "es-ES"),
)


def stored(service: Service, accession: str = "A1") -> dict[str, Any]:
    """Return all tags of an order, as the change feed tells them."""
    changes = ok(service.get("report/changes", limit=1000)).json()["changes"]
    orders = [order for each in changes for order in each["orders"]]
    found: dict[str, Any] = [each for each in orders if each["Accession"] == accession][-1]
    return found


@pytest.mark.parametrize("tag", TAGS)
def test_each_tag_is_a_string_kept_as_sent(service: Service, tag: str) -> None:
    """ClinicalInfo tags: all are strings except Metadata; raw values are kept."""
    value = "A^B & <c> \\ {d} é 日本 | ~"
    ok(service.launch(tags={tag: value}))
    if tag == "KeyFindings":
        assert ok(service.get("report/content", **identity())).json()["content"] == value
    else:
        assert stored(service)[tag] == value


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("value", [None, "", "   "])
def test_an_empty_tag_is_unset(service: Service, tag: str, value: str | None) -> None:
    """JSON export record: empty strings where unset; null and blanks are no value."""
    ok(service.launch(tags={tag: value}))
    record = ok(service.post("report/export/json", {"clinicalInfo": identity()})).json()
    assert record["clinicalInfo"][0].get(tag, "") == ""


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("value", [{}, {"a": 1}, [], ["x"], True, False])
def test_a_tag_that_is_no_string_is_refused(service: Service, tag: str, value: Any) -> None:
    """ClinicalInfo tags: all are strings; objects, lists and booleans are none."""
    answer = service.launch(tags={tag: value})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert f"/clinicalInfo/{tag}" in {each["pointer"] for each in answer.json()["errors"]}


METADATA = [
    {},
    {"ward": "3B"},
    {"nested": {"list": [1, 2.5, None, True, "x"], "ünïcode": "日本"}},
    {"": "empty key"},
    {"a.b": "dots", "a/b": "slashes", "$": "dollar"},
]


@pytest.mark.parametrize("metadata", METADATA)
def test_metadata_is_kept_and_not_displayed(service: Service, metadata: dict[str, Any]) -> None:
    """Metadata: an object of extra clinical metadata; sent via HL7, not displayed in the UI."""
    body = ok(service.launch(READER, tags={"Metadata": metadata})).json()
    assert body["status"] == "Draft"
    assert stored(service)["Metadata"] == metadata
    record = ok(service.post("report/export/json", {"clinicalInfo": identity()})).text
    assert "Metadata" not in record
    link = ok(service.launch(userInfo=user())).json()["reportLink"]
    page = service.session(service.open(link))
    assert "Metadata" not in ok(page("report")).text


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize(
    "spelling", [str, str.lower, str.upper, lambda each: each.replace("-", "_")]
)
def test_supported_languages(service: Service, code: str, spelling: Any) -> None:
    """Supported language codes: 17, of the application and of the speech recognition."""
    app = {"AppLanguage": spelling(code), "SpeechLanguage": spelling(code)}
    body = ok(service.launch(reportingApp=app, userInfo=user())).json()
    page = service.open(body["reportLink"])
    assert boot(page)["language"] == code
    assert f'lang="{code}"' in page.text


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        *(("zh-TW", "zh-Hant"), ("zh-HK", "zh-Hant"), ("zh-MO", "zh-Hant"), ("zh", "zh-CN")),
        *(("zh-Hans", "zh-CN"), ("zh-Hant-TW", "zh-Hant"), ("zh-Hans-HK", "zh-CN")),
        *(("en", "en-US"), ("pt", "pt-BR"), ("pt-PT", "pt-BR"), ("es-419", "es-ES")),
        *(("es-MX", "es-ES"), ("de-AT", "de-DE"), ("fr-BE", "fr-FR"), ("", "en-US")),
        *((None, "en-US"), ("  ", "en-US"), (" ja-JP ", "ja-JP")),
    ],
)
def test_other_codes_of_a_language(service: Service, sent: str | None, meant: str) -> None:
    """reportingApp: default en-US; another code of a supported language comes to its own."""
    body = ok(service.launch(reportingApp={"AppLanguage": sent}, userInfo=user())).json()
    assert boot(service.open(body["reportLink"]))["language"] == meant


@pytest.mark.parametrize("code", ["tlh", "sv-SE", "xx", "e", "en-", "日本", "*", "English", 5, {}])
def test_an_unsupported_language_is_refused(service: Service, code: Any) -> None:
    """Supported language codes: the refusal names them all."""
    for member in ("AppLanguage", "SpeechLanguage"):
        answer = service.launch(reportingApp={member: code})
        if code == "en-":
            continue  # the primary subtag is all that counts
        assert answer.status_code == 400, code
        if isinstance(code, str):
            assert all(each in answer.json()["detail"] for each in LANGUAGES)


def test_reporting_app_must_be_an_object(service: Service) -> None:
    """Request body: reportingApp and response are objects."""
    for member in ("reportingApp", "response", "clinicalInfo"):
        for value in (None, [], "x", 5, True):
            answer = service.launch(**{member: value})
            assert answer.status_code == 400, (member, value)
            assert answer.json()["errors"][0]["pointer"].startswith(f"/{member}")


@pytest.mark.parametrize("value", ["HL7", "hl7", None, ""])
def test_return_format(service: Service, value: str | None) -> None:
    """ReturnFormat: HL7 is supported; no other."""
    ok(service.launch(reportingApp={"ReturnFormat": value}))
    for other in ("PDF", "HL7v3", "FHIR", 7):
        assert service.launch(reportingApp={"ReturnFormat": other}).status_code == 400


@pytest.mark.parametrize("member", ["SyncLaunch", "AutoComparePrior"])
def test_switches_are_booleans(service: Service, member: str) -> None:
    """reportingApp: SyncLaunch and AutoComparePrior are booleans; null is silence."""
    for value in (True, False, None):
        ok(service.launch(reportingApp={member: value}))
    for other in ("true", "yes", 1, 0, {}, []):
        assert service.launch(reportingApp={member: other}).status_code == 400


@pytest.mark.parametrize("number", [7, "7", " 7 ", 7.0, None, "", "007"])
def test_template_numbers(service: Service, number: Any) -> None:
    """ApplyTemplate: a template number; one that the site lacks does not hinder reading."""
    body = ok(service.launch(reportingApp={"ApplyTemplate": number})).json()
    assert body["warnings"] == (["unknown_template"] if number not in (None, "") else [])


@pytest.mark.parametrize("number", ["x", 7.5, -1, "-1", True, [], {}, "٣", 10**30, "1e3"])
def test_template_numbers_that_are_none(service: Service, number: Any) -> None:
    """ApplyTemplate: anything else is 400, at its own place."""
    answer = service.launch(reportingApp={"ApplyTemplate": number})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/reportingApp/ApplyTemplate"


@pytest.mark.parametrize("member", ["lazyLaunch", "forceUpdatePatientName", "registerOrder"])
def test_flags_of_a_launch_are_booleans(service: Service, member: str) -> None:
    """Launch request objects: boolean, default false; nothing else passes for one."""
    ok(service.launch(**{member: False}))
    for other in ("true", "false", 1, 0, {}, [], "yes"):
        assert service.launch(**{member: other}).status_code == 400, other


@pytest.mark.parametrize("wanted", ["link", "qrcode", "all"])
@pytest.mark.parametrize("lazy", [False, True])
def test_members_of_the_response(service: Service, wanted: str, lazy: bool) -> None:
    """Response body: status, owner, reportLink, reportQRCode; only what type asks for."""
    body = ok(service.launch(READER, response={"type": wanted}, lazyLaunch=lazy)).json()
    assert body["status"] == ("PreLaunch" if lazy else "Draft")
    assert body["owner"] == ({} if lazy else {"name": "Reader Person", "email": READER})
    assert ("reportLink" in body) == (wanted in ("link", "all"))
    for spelling in ("reportQRCode", "reportQrCode"):
        assert (spelling in body) == (wanted in ("qrcode", "all"))
    if wanted != "qrcode":
        pattern = re.escape(f"{BASE}/reporting/launch-report/clinical?token=") + r"[\w-]{22}"
        assert re.fullmatch(pattern, body["reportLink"])


@pytest.mark.parametrize("size", ["standard", "mini", None])
@pytest.mark.parametrize("mode", ["light", "dark", None])
def test_the_qr_code_holds_the_link(service: Service, size: str | None, mode: str | None) -> None:
    """qrCodeOptions: 400 or 80 px, for light and dark backgrounds; a decoder reads the link."""
    options = {name: value for name, value in (("size", size), ("mode", mode)) if value}
    response = {"type": "all", "qrCodeOptions": options}
    body = ok(service.launch(response=response)).json()
    prefix, _, data = body["reportQRCode"].partition(",")
    assert prefix == "data:image/png;base64"
    image = cv2.imdecode(np.frombuffer(base64.b64decode(data), np.uint8), cv2.IMREAD_GRAYSCALE)
    assert image is not None
    width = 80 if size == "mini" else 400
    assert image.shape == (width, width)
    assert (image[0, 0] == 0) == (mode == "dark")
    upright = 255 - image if mode == "dark" else image
    assert cv2.QRCodeDetectorAruco().detectAndDecode(upright)[0] == body["reportLink"]


@pytest.mark.parametrize(
    "response",
    [
        {"type": "LINK"},
        {"type": ""},
        {"type": None},
        {"type": ["link"]},
        {"type": "qrcode", "qrCodeOptions": "mini"},
        {"type": "qrcode", "qrCodeOptions": []},
        {"type": "all", "qrCodeOptions": {"size": 80}},
        {"type": "all", "qrCodeOptions": {"size": "MINI"}},
        {"type": "all", "qrCodeOptions": {"mode": True}},
    ],
)
def test_response_options_that_are_none(service: Service, response: dict[str, Any]) -> None:
    """response: type is link, qrcode or all; size standard or mini; mode light or dark."""
    answer = service.launch(response=response)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"].startswith("/response")


def test_unknown_members_are_ignored(service: Service) -> None:
    """Versioning: additive changes only, so what is not known does no harm."""
    body = launch_body(tags={"PatientShoeSize": "44"}, somethingNew={"a": 1})
    body["response"]["colour"] = "red"
    ok(service.post("report/launch/clinical", body))


def test_the_link_hides_the_tags(service: Service) -> None:
    """What the service does 1: the link hides the submitted tags, lazily too."""
    tags = {"PatientName": "HIDDEN^PERSON", "KeyFindings": "secret finding"}
    for lazy in (False, True):
        body = ok(service.launch(accession="ACC77", mrn="MRN77", tags=tags, lazyLaunch=lazy))
        text = json.dumps(body.json()["reportLink"])
        assert not any(each in text for each in ("ACC77", "MRN77", "HIDDEN", "secret", "SITE1"))


def test_launching_again_gives_another_link_to_the_same_report(service: Service) -> None:
    """What the service does 2: the same call retrieves the report's status and link."""
    one, two = (ok(service.launch(READER)).json() for _ in range(2))
    assert one["reportId"] == two["reportId"]
    assert one["reportLink"] != two["reportLink"]


def test_the_triple_identifies(service: Service) -> None:
    """What the service does 3: SiteID, PatientMRN and Accession; each of them counts."""
    ids = {
        ok(service.launch(accession=accession, mrn=mrn)).json()["reportId"]
        for accession in ("A1", "a1", "A 1")
        for mrn in ("P1", "p1", "P01")
    }
    assert len(ids) == 9
    ids.add(ok(service.launch(FOREIGN, site="SITE2")).json()["reportId"])
    assert len(ids) == 10


def test_blanks_around_identifiers_do_not_count(service: Service) -> None:
    """Order identity: what is typed with blanks around it is the same order."""
    one = ok(service.launch(READER)).json()["reportId"]
    two = ok(service.launch(READER, accession=" A1 ", mrn="\tP1\n")).json()["reportId"]
    assert one == two


@pytest.mark.parametrize("mrn", [4711, "4711", 4711.0, " 4711"])
def test_identifiers_that_are_numbers(service: Service, mrn: Any) -> None:
    """All tags are strings; a whole number is taken for its digits."""
    ok(service.launch(tags={"PatientMRN": mrn}))
    assert service.status(mrn="4711")["clinicalInfo"][0]["PatientMRN"] == "4711"


@pytest.mark.parametrize("mrn", [47.5, 1e-9, True, {}, [], ["P1"]])
def test_identifiers_that_are_none(service: Service, mrn: Any) -> None:
    """Order identity: a string."""
    assert service.launch(tags={"PatientMRN": mrn}).status_code == 400


HOSTILE = (
    *("../../etc/passwd", "P1' OR '1'='1", "<script>alert(1)</script>", "%00", "P|1^2~3&4"),
    *("\\X0D\\", "{\\rtf1}", "a" * 1024, "名前", "🙂", "e\u0301", "\u202egnirts", "P1;DROP TABLE"),
)


@pytest.mark.parametrize("value", HOSTILE)
def test_identifiers_of_any_characters(service: Service, value: str) -> None:
    """Order identity: an identifier is text, whatever is in it."""
    ok(service.launch(accession=value, mrn=value))
    assert service.status(value, value)["clinicalInfo"] == [identity(value, value)]
    answer = service.get("report/content", **identity(value, value))
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    "tags",
    [
        {"PatientMRN": "someone@hospital.test"},
        {"PatientMRN": " SOMEONE@HOSPITAL.TEST "},
        {"Accession": "a.b+c@x.example.org"},
        {"PatientMRN": READER},
        {"PatientMRN": "reader person"},
        {"Accession": "READER  PERSON"},
        {"PatientName": "someone@hospital.test"},
    ],
)
@pytest.mark.parametrize("lazy", [False, True])
def test_placeholders_are_rejected(service: Service, tags: dict[str, str], lazy: bool) -> None:
    """Authentication 8: an email address, or the launching user's own identity."""
    answer = service.launch(READER, tags=tags, lazyLaunch=lazy)
    assert (answer.status_code, answer.json()["code"]) == (400, "placeholder_identifier")
    assert service.get("worklist", SiteID="SITE1").json()["items"] == []


def test_the_named_users_identity_is_a_placeholder_too(service: Service) -> None:
    """Authentication 8: the launching user is the one that userInfo names."""
    for mrn in ("new@site1.test", "New Person"):
        answer = service.launch(
            tags={"PatientMRN": mrn}, userInfo=user("new@site1.test", "New Person")
        )
        assert answer.json()["code"] == "placeholder_identifier"


def test_a_physician_may_have_the_users_name(service: Service) -> None:
    """Authentication 8 is about patient identifiers only."""
    ok(service.launch(READER, tags={"ReportingPhysician": READER, "ReferringPhysician": READER}))


@pytest.mark.parametrize(
    ("known", "given", "same"),
    [
        ("DOE^JOHN", "Doe John", True),
        ("DOE^JOHN^^^", "DOE^JOHN", True),
        ("MÜLLER^ÉVA", "Mu\u0308ller^E\u0301va", True),
        ("  DOE^JOHN ", "DOE^JOHN", True),
        ("DOE^JOHN", "JOHN^DOE", False),
        ("DOE^JOHN", "DOE^JON", False),
        ("山田^太郎", "山田^花子", False),
        ("DOE^JOHN", "^^", True),
    ],
)
def test_when_names_differ(service: Service, known: str, given: str, same: bool) -> None:
    """ForceUpdatePatientName false: another PatientName for the PatientMRN fails the request."""
    ok(service.launch(tags={"PatientName": known}))
    for lazy in (True, False):
        answer = service.launch(accession="A2", tags={"PatientName": given}, lazyLaunch=lazy)
        assert answer.status_code == (200 if same else 409)
        if not same:
            assert answer.json()["code"] == "patient_name_mismatch"
            assert given not in answer.text


def test_forcing_a_name(service: Service) -> None:
    """forceUpdatePatientName: existing reports with the PatientMRN get it, signed ones too."""
    case = Case(service)
    case.draft("A1", PatientName="DOE^JANE")
    case.sign("A1", now=True)
    case.order("A2", PatientName="DOE^JANE")
    ok(service.launch(FOREIGN, site="SITE2", tags={"PatientName": "DOE^JANE"}))
    before = case.export("A1")["reportInfo"]
    ok(
        service.launch(
            accession="A3", tags={"PatientName": "ROE^JANE"}, forceUpdatePatientName=True
        )
    )
    for name in ("A1", "A2", "A3"):
        assert case.export(name)["clinicalInfo"][0]["PatientName"] == "ROE^JANE"
    assert case.export("A1")["reportInfo"] == before
    other = service.post("report/export/json", {"clinicalInfo": identity(site="SITE2")}, FOREIGN)
    assert other.json()["clinicalInfo"][0]["PatientName"] == "DOE^JANE"


@pytest.mark.parametrize("name", [None, "", "  ", "^", "^^^"])
def test_forcing_needs_a_name(service: Service, name: str | None) -> None:
    """ForceUpdatePatientName true: PatientName must be present in clinicalInfo."""
    answer = service.launch(tags={"PatientName": name}, forceUpdatePatientName=True)
    assert (answer.status_code, answer.json()["code"]) == (400, "missing_tag")


def test_the_default_owner_is_the_tokens_user(service: Service) -> None:
    """userInfo: the default owner is the user owning the access token."""
    assert ok(service.launch(OTHER)).json()["owner"]["email"] == OTHER
    for info in (None, {}, {"UserEmail": "", "UserName": ""}, {"UserEmail": None}):
        assert ok(service.launch(READER, userInfo=info)).status_code == 200


def test_a_draft_keeps_its_owner_until_the_link_is_opened(service: Service) -> None:
    """Launch of a Draft owned by another user: its owner is told, nothing changes."""
    ok(service.launch(READER))
    body = ok(service.launch(OTHER)).json()
    assert (body["status"], body["owner"]["email"]) == ("Draft", READER)


def test_an_authority_that_is_no_administrators(service: Service) -> None:
    """Authentication 5: Auth is a site administrator token; another one lends nothing."""
    stranger = "stranger@site1.test"
    for auth in ("nonsense", service.tokens[OTHER], service.tokens[FOREIGN], ""):
        answer = service.launch(READER, userInfo=user(stranger, "S", Auth=auth))
        assert answer.status_code == 403, auth
    ok(service.launch(READER, userInfo=user(stranger, "S", Auth=service.tokens[ADMIN])))


def test_another_sites_user_with_this_sites_authority(service: Service) -> None:
    """Authentication 5: the authority decides, whoever's token is in the header."""
    who = user("new@site1.test", "New", Auth=service.tokens[ADMIN])
    assert ok(service.launch(FOREIGN, userInfo=who)).json()["owner"]["email"] == "new@site1.test"


def picture(kind: str = "PNG", colour: tuple[int, int, int] = (9, 9, 9)) -> str:
    """Return a small image in base64."""
    buffer = BytesIO()
    Image.new("RGB", (8, 8), colour).save(buffer, kind)
    return base64.b64encode(buffer.getvalue()).decode()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
@pytest.mark.parametrize("lazy", [False, True])
def test_key_images(service: Service, kind: str, lazy: bool) -> None:
    """keyImages: imageData in base64, contentType, fileName optional."""
    images = [{"imageData": picture(kind), "contentType": f"image/{kind.lower()}"}]
    images.append({**images[0], "fileName": "../../x.png"})
    ok(service.launch(keyImages=images, lazyLaunch=lazy))


@pytest.mark.parametrize(
    "image",
    [
        {},
        {"imageData": picture()},
        {"contentType": "image/png"},
        {"imageData": "", "contentType": "image/png"},
        {"imageData": "a", "contentType": "image/png"},
        {"imageData": "data:image/png;base64," + picture(), "contentType": 5},
        {"imageData": picture(), "contentType": "text/html"},
        {"imageData": picture(), "contentType": "image/svg+xml"},
        {"imageData": base64.b64encode(b"<svg onload=alert(1)/>").decode(),
         "contentType": "image/svg+xml"},
        {"imageData": base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 50).decode(),
         "contentType": "image/png"},
        {"imageData": None, "contentType": "image/png"},
        {"imageData": picture(), "contentType": "image/png", "fileName": 7},
        "not an object",
        None,
    ],
)  # fmt: skip
def test_key_images_that_are_none(service: Service, image: Any) -> None:
    """keyImages: bad base64 or another type is 400, with its place; nothing is launched."""
    for lazy in (False, True):
        answer = service.launch(keyImages=[image], lazyLaunch=lazy)
        assert answer.status_code == 400, answer.text
        assert answer.json()["errors"][0]["pointer"].startswith("/keyImages/0")
    assert service.get("worklist", SiteID="SITE1").json()["items"] == []


def test_lists_must_be_lists(service: Service) -> None:
    """DicomSR and keyImages are lists of objects; null and empty are none."""
    for member in ("dicomSR", "keyImages"):
        for value in (None, []):
            ok(service.launch(**{member: value}))
        for value in ({}, "x", 5, True):
            assert service.launch(**{member: value}).status_code == 400
