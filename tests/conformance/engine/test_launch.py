"""Launch: request objects, identifiers, tags, languages and defaults."""

import base64
import json
import random
import re
from io import BytesIO
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from tests.bridge.engine.http.engine_service import (
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
from tests.conftest import database_url

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
    """Return all tags of an order from the change feed."""
    changes = ok(service.get("report/changes", limit=1000)).json()["changes"]
    orders = [order for change in changes for order in change["orders"]]
    found: dict[str, Any] = [order for order in orders if order["Accession"] == accession][-1]
    return found


@pytest.mark.parametrize("tag", TAGS)
def test_the_value_of_a_tag_is_kept(service: Service, tag: str) -> None:
    """ClinicalInfo tags: all are strings except Metadata; raw values are kept."""
    value = "A^B & <c> \\ {d} é 日本 | ~"
    ok(service.launch(tags={tag: value}))
    if tag == "KeyFindings":
        assert ok(service.get("report/content", **identity())).json()["content"] == value
    else:
        assert stored(service)[tag] == value


@pytest.mark.parametrize("value", [None, "", "   "])
def test_an_empty_tag_is_unset(service: Service, value: str | None) -> None:
    """JSON export record: an empty string if unset; null and blanks are unset."""
    ok(service.launch(tags=dict.fromkeys(TAGS, value)))
    record = ok(service.post("report/export/json", {"clinicalInfo": identity()})).json()
    assert {record["clinicalInfo"][0].get(tag, "") for tag in TAGS} == {""}


@pytest.mark.parametrize("value", [{}, {"a": 1}, [], ["x"], True, False])
def test_a_tag_that_is_not_a_string_is_refused(service: Service, value: Any) -> None:
    """ClinicalInfo tags: objects, lists and booleans are refused."""
    for tag in TAGS:
        response = service.launch(tags={tag: value})
        assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
        assert f"/clinicalInfo/{tag}" in {error["pointer"] for error in response.json()["errors"]}


METADATA = [
    {},
    {"ward": "3B"},
    {"nested": {"list": [1, 2.5, None, True, "x"], "ünïcode": "日本"}},
    {"": "empty key"},
    {"a.b": "dots", "a/b": "slashes", "$": "dollar"},
]


@pytest.mark.parametrize("metadata", METADATA)
def test_metadata_is_kept_and_not_displayed(service: Service, metadata: dict[str, Any]) -> None:
    """Metadata: an object; sent by HL7, not displayed and not exported."""
    body = ok(service.launch(READER, tags={"Metadata": metadata})).json()
    assert body["status"] == "Draft"
    assert stored(service)["Metadata"] == metadata
    record = ok(service.post("report/export/json", {"clinicalInfo": identity()})).text
    assert "Metadata" not in record
    link = ok(service.launch(userInfo=user())).json()["reportLink"]
    page = service.session(service.open(link))
    assert "Metadata" not in ok(page("report")).text


@pytest.mark.parametrize("code", LANGUAGES)
def test_supported_languages(service: Service, code: str) -> None:
    """Supported language codes: 17, for the application and for speech recognition."""
    for spelling in (code, code.lower(), code.upper(), code.replace("-", "_")):
        app = {"AppLanguage": spelling, "SpeechLanguage": spelling}
        body = ok(service.launch(reportingApp=app, userInfo=user())).json()
        page = service.open(body["reportLink"])
        assert boot(page)["locale"] == code
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
    """reportingApp: default en-US; another code of a supported language is mapped to it."""
    body = ok(service.launch(reportingApp={"AppLanguage": sent}, userInfo=user())).json()
    assert boot(service.open(body["reportLink"]))["locale"] == meant


@pytest.mark.parametrize("code", ["tlh", "sv-SE", "xx", "e", "en-", "日本", "*", "English", 5, {}])
def test_an_unsupported_language_is_refused(service: Service, code: Any) -> None:
    """Supported language codes: the error lists all of them."""
    for member in ("AppLanguage", "SpeechLanguage"):
        response = service.launch(reportingApp={member: code})
        if code == "en-":
            continue  # only the primary subtag is read
        assert response.status_code == 400, code
        if isinstance(code, str):
            assert all(language in response.json()["detail"] for language in LANGUAGES)


def test_request_objects_must_be_objects(service: Service) -> None:
    """Request body: reportingApp, response and clinicalInfo are objects."""
    wrong: tuple[Any, ...] = (None, [], "x", 5, True)
    for member in ("reportingApp", "response", "clinicalInfo"):
        for value in wrong:
            response = service.launch(**{member: value})
            assert response.status_code == 400, (member, value)
            assert response.json()["errors"][0]["pointer"].startswith(f"/{member}")


@pytest.mark.parametrize("value", ["HL7", "hl7", None, ""])
def test_return_format(service: Service, value: str | None) -> None:
    """ReturnFormat: only HL7 is supported."""
    ok(service.launch(reportingApp={"ReturnFormat": value}))
    for other in ("PDF", "HL7v3", "FHIR", 7):
        assert service.launch(reportingApp={"ReturnFormat": other}).status_code == 400


@pytest.mark.parametrize("member", ["SyncLaunch", "AutoComparePrior"])
def test_switches_are_booleans(service: Service, member: str) -> None:
    """reportingApp: SyncLaunch and AutoComparePrior are booleans; null is absent."""
    for value in (True, False, None):
        ok(service.launch(reportingApp={member: value}))
    others: tuple[Any, ...] = ("true", "yes", 1, 0, {}, [])
    for other in others:
        assert service.launch(reportingApp={member: other}).status_code == 400


@pytest.mark.parametrize("number", [7, "7", " 7 ", 7.0, None, "", "007"])
def test_template_numbers(service: Service, number: Any) -> None:
    """ApplyTemplate: a number that the site lacks gives a warning."""
    body = ok(service.launch(reportingApp={"ApplyTemplate": number})).json()
    assert body["warnings"] == (["unknown_template"] if number not in (None, "") else [])


@pytest.mark.parametrize("number", ["x", 7.5, -1, "-1", True, [], {}, "٣", 10**30, "1e3"])
def test_invalid_template_numbers_are_refused(service: Service, number: Any) -> None:
    """ApplyTemplate: 400 with its place."""
    response = service.launch(reportingApp={"ApplyTemplate": number})
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == "/reportingApp/ApplyTemplate"


@pytest.mark.parametrize("member", ["lazyLaunch", "forceUpdatePatientName", "registerOrder"])
def test_flags_of_a_launch_are_booleans(service: Service, member: str) -> None:
    """Launch request objects: boolean, default false; other types are refused."""
    right: dict[str, Any] = {member: False}
    ok(service.launch(**right))
    others: tuple[Any, ...] = ("true", "false", 1, 0, {}, [], "yes")
    for other in others:
        assert service.launch(**{member: other}).status_code == 400, other


def test_the_triple_identifies_an_order(service: Service) -> None:
    """What the service does 3: SiteID, PatientMRN and Accession; case and blanks inside count."""
    ids = {
        ok(service.launch(accession=accession, mrn=mrn)).json()["reportId"]
        for accession in ("A1", "a1", "A 1")
        for mrn in ("P1", "p1", "P01")
    }
    assert len(ids) == 9
    ids.add(ok(service.launch(FOREIGN, site="SITE2")).json()["reportId"])
    assert len(ids) == 10


def test_blanks_around_identifiers_are_ignored(service: Service) -> None:
    """Order identity: leading and trailing blanks are removed."""
    one = ok(service.launch(READER)).json()["reportId"]
    two = ok(service.launch(READER, accession=" A1 ", mrn="\tP1\n")).json()["reportId"]
    assert one == two


@pytest.mark.parametrize("mrn", [4711, "4711", 4711.0, " 4711"])
def test_integers_are_accepted_as_text(service: Service, mrn: Any) -> None:
    """All tags are strings; an integer becomes its digits."""
    ok(service.launch(tags={"PatientMRN": mrn, "PatientAge": 61}))
    assert service.status(mrn="4711")["clinicalInfo"][0]["PatientMRN"] == "4711"


@pytest.mark.parametrize("mrn", [47.5, 1e-9, True, {}, [], ["P1"]])
def test_other_types_of_identifiers_are_refused(service: Service, mrn: Any) -> None:
    """Order identity: an identifier is a string."""
    assert service.launch(tags={"PatientMRN": mrn}).status_code == 400


HOSTILE = (
    *("../../etc/passwd", "P1' OR '1'='1", "<script>alert(1)</script>", "%00", "P|1^2~3&4"),
    *("\\X0D\\", "{\\rtf1}", "a" * 1024, "名前", "🙂", "e\u0301", "P1;DROP TABLE"),
)


@pytest.mark.parametrize("value", HOSTILE)
def test_identifiers_with_special_characters(service: Service, value: str) -> None:
    """Order identity: they are stored and found as text."""
    ok(service.launch(accession=value, mrn=value))
    assert service.status(value, value)["clinicalInfo"] == [identity(value, value)]
    response = service.get("report/content", **identity(value, value))
    assert response.status_code == 200, response.text


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
    """Authentication 8: an e-mail address or the identity of the launching user."""
    response = service.launch(READER, tags=tags, lazyLaunch=lazy)
    assert (response.status_code, response.json()["code"]) == (400, "placeholder_identifier")
    assert service.get("worklist", SiteID="SITE1").json()["items"] == []


def test_the_identity_of_the_named_user_is_a_placeholder_too(service: Service) -> None:
    """Authentication 8: the launching user is the user of userInfo."""
    for mrn in ("new@site1.test", "New Person"):
        response = service.launch(
            tags={"PatientMRN": mrn}, userInfo=user("new@site1.test", "New Person")
        )
        assert response.json()["code"] == "placeholder_identifier"


def test_a_physician_may_have_the_name_of_the_user(service: Service) -> None:
    """Authentication 8 applies to patient identifiers only."""
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
        ("DOE^JOHN", "", True),
    ],
)
def test_a_launch_with_another_name(service: Service, known: str, given: str, same: bool) -> None:
    """ForceUpdatePatientName false: another PatientName for the PatientMRN is 409."""
    ok(service.launch(tags={"PatientName": known}))
    for lazy in (True, False):
        response = service.launch(accession="A2", tags={"PatientName": given}, lazyLaunch=lazy)
        assert response.status_code == (200 if same else 409)
        if not same:
            assert response.json()["code"] == "patient_name_mismatch"
            assert response.json()["retryable"] is False
            assert given not in response.text


