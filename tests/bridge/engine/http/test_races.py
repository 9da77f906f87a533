"""Races over HTTP: one winner and a legal state."""

import asyncio
from collections import Counter
from typing import Any

import httpx

from tests.bridge.engine.http.engine_service import (
    ADMIN,
    BASE,
    OTHER,
    READER,
    Service,
    boot,
    identity,
    launch_body,
    user,
)


def together(service: Service, *requests: tuple[str, str, Any]) -> list[httpx.Response]:
    """Send requests at once, as the administrator."""

    async def sending() -> list[httpx.Response]:
        headers = {"x-access-token": service.tokens[ADMIN]}
        return await asyncio.gather(
            *(
                service.http.request(method, path, json=body, headers=headers)
                for method, path, body in requests
            )
        )

    return service.runner.run(sending())


def test_two_openings_of_one_lazy_link_make_one_report(service: Service) -> None:
    """The unique triple decides; both users get a page."""
    links = [
        service.launch(userInfo=user(email), lazyLaunch=True).json()["reportLink"]
        for email in (READER, OTHER, READER, OTHER)
    ]
    pages = together(service, *(("GET", link.removeprefix(BASE), None) for link in links))
    assert [page.status_code for page in pages] == [200] * 4
    assert len({boot(page)["reportId"] for page in pages}) == 1
    created = [
        each
        for each in service.get("report/changes").json()["changes"]
        if each["event"] == "report_created"
    ]
    assert len(created) == 1


def test_fifty_launches_of_one_triple_make_one_report(service: Service) -> None:
    """Eager launches at once: every answer names the same report."""
    body = launch_body(tags={"PatientName": "DOE^JANE"})
    answers = together(service, *[("POST", "/api/report/launch/clinical", body)] * 50)
    assert Counter(each.status_code for each in answers) == {200: 50}
    assert len({each.json()["reportId"] for each in answers}) == 1


def test_signing_twice_at_once_signs_once(service: Service) -> None:
    """sign: one 200, the others the business failure."""
    service.launch()
    body = {"clinicalInfo": identity()}
    answers = together(service, *[("POST", "/api/report/sign", body)] * 10)
    assert Counter(each.status_code for each in answers) == {200: 1, 500: 9}
    assert {each.json()["code"] for each in answers if each.status_code == 500} == {
        "already_signed"
    }


def test_link_against_sign_ends_in_a_legal_state(service: Service) -> None:
    """Either the group is linked and then signed, or the signed anchor was not linked."""
    service.launch()
    service.launch(accession="A2", lazyLaunch=True, registerOrder=True)
    link = {
        "SiteID": "SITE1",
        "clinicalInfo": [
            {"PatientMRN": "P1", "Accession": "A1"},
            {"PatientMRN": "P1", "Accession": "A2"},
        ],
    }
    linked, signed = together(
        service,
        ("POST", "/api/report/link-orders", link),
        ("POST", "/api/report/sign", {"clinicalInfo": identity()}),
    )
    assert signed.status_code == 200
    assert linked.status_code in (200, 400)
    record = service.status()
    assert record["status"] == "Final"
    assert len(record["clinicalInfo"]) == (2 if linked.status_code == 200 else 1)


def test_opening_against_deleting_leaves_all_or_nothing(service: Service) -> None:
    """Delete while it is opened: the report is there with its page, or both are gone."""
    link = service.launch(userInfo=user()).json()["reportLink"]
    opened, deleted = together(
        service,
        ("GET", link.removeprefix(BASE), None),
        ("POST", "/api/report/delete", {"clinicalInfo": identity()}),
    )
    assert deleted.status_code == 200
    assert opened.status_code in (200, 404, 409, 410)
    assert service.post("report/status", {"clinicalInfo": [identity()]}).status_code == 404


def test_no_launch_beside_a_merge_is_lost(service: Service) -> None:
    """Whatever was answered with 200 is found under both identifiers."""
    for number in range(6):
        prior, survivor = f"OLD{number}", f"NEW{number}"
        service.launch(accession=f"{number}-0", mrn=prior)
        merge = {"SiteID": "SITE1", "PatientMRN": survivor, "PriorPatientMRN": prior}
        launches = [
            ("POST", "/api/report/launch/clinical", launch_body(f"{number}-{each}", prior))
            for each in range(1, 5)
        ]
        batch = (
            "POST",
            "/api/report/launch/clinical/batch",
            [launch_body(f"{number}-{each}", prior) for each in range(5, 8)],
        )

        answers = together(service, *launches, ("POST", "/api/patient/merge", merge), batch)

        assert [each.status_code for each in answers] == [200] * 6
        for each in range(8):
            for mrn in (prior, survivor):
                record = service.status(f"{number}-{each}", mrn)
                assert record["clinicalInfo"][0]["PatientMRN"] == survivor


def test_a_launch_beside_a_correction_leaves_one_name(service: Service) -> None:
    """The launch comes first and is corrected, or comes later and is refused."""
    for number in range(6):
        mrn = f"M{number}"
        service.launch(accession=f"{number}-0", mrn=mrn, tags={"PatientName": "DOE^JANE"})
        update = {"SiteID": "SITE1", "PatientMRN": mrn, "PatientName": "ROE^JANE"}
        body: dict[str, Any] = {"tags": {"PatientName": "DOE^JANE"}}

        answers = together(
            service,
            *(
                (
                    "POST",
                    "/api/report/launch/clinical",
                    launch_body(f"{number}-{each}", mrn, **body),
                )
                for each in range(1, 4)
            ),
            ("POST", "/api/patient/update", update),
        )

        assert answers[-1].status_code == 200
        assert {each.status_code for each in answers[:-1]} <= {200, 409}
        found = service.get("worklist", SiteID="SITE1", PatientMRN=mrn).json()["items"]
        assert {each["orders"][0]["PatientName"] for each in found} == {"ROE^JANE"}


def test_a_lazy_link_that_is_opened_beside_a_merge(service: Service) -> None:
    """The report has the surviving identifier."""
    for number in range(4):
        prior, survivor = f"OLD{number}", f"NEW{number}"
        launched = service.launch(
            accession=f"L{number}", mrn=prior, userInfo=user(), lazyLaunch=True
        )
        merge = {"SiteID": "SITE1", "PatientMRN": survivor, "PriorPatientMRN": prior}

        answers = together(
            service,
            ("POST", "/api/patient/merge", merge),
            ("GET", launched.json()["reportLink"].removeprefix(BASE), None),
        )

        assert [each.status_code for each in answers] == [200, 200]
        assert service.status(f"L{number}", prior)["clinicalInfo"][0]["PatientMRN"] == survivor


def test_a_circle_of_merges_at_once_is_refused(service: Service) -> None:
    """Of three merges in a circle two are carried out, the third is 400."""
    for number in range(4):
        names = [f"{name}{number}" for name in "XYZ"]
        merges = [
            (
                "POST",
                "/api/patient/merge",
                {"SiteID": "SITE1", "PatientMRN": one, "PriorPatientMRN": two},
            )
            for one, two in zip(names, [*names[1:], names[0]], strict=True)
        ]

        answers = together(service, *merges)

        assert sorted(each.status_code for each in answers) == [200, 200, 400]
