"""Query plans of the hot paths use indexes, on both databases."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection

from tests.bridge.engine.http.engine_service import (
    ADMIN,
    READER,
    Service,
    identity,
    launch_body,
    user,
)
from tests.bridge.query_plans import Statement, plan_of, recorded_statements

GROWING = (
    "engine_report", "engine_report_order", "engine_link", "engine_change", "engine_audit_event",
    "engine_release", "engine_addendum", "engine_signature", "engine_report_file",
    "engine_browser_session", "engine_access_token", "engine_account", "engine_patient_pointer",
)  # fmt: skip


def launch(service: Service) -> None:
    """An eager launch, a lazy one, and an order, as single launches and as a batch."""
    bodies = [
        launch_body("A1", userInfo=user()),
        launch_body("A2", lazyLaunch=True, userInfo=user()),
        launch_body("A3", lazyLaunch=True, registerOrder=True),
    ]
    for body in bodies * 2:
        assert service.post("report/launch/clinical", body).status_code == 200
    response = service.post("report/launch/clinical/batch", bodies)
    assert [row["reportStatus"] for row in response.json()] == ["Draft", None, "Ordered"]


def open_link(service: Service) -> None:
    """Open a link; its page loads the report."""
    link = service.launch(userInfo=user(READER)).json()["reportLink"]
    assert service.open(link).status_code == 200


def status(service: Service) -> None:
    service.launch()
    orders = [identity("A1")] + [identity(f"B{number}") for number in range(499)]
    response = service.post("report/status", {"clinicalInfo": orders})
    assert len(response.json()) == 1


def sign_and_read(service: Service) -> None:
    """Sign, read the feed, export, recall; release, and read the feed with texts."""
    service.launch()
    body: dict[str, Any] = {"clinicalInfo": identity()}
    assert service.post("report/sign", body).status_code == 200
    assert service.get("report/changes", after=1, limit=10).status_code == 200
    assert service.get("report/changes", without="order_registered").status_code == 200
    assert service.post("report/export/json", body).status_code == 200
    assert service.post("report/unsign", body).status_code == 200
    body = {"clinicalInfo": identity("A2"), "ignoreSignDelay": True}
    service.launch(accession="A2")
    assert service.post("report/sign", body).status_code == 200
    changes = service.get("report/changes", texts="true").json()["changes"]
    assert "text" in changes[-1]


def plan(connection: Connection, statement: Statement) -> str:
    # SQLite calls this a scan too.
    newest = statement[0].endswith(("DESC\n LIMIT ? OFFSET ?", "DESC LIMIT 1"))
    return "" if newest else plan_of(connection, statement)


def scans(text: str) -> list[str]:
    found = re.findall(r"(?:SCAN|Seq Scan on) (\w+)(?! USING (?:COVERING )?INDEX)", text)
    return [table for table in found if table in GROWING]


@pytest.mark.parametrize("path", [launch, open_link, status, sign_and_read])
def test_no_hot_statement_scans_a_growing_table(
    service: Service, path: Callable[[Service], None]
) -> None:
    """Each statement finds its rows by an index."""
    with recorded_statements(service.database) as statements:
        path(service)
    assert len(statements) > 5
    with service.database.write() as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        slow = {
            statement[0]: found
            for statement in statements
            if (found := scans(plan(connection, statement)))
        }
    assert slow == {}


def test_a_scan_is_found(service: Service) -> None:
    """A lookup without an index is found, so the test above can fail."""
    assert service.call("GET", "/healthz", ADMIN).status_code == 200
    with service.database.write() as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        text = plan(connection, ("SELECT pk FROM engine_report WHERE content_text = 'x'", ()))
    assert scans(text) == ["engine_report"]
