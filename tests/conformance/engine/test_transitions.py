"""Effects of the transitions besides the status, on both databases."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.bridge.engine.http.engine_service import OTHER, READER, Service
from tests.conformance.engine.cases import Case, ok
from tests.conformance.engine.test_states import status_of
from tests.conftest import database_url

__all__ = ["database_url"]  # both databases


def test_signing_again_keeps_time_and_content(case: Case) -> None:
    """Sign with ignoreSignDelay within cooling: the original signature and time are kept."""
    case.draft("A1", "As signed.")
    case.sign("A1")
    before = case.export("A1")["reportInfo"]
    until = case.record("A1")["unsignUntil"]
    assert until == case.service.clock.now + 60_000
    case.service.clock.pass_seconds(10)
    case.sign("A1", now=True)
    assert case.export("A1")["reportInfo"] == before
    assert case.record("A1")["unsignUntil"] is None
    case.wait()
    case.deliver()
    assert releases(case) == [("final", 1)]


def changes(case: Case) -> list[dict[str, Any]]:
    return list(ok(case.service.get("report/changes", limit=1000)).json()["changes"])


def events(case: Case) -> list[str]:
    return [each["event"] for each in changes(case)]


def releases(case: Case) -> list[tuple[str, int]]:
    found = [each["release"] for each in changes(case) if each["release"]]
    return [(each["kind"], each["sequence"]) for each in found]


def test_without_cooling_a_signed_report_is_final(
    case: Case, set_delay: Callable[[int], None]
) -> None:
    """Draft, sign, no site cooling period: Final and released; it cannot be recalled."""
    set_delay(0)
    case.draft("A1")
    case.sign("A1")
    assert events(case)[-2:] == ["report_signed", "report_finalized"]
    assert releases(case) == [("final", 1)]
    assert case.record("A1")["unsignUntil"] is None
    assert case.post("unsign", "A1").json()["code"] == "cooling_elapsed"
    for now in (False, True):
        again = case.post("sign", "A1", ignoreSignDelay=now)
        assert (again.status_code, again.json()["code"]) == (500, "already_signed")
    case.addendum("A1", "More.")
    for path in ("addendum/sign", "addendum/unsign"):
        response = case.post(path, "A1", ignoreSignDelay=True)
        assert response.status_code == 500
    assert releases(case) == [("final", 1), ("addendum", 1)]


def test_addendum_sign_without_site_cooling(case: Case, set_delay: Callable[[int], None]) -> None:
    """Errors, addendum/sign: 500 when the site has no sign cooling enabled."""
    case.draft("A1")
    case.sign("A1", now=True)
    case.addendum("A1", "More.")
    set_delay(0)
    response = case.post("addendum/sign", "A1", ignoreSignDelay=True)
    assert (response.status_code, response.json()["code"]) == (500, "sign_delay_disabled")


def test_the_last_millisecond_of_cooling(case: Case) -> None:
    """UnsignUntil: exclusive, by the clock of the server."""
    for name in ("A1", "A2"):
        case.draft(name)
        case.sign(name)
    case.service.clock.now = case.record("A1")["unsignUntil"] - 1
    assert case.post("unsign", "A1").status_code == 200
    case.service.clock.now += 1
    assert case.record("A2")["unsignUntil"] is None
    assert case.post("unsign", "A2").json()["code"] == "cooling_elapsed"


def test_unsign_clears_later_addenda(case: Case) -> None:
    """Unsign: the text is kept."""
    case.draft("A1", "Text.")
    case.sign("A1")
    case.addendum("A1", "First.", "Second.")
    assert len(case.export("A1")["addendumInfo"]) == 2
    ok(case.post("unsign", "A1"))
    record = case.export("A1")
    assert record["addendumInfo"] == []
    assert record["reportInfo"] == {"content": "Text.", "signedAt": None, "signedBy": None}
    case.sign("A1")
    assert case.record("A1")["status"] == "Final"


def test_unsign_restores_the_most_recent_prelim_read(case: Case) -> None:
    """Unsign: Preliminary if an active prelim read exists; the most recent one is restored."""
    case.draft("A1", "Text.")
    for tag in ("One", "Two"):
        ok(case.post("prelim", "A1", prelimGroup="G", prelimTag=tag))
        case.service.clock.pass_seconds(1)
    case.sign("A1")
    ok(case.post("unsign", "A1"))
    assert case.record("A1")["status"] == "Preliminary"
    waiting = ok(
        case.service.get("report/site/prelims", SiteID="SITE1", prelimGroup="G", prelimTag="Two")
    ).json()
    assert waiting["userEmail"] == READER


def test_an_addendum_released_early_is_released_once(case: Case) -> None:
    """Addendum sign: the pending release is cancelled, and the signature is kept."""
    case.draft("A1")
    case.sign("A1", now=True)
    case.addendum("A1", "First.")
    before = case.export("A1")["addendumInfo"]
    ok(case.post("addendum/sign", "A1", ignoreSignDelay=True))
    for path in ("addendum/sign", "addendum/unsign"):
        again = case.post(path, "A1", ignoreSignDelay=True)
        assert (again.status_code, again.json()["code"]) == (500, "cooling_elapsed")
    case.wait()
    case.deliver()
    assert events(case)[-1] == "addendum_finalized"
    assert releases(case) == [("final", 1), ("addendum", 1)]
    assert case.export("A1")["addendumInfo"] == before


def test_reset_removes_assignment_and_content(case: Case) -> None:
    """Reset order: Ordered; afterwards the order can be linked."""
    case.order("A1")
    case.draft("A1", "Text.")
    ok(case.flat("reset-order", "A1"))
    record = case.record("A1")
    assert (record["status"], record["userEmail"], record["hasContent"]) == ("Ordered", "", False)
    assert case.content("A1") == ""
    case.order("A2")
    assert case.orders("link-orders", "A1", "A2").status_code == 200


def test_unassign_keeps_content_for_the_next_user(case: Case) -> None:
    """Unassign: the report becomes a Draft of the next user who launches the study."""
    case.draft("A1", "Dictated.")
    ok(case.flat("unassign", "A1"))
    record = case.record("A1")
    assert (record["status"], record["userEmail"], record["hasContent"]) == ("Ordered", "", True)
    body = ok(case.service.launch(OTHER)).json()
    assert (body["status"], body["owner"]["email"]) == ("Draft", OTHER)
    assert case.content("A1") == "Dictated."


def test_deleting_frees_the_triple(case: Case) -> None:
    """Delete: a new launch of the same triple creates a new report."""
    case.draft("A1", "Old.")
    old = case.record("A1")["reportId"]
    ok(case.post("delete", "A1"))
    assert status_of(case, "A1") is None
    last = changes(case)[-1]
    assert (last["event"], last["orders"][0]["Accession"]) == ("report_deleted", "A1")
    case.draft("A1", "New.")
    assert case.record("A1")["reportId"] != old
    assert case.content("A1") == "New."


@pytest.mark.parametrize("forced", [False, True])
def test_ownership_is_transferred_when_the_link_is_opened(service: Service, forced: bool) -> None:
    """A Draft of another user: after the prompt, or with forceOwnershipTransfer."""
    case = Case(service)
    case.draft("A1")
    who: dict[str, Any] = {
        "UserEmail": OTHER,
        "UserName": "Other",
        "forceOwnershipTransfer": forced,
    }
    body = ok(service.launch(userInfo=who)).json()
    assert body["owner"]["email"] == READER  # nothing happens before the link is opened
    page = service.session(service.open(body["reportLink"]))
    assert case.record("A1")["userEmail"] == (OTHER if forced else READER)
    ok(page("transfer", {}))
    assert case.record("A1")["userEmail"] == OTHER
    assert events(case)[-1] == "report_transferred"