def test_a_launch_that_forces_a_name(service: Service) -> None:
    """forceUpdatePatientName: all reports with the PatientMRN get it, also signed ones."""
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


@pytest.mark.parametrize("accession", ["A1", "A2"], ids=["known", "new"])
def test_a_forced_name_does_not_undo_a_later_correction(service: Service, accession: str) -> None:
    """ForceUpdatePatientName renames at the launch; its link opens with the newest name."""
    case = Case(service)
    case.order("A1", PatientName="DOE^JANE")
    forced: dict[str, Any] = {"tags": {"PatientName": "ROE^JANE"}, "forceUpdatePatientName": True}
    lazy = {"accession": accession, "lazyLaunch": True, "userInfo": user(), **forced}
    launched = ok(service.launch(**lazy))
    body = {"SiteID": "SITE1", "PatientMRN": "P1", "PatientName": "POE^JANE"}
    ok(service.post("patient/update", body))

    service.page(launched)

    for name in ("A1", accession):
        assert case.export(name)["clinicalInfo"][0]["PatientName"] == "POE^JANE"


@pytest.mark.parametrize("name", [None, "", "  ", "^", "^^^"])
def test_forcing_a_name_requires_a_name(service: Service, name: str | None) -> None:
    """ForceUpdatePatientName true: PatientName must be in clinicalInfo."""
    response = service.launch(tags={"PatientName": name}, forceUpdatePatientName=True)
    assert (response.status_code, response.json()["code"]) == (400, "missing_tag")


