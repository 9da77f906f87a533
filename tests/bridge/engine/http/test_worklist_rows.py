"""The worklist of a signed-in user: pages, filters, sorting, changes."""

from typing import Any

import pytest

from bridge.contract import split_cursor
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    FOREIGN,
    READER,
    Service,
    identity,
    user,
)


def rows(service: Service, **query: Any) -> Any:
    """Return rows of the worklist of SITE1."""
    response = service.account("GET", "/rows", params={"SiteID": "SITE1", **query})
    assert response.status_code == 200, response.text
    return response.json()


def mrns(service: Service, **query: Any) -> list[str]:
    """Return the patients of the rows in order."""
    return [item["orders"][0]["PatientMRN"] for item in rows(service, **query)["items"]]


def sign_in(service: Service, email: str) -> None:
    service.set_password(email)
    assert service.sign_in(email).status_code == 303


@pytest.fixture
def worklist(service: Service) -> Service:
    """Three orders, of which the reader has opened the second; the administrator is signed in."""
    names = {"P1": "Ångström^Eva", "P2": "zander^Max", "P3": "BERG^Ida"}
    for number, (mrn, name) in enumerate(names.items(), 1):
        service.clock.pass_seconds(1)
        tags = {"PatientName": name, "Modality": "CT", "StudyDate": f"2026010{number}"}
        body: dict[str, Any] = {"tags": tags, "lazyLaunch": True, "registerOrder": True}
        assert service.launch("service", accession=f"A{number}", mrn=mrn, **body).status_code == 200
    service.clock.pass_seconds(1)
    service.launch("service", accession="A2", mrn="P2", userInfo=user(READER))
    sign_in(service, ADMIN)
    return service


def test_a_page_has_the_total_number_of_rows(worklist: Service) -> None:
    """Selected by offset and limit; the cursor is that of the newest change."""
    found = rows(worklist, sort="created", descending=False, offset=1, limit=1)
    assert (found["total"], len(found["items"])) == (3, 1)
    assert found["items"][0]["orders"][0]["PatientMRN"] == "P2"
    newest, _ = split_cursor(worklist.get("report/changes").json()["cursor"])
    assert found["cursor"] == newest
    assert rows(worklist, offset=50)["items"] == []


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("patient", ["P3", "P2", "P1"]),
        ("mrn", ["P1", "P2", "P3"]),
        ("accession", ["P1", "P2", "P3"]),
        ("studyDate", ["P1", "P2", "P3"]),
        ("created", ["P1", "P2", "P3"]),
        ("updated", ["P1", "P3", "P2"]),
        ("status", ["P2", "P1", "P3"]),
        ("owner", ["P1", "P3", "P2"]),
        ("modality", ["P1", "P2", "P3"]),
        ("location", ["P1", "P2", "P3"]),
        ("study", ["P1", "P2", "P3"]),
        ("waiting", ["P1", "P2", "P3"]),
    ],
)
def test_every_column_sorts_both_ways(worklist: Service, sort: str, expected: list[str]) -> None:
    """With equal values the older report is first; descending is the exact reverse."""
    assert mrns(worklist, sort=sort, descending=False) == expected
    assert mrns(worklist, sort=sort, descending=True) == expected[::-1]


def test_filters_narrow_the_list(worklist: Service) -> None:
    """By status, reader, text and reports."""
    assert mrns(worklist, status=["Draft", "Final"]) == ["P2"]
    assert sorted(mrns(worklist, owner="nobody")) == ["P1", "P3"]
    assert mrns(worklist, owner="me") == []
    assert mrns(worklist, q="ida ber") == ["P3"]
    assert mrns(worklist, q="ÅNGSTRÖM") == ["P1"]
    wanted = rows(worklist, q="P1")["items"][0]["reportId"]
    assert mrns(worklist, reportId=[wanted]) == ["P1"]
    sign_in(worklist, READER)
    assert mrns(worklist, owner="me") == ["P2"]


def test_changes_name_the_reports_that_changed(worklist: Service) -> None:
    """Since a cursor; without changes the response has the same cursor."""
    cursor = rows(worklist)["cursor"]
    query = {"SiteID": "SITE1", "after": cursor, "wait": 0}
    assert worklist.account("GET", "/changes", params=query).json() == {
        "reportIds": [],
        "cursor": cursor,
    }
    worklist.launch("service", accession="A1", mrn="P1", userInfo=user(READER))
    found = worklist.account("GET", "/changes", params=query).json()
    assert found["reportIds"] == [rows(worklist, q="P1")["items"][0]["reportId"]]
    assert found["cursor"] > cursor


def test_only_administrators_assign(worklist: Service) -> None:
    """To readers of the site, unsigned reports only; an assignment can be removed."""
    report_id = rows(worklist, q="P1")["items"][0]["reportId"]

    def assign(email: str) -> Any:
        return worklist.account("POST", "/assign", json={"reportId": report_id, "email": email})

    assert assign(FOREIGN).json()["code"] == "user_not_found"
    assert assign(READER).status_code == 204
    assert worklist.status("A1", "P1")["userEmail"] == READER
    assert assign("").status_code == 204
    assert worklist.status("A1", "P1")["status"] == "Ordered"
    assert assign(READER).status_code == 204
    worklist.post("report/sign", {"clinicalInfo": identity("A1", "P1")})
    assert assign(ADMIN).json()["code"] == "report_signed"
    sign_in(worklist, READER)
    assert assign(READER).status_code == 403
    sign_in(worklist, FOREIGN)
    assert assign(READER).status_code == 404


