"""link-orders, unlink-orders: every rule, every error, all or nothing, over HTTP."""

from typing import Any

import pytest

from tests.bridge.engine.http.engine_service import FOREIGN, READER, Service, identity
from tests.conformance.engine.cases import STATES, Case, ok
from tests.conftest import database_url

__all__ = ["database_url"]  # both databases

PATHS = ("link-orders", "unlink-orders")
JANE = {"PatientName": "DOE^JANE", "PatientBirthDate": "19700102"}


def pair(mrn: str, accession: str) -> dict[str, str]:
    """Return the identity of an order without its site."""
    return {"PatientMRN": mrn, "Accession": accession}


def accessions(record: dict[str, Any]) -> list[str]:
    """Return a report's orders, anchor first."""
    return [listed["Accession"] for listed in record["clinicalInfo"]]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "changes",
    [
        {"SiteID": None}, {"SiteID": ""}, {"SiteID": []}, {"clinicalInfo": None},
        {"clinicalInfo": []}, {"clinicalInfo": {}}, {"clinicalInfo": "A1"},
        {"clinicalInfo": [None, None]}, {"clinicalInfo": [pair("P1", "A1"), pair("P1", "")]},
        {"clinicalInfo": [pair("P1", "A1"), {"Accession": "A2"}]},
        {"clinicalInfo": [pair("P1", "A1"), {"PatientMRN": "P1"}]},
        {"clinicalInfo": [pair("P1", "A1")] * 51},
    ],
)  # fmt: skip
def test_missing_fields(case: Case, path: str, changes: dict[str, Any]) -> None:
    """Errors: 400 with the place of the missing field."""
    case.order("A1")
    body = {"SiteID": "SITE1", "clinicalInfo": [pair("P1", "A1"), pair("P1", "A2")], **changes}
    response = case.service.post(f"report/{path}", body)
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"].startswith(f"/{next(iter(changes))}")


@pytest.mark.parametrize("path", PATHS)
def test_roles_are_403_and_unknown_orders_404(case: Case, path: str) -> None:
    """Errors: 403 without the role site administrator, 404 for an unknown site or order."""
    case.order("A1")
    for who in (READER, FOREIGN):
        body = {"SiteID": "SITE1", "clinicalInfo": [pair("P1", "A1"), pair("P1", "A2")]}
        assert case.service.post(f"report/{path}", body, who).status_code == 403
    response = case.orders(path, "A1", "A2")
    assert (response.status_code, response.json()["code"]) == (404, "report_not_found")
    assert response.json()["errors"][0]["pointer"] == "/clinicalInfo/1"
    response = case.orders(path, "A1", "A2", SiteID="NOWHERE")
    assert (response.status_code, response.json()["code"]) == (404, "site_not_found")


def test_fewer_than_two(case: Case) -> None:
    """Limits: at least two orders; a repeated order counts once."""
    case.order("A1")
    for names in (["A1"], ["A1", "A1"]):
        response = case.orders("link-orders", *names)
        assert (response.status_code, response.json()["code"]) == (400, "too_few_orders")


def test_one_report_with_all_orders(case: Case) -> None:
    """Response: a list of status records, anchor first; the separate reports are removed."""
    for name in ("A1", "A2", "A3"):
        case.order(name)
    anchor = case.record("A1")["reportId"]
    (record,) = ok(case.orders("link-orders", "A1", "A3", "A2")).json()
    assert accessions(record) == ["A1", "A3", "A2"]
    assert record["reportId"] == anchor
    change = case.service.get("report/changes").json()["changes"][-1]
    assert (change["event"], len(change["removed"])) == ("orders_linked", 2)
    assert [case.record(name) for name in ("A1", "A2", "A3")] == [record] * 3
    items = case.service.get("worklist", SiteID="SITE1").json()["items"]
    assert len(items) == 1


@pytest.mark.parametrize("state", STATES)
def test_all_or_nothing(case: Case, state: str) -> None:
    """Link rules 1, 2, 6, 7: an order that cannot be linked leaves the others unchanged."""
    STATES[state][0](case, "X")
    for name in ("A1", "A2"):
        case.order(name)
    before = [case.record(name) for name in ("A1", "A2")]
    response = case.orders("link-orders", "A1", "A2", "X")
    if state == "ordered":
        assert response.status_code == 200
    else:
        assert response.status_code == (404 if STATES[state][1] is None else 400)
        assert response.json()["errors"][0]["pointer"] == "/clinicalInfo/2"
        assert [case.record(name) for name in ("A1", "A2")] == before


