"""status, content, site/prelims: every member, its type, and when it is null."""

from typing import Any

import pytest

from tests.bridge.engine.http.engine_service import (
    FOREIGN,
    OTHER,
    READER,
    Service,
    identity,
    launch_body,
)
from tests.conformance.engine.cases import STATES, Case, ok

RECORD = {
    *("reportId", "status", "userEmail", "unsignUntil", "clinicalInfo"),
    *("hasContent", "addendumUnsignUntil"),  # ours
}


def test_every_member_of_the_status_record_in_every_state(case: Case) -> None:
    """Report status record: names, types, and null for unsignUntil outside the cooling period."""
    for state, (bring, status) in STATES.items():
        bring(case, state)
        if status is None:
            continue
        record = case.record(state)
        assert set(record) == RECORD
        assert record["status"] == status
        assert isinstance(record["reportId"], str)
        assert record["clinicalInfo"] == [identity(state)]
        unowned = status == "Ordered"
        assert record["userEmail"] == ("" if unowned else READER)
        cools = state.startswith("cooling") or state == "addendum-to-cooling"
        until = case.service.clock.now + 60_000
        assert record["unsignUntil"] == (until if cools else None), state
        assert record["hasContent"] == (state != "ordered")
        addendum = state in ("addendum", "addenda", "addendum-to-cooling")
        assert record["addendumUnsignUntil"] == (until if addendum else None), state


def test_report_ids_are_hashes_that_say_nothing(case: Case) -> None:
    """reportId: unique; neither the identity nor the order of creation is in it."""
    for name in ("A1", "A2", "A3"):
        case.draft(name)
    ids = [case.record(name)["reportId"] for name in ("A1", "A2", "A3")]
    assert len(set(ids)) == 3
    assert ids != sorted(ids) or len({each[:4] for each in ids}) == 3
    assert not any("A1" in each or "P1" in each for each in ids)


def test_linked_orders_are_one_record(case: Case) -> None:
    """clinicalInfo: every order of the report, anchor first, then in linking order."""
    for name in ("A3", "A1", "A2"):
        case.order(name)
    ok(case.orders("link-orders", "A3", "A1"))
    ok(case.orders("link-orders", "A3", "A2"))
    wanted = [identity(each) for each in ("A2", "A3", "A1")]
    records = ok(case.service.post("report/status", {"clinicalInfo": wanted})).json()
    assert len(records) == 1
    assert records[0]["clinicalInfo"] == [identity(each) for each in ("A3", "A1", "A2")]


