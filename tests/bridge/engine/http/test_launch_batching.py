"""Concurrent launches and batches; a refusal affects only its own launch."""

import asyncio
from collections import Counter
from typing import Any

import httpx

from tests.bridge.engine.http.engine_service import (
    ADMIN,
    FOREIGN,
    OTHER,
    READER,
    Service,
    identity,
    launch_body,
    user,
)

NAMED = {"PatientName": "DOE^JANE"}


def launch(
    service: Service, *bodies: Any, tokens: tuple[str, ...] = (ADMIN,)
) -> list[httpx.Response]:
    """Send all launches in one turn of the loop, with the tokens in turn."""

    async def sending() -> list[httpx.Response]:
        return await asyncio.gather(
            *(
                service.http.post(
                    "/api/report/launch/clinical",
                    json=body,
                    headers={"x-access-token": service.tokens[tokens[n % len(tokens)]]},
                )
                for n, body in enumerate(bodies)
            )
        )

    return service.runner.run(sending())


def count(service: Service, table: str) -> int:
    with service.database.read() as connection:
        found = connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()  # noqa: S608  # a name of ours
        return int(found)


def test_a_refused_launch_does_not_affect_others(service: Service) -> None:
    """It stores no user, no report and no change."""
    accounts = count(service, "engine_account")
    bodies = [launch_body(f"A{number}", tags=NAMED, userInfo=user()) for number in range(6)]
    other = {"PatientName": "SMITH^JOHN"}
    bodies[3] = launch_body("A3", tags=other, userInfo=user("new@site1.test", "New Comer"))
    bodies[5] = launch_body("A5", mrn="new@site1.test", userInfo=user("late@site1.test", "Late"))
    responses = launch(service, bodies[0]) + launch(service, *bodies[1:])
    assert [response.status_code for response in responses] == [200, 200, 200, 409, 200, 400]
    assert responses[3].json()["code"] == "patient_name_mismatch"
    assert count(service, "engine_report") == 4
    assert count(service, "engine_account") == accounts
    events = service.get("report/changes").json()["changes"]
    assert [event["event"] for event in events] == ["report_created"] * 4
    service.runner.run(service.application.state.engine.audit_buffer.flush())
    trail = service.get("admin/sites/SITE1/audit", limit=100).json()["events"]
    assert Counter(event["action"] for event in trail)["launch"] == 4


def test_a_batch_with_a_refused_launch_is_repeated_one_by_one(service: Service) -> None:
    """A refused launch registers no user; other launches of the batch are recorded once."""
    accounts = count(service, "engine_account")
    other = {"PatientName": "SMITH^JOHN"}
    batch = [
        launch_body("A1", lazyLaunch=True, registerOrder=True, tags=NAMED),
        launch_body("A2", tags=other, userInfo=user("new@site1.test", "New Comer")),
        launch_body("A3", tags=NAMED, userInfo=user()),
    ]
    responses = service.post("report/launch/clinical/batch", batch).json()
    assert [response["status"] for response in responses] == ["PreLaunch", 409, "Draft"]
    assert count(service, "engine_account") == accounts
    events = service.get("report/changes").json()["changes"]
    assert [event["event"] for event in events] == ["order_registered", "report_created"]
    trail = service.get("admin/sites/SITE1/audit", limit=100).json()["events"]
    assert Counter(event["action"] for event in trail)["launch"] == 3


def test_each_launch_gets_its_own_response(service: Service) -> None:
    """With its own report, owner and link."""
    bodies = [
        launch_body("E1", userInfo=user(READER)),
        launch_body("L1", lazyLaunch=True),
        launch_body("E2", userInfo=user(OTHER)),
        launch_body("R1", lazyLaunch=True, registerOrder=True),
        launch_body("E1", userInfo=user(READER)),
        launch_body("E2", site="SITE2"),
        launch_body("E3", mrn="P3", userInfo=user(OTHER), forceUpdatePatientName=True, tags=NAMED),
        launch_body("E4", userInfo=user(OTHER)),
    ]
    tokens = (ADMIN, ADMIN, ADMIN, ADMIN, ADMIN, FOREIGN, ADMIN, ADMIN)
    responses = [answer.json() for answer in launch(service, *bodies, tokens=tokens)]
    owners = [row["owner"].get("email") for row in responses]
    assert owners == [READER, None, OTHER, None, READER, FOREIGN, OTHER, OTHER]
    assert responses[0]["reportId"] == responses[4]["reportId"]
    assert responses[1]["reportId"] is None
    assert len({row["reportLink"] for row in responses}) == len(bodies)
    for body, response in zip(bodies, responses, strict=True):
        if body["clinicalInfo"]["SiteID"] == "SITE1" and response["reportId"]:
            record = service.status(
                body["clinicalInfo"]["Accession"], body["clinicalInfo"]["PatientMRN"]
            )
            assert record["reportId"] == response["reportId"]


