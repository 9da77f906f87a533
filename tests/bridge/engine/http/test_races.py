"""Races over HTTP: one winner, a legal state, and no failure that is nobody's."""

import asyncio
from collections import Counter
from typing import Any

import httpx

from tests.bridge.engine.http.house import (
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
