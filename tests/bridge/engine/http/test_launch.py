"""The launch endpoint (interface document, POST /api/report/launch/clinical)."""

import base64
from io import BytesIO
from itertools import product
from typing import Any

import pytest
from PIL import Image

from bridge.engine.settings import EngineSettings
from tests.bridge.engine.http.house import (
    ADMIN,
    BASE,
    FOREIGN,
    OTHER,
    READER,
    Service,
    identity,
    launch_body,
    user,
)


def test_a_launch_creates_a_draft_of_the_tokens_user(service: Service) -> None:
    """Authentication 3: any user's token launches; the report is assigned to the token's user."""
    answer = service.launch(READER)
    body = answer.json()
    assert answer.status_code == 200
    assert body["status"] == body["reportStatus"] == "Draft"
    assert body["owner"] == {"name": "Reader Person", "email": READER}
    assert service.status()["userEmail"] == READER


def test_the_link_hides_the_tags(service: Service) -> None:
    """What the service does 1: the link does not expose the submitted tags."""
    link = service.launch(tags={"PatientName": "DOE^JANE"}).json()["reportLink"]
    start, _, token = link.partition("?token=")
    assert start == f"{BASE}/reporting/launch-report/clinical"
    assert len(token) == 22
    assert "DOE" not in link


def test_nothing_of_a_link_is_readable_in_the_database(service: Service) -> None:
    """Links: only the handle's hash and a sealed payload are stored."""
    body = service.launch(lazyLaunch=True, tags={"PatientName": "CANARY^NAME"}).json()
    token = body["reportLink"].partition("?token=")[2]
    with service.database.read() as connection:
        rows = connection.exec_driver_sql("SELECT * FROM engine_link").all()
    stored = repr(rows)
    assert "CANARY" not in stored
    assert token not in stored


def test_a_second_launch_retrieves_the_report(service: Service) -> None:
    """What the service does 2: the same call retrieves an existing report."""
    first = service.launch(READER).json()
    again = service.launch(OTHER).json()
    assert again["reportId"] == first["reportId"]
    assert again["owner"]["email"] == READER


def test_a_signed_report_is_final(service: Service) -> None:
    """Launch: if the report exists and is signed, the response has status Final."""
    service.launch()
    service.post("report/sign", {"clinicalInfo": identity()})
    body = service.launch().json()
    assert (body["status"], body["reportStatus"]) == ("Final", "Final")


def test_a_preliminary_report_says_so(service: Service) -> None:
    """Launch of a Preliminary report returns that status."""
    service.launch()
    service.post(
        "report/prelim", {"clinicalInfo": identity(), "prelimGroup": "G", "prelimTag": "T"}
    )
    assert service.launch().json()["status"] == "Preliminary"


def test_a_lazy_launch_creates_nothing(service: Service) -> None:
    """States: PreLaunch, only a link exists, owner is an empty object."""
    body = service.launch(lazyLaunch=True).json()
    assert (body["status"], body["owner"], body["reportId"]) == ("PreLaunch", {}, None)
    answer = service.post("report/status", {"clinicalInfo": [identity()]})
    assert answer.status_code == 404


def test_a_lazy_launch_of_a_draft_changes_nothing(service: Service) -> None:
    """It also retrieves: status and owner are the report's, until the link is opened."""
    service.launch(READER)
    body = service.launch(OTHER, lazyLaunch=True).json()
    assert (body["status"], body["owner"]["email"]) == ("Draft", READER)


def test_register_order_makes_an_ordered_report(service: Service) -> None:
    """Our addition: the order stands on the worklist, empty and unassigned."""
    body = service.launch("service", lazyLaunch=True, registerOrder=True).json()
    assert (body["status"], body["owner"], body["reportStatus"]) == ("PreLaunch", {}, "Ordered")
    record = service.status()
    assert (record["status"], record["userEmail"]) == ("Ordered", "")
    assert record["hasContent"] is False


def test_register_order_again_changes_the_tags(service: Service) -> None:
    """Sent again for the same triple it updates the tags; an empty one is removed."""
    tags = {"Modality": "CT", "Notes": "old"}
    service.launch("service", lazyLaunch=True, registerOrder=True, tags=tags)
    tags = {"Modality": "MR", "Notes": ""}
    service.launch("service", lazyLaunch=True, registerOrder=True, tags=tags)
    order = service.get("worklist", SiteID="SITE1").json()["items"][0]["orders"][0]
    assert order["Modality"] == "MR"
    assert "Notes" not in order


def test_register_order_needs_a_lazy_launch(service: Service) -> None:
    """RegisterOrder goes with lazyLaunch: true."""
    assert service.launch(registerOrder=True).status_code == 400