def test_an_anchor_that_is_a_member_of_another_group(case: Case) -> None:
    """Link rule 3: it must be unlinked first."""
    for name in ("A1", "A2", "A3"):
        case.order(name)
    ok(case.orders("link-orders", "A1", "A2"))
    response = case.orders("link-orders", "A2", "A3")
    assert (response.status_code, response.json()["code"]) == (400, "anchor_in_another_group")
    assert response.json()["errors"][0]["pointer"] == "/clinicalInfo/0"
    ok(case.orders("unlink-orders", "A2"))
    assert case.orders("link-orders", "A2", "A3").status_code == 200


def test_linking_a_member_links_its_group(case: Case) -> None:
    """Link rule 4: all of its orders, after the present ones."""
    for name in ("A1", "A2", "B1", "B2"):
        case.order(name)
    ok(case.orders("link-orders", "A1", "A2"))
    ok(case.orders("link-orders", "B1", "B2"))
    (record,) = ok(case.orders("link-orders", "A1", "B2")).json()
    assert sorted(accessions(record)) == ["A1", "A2", "B1", "B2"]
    assert accessions(record)[:2] == ["A1", "A2"]


@pytest.mark.parametrize(
    ("other", "linked"),
    [
        (JANE, True),
        ({**JANE, "PatientName": "Doe Jane"}, True),
        ({**JANE, "PatientBirthDate": "1970-01-02"}, True),
        ({**JANE, "PatientName": "DOE^JOAN"}, False),
        ({**JANE, "PatientBirthDate": "19700103"}, False),
        ({"PatientName": "DOE^JANE"}, False),
        ({"PatientBirthDate": "19700102"}, False),
        ({}, False),
    ],
)
def test_other_patients(service: Service, other: dict[str, str], linked: bool) -> None:
    """Link rule 5: different PatientMRN only when PatientName and PatientBirthDate match."""
    for mrn, tags in (("P1", JANE), ("P2", other)):
        ok(service.launch("service", mrn=mrn, tags=tags, lazyLaunch=True, registerOrder=True))
    body = {"SiteID": "SITE1", "clinicalInfo": [pair("P1", "A1"), pair("P2", "A1")]}
    response = service.post("report/link-orders", body)
    if linked:
        assert ok(response).json()[0]["clinicalInfo"] == [identity(), identity(mrn="P2")]
    else:
        assert (response.status_code, response.json()["code"]) == (400, "patients_differ")


@pytest.mark.parametrize("state", ["ordered", "draft", "released", "cooling"])
def test_linked_already(case: Case, state: str) -> None:
    """Link rule 8: nothing changes, and the report is returned in any status."""
    for name in ("A1", "A2"):
        case.order(name)
    ok(case.orders("link-orders", "A1", "A2"))
    if state != "ordered":
        case.draft("A1")
    if state in ("released", "cooling"):
        case.sign("A1", now=state == "released")
    before = case.record("A1")
    cursor = case.service.get("report/changes", limit=1000).json()["cursor"]
    for names in (["A1", "A2"], ["A2", "A1"]):
        assert ok(case.orders("link-orders", *names)).json() == [before]
    assert case.service.get("report/changes", after=cursor).json()["changes"] == []


def test_a_draft_anchor_keeps_its_text_and_owner(case: Case) -> None:
    """Link rule 1: the anchor may be a Draft; the group has its report."""
    case.draft("A1", "Dictated.")
    case.order("A2")
    (record,) = ok(case.orders("link-orders", "A1", "A2")).json()
    assert (record["status"], record["userEmail"]) == ("Draft", READER)
    assert case.content("A2") == "Dictated."