def test_launches_without_permission_do_not_affect_others(service: Service) -> None:
    """403 for the administrator of another site, 404 for an unknown site, 200 for the others."""
    bodies = [launch_body(f"A{number}", userInfo=user()) for number in range(4)]
    bodies[2] = launch_body("A2", site="NOWHERE")
    responses = launch(service, *bodies, tokens=(ADMIN, FOREIGN, ADMIN, ADMIN))
    assert [response.status_code for response in responses] == [200, 403, 404, 200]


def test_an_unknown_token_is_refused_among_others(service: Service) -> None:
    """Each launch keeps its own caller."""
    bodies = [launch_body(f"A{number}", userInfo=user()) for number in range(3)]
    service.tokens["unknown"] = "rbt_unknown"
    responses = launch(service, *bodies, tokens=(ADMIN, "unknown", ADMIN))
    assert [response.status_code for response in responses] == [200, 401, 200]
    assert service.post("report/status", {"clinicalInfo": [identity("A1")]}).status_code == 404


def registering(accession: str, mrn: str = "P1", *, group: str = "") -> dict[str, Any]:
    """Return a launch that registers an order."""
    more: dict[str, Any] = {"linkGroup": group} if group else {}
    return launch_body(accession, mrn, lazyLaunch=True, registerOrder=True, **more)


def registered(service: Service, *bodies: Any, who: str = ADMIN) -> list[str]:
    """Send a batch; return the id of each report."""
    responses = service.post("report/launch/clinical/batch", list(bodies), who).json()
    return [response["reportId"] for response in responses]


def accessions(service: Service, accession: str) -> list[str]:
    """Return the orders of an order's report, the anchor first."""
    return [listed["Accession"] for listed in service.status(accession)["clinicalInfo"]]


def test_new_orders_of_a_link_group_share_one_report(service: Service) -> None:
    found = registered(
        service,
        registering("A1", group="7.0"),
        registering("B1", group="7.1"),
        registering("C1"),
        registering("A2", group="7.0"),
        registering("C2"),
    )
    assert found[0] == found[3]
    assert len(set(found)) == 4
    assert accessions(service, "A2") == ["A1", "A2"]
    changes = service.get("report/changes").json()["changes"]
    events = [change["event"] for change in changes if change["reportId"] == found[0]]
    assert events == ["order_registered", "orders_linked"]
    orders = [[one["Accession"] for one in change["orders"]] for change in changes]
    assert orders == [["A1", "A2"], ["A1", "A2"], ["B1"], ["C1"], ["C2"]]
    assert changes[1]["removed"] == []
    trail = service.get("admin/sites/SITE1/audit", limit=100).json()["events"]
    named = [
        event["details"].get("linkGroup", "") for event in trail if event["action"] == "launch"
    ]
    assert sorted(named) == ["", "", "7.0", "7.0", "7.1"]


def test_a_link_group_never_joins_patients_or_requests(service: Service) -> None:
    """The same name for another patient, in another batch, or in single launches links nothing."""
    group = {"group": "7.0"}
    one, other = registered(
        service, registering("A1", **group), registering("B1", mrn="P2", **group)
    )
    later = registered(service, registering("A2", **group), registering("C1", mrn="P3"))[0]
    singles = [registering(f"S{number}", **group) for number in range(3)]
    alone = [response.json()["reportId"] for response in launch(service, *singles)]
    assert len({one, other, later, *alone}) == 6


def test_a_link_group_does_not_move_known_orders(service: Service) -> None:
    """An order that is registered again keeps its report."""
    before = registered(service, registering("A1"), registering("B1"))[0]
    group = {"group": "7.0"}
    again, new, also = registered(
        service, *(registering(accession, **group) for accession in ("A1", "A2", "A3"))
    )
    assert again == before
    assert new == also != before


def test_link_groups_are_ignored_for_a_token_that_may_not_link(service: Service) -> None:
    """A token with the scope `launch` registers both orders, each with its own report."""
    made = service.post("admin/sites/SITE1/tokens", {"email": ADMIN, "scopes": ["launch"]})
    service.tokens["launcher"] = made.json()["token"]
    group = {"group": "7.0"}
    bodies = [registering("A1", **group), registering("A2", **group)]
    one, other = registered(service, *bodies, who="launcher")
    assert one != other