def test_register_order_leaves_a_signed_report_alone(service: Service) -> None:
    """The response says so."""
    service.launch()
    service.post("report/sign", {"clinicalInfo": identity()})
    body = service.launch(lazyLaunch=True, registerOrder=True, tags={"Modality": "MR"}).json()
    assert (body["status"], body["warnings"]) == ("Final", ["report_signed"])


def test_an_eager_launch_of_an_order_assigns_it(service: Service) -> None:
    """An Ordered report becomes a Draft of the launching user, with its key findings."""
    tags = {"KeyFindings": "Nodule, 4 mm"}
    service.launch("service", lazyLaunch=True, registerOrder=True, tags=tags)
    body = service.launch(READER).json()
    assert (body["status"], body["owner"]["email"]) == ("Draft", READER)
    assert service.get("report/content", **identity()).json()["content"] == "Nodule, 4 mm"


def test_the_triple_is_mandatory(service: Service) -> None:
    """A report is identified by SiteID, PatientMRN and Accession; blank is missing."""
    for missing, value in product(("SiteID", "PatientMRN", "Accession"), (None, "", "  ")):
        answer = service.launch(tags={missing: value})
        assert answer.status_code == 400
        assert any(missing in each["pointer"] for each in answer.json()["errors"])


@pytest.mark.parametrize("member", ["clinicalInfo", "reportingApp", "response"])
def test_the_required_objects(service: Service, member: str) -> None:
    """Launch: clinicalInfo, reportingApp and response are required."""
    body = launch_body()
    del body[member]
    answer = service.post("report/launch/clinical", body)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == f"/{member}"


WRONG: dict[str, dict[str, Any]] = {
    "response type": {"response": {"type": "fax"}},
    "no response type": {"response": {}},
    "qr size": {"response": {"type": "qrcode", "qrCodeOptions": {"size": "huge"}}},
    "qr mode": {"response": {"type": "all", "qrCodeOptions": {"mode": "blue"}}},
    "lazyLaunch as text": {"lazyLaunch": "yes"},
    "language": {"reportingApp": {"AppLanguage": "tlh"}},
    "return format": {"reportingApp": {"ReturnFormat": "PDF"}},
    "template": {"reportingApp": {"ApplyTemplate": "one"}},
    "template as object": {"reportingApp": {"ApplyTemplate": {}}},
    "SyncLaunch as text": {"reportingApp": {"SyncLaunch": "yes"}},
    "tag as object": {"tags": {"Modality": {}}},
    "tag as list": {"tags": {"Modality": ["CT"]}},
    "tag as boolean": {"tags": {"Modality": True}},
    "tag too long": {"tags": {"Modality": "x" * 1025}},
    "Metadata as text": {"tags": {"Metadata": "x"}},
    "Metadata as list": {"tags": {"Metadata": []}},
    "Metadata too large": {"tags": {"Metadata": {"a": "x" * 65_536}}},
    "findings too long": {"tags": {"KeyFindings": "x" * 100_001}},
    "user without an address": {"userInfo": {"UserEmail": "nobody", "UserName": "N"}},
    "SR not base64": {"dicomSR": [{"fileData": "***"}]},
    "SR not DICOM": {"dicomSR": [{"fileData": base64.b64encode(b"no").decode()}]},
    "SR without data": {"dicomSR": [{}]},
    "image not an image": {
        "keyImages": [{"imageData": base64.b64encode(b"no").decode(), "contentType": "image/png"}]
    },
    "too many SR": {"dicomSR": [{"fileData": "AAAA"}] * 21},
    "force without a name": {"forceUpdatePatientName": True},
}


def test_what_makes_no_sense_is_400_and_creates_nothing(service: Service) -> None:
    """Launch: each is refused with its place, all or nothing, lazily too."""
    for name, changes in WRONG.items():
        for lazy in ({}, {"lazyLaunch": True}):
            answer = service.launch(**{**lazy, **changes})
            assert answer.status_code == 400, (name, answer.text)
            assert answer.json()["errors"][0]["pointer"]
    assert service.get("worklist", SiteID="SITE1").json()["items"] == []


def test_numbers_count_as_text(service: Service) -> None:
    """All tags are strings; a number is taken as one."""
    assert service.launch(tags={"PatientMRN": 4711, "PatientAge": 61}).status_code == 200
    assert service.status(mrn="4711")["status"] == "Draft"


def test_languages_come_to_the_17_codes(service: Service) -> None:
    """reportingApp: other codes of the same language are mapped."""
    for code in ("zh-TW", "pt", "es-MX", "EN-us"):
        answer = service.launch(reportingApp={"AppLanguage": code, "SpeechLanguage": code})
        assert answer.status_code == 200


