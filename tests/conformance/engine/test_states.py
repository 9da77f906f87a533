"""States and transitions: every status with every event."""

import asyncio
import base64
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import httpx
import pytest

from bridge.store.database import Database
from tests.acceptance.house import free_port
from tests.bridge.engine.documents.test_structured_report import file_of, item, report
from tests.bridge.engine.http.conftest import add_accounts
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    OTHER,
    READER,
    Service,
    boot,
    identity,
    launch_body,
    user,
)
from tests.conformance.engine.cases import STATES, Case, ok
from tests.conformance.engine.node import now, running
from tests.conftest import database_url
from tests.databases import fresh_file
from tests.eventually import PATIENCE

__all__ = ["database_url"]  # both databases

Outcome = tuple[int, str, str | None]  # status code, code of the problem, new status of the report

UNSIGNED = ("ordered", "unassigned", "draft", "draft-of-order", "preliminary")
SIGNED = tuple(name for name, (_, status) in STATES.items() if status in ("Final", "Addendum"))
ABSENT = ("none", "prelaunch")


def _files(case: Case, name: str) -> httpx.Response:
    data = base64.b64encode(file_of(report(item("TEXT", "Finding", TextValue="From SR")))).decode()
    return case.post("update-dicomsr", name, dicomSR=[{"fileData": data}])


def _anchor(case: Case, name: str) -> httpx.Response:
    case.order(f"{name}-other")
    return _refused_at(case.orders("link-orders", name, f"{name}-other"), "/clinicalInfo/0")


def _member(case: Case, name: str) -> httpx.Response:
    case.order(f"{name}-other")
    return _refused_at(case.orders("link-orders", f"{name}-other", name), "/clinicalInfo/1")


def _refused_at(response: httpx.Response, place: str) -> httpx.Response:
    if response.status_code == 400:
        assert response.json()["errors"][0]["pointer"] == place
    return response


EVENTS: Mapping[str, Callable[[Case, str], httpx.Response]] = {
    "launch": lambda case, name: case.service.launch(OTHER, accession=name),
    "sign": lambda case, name: case.post("sign", name),
    "sign now": lambda case, name: case.post("sign", name, ignoreSignDelay=True),
    "unsign": lambda case, name: case.post("unsign", name),
    "addendum sign": lambda case, name: case.post("addendum/sign", name, ignoreSignDelay=True),
    "addendum unsign": lambda case, name: case.post("addendum/unsign", name),
    "prelim": lambda case, name: case.post("prelim", name, prelimGroup="G", prelimTag="T"),
    "delete": lambda case, name: case.post("delete", name),
    "reset": lambda case, name: case.flat("reset-order", name),
    "unassign": lambda case, name: case.flat("unassign", name),
    "update-dicomsr": _files,
    "link as anchor": _anchor,
    "link as member": _member,
    "unlink": lambda case, name: case.orders("unlink-orders", name),
}

# The new status by event and state, if the event is allowed; None: the report is deleted.
ALLOWED: Mapping[str, Mapping[str, str | None]] = {
    "launch": {
        **dict.fromkeys((*ABSENT, "ordered", "unassigned", "draft", "draft-of-order"), "Draft"),
        "preliminary": "Preliminary",
        **{name: STATES[name][1] for name in SIGNED},
    },
    "sign": dict.fromkeys(("draft", "draft-of-order", "preliminary"), "Final"),
    "sign now": {
        **dict.fromkeys(("draft", "draft-of-order", "preliminary"), "Final"),
        **dict.fromkeys(("cooling", "cooling-after-prelim"), "Final"),
        "addendum-to-cooling": "Addendum",
    },
    "unsign": {
        "cooling": "Draft",
        "cooling-after-prelim": "Preliminary",
        "addendum-to-cooling": "Draft",
    },
    "addendum sign": dict.fromkeys(("addendum", "addenda", "addendum-to-cooling"), "Addendum"),
    "addendum unsign": {"addendum": "Final", "addenda": "Addendum", "addendum-to-cooling": "Final"},
    "prelim": dict.fromkeys(("draft", "draft-of-order", "preliminary"), "Preliminary"),
    "delete": dict.fromkeys(UNSIGNED),
    "reset": dict.fromkeys(("draft-of-order", "unassigned"), "Ordered"),
    "unassign": dict.fromkeys(("draft", "draft-of-order"), "Ordered"),
    "update-dicomsr": {name: STATES[name][1] for name in UNSIGNED},
    "link as anchor": {"ordered": "Ordered", "draft": "Draft", "draft-of-order": "Draft"},
    "link as member": {"ordered": "Ordered"},
    "unlink": {name: STATES[name][1] for name in (*UNSIGNED, *SIGNED)},
}

