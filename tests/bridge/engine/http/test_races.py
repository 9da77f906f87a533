"""Launches that run concurrently with merges and patient updates. tests/conformance has others."""

import asyncio
from typing import Any

import httpx

from tests.bridge.engine.http.engine_service import ADMIN, BASE, Service, launch_body, user


def together(service: Service, *requests: tuple[str, str, Any]) -> list[httpx.Response]:
    """Send requests concurrently as the administrator."""

    async def sending() -> list[httpx.Response]:
        headers = {"x-access-token": service.tokens[ADMIN]}
        return await asyncio.gather(
            *(
                service.http.request(method, path, json=body, headers=headers)
                for method, path, body in requests
            )
        )

    return service.runner.run(sending())


def test_no_launch_during_a_merge_is_lost(service: Service) -> None:
    """Each launched order is found by both identifiers."""
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

        responses = together(service, *launches, ("POST", "/api/patient/merge", merge), batch)

        assert [each.status_code for each in responses] == [200] * 6
        for each in range(8):
            for mrn in (prior, survivor):
                record = service.status(f"{number}-{each}", mrn)
                assert record["clinicalInfo"][0]["PatientMRN"] == survivor


def test_a_launch_during_a_patient_update_leaves_one_name(service: Service) -> None:
    """An earlier launch is updated, and a later one is refused."""
    for number in range(6):
        mrn = f"M{number}"
        service.launch(accession=f"{number}-0", mrn=mrn, tags={"PatientName": "DOE^JANE"})
        update = {"SiteID": "SITE1", "PatientMRN": mrn, "PatientName": "ROE^JANE"}
        body: dict[str, Any] = {"tags": {"PatientName": "DOE^JANE"}}

        responses = together(
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

        assert responses[-1].status_code == 200
        assert {each.status_code for each in responses[:-1]} <= {200, 409}
        found = service.get("worklist", SiteID="SITE1", PatientMRN=mrn).json()["items"]
        assert {each["orders"][0]["PatientName"] for each in found} == {"ROE^JANE"}


def test_opening_a_lazy_link_during_a_merge(service: Service) -> None:
    """The report has the surviving identifier."""
    for number in range(4):
        prior, survivor = f"OLD{number}", f"NEW{number}"
        launched = service.launch(
            accession=f"L{number}", mrn=prior, userInfo=user(), lazyLaunch=True
        )
        merge = {"SiteID": "SITE1", "PatientMRN": survivor, "PriorPatientMRN": prior}

        responses = together(
            service,
            ("POST", "/api/patient/merge", merge),
            ("GET", launched.json()["reportLink"].removeprefix(BASE), None),
        )

        assert [each.status_code for each in responses] == [200, 200]
        assert service.status(f"L{number}", prior)["clinicalInfo"][0]["PatientMRN"] == survivor