def test_an_unknown_template_is_a_warning(service: Service) -> None:
    """ApplyTemplate: reading is not blocked by a number that the site lacks."""
    body = service.launch(reportingApp={"ApplyTemplate": 7}).json()
    assert body["warnings"] == ["unknown_template"]
    document = {"type": "doc", "content": []}
    path = "/api/admin/sites/SITE1/templates/7"
    made = service.call("PUT", path, json={"name": "Chest", "document": document})
    assert made.status_code == 200
    assert service.launch(reportingApp={"ApplyTemplate": "7"}).json()["warnings"] == []


def test_what_is_returned_by_response_type(service: Service) -> None:
    """Launch: link only, QR code only, or both; the QR code in both spellings."""
    link = service.launch().json()
    qr_code = service.launch(response={"type": "qrcode"}).json()
    both = service.launch(response={"type": "all"}).json()
    assert "reportLink" in link
    assert "reportQRCode" not in link
    assert "reportLink" not in qr_code
    assert qr_code["status"] == "Draft"
    assert qr_code["owner"]
    assert "reportLink" in both
    for body in (qr_code, both):
        assert body["reportQRCode"].startswith("data:image/png;base64,")
        assert body["reportQRCode"] == body["reportQrCode"]


@pytest.mark.parametrize(("size", "width"), [("standard", 400), ("mini", 80), (None, 400)])
def test_the_width_of_the_qr_code(service: Service, size: str | None, width: int) -> None:
    """Limits: 400 px (standard, the default), 80 px (mini)."""
    options = {"size": size} if size else {}
    body = service.launch(response={"type": "qrcode", "qrCodeOptions": options}).json()
    data = base64.b64decode(body["reportQRCode"].partition(",")[2])
    assert Image.open(BytesIO(data)).size == (width, width)


def test_options_of_a_qr_code_do_not_matter_for_a_link(service: Service) -> None:
    """QrCodeOptions applies only when type is qrcode or all."""
    response = {"type": "link", "qrCodeOptions": {"size": "huge"}}
    assert service.launch(response=response).status_code == 200


def test_an_administrator_launches_for_an_unknown_user(service: Service) -> None:
    """Authentication 6: users not yet known are registered on the site when first seen."""
    body = service.launch(userInfo=user("New.Person@Site1.test", "New Person")).json()
    assert body["owner"] == {"name": "New Person", "email": "new.person@site1.test"}
    members = service.get("admin/sites/SITE1/users").json()
    assert {"new.person@site1.test": "user"}.items() <= {
        each["email"]: each["role"] for each in members
    }.items()


def test_auth_lends_an_administrators_authority(service: Service) -> None:
    """Authentication 5: Auth is a site administrator token."""
    token = service.tokens[ADMIN]
    answer = service.launch(READER, userInfo=user("x@site1.test", "X", Auth=token))
    assert answer.json()["owner"]["email"] == "x@site1.test"
    foreign = service.tokens[FOREIGN]
    answer = service.launch(READER, userInfo=user("y@site1.test", "Y", Auth=foreign))
    assert (answer.status_code, answer.json()["code"]) == (403, "user_not_permitted")


def test_a_plain_user_launches_for_members_only(service: Service) -> None:
    """Authentication 3 and 5: strangers need a site administrator's authority."""
    assert service.launch(READER, userInfo=user(OTHER)).json()["owner"]["email"] == OTHER
    assert service.launch(READER, userInfo=user("x@site1.test")).status_code == 403


def test_a_token_of_another_site_may_not_launch(service: Service) -> None:
    """A valid token without a right on the site: 403."""
    assert service.launch(FOREIGN).status_code == 403
    assert service.launch(site="NOWHERE").status_code == 404


@pytest.mark.parametrize(
    "tags",
    [
        {"PatientMRN": "someone@hospital.test"},
        {"Accession": "someone@hospital.test"},
        {"PatientMRN": "Reader Person"},
        {"PatientMRN": READER.upper()},
        {"PatientName": "someone@hospital.test"},
    ],
)
def test_placeholder_identifiers_are_rejected(service: Service, tags: dict[str, str]) -> None:
    """Authentication 8: an e-mail address or the user's own identity is no patient."""
    answer = service.launch(READER, tags=tags)
    assert (answer.status_code, answer.json()["code"]) == (400, "placeholder_identifier")


def test_another_name_for_a_known_patient_fails(service: Service) -> None:
    """A different PatientName for an existing PatientMRN fails; the same one folded does not."""
    service.launch(tags={"PatientName": "DOE^JANE"})
    answer = service.launch(accession="A2", tags={"PatientName": "ROE^JANE"})
    assert (answer.status_code, answer.json()["code"]) == (409, "patient_name_mismatch")
    answer = service.launch(accession="A2", tags={"PatientName": "ROE^JANE"}, lazyLaunch=True)
    assert answer.status_code == 409
    assert service.launch(accession="A2", tags={"PatientName": "Doe Jane"}).status_code == 200
    assert service.launch(accession="A3", tags={"PatientName": ""}).status_code == 200