# The refusal in other states: by state, or "signed", or "" for all others.
REFUSED: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "launch": {},
    "sign": {
        "ordered": (400, "report_not_assigned"),
        "unassigned": (400, "report_not_assigned"),
        "": (500, "already_signed"),
    },
    "sign now": {
        "ordered": (400, "report_not_assigned"),
        "unassigned": (400, "report_not_assigned"),
        "": (500, "already_signed"),
    },
    "unsign": {"signed": (500, "cooling_elapsed"), "": (500, "not_signed")},
    "addendum sign": {
        "addendum-elapsed": (500, "cooling_elapsed"),
        "": (500, "no_signed_addendum"),
    },
    "addendum unsign": {
        "addendum-elapsed": (500, "cooling_elapsed"),
        "": (500, "no_signed_addendum"),
    },
    "prelim": {"signed": (400, "report_signed"), "": (400, "report_not_assigned")},
    "delete": {"signed": (400, "report_signed")},
    "reset": {
        "signed": (400, "report_signed"),
        "ordered": (400, "nothing_to_reset"),
        "draft": (400, "report_not_from_order"),
        "preliminary": (400, "report_not_draft"),
    },
    "unassign": {"signed": (400, "report_signed"), "": (400, "report_not_draft")},
    "update-dicomsr": {"signed": (400, "report_signed")},
    "link as anchor": {
        "signed": (400, "report_signed"),
        "unassigned": (400, "anchor_has_content"),
        "preliminary": (400, "anchor_not_ordered_or_draft"),
    },
    "link as member": {
        "signed": (400, "report_signed"),
        "unassigned": (400, "order_has_content"),
        "": (400, "order_not_ordered"),
    },
    "unlink": {},
}


def expected(event: str, state: str) -> Outcome:
    """Read one cell of the tables above."""
    if state in ALLOWED[event]:
        return 200, "", ALLOWED[event][state]
    if state in ABSENT:
        return 404, "report_not_found", None
    rows = REFUSED[event]
    keys = (state, *(("signed",) if state in SIGNED else ()), "")
    status, code = next(rows[key] for key in keys if key in rows)
    return status, code, STATES[state][1]


def status_of(case: Case, name: str) -> str | None:
    """Return the status of a report, None if it does not exist."""
    response = case.service.post("report/status", {"clinicalInfo": [identity(name)]})
    if response.status_code == 404:
        return None
    status: str = ok(response).json()[0]["status"]
    return status


def outcome(case: Case, event: str, state: str) -> Outcome:
    """Send the request of the event; return its outcome."""
    response = EVENTS[event](case, state)
    code = "" if response.status_code == 200 else response.json()["code"]
    return response.status_code, code, status_of(case, state)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("event", EVENTS)
def test_each_event_in_each_state(case: Case, event: str) -> None:
    """States and transitions, Errors: the documented status code, and the new status."""
    for state, (bring, status) in STATES.items():
        bring(case, state)
        assert status_of(case, state) == status, state
    found = {state: outcome(case, event, state) for state in STATES}
    assert found == {state: expected(event, state) for state in STATES}


def test_signing_again_keeps_time_and_content(case: Case) -> None:
    """Sign with ignoreSignDelay within cooling: the original signature and time are kept."""
    case.draft("A1", "As signed.")
    case.sign("A1")
    before = case.export("A1")["reportInfo"]
    until = case.record("A1")["unsignUntil"]
    assert until == case.service.clock.now + 60_000
    case.service.clock.pass_seconds(10)
    case.sign("A1", now=True)
    assert case.export("A1")["reportInfo"] == before
    assert case.record("A1")["unsignUntil"] is None
    case.wait()
    case.deliver()
    assert releases(case) == [("final", 1)]


