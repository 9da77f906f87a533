"""Launches at once: they share commits and statements, and nobody's refusal is another's."""

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest
from sqlalchemy import event

from tests.bridge.engine.http.house import (
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
    """Launch all of it in one turn of the loop, with the tokens in turn."""

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
    """Return how many rows a table has."""
    with service.database.read() as connection:
        found = connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()  # noqa: S608  # a name of ours
        return int(found)


def test_a_refused_launch_leaves_its_neighbours_and_nothing_of_itself(service: Service) -> None:
    """All-or-nothing a launch: the stranger it named is not registered, no report, no change."""
    accounts = count(service, "engine_account")
    bodies = [launch_body(f"A{number}", tags=NAMED, userInfo=user()) for number in range(6)]
    other = {"PatientName": "SMITH^JOHN"}
    bodies[3] = launch_body("A3", tags=other, userInfo=user("new@site1.test", "New Comer"))
    bodies[5] = launch_body("A5", mrn="new@site1.test", userInfo=user("late@site1.test", "Late"))
    answers = launch(service, *bodies)
    assert [each.status_code for each in answers] == [200, 200, 200, 409, 200, 400]
    assert answers[3].json()["code"] == "patient_name_mismatch"
    assert count(service, "engine_report") == 4
    assert count(service, "engine_account") == accounts
    events = service.get("report/changes").json()["changes"]
    assert [each["event"] for each in events] == ["report_created"] * 4
    service.runner.run(service.application.state.engine.journal.flush())
    trail = service.get("admin/sites/SITE1/audit", limit=100).json()["events"]
    assert Counter(each["action"] for each in trail)["launch"] == 4


def test_a_batch_that_cannot_go_at_once_goes_one_by_one(service: Service) -> None:
    """Its stranger stays unknown; what was registered before is registered, and said, once."""
    accounts = count(service, "engine_account")
    other = {"PatientName": "SMITH^JOHN"}
    batch = [
        launch_body("A1", lazyLaunch=True, registerOrder=True, tags=NAMED),
        launch_body("A2", tags=other, userInfo=user("new@site1.test", "New Comer")),
        launch_body("A3", tags=NAMED, userInfo=user()),
    ]
    answers = service.post("report/launch/clinical/batch", batch).json()
    assert [each["status"] for each in answers] == ["PreLaunch", 409, "Draft"]
    assert count(service, "engine_account") == accounts
    events = service.get("report/changes").json()["changes"]
    assert [each["event"] for each in events] == ["order_registered", "report_created"]
    trail = service.get("admin/sites/SITE1/audit", limit=100).json()["events"]
    assert Counter(each["action"] for each in trail)["launch"] == 3


def test_each_launch_gets_the_answer_to_itself(service: Service) -> None:
    """Reports, owners and links are not mixed up, whichever token and kind."""
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
    answers = [each.json() for each in launch(service, *bodies, tokens=tokens)]
    owners = [each["owner"].get("email") for each in answers]
    assert owners == [READER, None, OTHER, None, READER, FOREIGN, OTHER, OTHER]
    assert answers[0]["reportId"] == answers[4]["reportId"]
    assert answers[1]["reportId"] is None
    assert len({each["reportLink"] for each in answers}) == len(bodies)
    for body, answer in zip(bodies, answers, strict=True):
        if body["clinicalInfo"]["SiteID"] == "SITE1" and answer["reportId"]:
            record = service.status(
                body["clinicalInfo"]["Accession"], body["clinicalInfo"]["PatientMRN"]
            )
            assert record["reportId"] == answer["reportId"]


def test_a_stranger_among_callers_spoils_nothing(service: Service) -> None:
    """403 for the other site's administrator, 404 for a site that is not, 200 for the rest."""
    bodies = [launch_body(f"A{number}", userInfo=user()) for number in range(4)]
    bodies[2] = launch_body("A2", site="NOWHERE")
    answers = launch(service, *bodies, tokens=(ADMIN, FOREIGN, ADMIN, ADMIN))
    assert [each.status_code for each in answers] == [200, 403, 404, 200]


@pytest.mark.parametrize("more", [{}, {"lazyLaunch": True, "registerOrder": True}])
def test_launches_that_meet_cost_few_statements(service: Service, more: dict[str, Any]) -> None:
    """Thirty at once take fewer than four statements each, and fewer than ten commits in all."""
    launch(service, launch_body("W1", userInfo=user()))  # the token's use is noted
    statements: list[str] = []
    commits: list[object] = []
    engine = service.database.engine
    event.listen(engine, "before_cursor_execute", lambda *seen: statements.append(seen[2]))
    event.listen(engine, "commit", commits.append)
    who = {} if more else {"userInfo": user()}
    bodies = [launch_body(f"A{number}", f"M{number}", **who, **more) for number in range(30)]
    answers = launch(service, *bodies)
    assert {each.status_code for each in answers} == {200}
    assert len({each.json()["reportId"] for each in answers}) == 30
    assert len(statements) < 120
    assert len(commits) < 10


def test_a_token_that_was_revoked_is_refused_among_others(service: Service) -> None:
    """Tokens that are asked for together are still each its own."""
    bodies = [launch_body(f"A{number}", userInfo=user()) for number in range(3)]
    service.tokens["unknown"] = "rbt_unknown"
    answers = launch(service, *bodies, tokens=(ADMIN, "unknown", ADMIN))
    assert [each.status_code for each in answers] == [200, 401, 200]
    assert service.post("report/status", {"clinicalInfo": [identity("A1")]}).status_code == 404
