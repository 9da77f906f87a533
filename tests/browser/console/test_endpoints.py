"""The console's endpoints on a running installation: permissions, responses, audit trail."""

import httpx
import pytest

from tests.browser.console.conftest import CHIEF, OPERATOR, VIEWER, WITHOUT_ROLE, ServiceHarness
from tests.eventually import PATIENCE

pytestmark = [pytest.mark.slow]


def test_sign_in_is_required(service: ServiceHarness) -> None:
    """The page redirects to the login; endpoints answer 401."""
    page = httpx.get(f"{service.house.url}/console", timeout=PATIENCE)
    assert (page.status_code, page.headers["location"]) == (303, "/reporting/login?next=/console")
    assert httpx.get(f"{service.house.url}/console/api/me", timeout=PATIENCE).status_code == 401


def test_an_account_without_a_role_sees_nothing(service: ServiceHarness) -> None:
    """The console refuses a radiologist without a role."""
    assert service.call(WITHOUT_ROLE, "GET", "me").status_code == 403
    assert service.call(WITHOUT_ROLE, "GET", "overview").json()["code"] == "not_permitted"


def test_a_request_of_another_origin_is_refused(service: ServiceHarness) -> None:
    """The session cookie alone does not permit a change."""
    path = "channels/listener/orders/pause"
    for headers in ({"origin": "http://evil.test"}, {"sec-fetch-site": "cross-site"}):
        answer = service.call(CHIEF, "POST", path, {}, **headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin")


@pytest.mark.parametrize(
    ("kind", "number"), [("control", "C7001"), ("patient", "M7001"), ("order", "A7001")]
)
def test_a_message_is_found_by_its_numbers(service: ServiceHarness, kind: str, number: str) -> None:
    """A search by control id, patient or order finds the one message."""
    found = service.found(OPERATOR, kind=kind, number=number)
    assert [each["listener"] for each in found] == ["orders"]
    wrong = {"kind": kind, "number": f"{number}0"}
    assert service.call(OPERATOR, "POST", "messages/search", wrong).json()["rows"] == []


def test_a_viewer_sees_no_patient_data(service: ServiceHarness) -> None:
    """A viewer may not search by number, read content or replay; lists contain no patient data."""
    row = service.found(OPERATOR, kind="order", number="A7001")[0]
    query = {"kind": "patient", "number": "M7001"}
    assert service.call(VIEWER, "POST", "messages/search", query).status_code == 403
    assert service.call(VIEWER, "GET", f"messages/{row['id']}/content").status_code == 403
    assert service.call(VIEWER, "POST", f"messages/{row['id']}/replay", {}).status_code == 403
    assert service.call(VIEWER, "POST", "orders/find", {"accession": "A7001"}).status_code == 403
    shown = service.call(VIEWER, "GET", f"messages/{row['id']}")
    listed = service.call(VIEWER, "POST", "messages/search", {})
    assert (shown.status_code, listed.status_code) == (200, 200)
    for text in (shown.text, listed.text, service.call(VIEWER, "GET", "overview").text):
        assert "M7001" not in text
        assert "DOE" not in text


def test_the_timeline_of_a_message(service: ServiceHarness) -> None:
    """The timeline goes from the received frame to the receiver's acknowledgment."""
    row = service.found(OPERATOR, kind="order", number="A7001")[0]
    steps = service.call(OPERATOR, "GET", f"messages/{row['id']}").json()["timeline"]
    kinds = ["received", "acknowledged", "done", "report", "composed", "sent", "accepted"]
    assert [each["kind"] for each in steps] == kinds


def test_the_content_of_a_message(service: ServiceHarness) -> None:
    """A user who may read bodies gets the raw message, its tree, events and acknowledgment."""
    row = service.found(OPERATOR, kind="order", number="A7001")[0]
    content = service.call(OPERATOR, "GET", f"messages/{row['id']}/content").json()
    assert content["raw"].startswith("MSH|")
    assert "MSA|AA|C7001" in content["ack"]
    pid = next(each for each in content["tree"] if each["name"] == "PID")
    places = {part["place"]: part["text"] for each in pid["fields"] for part in each["parts"]}
    assert places["PID-3.1"] == "M7001"
    assert "A7001" in str(content["mapped"]["events"])


def test_order_tracking_by_accession(service: ServiceHarness) -> None:
    """The response has the order, the status of its report, its message and its delivery."""
    tracked = service.call(OPERATOR, "POST", "orders/find", {"accession": "A7001"}).json()
    assert [(each["site"], each["mrn"], each["now"]) for each in tracked["orders"]] == [
        ("SITE1", "M7001", "Final")
    ]
    assert [each["state"] for each in tracked["deliveries"]] == ["done"]
    assert len(tracked["messages"]) == 1
    without = service.call(CHIEF, "POST", "orders/find", {"accession": "A7001"}).json()
    assert [each["mrn"] for each in without["orders"]] == [""]


def test_the_audit_trail_contains_no_numbers(service: ServiceHarness) -> None:
    """The audit trail has reads, searches and refused requests with their user, and no number."""
    row = service.found(OPERATOR, kind="patient", number="M7001")[0]
    service.call(OPERATOR, "GET", f"messages/{row['id']}/content")
    service.call(VIEWER, "GET", f"messages/{row['id']}/content")
    answer = service.call(CHIEF, "GET", "deeds")
    events = {(e["email"], e["action"], e["subject"], e["outcome"]) for e in answer.json()["rows"]}
    assert (OPERATOR, "search", "messages by patient number", "done") in events
    assert (OPERATOR, "read", f"message {row['id']}", "done") in events
    assert (VIEWER, "read", f"message {row['id']}", "not_permitted") in events
    assert "M7001" not in answer.text
    assert service.call(OPERATOR, "GET", "deeds").status_code == 403


def test_error_statuses(service: ServiceHarness) -> None:
    """404 for unknown rows, channels and endpoints, 409 for a wrong state, 400 for a bad body."""
    row = service.found(OPERATOR, kind="order", number="A7001")[0]
    assert service.call(OPERATOR, "GET", "messages/999999").status_code == 404
    assert service.call(OPERATOR, "GET", "nothing").status_code == 404
    assert service.call(OPERATOR, "POST", "channels/listener/none/pause", {}).status_code == 404
    assert service.call(OPERATOR, "POST", f"messages/{row['id']}/cancel", {}).status_code == 409
    bad = service.call(OPERATOR, "POST", "messages/search", {"patient": "M7001"})
    assert (bad.status_code, "M7001" in bad.text) == (400, False)