@pytest.mark.parametrize("wanted", ["link", "qrcode", "all"])
@pytest.mark.parametrize("lazy", [False, True])
def test_members_of_the_response(service: Service, wanted: str, lazy: bool) -> None:
    """Response body: status, owner, reportLink, reportQRCode; only the members of its type."""
    body = ok(service.launch(READER, response={"type": wanted}, lazyLaunch=lazy)).json()
    assert body["status"] == ("PreLaunch" if lazy else "Draft")
    assert body["owner"] == ({} if lazy else {"name": "Reader Person", "email": READER})
    assert (body["reportId"] is None) == lazy
    assert ("reportLink" in body) == (wanted in ("link", "all"))
    for spelling in ("reportQRCode", "reportQrCode"):
        assert (spelling in body) == (wanted in ("qrcode", "all"))
    assert body.get("reportQRCode") == body.get("reportQrCode")
    if wanted != "qrcode":
        pattern = re.escape(f"{BASE}/reporting/launch-report/clinical?token=") + r"[\w-]{22}"
        assert re.fullmatch(pattern, body["reportLink"])


@pytest.mark.parametrize("size", ["standard", "mini", None])
@pytest.mark.parametrize("mode", ["light", "dark", None])
def test_the_qr_code_contains_the_link(
    service: Service, size: str | None, mode: str | None
) -> None:
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
    "options",
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
def test_invalid_response_options_are_refused(service: Service, options: dict[str, Any]) -> None:
    """response: type is link, qrcode or all; size standard or mini; mode light or dark."""
    response = service.launch(response=options)
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"].startswith("/response")


def test_unknown_members_are_ignored(service: Service) -> None:
    """Versioning: changes are additive, so unknown members are not errors."""
    body = launch_body(tags={"PatientShoeSize": "44"}, somethingNew={"a": 1})
    body["response"]["colour"] = "red"
    ok(service.post("report/launch/clinical", body))


def test_the_link_hides_the_tags(service: Service) -> None:
    """What the service does 1: the link contains no submitted tag, for lazy launches too."""
    tags = {"PatientName": "HIDDEN^PERSON", "KeyFindings": "secret finding"}
    for lazy in (False, True):
        body = ok(service.launch(accession="ACC77", mrn="MRN77", tags=tags, lazyLaunch=lazy))
        text = json.dumps(body.json()["reportLink"])
        assert not any(
            accession in text for accession in ("ACC77", "MRN77", "HIDDEN", "secret", "SITE1")
        )


