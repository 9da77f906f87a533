"""Null counts as absent for optional members and is refused for required ones."""

from typing import Any

import pytest

from tests.bridge.engine.http.engine_service import Service, identity, user
from tests.conformance.engine.cases import Case, ok


@pytest.mark.parametrize(
    "more",
    [
        {"lazyLaunch": None}, {"registerOrder": None}, {"forceUpdatePatientName": None},
        {"userInfo": None}, {"dicomSR": None}, {"keyImages": None},
        {"userInfo": {**user(), "Auth": None, "forceOwnershipTransfer": None}},
        {"reportingApp": {"SyncLaunch": None, "AutoComparePrior": None, "ApplyTemplate": None}},
        {"response": {"type": "link", "qrCodeOptions": None}},
        {"response": {"type": "all", "qrCodeOptions": {"size": None, "mode": None}}},
    ],
)  # fmt: skip
def test_optional_members_of_a_launch(service: Service, more: dict[str, Any]) -> None:
    """Launch request objects: the defaults false, standard and light apply to null too."""
    body = ok(service.launch(**more)).json()
    assert (body["status"], body["warnings"]) == ("Draft", [])


def test_optional_members_of_other_requests(case: Case) -> None:
    """rtf, sign: responseType, contentOnly, timeZone and ignoreSignDelay have defaults."""
    case.draft("A1")
    null: dict[str, Any] = {"responseType": None, "contentOnly": None, "timeZone": None}
    response = ok(case.post("export/rtf", "A1", **null))
    assert response.headers["content-type"] == "application/rtf"
    ok(case.post("sign", "A1", ignoreSignDelay=None, timeZone=None))
    assert case.record("A1")["unsignUntil"] is not None


@pytest.mark.parametrize("value", [None, False, "true", 1, {}, []])
def test_a_required_member_is_not_null(case: Case, value: Any) -> None:
    """addendum/sign: ignoreSignDelay is required and must be true; the error has its place."""
    case.draft("A1")
    case.sign("A1", now=True)
    case.addendum("A1", "More.")
    response = case.post("addendum/sign", "A1", ignoreSignDelay=value)
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == "/ignoreSignDelay"
    assert "Value error" not in response.text
    assert case.record("A1")["addendumUnsignUntil"] is not None


def test_orders_of_one_request_have_one_site(case: Case) -> None:
    """link-orders: SiteID applies to all orders; an order with another SiteID is refused."""
    for name in ("A1", "A2"):
        case.order(name)
    stray = {**identity("A2"), "SiteID": "SITE2"}
    for path in ("link-orders", "unlink-orders"):
        body = {"SiteID": "SITE1", "clinicalInfo": [identity("A1"), stray]}
        assert case.service.post(f"report/{path}", body).status_code == 400
    assert case.record("A1")["reportId"] != case.record("A2")["reportId"]
    same = {"SiteID": "SITE1", "clinicalInfo": [identity("A1"), identity("A2")]}
    ok(case.service.post("report/link-orders", same))
    assert case.record("A1")["reportId"] == case.record("A2")["reportId"]