def changes(case: Case) -> list[dict[str, Any]]:
    return list(ok(case.service.get("report/changes", limit=1000)).json()["changes"])


def events(case: Case) -> list[str]:
    return [each["event"] for each in changes(case)]


def releases(case: Case) -> list[tuple[str, int]]:
    found = [each["release"] for each in changes(case) if each["release"]]
    return [(each["kind"], each["sequence"]) for each in found]


def test_without_cooling_a_signed_report_is_final(
    case: Case, set_delay: Callable[[int], None]
) -> None:
    """Draft, sign, no site cooling period: Final and released; it cannot be recalled."""
    set_delay(0)
    case.draft("A1")
    case.sign("A1")
    assert events(case)[-2:] == ["report_signed", "report_finalized"]
    assert releases(case) == [("final", 1)]
    assert case.record("A1")["unsignUntil"] is None
    assert case.post("unsign", "A1").json()["code"] == "cooling_elapsed"
    for early in (False, True):
        again = case.post("sign", "A1", ignoreSignDelay=early)
        assert (again.status_code, again.json()["code"]) == (500, "already_signed")
    case.addendum("A1", "More.")
    for path in ("addendum/sign", "addendum/unsign"):
        response = case.post(path, "A1", ignoreSignDelay=True)
        assert response.status_code == 500
    assert releases(case) == [("final", 1), ("addendum", 1)]


def test_addendum_sign_without_site_cooling(case: Case, set_delay: Callable[[int], None]) -> None:
    """Errors, addendum/sign: 500 when the site has no sign cooling enabled."""
    case.draft("A1")
    case.sign("A1", now=True)
    case.addendum("A1", "More.")
    set_delay(0)
    response = case.post("addendum/sign", "A1", ignoreSignDelay=True)
    assert (response.status_code, response.json()["code"]) == (500, "sign_delay_disabled")


def test_the_last_millisecond_of_cooling(case: Case) -> None:
    """UnsignUntil: exclusive, by the clock of the server."""
    for name in ("A1", "A2"):
        case.draft(name)
        case.sign(name)
    case.service.clock.now = case.record("A1")["unsignUntil"] - 1
    assert case.post("unsign", "A1").status_code == 200
    case.service.clock.now += 1
    assert case.record("A2")["unsignUntil"] is None
    assert case.post("unsign", "A2").json()["code"] == "cooling_elapsed"


def test_unsign_clears_later_addenda(case: Case) -> None:
    """Unsign: the text is kept."""
    case.draft("A1", "Text.")
    case.sign("A1")
    case.addendum("A1", "First.", "Second.")
    assert len(case.export("A1")["addendumInfo"]) == 2
    ok(case.post("unsign", "A1"))
    record = case.export("A1")
    assert record["addendumInfo"] == []
    assert record["reportInfo"] == {"content": "Text.", "signedAt": None, "signedBy": None}
    case.sign("A1")
    assert case.record("A1")["status"] == "Final"


def test_unsign_restores_the_most_recent_prelim_read(case: Case) -> None:
    """Unsign: Preliminary if an active prelim read exists; the most recent one is restored."""
    case.draft("A1", "Text.")
    for tag in ("One", "Two"):
        ok(case.post("prelim", "A1", prelimGroup="G", prelimTag=tag))
        case.service.clock.pass_seconds(1)
    case.sign("A1")
    ok(case.post("unsign", "A1"))
    assert case.record("A1")["status"] == "Preliminary"
    waiting = ok(
        case.service.get("report/site/prelims", SiteID="SITE1", prelimGroup="G", prelimTag="Two")
    ).json()
    assert waiting["userEmail"] == READER


def test_an_addendum_released_early_is_released_once(case: Case) -> None:
    """Addendum sign: the pending release is cancelled, and the signature is kept."""
    case.draft("A1")
    case.sign("A1", now=True)
    case.addendum("A1", "First.")
    before = case.export("A1")["addendumInfo"]
    ok(case.post("addendum/sign", "A1", ignoreSignDelay=True))
    for path in ("addendum/sign", "addendum/unsign"):
        again = case.post(path, "A1", ignoreSignDelay=True)
        assert (again.status_code, again.json()["code"]) == (500, "cooling_elapsed")
    case.wait()
    case.deliver()
    assert events(case)[-1] == "addendum_finalized"
    assert releases(case) == [("final", 1), ("addendum", 1)]
    assert case.export("A1")["addendumInfo"] == before


