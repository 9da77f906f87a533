"""Every refused change of somebody who is known is an audit event, wherever it was refused."""

from dataclasses import replace

import pytest

from bridge.audit.chain import ENGINE_CHAIN
from bridge.audit.events import AuditOrigin
from bridge.engine.service.accounts.audit_trail import TrailQuery, read_newest
from bridge.network_source import Proxies
from bridge.wiring import stores
from tests.bridge.console.http.running_console import BASE, RunningConsole
from tests.bridge.console.http.test_accounts_and_roles import ADMIN, CHIEF, member

AUTHOR = "author"
DRAFT = {"files": {"orders.yaml": "tags: {Notes: {hook: 'mine:f'}}"}, "begun_on": "", "revision": 0}
PACKAGE = {"zip": "UEsDBA=="}
IMPORT = {**PACKAGE, "mark": "0123456789abcdef", "reason": "why"}


def refusals(console: RunningConsole, email: str) -> list[tuple[str, str]]:
    """Give action and code of the refused events of a person, newest first."""
    rows = console.call(CHIEF, "GET", f"/api/deeds?email={email}").json()["rows"]
    return [(each["action"], each["outcome"]) for each in rows if each["outcome"] != "done"]


def email_of(console: RunningConsole, who: str) -> str:
    """Give the address of one of the people."""
    return str(console.call(who, "GET", "/api/me").json()["email"])


@pytest.mark.parametrize(
    ("method", "path", "body", "action", "code"),
    [
        ("POST", "/api/interfaces/import", IMPORT, "take in", "not_permitted"),
        ("POST", "/api/interfaces/look", PACKAGE, "look", "not_permitted"),
        ("PUT", f"/api/grants/{ADMIN}@site1.test", {"role": "emperor"}, "give", "bad_request"),
    ],
    ids=["an import", "a look into a package", "a role that does not exist"],
)
def test_a_change_that_is_refused_before_its_use_case(
    console: RunningConsole, method: str, path: str, body: object, action: str, code: str
) -> None:
    """The route refuses before it records an action."""
    answer = console.call(AUTHOR, method, path, body)
    assert answer.status_code in {400, 403}, answer.text
    assert refusals(console, email_of(console, AUTHOR))[0] == (action, code)


def test_a_trial_with_a_hook_without_the_permission(console: RunningConsole) -> None:
    """The original attack came by a draft and its trial: both leave an event."""
    email, before = email_of(console, AUTHOR), len(refusals(console, email_of(console, AUTHOR)))
    assert console.call(AUTHOR, "PUT", "/api/mappings/orders/draft", DRAFT).status_code == 403
    assert len(refusals(console, email)) == before + 1
    assert refusals(console, email)[0] == ("save draft", "not_permitted")


def test_somebody_without_a_role(console: RunningConsole) -> None:
    """They are known to the report engine; what they tried is in the trail, with its target."""
    email = "nobody@site1.test"
    member(console, "SITE1", email)
    cookie = console.sign_in(email)
    asked = console.ask("PUT", f"/console/api/grants/{email}", cookie, {"role": "viewer"})
    assert asked.status_code == 403
    rows = console.call(CHIEF, "GET", f"/api/deeds?email={email}").json()["rows"]
    assert [(each["action"], each["outcome"], each["subject"]) for each in rows] == [
        ("give", "not_permitted", email)
    ]


def test_a_page_of_somebody_else(console: RunningConsole) -> None:
    """The event names the person whose browser was used."""
    foreign = console.call(
        CHIEF, "PUT", f"/api/grants/{ADMIN}@site1.test", {"role": "viewer"}, origin="https://x.test"
    )
    assert foreign.status_code == 403
    assert foreign.json()["code"] == "foreign_origin"
    assert refusals(console, email_of(console, CHIEF))[0] == ("give", "foreign_origin")


def test_nobody(console: RunningConsole) -> None:
    """An unknown browser writes nothing."""
    before = console.call(CHIEF, "GET", "/api/deeds?limit=200").json()["rows"]
    path = f"/console/api/grants/{ADMIN}@site1.test"
    assert console.ask("PUT", path, "", {"role": "viewer"}).status_code == 401
    assert console.ask("PUT", path, "", {"role": "viewer"}, origin=f"{BASE}x").status_code == 401
    assert len(console.call(CHIEF, "GET", "/api/deeds?limit=200").json()["rows"]) == len(before)


def test_behind_a_trusted_proxy(console: RunningConsole) -> None:
    """The event names the address of the browser, and not that of the proxy."""
    known = console.application.state.context
    console.application.state.context = replace(known, proxies=Proxies(["127.0.0.0/8"]))
    try:
        for path in ("/api/grants/nobody@x.test", "/api/grants/admin1@site1.test"):
            console.call(AUTHOR, "DELETE", path, x_forwarded_for="6.6.6.6, 203.0.113.9:4711")
    finally:
        console.application.state.context = known
    console.call(CHIEF, "GET", "/api/deeds")
    engine = stores.open_engine_database(console.settings)
    with engine.read() as connection:
        query = TrailQuery(user=email_of(console, AUTHOR), origins=(AuditOrigin.CONSOLE,))
        rows = read_newest(connection, query, 2, ENGINE_CHAIN)
    engine.dispose()
    assert {each.source for each in rows} == {"203.0.113.9"}