def test_the_name_may_be_forced(service: Service) -> None:
    """forceUpdatePatientName: existing reports of that PatientMRN get the new name."""
    service.launch(tags={"PatientName": "DOE^JANE"})
    answer = service.launch(
        accession="A2", tags={"PatientName": "ROE^JANE"}, forceUpdatePatientName=True
    )
    assert answer.status_code == 200
    export = service.post("report/export/json", {"clinicalInfo": identity("A1")}).json()
    assert export["clinicalInfo"][0]["PatientName"] == "ROE^JANE"


def test_a_repeated_launch_fills_in_tags_and_findings(service: Service) -> None:
    """Non-empty values win; key findings count only while the report is empty."""
    service.launch(tags={"Modality": "CT", "StudyDescription": "Chest"})
    service.launch(tags={"Modality": "MR", "StudyDescription": "", "KeyFindings": "one"})
    service.launch(tags={"KeyFindings": "two"})
    export = service.post("report/export/json", {"clinicalInfo": identity()}).json()
    assert export["clinicalInfo"][0]["Modality"] == "MR"
    assert export["clinicalInfo"][0]["StudyDescription"] == "Chest"
    assert export["reportInfo"]["content"] == "one"


def test_key_images_are_kept_once(service: Service) -> None:
    """keyImages: sniffed, re-encoded, deduplicated; the same picture twice is one."""
    buffer = BytesIO()
    Image.new("RGB", (4, 4), (200, 10, 10)).save(buffer, "PNG")
    image = {"imageData": base64.b64encode(buffer.getvalue()).decode(), "contentType": "image/png"}
    for _ in range(2):
        assert service.launch(keyImages=[image, image]).status_code == 200
    with service.database.read() as connection:
        count = connection.exec_driver_sql("SELECT count(*) FROM engine_report_file").scalar()
    assert count == 1


def test_a_service_token_has_to_name_a_user(service: Service) -> None:
    """A report of an eager launch belongs to somebody."""
    assert service.launch("service").status_code == 400
    assert service.launch("service", userInfo=user()).json()["owner"]["email"] == READER


def test_links_carry_the_address_that_the_request_came_in_on(service: Service) -> None:
    """Base addresses: a regional one serves the same path; an unknown host gets the main one."""
    engine = service.application.state.engine
    regional = "https://au.engine.test"
    engine.addresses = type(engine.addresses)(BASE, [regional], ["127.0.0.0/8"])
    for headers, base in (
        ({"host": "evil.test"}, BASE),
        ({"x-forwarded-host": "au.engine.test", "x-forwarded-proto": "https"}, regional),
    ):
        answer = service.post("report/launch/clinical", launch_body(), headers=headers)
        assert answer.json()["reportLink"].startswith(f"{base}/reporting/")
    engine.addresses = type(engine.addresses)(BASE, [regional], [])
    answer = service.post("report/launch/clinical", launch_body(), headers=headers)
    assert answer.json()["reportLink"].startswith(f"{BASE}/")


def test_a_batch_answers_each_in_order(service: Service) -> None:
    """Our addition: one response or problem for each; a refused one leaves nothing behind."""
    batch: list[Any] = [
        launch_body("A1", lazyLaunch=True, registerOrder=True, tags={"PatientName": "DOE^JANE"}),
        launch_body("A2", lazyLaunch=True, registerOrder=True, tags={"PatientName": "ROE^JANE"}),
        {"clinicalInfo": 5},
        launch_body("A1", lazyLaunch=True, registerOrder=True, tags={"Modality": "MR"}),
        launch_body("A3", userInfo=user(name="")),
        launch_body("A4", site="NOWHERE"),
        launch_body("A5", tags={"PatientMRN": "a@b.test"}),
    ]
    answer = service.post("report/launch/clinical/batch", batch, "service")
    assert answer.status_code == 200
    found = [(each["status"], each.get("code", "")) for each in answer.json()]
    assert found == [
        ("PreLaunch", ""),
        (409, "patient_name_mismatch"),
        (400, "invalid_request"),
        ("PreLaunch", ""),
        ("Draft", ""),
        (404, "site_not_found"),
        (400, "placeholder_identifier"),
    ]
    items = service.get("worklist", SiteID="SITE1").json()["items"]
    assert {each["orders"][0]["Accession"] for each in items} == {"A1", "A3"}


def test_a_batch_has_a_limit(service: Service) -> None:
    """More than the settings allow is refused as a whole."""
    engine = service.application.state.engine
    engine.settings = EngineSettings(engine.settings.link_keys)
    answer = service.post("report/launch/clinical/batch", [{}] * 501, "service")
    assert (answer.status_code, answer.json()["code"]) == (400, "batch_too_large")
