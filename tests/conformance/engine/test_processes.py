"""Concurrent requests to two processes, on both databases: one success, a valid state."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import httpx
import pytest

from bridge.store.database import Database
from tests.acceptance.house import free_port
from tests.bridge.engine.http.conftest import add_accounts
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    OTHER,
    READER,
    boot,
    identity,
    launch_body,
    user,
)
from tests.conformance.engine.node import now, running
from tests.databases import fresh_file
from tests.eventually import PATIENCE

pytestmark = pytest.mark.slow

Call = tuple[str, str, Any]  # method, path, body
ROUNDS = 8


@dataclass
class Nodes:
    addresses: list[str]
    tokens: dict[str, str]
    runner: asyncio.Runner
    clients: list[httpx.AsyncClient]

    def together(self, *calls: Call) -> list[httpx.Response]:
        """Send requests concurrently, to the nodes in turn."""

        async def sending() -> list[httpx.Response]:
            return await asyncio.gather(
                *(
                    client.request(method, path, json=body)
                    for client, (method, path, body) in zip(
                        cycle(self.clients), calls, strict=False
                    )
                )
            )

        responses = self.runner.run(sending())
        for response in responses:
            failed = (
                response.status_code >= 500 and response.headers.get("x-error-class") != "business"
            )
            assert not failed, response.text
        return responses

    def one(self, path: str, body: Any) -> httpx.Response:
        """Post to the first node."""
        return self.together(("POST", f"/api/{path}", body))[0]

    def status(self, accession: str) -> dict[str, Any] | None:
        """Return the status record of a report from the second node."""
        body = {"clinicalInfo": [identity(accession)]}
        response = self.together(("GET", "/healthz", None), ("POST", "/api/report/status", body))[1]
        return None if response.status_code == 404 else dict(response.json()[0])

    def changes(self, prefix: str) -> list[dict[str, Any]]:
        found = self.together(("GET", "/api/report/changes?limit=1000", None))[0].json()["changes"]
        return [row for row in found if row["orders"][0]["Accession"].startswith(prefix)]

    def draft(self, accession: str) -> None:
        body = launch_body(accession, tags={"KeyFindings": "Text."}, userInfo=user())
        assert self.one("report/launch/clinical", body).status_code == 200

    def order(self, accession: str) -> None:
        body = launch_body(accession, lazyLaunch=True, registerOrder=True)
        assert self.one("report/launch/clinical", body).status_code == 200


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]
)
def nodes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nodes]:
    """Two processes and their database; each test has its own orders."""
    url = fresh_file(tmp_path_factory.mktemp("nodes") / "engine.db")
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    database = Database(url)
    tokens = add_accounts(database, now())
    database.dispose()
    ports = [free_port(), free_port()]
    with running(url, ports, secrets.token_bytes(32)) as addresses, asyncio.Runner() as runner:
        headers = {"x-access-token": tokens[ADMIN]}
        clients = [
            httpx.AsyncClient(base_url=address, headers=headers, timeout=PATIENCE)
            for address in addresses
        ]
        yield Nodes(addresses, tokens, runner, clients)
        for client in clients:
            runner.run(client.aclose())


def one(path: str, accession: str, **more: Any) -> Call:
    return ("POST", f"/api/report/{path}", {"clinicalInfo": identity(accession), **more})


def test_link_against_sign(nodes: Nodes) -> None:
    """The group is linked and then signed, or linking the signed anchor is refused."""
    results: Counter[str] = Counter()
    for turn in range(ROUNDS):
        names = [f"L{turn}", f"M{turn}"]
        nodes.draft(names[0])
        nodes.order(names[1])
        listed = [{"PatientMRN": "P1", "Accession": name} for name in names]
        link: Call = (
            "POST",
            "/api/report/link-orders",
            {"SiteID": "SITE1", "clinicalInfo": listed},
        )
        calls = [link, one("sign", names[0])]
        if turn % 2:
            calls.reverse()
        responses = dict(zip(("first", "second"), nodes.together(*calls), strict=True))
        linked, signed = sorted(responses.values(), key=lambda item: "sign" in str(item.url.path))
        assert signed.status_code == 200, signed.text
        anchor, other = (nodes.status(name) for name in names)
        assert anchor is not None
        assert other is not None
        assert anchor["status"] == "Final"
        if linked.status_code == 200:
            assert anchor == other
            assert [order["Accession"] for order in anchor["clinicalInfo"]] == names
            results["linked"] += 1
        else:
            assert linked.json()["code"] in ("report_signed", "changed")
            assert other["status"] == "Ordered"
            assert len(anchor["clinicalInfo"]) == 1
            results["refused"] += 1
    assert results.total() == ROUNDS


def test_concurrent_openings_of_lazy_links(nodes: Nodes) -> None:
    """The first opening creates the report of the order; the pages of all users show it."""
    for turn in range(ROUNDS):
        paths = []
        for email in (READER, OTHER):
            body = launch_body(f"O{turn}", lazyLaunch=True, userInfo=user(email))
            link = nodes.one("report/launch/clinical", body).json()["reportLink"]
            paths.append(link.removeprefix(nodes.addresses[0]))
        pages = nodes.together(*[("GET", path, None) for path in (*paths, *reversed(paths))])
        assert {page.status_code for page in pages} == {200}
        assert len({boot(page)["reportId"] for page in pages}) == 1
    created = Counter(
        change["reportId"] for change in nodes.changes("O") if change["event"] == "report_created"
    )
    assert set(created.values()) == {1}
    assert len(created) == ROUNDS


def test_a_new_user_in_many_launches_at_once(nodes: Nodes) -> None:
    """Authentication 6: the user is registered once, by the first launch."""
    email = "first.seen@site1.test"
    info: dict[str, Any] = {"userInfo": {"UserEmail": email, "UserName": "First Seen"}}
    bodies = [launch_body(f"U{turn}", **info) for turn in range(ROUNDS)]
    responses = nodes.together(*[("POST", "/api/report/launch/clinical", body) for body in bodies])
    assert [response.status_code for response in responses] == [200] * ROUNDS
    assert {response.json()["owner"]["email"] for response in responses} == {email}
    users = nodes.together(("GET", "/api/admin/sites/SITE1/users", None))[0].json()
    assert [row["name"] for row in users if row["email"] == email] == ["First Seen"]


def test_signing_twice(nodes: Nodes) -> None:
    for turn in range(ROUNDS):
        nodes.draft(f"S{turn}")
        responses = nodes.together(*[one("sign", f"S{turn}")] * 4)
        assert Counter(response.status_code for response in responses) == {200: 1, 500: 3}
        codes = {response.json()["code"] for response in responses if response.status_code == 500}
        assert codes == {"already_signed"}


def test_deleting_while_it_is_opened(nodes: Nodes) -> None:
    """delete: the report is deleted in each case, and its link no longer opens."""
    for turn in range(ROUNDS):
        body = launch_body(f"D{turn}", userInfo=user(OTHER), lazyLaunch=True)
        nodes.draft(f"D{turn}")
        link = nodes.one("report/launch/clinical", body).json()["reportLink"]
        path = link.removeprefix(nodes.addresses[0])
        calls = [one("delete", f"D{turn}"), ("GET", path, None)]
        if turn % 2:
            calls.reverse()
        responses = nodes.together(*calls)
        by_path = {
            response.url.path.rpartition("/")[2]: response.status_code for response in responses
        }
        assert by_path["delete"] == 200
        assert by_path["clinical"] in (200, 404, 410)
        assert nodes.status(f"D{turn}") is None
        assert nodes.together(("GET", path, None))[0].status_code != 200


def test_fifty_concurrent_requests_for_one_report(nodes: Nodes) -> None:
    """One success of each kind, and a valid state after a mix of requests."""
    body = launch_body("F1", userInfo=user())
    launched = nodes.together(*[("POST", "/api/report/launch/clinical", body)] * 50)
    assert Counter(response.status_code for response in launched) == {200: 50}
    assert len({response.json()["reportId"] for response in launched}) == 1
    signed = nodes.together(*[one("sign", "F1")] * 50)
    assert Counter(response.status_code for response in signed) == {200: 1, 500: 49}
    recalled = nodes.together(*[one("unsign", "F1")] * 50)
    assert Counter(response.status_code for response in recalled) == {200: 1, 500: 49}
    calls = [
        one("sign", "F1"), one("unsign", "F1"), one("prelim", "F1", prelimGroup="G", prelimTag="T"),
        ("POST", "/api/report/launch/clinical", launch_body("F1", userInfo=user(READER))),
        one("export/json", "F1"),
    ]  # fmt: skip
    for response in nodes.together(*calls * 10):
        assert response.status_code in (200, 400, 409, 500), response.text
    record = nodes.status("F1")
    assert record is not None
    assert record["status"] in ("Draft", "Preliminary", "Final")
    events = [change["event"] for change in nodes.changes("F")]
    signs, unsigns = events.count("report_signed"), events.count("report_unsigned")
    assert signs - unsigns == (1 if record["status"] == "Final" else 0)
    if record["status"] == "Final":
        nodes.one("report/unsign", {"clinicalInfo": identity("F1")})
    deleted = nodes.together(*[one("delete", "F1")] * 50)
    assert Counter(response.status_code for response in deleted) == {200: 1, 404: 49}
