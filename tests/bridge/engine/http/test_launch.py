"""The launch endpoint (interface reference, POST /api/report/launch/clinical)."""

import base64
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from tests.bridge.engine.http.engine_service import (
    OTHER,
    READER,
    Service,
    identity,
    launch_body,
    user,
)


def test_the_database_contains_no_readable_part_of_a_link(service: Service) -> None:
    """Links: only the hash of the handle and a sealed payload are stored."""
    body = service.launch(lazyLaunch=True, tags={"PatientName": "CANARY^NAME"}).json()
    token = body["reportLink"].partition("?token=")[2]
    with service.database.read() as connection:
        rows = connection.exec_driver_sql("SELECT * FROM engine_link").all()
    stored = repr(rows)
    assert "CANARY" not in stored
    assert token not in stored


def test_a_signed_report_is_final(service: Service) -> None:
    """Launch: if the report exists and is signed, the response has status Final."""
    service.launch()
    service.post("report/sign", {"clinicalInfo": identity()})
    body = service.launch().json()
    assert (body["status"], body["reportStatus"]) == ("Final", "Final")


def test_a_launch_of_a_preliminary_report(service: Service) -> None:
    """The response has its status."""
    service.launch()
    service.post(
        "report/prelim", {"clinicalInfo": identity(), "prelimGroup": "G", "prelimTag": "T"}
    )
    assert service.launch().json()["status"] == "Preliminary"


def test_a_lazy_launch_of_a_draft_changes_nothing(service: Service) -> None:
    """The response has the status and the owner of the existing report."""
    service.launch(READER)
    body = service.launch(OTHER, lazyLaunch=True).json()
    assert (body["status"], body["owner"]["email"]) == ("Draft", READER)


def test_register_order_creates_an_ordered_report(service: Service) -> None:
    """Our extension: the worklist contains the order, empty and unassigned."""
    body = service.launch("service", lazyLaunch=True, registerOrder=True).json()
    assert (body["status"], body["owner"], body["reportStatus"]) == ("PreLaunch", {}, "Ordered")
    record = service.status()
    assert (record["status"], record["userEmail"]) == ("Ordered", "")
    assert record["hasContent"] is False


def test_register_order_needs_a_lazy_launch(service: Service) -> None:
    assert service.launch(registerOrder=True).status_code == 400


def test_register_order_does_not_change_a_signed_report(service: Service) -> None:
    """The response has a warning."""
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


def test_options_of_a_qr_code_do_not_matter_for_a_link(service: Service) -> None:
    """QrCodeOptions applies only when type is qrcode or all."""
    response = {"type": "link", "qrCodeOptions": {"size": "huge"}}
    assert service.launch(response=response).status_code == 200


def test_a_repeated_launch_fills_in_tags_and_findings(service: Service) -> None:
    """Non-empty values replace; key findings are used only while the report is empty."""
    service.launch(tags={"Modality": "CT", "StudyDescription": "Chest"})
    service.launch(tags={"Modality": "MR", "StudyDescription": "", "KeyFindings": "one"})
    service.launch(tags={"KeyFindings": "two"})
    export = service.post("report/export/json", {"clinicalInfo": identity()}).json()
    assert export["clinicalInfo"][0]["Modality"] == "MR"
    assert export["clinicalInfo"][0]["StudyDescription"] == "Chest"
    assert export["reportInfo"]["content"] == "one"


def test_key_images_are_kept_once(service: Service) -> None:
    """keyImages: the same picture in one or in two requests is stored once."""
    buffer = BytesIO()
    Image.new("RGB", (4, 4), (200, 10, 10)).save(buffer, "PNG")
    image = {"imageData": base64.b64encode(buffer.getvalue()).decode(), "contentType": "image/png"}
    for _ in range(2):
        assert service.launch(keyImages=[image, image]).status_code == 200
    with service.database.read() as connection:
        count = connection.exec_driver_sql("SELECT count(*) FROM engine_report_file").scalar()
    assert count == 1


@pytest.mark.parametrize("more", [0, 20])
def test_a_batch_returns_one_result_per_launch(service: Service, more: int) -> None:
    """Our extension: a response or problem for each, in order; a refused launch stores nothing."""
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
    response = service.post("report/launch/clinical/batch", batch, "service")
    assert response.status_code == 200
    found = [(each["status"], each.get("code", "")) for each in response.json()]
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
