"""status, content, site/prelims: members, types and null values."""

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
    """Report status record: names and types; unsignUntil is null outside the cooling period."""
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


def test_report_ids_are_unique_and_reveal_nothing(case: Case) -> None:
    """reportId: neither the identity nor the sequence of creation."""
    for name in ("A1", "A2", "A3"):
        case.draft(name)
    ids = [case.record(name)["reportId"] for name in ("A1", "A2", "A3")]
    assert len(set(ids)) == 3
    assert ids != sorted(ids) or len({row_id[:4] for row_id in ids}) == 3
    assert not any("A1" in identifier or "P1" in identifier for identifier in ids)


def test_linked_orders_are_one_record(case: Case) -> None:
    """clinicalInfo: every order of the report, anchor first, then in linking order."""
    for name in ("A3", "A1", "A2"):
        case.order(name)
    ok(case.orders("link-orders", "A3", "A1"))
    ok(case.orders("link-orders", "A3", "A2"))
    wanted = [identity(accession) for accession in ("A2", "A3", "A1")]
    records = ok(case.service.post("report/status", {"clinicalInfo": wanted})).json()
    assert len(records) == 1
    assert records[0]["clinicalInfo"] == [identity(accession) for accession in ("A3", "A1", "A2")]


def test_status_of_several_orders(case: Case) -> None:
    """status: records in the order of the request; unknown orders are left out."""
    for name in ("A1", "A2"):
        case.draft(name)
    wanted = [identity(accession) for accession in ("A2", "NONE", "A1", "A2")]
    records = ok(case.service.post("report/status", {"clinicalInfo": wanted})).json()
    assert [record["clinicalInfo"][0]["Accession"] for record in records] == ["A2", "A1"]
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
def test_invalid_status_bodies_are_refused(service: Service, body: Any) -> None:
    """status: a list of objects; SiteID, PatientMRN and Accession are required."""
    response = service.post("report/status", body)
    assert response.status_code == 400, response.text
    assert response.json()["errors"]


def test_status_of_orders_of_two_sites(service: Service) -> None:
    ok(service.launch())
    ok(service.launch(FOREIGN, site="SITE2"))
    body = {"clinicalInfo": [identity(), identity(site="SITE2")]}
    assert service.post("report/status", body).status_code == 403
    assert len(ok(service.post("report/status", body, "service")).json()) == 2


@pytest.mark.parametrize("missing", ["SiteID", "PatientMRN", "Accession"])
@pytest.mark.parametrize("value", [None, "", "  "])
def test_content_requires_its_parameters(service: Service, missing: str, value: str | None) -> None:
    """content: SiteID, PatientMRN and Accession are required query parameters."""
    query = {**identity(), missing: value}
    sent = {name: item for name, item in query.items() if item is not None}
    response = service.get("report/content", **sent)
    assert response.status_code == 400
    assert missing in str(response.json()["errors"])


def test_content_in_every_state(case: Case) -> None:
    """content: the text of the report without its addenda."""
    for state, (bring, status) in STATES.items():
        bring(case, state)
        response = case.service.get("report/content", **identity(state))
        if status is None:
            assert (response.status_code, response.json()["code"]) == (404, "report_not_found")
        else:
            assert response.json() == {"content": "" if state == "ordered" else "Findings."}


@pytest.mark.parametrize("name", ["A&B=C", "A+B", "A%2FB", "Ä ö", "日本", "A#B", "a;b", "..", "\\"])
def test_content_with_url_encoded_parameters(service: Service, name: str) -> None:
    ok(service.launch(READER, accession=name, tags={"KeyFindings": "T"}))
    assert ok(service.get("report/content", **identity(name))).json() == {"content": "T"}


def test_a_repeated_site_parameter(service: Service) -> None:
    """content: a request cannot name one site and read another."""
    ok(service.launch(FOREIGN, site="SITE2", tags={"KeyFindings": "SECRET"}))
    for order in ("SITE1", "SITE2"), ("SITE2", "SITE1"):
        query = "&".join(f"SiteID={item}" for item in order) + "&PatientMRN=P1&Accession=A1"
        response = service.call("GET", f"/api/report/content?{query}")
        assert response.status_code in (400, 403, 404)
        assert "SECRET" not in response.text
    nul = service.call("GET", "/api/report/content?SiteID=SITE1&PatientMRN=%00&Accession=A1")
    assert nul.status_code == 400


