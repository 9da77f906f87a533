"""Every refused change of a signed-in user is an audit event."""

import pytest

from bridge.audit.chain import ENGINE_CHAIN
from bridge.audit.events import AuditOrigin
from bridge.audit.trail import TrailQuery, read_newest
from bridge.network_source import Proxies
from bridge.store import databases
from tests.bridge.console.http.running_console import BASE, RunningConsole
from tests.bridge.console.http.test_accounts_and_roles import ADMIN, CHIEF, member

AUTHOR = "author"
DRAFT = {"files": {"orders.yaml": "tags: {Notes: {hook: 'mine:f'}}"}, "begun_on": "", "revision": 0}
PACKAGE = {"zip": "UEsDBA=="}
IMPORT = {**PACKAGE, "mark": "0123456789abcdef", "reason": "why"}


def refusals(console: RunningConsole, email: str) -> list[tuple[str, str]]:
    """Return action and code of a user's refused events, newest first."""
    rows = console.audit_events(CHIEF, person=email)
    return [(row["action"], row["outcome"]) for row in rows if row["outcome"] != "done"]


def email_of(console: RunningConsole, who: str) -> str:
    return str(console.call(who, "GET", "/api/me").json()["email"])


@pytest.mark.parametrize(
    ("method", "path", "body", "action", "code"),
    [
        ("POST", "/api/interfaces/import", IMPORT, "import", "not_permitted"),
        ("POST", "/api/interfaces/look", PACKAGE, "preview", "not_permitted"),
        ("PUT", f"/api/grants/{ADMIN}@site1.test", {"role": "emperor"}, "grant", "bad_request"),
    ],
    ids=["an import", "a look into a package", "a role that does not exist"],
)
def test_a_request_that_is_refused_before_its_action_starts(
    console: RunningConsole, method: str, path: str, body: object, action: str, code: str
) -> None:
    """The event has the action of the route."""
    response = console.call(AUTHOR, method, path, body)
    assert response.status_code in {400, 403}, response.text
    assert refusals(console, email_of(console, AUTHOR))[0] == (action, code)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/sites/SITE1/audit?user=a%00b"),
        ("PUT", "/api/grants/a%00b"),
        ("POST", "/api/people/%00/disable"),
    ],
)
def test_a_request_with_a_nul_character(console: RunningConsole, method: str, path: str) -> None:
    response = console.call(CHIEF, method, path, {} if method != "GET" else None)
    assert (response.status_code, response.json()["code"]) == (400, "bad_request")


@pytest.mark.parametrize("last", [0, 1001])
def test_a_refusal_names_the_limit(console: RunningConsole, last: int) -> None:
    """A number that is out of range is refused with the limit in words."""
    body = {"before": "active", "after": "files", "last": last}
    path = "/api/mappings/orders/compare"
    detail = console.call("author", "POST", path, body).json()["detail"]
    limit = "less than or equal to 1000" if last else "greater than or equal to 1"
    assert detail == f"last: should be {limit}"


def test_a_draft_with_a_hook_without_the_permission(console: RunningConsole) -> None:
    """The refusal leaves one event."""
    email, before = email_of(console, AUTHOR), len(refusals(console, email_of(console, AUTHOR)))
    assert console.call(AUTHOR, "PUT", "/api/mappings/orders/draft", DRAFT).status_code == 403
    assert len(refusals(console, email)) == before + 1
    assert refusals(console, email)[0] == ("save draft", "not_permitted")


def test_a_user_without_a_role(console: RunningConsole) -> None:
    """The event contains the refused action with its target."""
    email = "unknown@site1.test"
    member(console, "SITE1", email)
    cookie = console.sign_in(email)
    refused = console.ask("PUT", f"/console/api/grants/{email}", cookie, {"role": "viewer"})
    assert refused.status_code == 403
    rows = console.audit_events(CHIEF, person=email)
    assert [(row["action"], row["outcome"], row["subject"]) for row in rows] == [
        ("grant", "not_permitted", email)
    ]


def test_a_request_from_another_origin(console: RunningConsole) -> None:
    """The event names the user whose browser sent it."""
    foreign = console.call(
        CHIEF, "PUT", f"/api/grants/{ADMIN}@site1.test", {"role": "viewer"}, origin="https://x.test"
    )
    assert foreign.status_code == 403
    assert foreign.json()["code"] == "foreign_origin"
    assert refusals(console, email_of(console, CHIEF))[0] == ("grant", "foreign_origin")


def test_a_request_without_sign_in(console: RunningConsole) -> None:
    """It leaves no event."""
    before = console.audit_events(CHIEF, limit=200)
    path = f"/console/api/grants/{ADMIN}@site1.test"
    assert console.ask("PUT", path, "", {"role": "viewer"}).status_code == 401
    assert console.ask("PUT", path, "", {"role": "viewer"}, origin=f"{BASE}x").status_code == 401
    assert len(console.audit_events(CHIEF, limit=200)) == len(before)


def test_behind_a_trusted_proxy(console: RunningConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event names the address of the browser, and not that of the proxy."""
    trusted = Proxies(["127.0.0.0/8"])
    monkeypatch.setattr(console.application.state.context, "proxies", trusted)
    for path in ("/api/grants/unknown@x.test", "/api/grants/admin1@site1.test"):
        console.call(AUTHOR, "DELETE", path, x_forwarded_for="6.6.6.6, 203.0.113.9:4711")
    console.audit_events(CHIEF)
    engine = databases.open_engine_database(console.settings)
    with engine.read() as connection:
        query = TrailQuery(user=email_of(console, AUTHOR), origins=(AuditOrigin.CONSOLE,))
        rows = read_newest(connection, query, 2, ENGINE_CHAIN)
    engine.dispose()
    assert {row.source for row in rows} == {"203.0.113.9"}
