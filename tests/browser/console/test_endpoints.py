"""The console's endpoints on a running installation: who may what, what is told, what is kept."""

import httpx
import pytest

from tests.browser.console.conftest import CHIEF, OPERATOR, STRANGER, VIEWER, ServiceHarness
from tests.eventually import PATIENCE

pytestmark = [pytest.mark.slow]


def test_nobody_comes_in_without_signing_in(ward: ServiceHarness) -> None:
    """The page leads to the login and back; endpoints answer 401."""
    page = httpx.get(f"{ward.house.url}/console", timeout=PATIENCE)
    assert (page.status_code, page.headers["location"]) == (303, "/reporting/login?next=/console")
    assert httpx.get(f"{ward.house.url}/console/api/me", timeout=PATIENCE).status_code == 401


def test_an_account_without_a_role_sees_nothing(ward: ServiceHarness) -> None:
    """A reader of the report service is nobody here."""
    assert ward.call(STRANGER, "GET", "me").status_code == 403
    assert ward.call(STRANGER, "GET", "overview").json()["code"] == "not_permitted"


def test_a_page_of_somebody_else_changes_nothing(ward: ServiceHarness) -> None:
    """The cookie alone is not enough."""
    path = "channels/listener/orders/pause"
    for headers in ({"origin": "http://evil.test"}, {"sec-fetch-site": "cross-site"}):
        answer = ward.call(CHIEF, "POST", path, {}, **headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin")


@pytest.mark.parametrize(
    ("kind", "number"), [("control", "C7001"), ("patient", "M7001"), ("order", "A7001")]
)
def test_a_message_is_found_by_its_numbers(ward: ServiceHarness, kind: str, number: str) -> None:
    """By control id, patient and order: the one message, and not another's."""
    found = ward.found(OPERATOR, kind=kind, number=number)
    assert [each["listener"] for each in found] == ["orders"]
    wrong = {"kind": kind, "number": f"{number}0"}
    assert ward.call(OPERATOR, "POST", "messages/search", wrong).json()["rows"] == []


def test_a_viewer_learns_nothing_about_patients(ward: ServiceHarness) -> None:
    """No search by number, no content, no change; lists and counts, yes."""
    row = ward.found(OPERATOR, kind="order", number="A7001")[0]
    asked = {"kind": "patient", "number": "M7001"}
    assert ward.call(VIEWER, "POST", "messages/search", asked).status_code == 403
    assert ward.call(VIEWER, "GET", f"messages/{row['id']}/content").status_code == 403
    assert ward.call(VIEWER, "POST", f"messages/{row['id']}/replay", {}).status_code == 403
    assert ward.call(VIEWER, "POST", "orders/find", {"accession": "A7001"}).status_code == 403
    seen = ward.call(VIEWER, "GET", f"messages/{row['id']}")
    listed = ward.call(VIEWER, "POST", "messages/search", {})
    assert (seen.status_code, listed.status_code) == (200, 200)
    for told in (seen.text, listed.text, ward.call(VIEWER, "GET", "overview").text):
        assert "M7001" not in told
        assert "DOE" not in told


def test_the_timeline_goes_from_the_frame_to_the_receivers_answer(ward: ServiceHarness) -> None:
    """Received, acknowledged, applied, reported, composed, sent, accepted."""
    row = ward.found(OPERATOR, kind="order", number="A7001")[0]
    steps = ward.call(OPERATOR, "GET", f"messages/{row['id']}").json()["timeline"]
    kinds = ["received", "acknowledged", "done", "report", "composed", "sent", "accepted"]
    assert [each["kind"] for each in steps] == kinds


def test_what_a_message_says_is_shown_as_it_was_mapped(ward: ServiceHarness) -> None:
    """Raw, tree, mapped event and acknowledgment, to whoever may read bodies."""
    row = ward.found(OPERATOR, kind="order", number="A7001")[0]
    told = ward.call(OPERATOR, "GET", f"messages/{row['id']}/content").json()
    assert told["raw"].startswith("MSH|")
    assert "MSA|AA|C7001" in told["ack"]
    pid = next(each for each in told["tree"] if each["name"] == "PID")
    places = {part["place"]: part["text"] for each in pid["fields"] for part in each["parts"]}
    assert places["PID-3.1"] == "M7001"
    assert "A7001" in str(told["mapped"]["events"])


def test_where_it_is_is_told_by_accession(ward: ServiceHarness) -> None:
    """The order, its report's status now, its message, and its delivery."""
    told = ward.call(OPERATOR, "POST", "orders/find", {"accession": "A7001"}).json()
    assert [(each["site"], each["mrn"], each["now"]) for each in told["orders"]] == [
        ("SITE1", "M7001", "Final")
    ]
    assert [each["state"] for each in told["deliveries"]] == ["done"]
    assert len(told["messages"]) == 1
    without = ward.call(CHIEF, "POST", "orders/find", {"accession": "A7001"}).json()
    assert [each["mrn"] for each in without["orders"]] == [""]


def test_everything_is_recorded_and_no_number_is(ward: ServiceHarness) -> None:
    """Reading, searching and what was refused stand in the record, with who it was."""
    row = ward.found(OPERATOR, kind="patient", number="M7001")[0]
    ward.call(OPERATOR, "GET", f"messages/{row['id']}/content")
    ward.call(VIEWER, "GET", f"messages/{row['id']}/content")
    answer = ward.call(CHIEF, "GET", "deeds")
    told = {(e["email"], e["action"], e["subject"], e["outcome"]) for e in answer.json()["rows"]}
    assert (OPERATOR, "search", "messages by patient number", "done") in told
    assert (OPERATOR, "read", f"message {row['id']}", "done") in told
    assert (VIEWER, "read", f"message {row['id']}", "not_permitted") in told
    assert "M7001" not in answer.text
    assert ward.call(OPERATOR, "GET", "deeds").status_code == 403


def test_what_is_not_there_or_not_possible_is_told(ward: ServiceHarness) -> None:
    """404 for unknown rows, channels and endpoints; 409 for what does not follow; 400 else."""
    row = ward.found(OPERATOR, kind="order", number="A7001")[0]
    assert ward.call(OPERATOR, "GET", "messages/999999").status_code == 404
    assert ward.call(OPERATOR, "GET", "nothing").status_code == 404
    assert ward.call(OPERATOR, "POST", "channels/listener/none/pause", {}).status_code == 404
    assert ward.call(OPERATOR, "POST", f"messages/{row['id']}/cancel", {}).status_code == 409
    bad = ward.call(OPERATOR, "POST", "messages/search", {"patient": "M7001"})
    assert (bad.status_code, "M7001" in bad.text) == (400, False)