@pytest.mark.parametrize(
    ("removed", "left"),
    [
        (["A2"], ["A1", "A3"]), (["A1"], ["A3", "A2"]), (["A1", "A2"], ["A3"]),
        (["A3", "A1", "A2"], []),
    ],
)  # fmt: skip
def test_unlinking(case: Case, removed: list[str], left: list[str]) -> None:
    """Unlink: a removed order gets an empty Ordered report; the first linked becomes anchor."""
    for name in ("A1", "A2", "A3"):
        case.order(name, PatientName="DOE^JANE", Metadata={"of": name})
    ok(case.orders("link-orders", "A1", "A3", "A2"))
    group = case.record("A1")["reportId"]
    records = ok(case.orders("unlink-orders", *removed)).json()
    assert [accessions(record) for record in records] == [item for item in [left] if item] + [
        [name] for name in removed
    ]
    assert {record["status"] for record in records} == {"Ordered"}
    assert not any(record["hasContent"] or record["userEmail"] for record in records)
    ids = [record["reportId"] for record in records]
    assert len(set(ids)) == len(ids)
    assert (group in ids) == bool(left)
    for name in removed:
        assert case.export(name)["clinicalInfo"][0]["PatientName"] == "DOE^JANE"


@pytest.mark.parametrize("state", ["draft", "content", "preliminary", "signed"])
def test_groups_that_cannot_be_unlinked(case: Case, state: str) -> None:
    """Unlink rules 1 and 2: only while Ordered without content; all or nothing."""
    for name in ("A1", "A2", "B1", "B2"):
        case.order(name)
    ok(case.orders("link-orders", "A1", "A2"))
    ok(case.orders("link-orders", "B1", "B2"))
    case.draft("A1")
    if state == "content":
        ok(case.flat("unassign", "A1"))
    if state == "preliminary":
        ok(case.post("prelim", "A1", prelimGroup="G", prelimTag="T"))
    if state == "signed":
        case.sign("A1")
    response = case.orders("unlink-orders", "B2", "A2")
    codes = {"content": "group_has_content", "signed": "report_signed"}
    code = codes.get(state, "group_not_ordered")
    assert (response.status_code, response.json()["code"]) == (400, code)
    assert response.json()["errors"][0]["pointer"] == "/clinicalInfo/1"
    assert accessions(case.record("B1")) == ["B1", "B2"]
    if state in ("draft", "content"):
        ok(case.flat("reset-order", "A2"))
        assert case.orders("unlink-orders", "B2", "A2").status_code == 200


def test_an_action_applies_to_all_linked_orders(case: Case) -> None:
    """All orders of a report share its reportId."""
    for name in ("A1", "A2"):
        case.order(name)
    ok(case.orders("link-orders", "A1", "A2"))
    case.draft("A2", "Both.")
    case.sign("A1")
    assert case.record("A2")["status"] == "Final"
    assert case.post("sign", "A2").json()["code"] == "already_signed"
    ok(case.post("unsign", "A2"))
    ok(case.post("delete", "A1"))
    response = case.service.post("report/status", {"clinicalInfo": [identity("A2")]})
    assert response.status_code == 404


def test_launching_a_linked_order(case: Case) -> None:
    """A launch of any order of a group opens the report of the group."""
    for name in ("A1", "A2"):
        case.order(name)
    ok(case.orders("link-orders", "A1", "A2"))
    one = ok(case.service.launch(READER, accession="A2")).json()
    two = ok(case.service.launch(READER, accession="A1")).json()
    assert one["reportId"] == two["reportId"]
    assert accessions(case.record("A2")) == ["A1", "A2"]


def test_key_findings_of_every_order(case: Case) -> None:
    """KeyFindings: "Draft text used to pre-populate the report", from all linked orders."""
    case.order("A1", KeyFindings="Of the first.")
    case.order("A2", KeyFindings="Of the second.")
    case.order("A3", KeyFindings="Of the first.")
    ok(case.orders("link-orders", "A1", "A2", "A3"))
    ok(case.service.launch(READER, accession="A2"))
    assert case.content("A1") == "Of the first.\n\nOf the second."


def test_key_findings_launched_with_a_linked_order(case: Case) -> None:
    """KeyFindings of a launch are used for the report, also if the order is not the anchor."""
    for name in ("A1", "A2"):
        case.order(name)
    ok(case.orders("link-orders", "A1", "A2"))
    ok(case.service.launch(READER, accession="A2", tags={"KeyFindings": "Draft text."}))
    assert case.content("A1") == "Draft text."