def test_a_second_launch_returns_another_link_to_the_same_report(service: Service) -> None:
    """What the service does 2: the same call returns status and link of the report."""
    one, two = (ok(service.launch(READER)).json() for _ in range(2))
    assert one["reportId"] == two["reportId"]
    assert one["reportLink"] != two["reportLink"]


def test_the_default_owner_is_the_user_of_the_token(service: Service) -> None:
    """userInfo: the default owner is the user of the access token."""
    assert ok(service.launch(OTHER)).json()["owner"]["email"] == OTHER
    for info in (None, {}, {"UserEmail": "", "UserName": ""}, {"UserEmail": None}):
        assert ok(service.launch(READER, userInfo=info)).status_code == 200


def test_auth_is_sufficient_for_a_user_of_another_site(service: Service) -> None:
    """Authentication 5: with Auth, the user of the header token does not matter."""
    who = user("new@site1.test", "New", Auth=service.tokens[ADMIN])
    assert ok(service.launch(FOREIGN, userInfo=who)).json()["owner"]["email"] == "new@site1.test"


def picture(kind: str = "PNG", colour: tuple[int, int, int] = (9, 9, 9)) -> str:
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
def test_invalid_key_images_are_refused(service: Service, image: Any) -> None:
    """keyImages: invalid base64 or another type is 400 with its place; no report is created."""
    for lazy in (False, True):
        response = service.launch(keyImages=[image], lazyLaunch=lazy)
        assert response.status_code == 400, response.text
        assert response.json()["errors"][0]["pointer"].startswith("/keyImages/0")
    assert service.get("worklist", SiteID="SITE1").json()["items"] == []


def test_lists_must_be_lists(service: Service) -> None:
    """DicomSR and keyImages are lists of objects; null and an empty list are accepted."""
    empty: tuple[Any, ...] = (None, [])
    wrong: tuple[Any, ...] = ({}, "x", 5, True)
    for member in ("dicomSR", "keyImages"):
        for value in empty:
            ok(service.launch(**{member: value}))
        for value in wrong:
            assert service.launch(**{member: value}).status_code == 400


__all__ = ["database_url"]  # both databases

SCRIPTS = {"latin": (33, 126), "cjk": (0x4E00, 0x9FFF), "emoji": (0x1F300, 0x1F5FF)}


def long_text(script: str, length: int, seed: int) -> str:
    chosen = random.Random(seed)
    return "".join(chr(chosen.randint(*SCRIPTS[script])) for _ in range(length))


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("length", [64, 255, 341, 1024, 1025])
def test_long_identifiers(service: Service, script: str, length: int) -> None:
    """Order identity: an accepted identifier is found; a longer one is 400."""
    mrn, accession = (long_text(script, length, seed) for seed in (1, 2))
    accepted = len(mrn.encode()) <= 1024 and len(accession.encode()) <= 1024
    for lazy in (True, False):
        response = service.launch(accession=accession, mrn=mrn, lazyLaunch=lazy)
        assert response.status_code == (200 if accepted else 400), response.text
    if accepted:
        assert service.status(accession, mrn)["clinicalInfo"] == [identity(accession, mrn)]


@pytest.mark.parametrize("script", SCRIPTS)
def test_reading_by_long_identifiers(service: Service, script: str) -> None:
    """A request with a long unknown identifier is 400 or 404."""
    case = Case(service)
    name = long_text(script, 1024, 3)
    for path in ("sign", "unsign", "delete", "export/json", "export/rtf"):
        assert case.post(path, name).status_code in (400, 404), path
    for path in ("reset-order", "unassign"):
        assert case.flat(path, name).status_code in (400, 404), path
    for path in ("link-orders", "unlink-orders"):
        assert case.orders(path, name, f"{name[:-1]}x").status_code in (400, 404), path
    merge = {"SiteID": "SITE1", "PatientMRN": name, "PriorPatientMRN": name[::-1]}
    assert service.post("patient/merge", merge).status_code in (200, 400)


def test_long_names_of_all_kinds(service: Service) -> None:
    """Users, groups and sites with long names: stored or refused."""
    name = long_text("cjk", 1024, 4)
    case = Case(service)
    case.draft("A1")
    assert case.post("prelim", "A1", prelimGroup=name, prelimTag=name[::-1]).status_code in (
        200,
        400,
    )
    info = {"UserEmail": f"{name[:60]}@site1.test", "UserName": name}
    assert service.launch(accession="A2", userInfo=info).status_code in (200, 400)
    response = service.post("admin/sites", {"SiteID": name}, "service")
    assert response.status_code in (201, 400), response.text