def test_users_of_other_sites_see_no_worklist(worklist: Service) -> None:
    """A user of another site gets no rows, changes or readers."""
    sign_in(worklist, FOREIGN)
    for path in ("/rows", "/changes", "/site"):
        response = worklist.account("GET", path, params={"SiteID": "SITE1", "wait": 0})
        assert response.status_code == 403, path


def test_the_values_for_filters(worklist: Service) -> None:
    """Only administrators, who assign reports, get the list of readers."""
    offered = worklist.account("GET", "/site", params={"SiteID": "SITE1"}).json()
    assert READER in [reader["email"] for reader in offered["readers"]]
    sign_in(worklist, READER)
    offered = worklist.account("GET", "/site", params={"SiteID": "SITE1"}).json()
    assert offered["readers"] == []


ONE = {"clinicalInfo": identity()}


@pytest.mark.parametrize(
    "body", [ONE, identity(), {"clinicalInfo": {**identity(), "SiteLocation": ""}}]
)
def test_bodies_may_be_nested_or_flat(service: Service, body: dict[str, Any]) -> None:
    """The document nests the identity for most endpoints and not for two."""
    service.launch()
    for path in ("export/json", "unassign", "delete"):
        response = service.post(f"report/{path}", body)
        assert response.status_code == 200, (path, response.text)


def test_the_feed_shows_a_release_when_it_is_due(service: Service) -> None:
    """changes: in commit order, with the release after the cooling period."""
    service.launch()
    service.post("report/sign", ONE)
    engine = service.application.state.engine
    page = service.get("report/changes").json()
    assert [change["event"] for change in page["changes"]] == ["report_created", "report_signed"]
    assert all(change["release"] is None for change in page["changes"])

    async def due() -> Any:
        await engine.start()
        service.clock.pass_seconds(60)
        path = f"/api/report/changes?after={page['cursor']}&wait=10"
        headers = {"x-access-token": service.tokens[ADMIN]}
        return await service.http.get(path, headers=headers)

    changes = service.runner.run(due()).json()["changes"]
    assert [(change["event"], change["release"]) for change in changes] == [
        ("report_finalized", {"kind": "final", "sequence": 1})
    ]


def test_the_feed_is_scoped_by_site(service: Service) -> None:
    """changes: an administrator reads own sites, a service token all sites, a user none."""
    service.launch()
    service.launch(FOREIGN, site="SITE2")
    assert len(service.get("report/changes").json()["changes"]) == 1
    assert len(service.get("report/changes", "service").json()["changes"]) == 2
    assert service.get("report/changes", READER).status_code == 403
    assert service.get("report/changes", SiteID="SITE2").status_code == 403
    for wrong in ({"after": -1}, {"limit": 0}, {"wait": 61}, {"after": "x"}):
        assert service.get("report/changes", **wrong).status_code == 400


def test_the_worklist_is_filtered_and_sorted(service: Service) -> None:
    """Filters: day, modality, location and reader; sorting: study date and patient, both ways."""
    for number, (name, day) in enumerate((("Bell", "20260103"), ("Abt", "2026-01-02")), 1):
        tags = {"PatientName": name, "StudyDate": day, "Modality": "CT" if number == 1 else "MR"}
        launched = service.launch(accession=f"A{number}", mrn=f"P{number}", tags=tags)
        assert launched.status_code == 200

    def found(**query: Any) -> list[str]:
        response = service.get("worklist", SiteID="SITE1", **query)
        assert response.status_code == 200, response.text
        return [item["orders"][0]["PatientName"] for item in response.json()["items"]]

    assert found(sort="patient") == ["Abt", "Bell"]
    assert found(sort="-patient") == ["Bell", "Abt"]
    assert found(sort="studyDate") == ["Abt", "Bell"]
    assert found(sort="-studyDate") == ["Bell", "Abt"]
    assert found(StudyDate="2026-01-02") == ["Abt"]
    assert found(studyDateFrom="20260103", studyDateTo="2026-01-31") == ["Bell"]
    assert found(Modality=["CT", "US"]) == ["Bell"]
    assert found(reader=ADMIN, Modality="MR") == ["Abt"]
    assert found(reader="none") == found(SiteLocation="North") == []


def test_unknown_filters_of_the_worklist_are_refused(service: Service) -> None:
    """An ignored filter would show other patients."""
    response = service.get("worklist", SiteID="SITE1", modality="CT", statuses="Draft")
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
    assert [error["pointer"] for error in response.json()["errors"]] == ["modality", "statuses"]
    for text in ("a\x00b", "\u202e"):
        for name in ("reader", "q", "Modality", "SiteLocation", "PatientMRN"):
            assert service.get("worklist", SiteID="SITE1", **{name: text}).status_code in (200, 400)
    for wrong in ({"StudyDate": "2026-13-01"}, {"studyDateFrom": "01.02.2026"}, {"sort": "name"}):
        refused = service.get("worklist", SiteID="SITE1", **wrong)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, *wrong)


def test_times_of_worklist_and_feed_are_iso_8601(service: Service) -> None:
    """Times have the format of the exports; only the status record has the documented numbers."""
    service.launch()
    (item,) = service.get("worklist", SiteID="SITE1").json()["items"]
    (change,) = service.get("report/changes").json()["changes"]
    now = "2027-01-15T08:00:00.000Z"
    times = (item["createdAt"], item["updatedAt"], item["orderedAt"], change["at"])
    assert times == (now, now, now, now)
    assert item["signedAt"] is None