def test_many_are_asked_for_at_once(case: Case) -> None:
    """status: records in the order of the request; what is not there is left out."""
    for name in ("A1", "A2"):
        case.draft(name)
    wanted = [identity(each) for each in ("A2", "NONE", "A1", "A2")]
    records = ok(case.service.post("report/status", {"clinicalInfo": wanted})).json()
    assert [each["clinicalInfo"][0]["Accession"] for each in records] == ["A2", "A1"]
    wanted = [identity("NONE1"), identity("NONE2")]
    assert ok(case.service.post("report/status", {"clinicalInfo": wanted})).json() == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"clinicalInfo": None},
        {"clinicalInfo": []},
        {"clinicalInfo": "x"},
        {"clinicalInfo": [None]},
        {"clinicalInfo": [[]]},
        {"clinicalInfo": [{"SiteID": "SITE1"}]},
        {"clinicalInfo": [{"SiteID": "SITE1", "PatientMRN": "P1", "Accession": ""}]},
        {"clinicalInfo": [{"SiteID": "", "PatientMRN": "P1", "Accession": "A1"}]},
        {"clinicalInfo": [{"SiteID": "SITE1", "PatientMRN": {"$ne": ""}, "Accession": "A1"}]},
        [],
        None,
        "text",
        5,
        True,
    ],
)
def test_status_bodies_that_make_no_sense(service: Service, body: Any) -> None:
    """status: a list of objects, each with SiteID, PatientMRN and Accession, all required."""
    answer = service.post("report/status", body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["errors"]


def test_two_sites_in_one_question(service: Service) -> None:
    """status: all the sites have to be the caller's; a single other one spoils the request."""
    ok(service.launch())
    ok(service.launch(FOREIGN, site="SITE2"))
    body = {"clinicalInfo": [identity(), identity(site="SITE2")]}
    assert service.post("report/status", body).status_code == 403
    assert len(ok(service.post("report/status", body, "service")).json()) == 2


@pytest.mark.parametrize("missing", ["SiteID", "PatientMRN", "Accession"])
@pytest.mark.parametrize("value", [None, "", "  "])
def test_content_needs_its_parameters(service: Service, missing: str, value: str | None) -> None:
    """content: SiteID, PatientMRN and Accession are required query parameters."""
    query = {**identity(), missing: value}
    sent = {name: each for name, each in query.items() if each is not None}
    answer = service.get("report/content", **sent)
    assert answer.status_code == 400
    assert missing in str(answer.json()["errors"])


def test_content_in_every_state(case: Case) -> None:
    """content: an object with content, a string; the report's text without its addenda."""
    for state, (bring, status) in STATES.items():
        bring(case, state)
        answer = case.service.get("report/content", **identity(state))
        if status is None:
            assert (answer.status_code, answer.json()["code"]) == (404, "report_not_found")
        else:
            assert answer.json() == {"content": "" if state == "ordered" else "Findings."}


@pytest.mark.parametrize("name", ["A&B=C", "A+B", "A%2FB", "Ä ö", "日本", "A#B", "a;b", "..", "\\"])
def test_content_by_names_that_urls_have_to_encode(service: Service, name: str) -> None:
    """content: query parameters, URL-encoded by the caller."""
    ok(service.launch(READER, accession=name, tags={"KeyFindings": "T"}))
    assert ok(service.get("report/content", **identity(name))).json() == {"content": "T"}


def test_a_parameter_given_twice(service: Service) -> None:
    """content: no way to ask for one site and read another."""
    ok(service.launch(FOREIGN, site="SITE2", tags={"KeyFindings": "SECRET"}))
    for order in ("SITE1", "SITE2"), ("SITE2", "SITE1"):
        query = "&".join(f"SiteID={each}" for each in order) + "&PatientMRN=P1&Accession=A1"
        answer = service.call("GET", f"/api/report/content?{query}")
        assert answer.status_code in (400, 403, 404)
        assert "SECRET" not in answer.text


PRELIMS = {"SiteID": "SITE1", "prelimGroup": "G", "prelimTag": "T"}


def test_prelims_are_an_object(case: Case) -> None:
    """site/prelims: reportId, clinicalInfo, userEmail; the longest-waiting report."""
    for name in ("A1", "A2"):
        case.draft(name)
        ok(case.post("prelim", name, prelimGroup="G", prelimTag="T"))
        case.service.clock.pass_seconds(1)
    found = ok(case.service.get("report/site/prelims", **PRELIMS)).json()
    assert set(found) == {"reportId", "clinicalInfo", "userEmail", "reports"}
    assert found["reportId"] == case.record("A1")["reportId"]
    assert found["clinicalInfo"] == [identity("A1")]
    assert found["userEmail"] == READER
    assert [each["clinicalInfo"][0]["Accession"] for each in found["reports"]] == ["A1", "A2"]
    reads = [case.export(name)["prelimInfo"][0]["prelimAt"] for name in ("A1", "A2")]
    assert [each["prelimAt"] for each in found["reports"]] == reads


def test_no_prelims_are_left_when_signed(case: Case) -> None:
    """site/prelims: an empty answer when nothing waits, 404 for what the site does not know."""
    case.draft("A1")
    ok(case.post("prelim", "A1", prelimGroup="G", prelimTag="T"))
    case.sign("A1")
    assert ok(case.service.get("report/site/prelims", **PRELIMS)).json() == {
        "reportId": None,
        "clinicalInfo": [],
        "userEmail": None,
        "reports": [],
    }
    for wrong in ({"prelimGroup": "X"}, {"prelimTag": "X"}, {"SiteID": "NOWHERE"}):
        assert case.service.get("report/site/prelims", **{**PRELIMS, **wrong}).status_code == 404


@pytest.mark.parametrize("missing", PRELIMS)
def test_prelims_need_all_three(service: Service, missing: str) -> None:
    """site/prelims: SiteID, prelimGroup and prelimTag are all required."""
    for value in (None, "", " "):
        query = {
            name: each for name, each in {**PRELIMS, missing: value}.items() if each is not None
        }
        assert service.get("report/site/prelims", **query).status_code == 400


@pytest.mark.parametrize("missing", ["prelimGroup", "prelimTag"])
@pytest.mark.parametrize("value", [None, "", " ", {}, [], True])
def test_prelim_needs_group_and_tag(case: Case, missing: str, value: Any) -> None:
    """prelim: prelimGroup and prelimTag are required strings."""
    case.draft("A1")
    body = {"prelimGroup": "G", "prelimTag": "T", missing: value}
    assert case.post("prelim", "A1", **body).status_code == 400
    assert case.record("A1")["status"] == "Draft"


def test_prelim_info_of_the_export(case: Case) -> None:
    """prelimInfo: prelimTag {name, group}, prelimAt, prelimBy, reviewedAt, reviewedBy."""
    case.draft("A1")
    ok(case.post("prelim", "A1", prelimGroup="G", prelimTag="One"))
    case.service.clock.pass_seconds(5)
    (read,) = case.export("A1")["prelimInfo"]
    by = {"name": "Reader Person", "email": READER, "signature": None}
    assert read == {
        "prelimTag": {"name": "One", "group": "G"},
        "prelimAt": "2027-01-15T08:00:00.000Z",
        "prelimBy": by,
        "reviewedAt": None,
        "reviewedBy": None,
    }
    ok(case.service.open(ok(case.service.launch(
        userInfo={"UserEmail": OTHER, "UserName": "Other Person", "forceOwnershipTransfer": True}
    )).json()["reportLink"]))  # fmt: skip
    case.sign("A1", now=True)
    (read,) = case.export("A1")["prelimInfo"]
    assert (read["reviewedBy"] or by)["email"] in (OTHER, READER)


def test_locations_are_ignored_where_a_site_has_none(case: Case) -> None:
    """SiteLocation: optional; ignored if the site does not support locations."""
    case.draft("A1")
    body = {"clinicalInfo": [{**identity("A1"), "SiteLocation": "Anywhere"}]}
    ok(case.service.post("report/status", body))
    ok(case.service.get("report/content", **identity("A1"), SiteLocation="Anywhere"))


def test_locations_of_a_site_that_has_some(case: Case) -> None:
    """SiteLocation: a location within a site; another one than the site's is refused."""
    settings = {"name": "First", "locations": ["North", "South"]}
    ok(case.service.call("PUT", "/api/admin/sites/SITE1", json=settings))
    ok(case.service.launch(tags={"SiteLocation": "North"}))
    for path, body in (
        ("report/launch/clinical", launch_body(tags={"SiteLocation": "West"})),
        ("report/status", {"clinicalInfo": [{**identity(), "SiteLocation": "West"}]}),
        ("report/sign", {"clinicalInfo": {**identity(), "SiteLocation": "West"}}),
    ):
        answer = case.service.post(path, body)
        assert (answer.status_code, answer.json()["code"]) == (400, "unknown_location")
    ok(case.service.post("report/status", {"clinicalInfo": [identity()]}))


@pytest.mark.parametrize("path", ["reset-order", "unassign"])
def test_flat_bodies(case: Case, path: str) -> None:
    """reset-order, unassign: flat; SiteID, PatientMRN and Accession required, no body back."""
    for missing in ("SiteID", "PatientMRN", "Accession"):
        body = {name: value for name, value in identity().items() if name != missing}
        answer = case.service.post(f"report/{path}", body)
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["pointer"] == f"/{missing}"
    case.order("A1")
    case.draft("A1")
    answer = case.flat(path, "A1")
    assert (answer.status_code, answer.content) == (200, b"")