def test_reset_removes_assignment_and_content(case: Case) -> None:
    """Reset order: Ordered; afterwards the order can be linked."""
    case.order("A1")
    case.draft("A1", "Text.")
    ok(case.flat("reset-order", "A1"))
    record = case.record("A1")
    assert (record["status"], record["userEmail"], record["hasContent"]) == ("Ordered", "", False)
    assert case.content("A1") == ""
    case.order("A2")
    assert case.orders("link-orders", "A1", "A2").status_code == 200


def test_unassign_keeps_content_for_the_next_user(case: Case) -> None:
    """Unassign: the report becomes a Draft of the next user who launches the study."""
    case.draft("A1", "Dictated.")
    ok(case.flat("unassign", "A1"))
    record = case.record("A1")
    assert (record["status"], record["userEmail"], record["hasContent"]) == ("Ordered", "", True)
    body = ok(case.service.launch(OTHER)).json()
    assert (body["status"], body["owner"]["email"]) == ("Draft", OTHER)
    assert case.content("A1") == "Dictated."


def test_deleting_frees_the_triple(case: Case) -> None:
    """Delete: a new launch of the same triple creates a new report."""
    case.draft("A1", "Old.")
    old = case.record("A1")["reportId"]
    ok(case.post("delete", "A1"))
    assert status_of(case, "A1") is None
    last = changes(case)[-1]
    assert (last["event"], last["orders"][0]["Accession"]) == ("report_deleted", "A1")
    case.draft("A1", "New.")
    assert case.record("A1")["reportId"] != old
    assert case.content("A1") == "New."


@pytest.mark.parametrize("forced", [False, True])
def test_ownership_is_transferred_when_the_link_is_opened(service: Service, forced: bool) -> None:
    """A Draft of another user: after the prompt, or with forceOwnershipTransfer."""
    case = Case(service)
    case.draft("A1")
    who: dict[str, Any] = {
        "UserEmail": OTHER,
        "UserName": "Other",
        "forceOwnershipTransfer": forced,
    }
    body = ok(service.launch(userInfo=who)).json()
    assert body["owner"]["email"] == READER  # nothing happens before the link is opened
    page = service.session(service.open(body["reportLink"]))
    assert case.record("A1")["userEmail"] == (OTHER if forced else READER)
    ok(page("transfer", {}))
    assert case.record("A1")["userEmail"] == OTHER
    assert events(case)[-1] == "report_transferred"


Call = tuple[str, str, Any]  # method, path, body
ROUNDS = 8


@dataclass
class Nodes:
    """Two processes over one database."""

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
        return [each for each in found if each["orders"][0]["Accession"].startswith(prefix)]

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
            httpx.AsyncClient(base_url=each, headers=headers, timeout=PATIENCE)
            for each in addresses
        ]
        yield Nodes(addresses, tokens, runner, clients)
        for client in clients:
            runner.run(client.aclose())


def one(path: str, accession: str, **more: Any) -> Call:
    """Post a body that names one report."""
    return ("POST", f"/api/report/{path}", {"clinicalInfo": identity(accession), **more})


@pytest.mark.slow
def test_link_against_sign(nodes: Nodes) -> None:
    """The group is linked and then signed, or linking the signed anchor is refused."""
    results: Counter[str] = Counter()
    for turn in range(ROUNDS):
        names = [f"L{turn}", f"M{turn}"]
        nodes.draft(names[0])
        nodes.order(names[1])
        listed = [{"PatientMRN": "P1", "Accession": each} for each in names]
        link: Call = (
            "POST",
            "/api/report/link-orders",
            {"SiteID": "SITE1", "clinicalInfo": listed},
        )
        calls = [link, one("sign", names[0])]
        if turn % 2:
            calls.reverse()
        responses = dict(zip(("first", "second"), nodes.together(*calls), strict=True))
        linked, signed = sorted(responses.values(), key=lambda each: "sign" in str(each.url.path))
        assert signed.status_code == 200, signed.text
        anchor, other = (nodes.status(each) for each in names)
        assert anchor is not None
        assert other is not None
        assert anchor["status"] == "Final"
        if linked.status_code == 200:
            assert anchor == other
            assert [each["Accession"] for each in anchor["clinicalInfo"]] == names
            results["linked"] += 1
        else:
            assert linked.json()["code"] in ("report_signed", "changed")
            assert other["status"] == "Ordered"
            assert len(anchor["clinicalInfo"]) == 1
            results["refused"] += 1
    assert results.total() == ROUNDS


