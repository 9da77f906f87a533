"""The launch endpoint (interface document, POST /api/report/launch/clinical)."""

import base64
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from bridge.network_source import Proxies
from tests.bridge.engine.http.engine_service import (
    BASE,
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


def test_links_carry_the_address_that_the_request_came_in_on(service: Service) -> None:
    """Base addresses: a regional one serves the same path; an unknown host gets the main one."""
    engine = service.application.state.engine
    regional = "https://au.engine.test"
    engine.addresses = type(engine.addresses)(BASE, [regional], Proxies(["127.0.0.0/8"]))
    for headers, base in (
        ({"host": "evil.test"}, BASE),
        ({"x-forwarded-host": "au.engine.test", "x-forwarded-proto": "https"}, regional),
    ):
        answer = service.post("report/launch/clinical", launch_body(), headers=headers)
        assert answer.json()["reportLink"].startswith(f"{base}/reporting/")
    engine.addresses = type(engine.addresses)(BASE, [regional], Proxies())
    answer = service.post("report/launch/clinical", launch_body(), headers=headers)
    assert answer.json()["reportLink"].startswith(f"{BASE}/")


@pytest.mark.parametrize("more", [0, 20])
def test_a_batch_answers_each_in_order(service: Service, more: int) -> None:
    """Our addition: one response or problem for each; a refused one leaves nothing behind."""
    batch: list[Any] = [
        launch_body("A1", lazyLaunch=True, registerOrder=True, tags={"PatientName": "DOE^JANE"}),
        launch_body("A2", lazyLaunch=True, registerOrder=True, tags={"PatientName": "ROE^JANE"}),
        {"clinicalInfo": 5},
        launch_body("A1", lazyLaunch=True, registerOrder=True, tags={"Modality": "MR"}),
        launch_body("A3", userInfo=user(name="")),
        launch_body("A4", site="NOWHERE"),
        launch_body("A5", tags={"PatientMRN": "a@b.test"}),
        *[{"clinicalInfo": 5}] * more,
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
        *[(400, "invalid_request")] * more,
    ]
    items = service.get("worklist", SiteID="SITE1").json()["items"]
    assert {each["orders"][0]["Accession"] for each in items} == {"A1", "A3"}
