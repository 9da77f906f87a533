"""The response of a launch: its members by type, QR codes, links."""

import base64
import json
import re
from typing import Any

import cv2
import numpy as np
import pytest

from tests.bridge.engine.http.engine_service import BASE, READER, Service, launch_body
from tests.conformance.engine.cases import ok


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
        assert not any(each in text for each in ("ACC77", "MRN77", "HIDDEN", "secret", "SITE1"))


def test_a_second_launch_returns_another_link_to_the_same_report(service: Service) -> None:
    """What the service does 2: the same call returns status and link of the report."""
    one, two = (ok(service.launch(READER)).json() for _ in range(2))
    assert one["reportId"] == two["reportId"]
    assert one["reportLink"] != two["reportLink"]