@pytest.mark.slow
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
        each["reportId"] for each in nodes.changes("O") if each["event"] == "report_created"
    )
    assert set(created.values()) == {1}
    assert len(created) == ROUNDS


@pytest.mark.slow
def test_a_new_user_in_many_launches_at_once(nodes: Nodes) -> None:
    """Authentication 6: the user is registered once, by the first launch."""
    email = "first.seen@site1.test"
    info: dict[str, Any] = {"userInfo": {"UserEmail": email, "UserName": "First Seen"}}
    bodies = [launch_body(f"U{turn}", **info) for turn in range(ROUNDS)]
    responses = nodes.together(*[("POST", "/api/report/launch/clinical", each) for each in bodies])
    assert [each.status_code for each in responses] == [200] * ROUNDS
    assert {each.json()["owner"]["email"] for each in responses} == {email}
    users = nodes.together(("GET", "/api/admin/sites/SITE1/users", None))[0].json()
    assert [each["name"] for each in users if each["email"] == email] == ["First Seen"]


@pytest.mark.slow
def test_signing_twice(nodes: Nodes) -> None:
    for turn in range(ROUNDS):
        nodes.draft(f"S{turn}")
        responses = nodes.together(*[one("sign", f"S{turn}")] * 4)
        assert Counter(each.status_code for each in responses) == {200: 1, 500: 3}
        codes = {each.json()["code"] for each in responses if each.status_code == 500}
        assert codes == {"already_signed"}


@pytest.mark.slow
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
        by_path = {each.url.path.rpartition("/")[2]: each.status_code for each in responses}
        assert by_path["delete"] == 200
        assert by_path["clinical"] in (200, 404, 410)
        assert nodes.status(f"D{turn}") is None
        assert nodes.together(("GET", path, None))[0].status_code != 200


@pytest.mark.slow
def test_fifty_concurrent_requests_for_one_report(nodes: Nodes) -> None:
    """One success of each kind, and a valid state after a mix of requests."""
    body = launch_body("F1", userInfo=user())
    launched = nodes.together(*[("POST", "/api/report/launch/clinical", body)] * 50)
    assert Counter(each.status_code for each in launched) == {200: 50}
    assert len({each.json()["reportId"] for each in launched}) == 1
    signed = nodes.together(*[one("sign", "F1")] * 50)
    assert Counter(each.status_code for each in signed) == {200: 1, 500: 49}
    recalled = nodes.together(*[one("unsign", "F1")] * 50)
    assert Counter(each.status_code for each in recalled) == {200: 1, 500: 49}
    calls = [
        one("sign", "F1"), one("unsign", "F1"), one("prelim", "F1", prelimGroup="G", prelimTag="T"),
        ("POST", "/api/report/launch/clinical", launch_body("F1", userInfo=user(READER))),
        one("export/json", "F1"),
    ]  # fmt: skip
    for each in nodes.together(*calls * 10):
        assert each.status_code in (200, 400, 409, 500), each.text
    record = nodes.status("F1")
    assert record is not None
    assert record["status"] in ("Draft", "Preliminary", "Final")
    events = [each["event"] for each in nodes.changes("F")]
    signs, unsigns = events.count("report_signed"), events.count("report_unsigned")
    assert signs - unsigns == (1 if record["status"] == "Final" else 0)
    if record["status"] == "Final":
        nodes.one("report/unsign", {"clinicalInfo": identity("F1")})
    deleted = nodes.together(*[one("delete", "F1")] * 50)
    assert Counter(each.status_code for each in deleted) == {200: 1, 404: 49}