PRELIMS = {"SiteID": "SITE1", "prelimGroup": "G", "prelimTag": "T"}


def test_the_object_of_waiting_preliminary_reads(case: Case) -> None:
    """site/prelims: reportId, clinicalInfo, userEmail of the longest-waiting report."""
    for name in ("A1", "A2"):
        case.draft(name)
        ok(case.post("prelim", name, prelimGroup="G", prelimTag="T"))
        case.service.clock.pass_seconds(1)
    found = ok(case.service.get("report/site/prelims", **PRELIMS)).json()
    assert set(found) == {"reportId", "clinicalInfo", "userEmail", "reports"}
    assert found["reportId"] == case.record("A1")["reportId"]
    assert found["clinicalInfo"] == [identity("A1")]
    assert found["userEmail"] == READER
    assert [report["clinicalInfo"][0]["Accession"] for report in found["reports"]] == ["A1", "A2"]
    reads = [case.export(name)["prelimInfo"][0]["prelimAt"] for name in ("A1", "A2")]
    assert [report["prelimAt"] for report in found["reports"]] == reads


def test_a_signed_report_is_no_longer_waiting(case: Case) -> None:
    """site/prelims: null values if no report waits, 404 for an unknown group, tag or site."""
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
def test_prelims_require_all_parameters(service: Service, missing: str) -> None:
    """site/prelims: SiteID, prelimGroup and prelimTag are all required."""
    for value in (None, "", " "):
        query = {
            name: item for name, item in {**PRELIMS, missing: value}.items() if item is not None
        }
        assert service.get("report/site/prelims", **query).status_code == 400


@pytest.mark.parametrize("missing", ["prelimGroup", "prelimTag"])
@pytest.mark.parametrize("value", [None, "", " ", {}, [], True])
def test_prelim_requires_group_and_tag(case: Case, missing: str, value: Any) -> None:
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


def test_locations_are_ignored_if_the_site_has_none(case: Case) -> None:
    """SiteLocation: optional; ignored if the site does not support locations."""
    case.draft("A1")
    body = {"clinicalInfo": [{**identity("A1"), "SiteLocation": "Anywhere"}]}
    ok(case.service.post("report/status", body))
    ok(case.service.get("report/content", **identity("A1"), SiteLocation="Anywhere"))


def test_unknown_locations_are_refused(case: Case) -> None:
    """SiteLocation: a location within a site."""
    settings = {"name": "First", "locations": ["North", "South"]}
    ok(case.service.call("PUT", "/api/admin/sites/SITE1", json=settings))
    ok(case.service.launch(tags={"SiteLocation": "North"}))
    for path, body in (
        ("report/launch/clinical", launch_body(tags={"SiteLocation": "West"})),
        ("report/status", {"clinicalInfo": [{**identity(), "SiteLocation": "West"}]}),
        ("report/sign", {"clinicalInfo": {**identity(), "SiteLocation": "West"}}),
    ):
        response = case.service.post(path, body)
        assert (response.status_code, response.json()["code"]) == (400, "unknown_location")
    ok(case.service.post("report/status", {"clinicalInfo": [identity()]}))


@pytest.mark.parametrize("path", ["reset-order", "unassign"])
def test_flat_bodies(case: Case, path: str) -> None:
    """reset-order, unassign: SiteID, PatientMRN and Accession are required; no response body."""
    for missing in ("SiteID", "PatientMRN", "Accession"):
        body = {name: value for name, value in identity().items() if name != missing}
        response = case.service.post(f"report/{path}", body)
        assert response.status_code == 400
        assert response.json()["errors"][0]["pointer"] == f"/{missing}"
    case.order("A1")
    case.draft("A1")
    response = case.flat(path, "A1")
    assert (response.status_code, response.content) == (200, b"")
