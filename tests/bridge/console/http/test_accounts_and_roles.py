"""Attacks on roles and accounts of the console, by HTTP."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from bridge.admin.access import grants
from bridge.authority import FRESH_MS
from bridge.engine.service.accounts import users
from bridge.store import databases
from tests.bridge.console.http.running_console import BASE, PASSWORD, RunningConsole

ADMIN, CHIEF = "admin1", "chief"
OUTSIDER = "outsider@site2.test"
SITE1, SITE2 = "/api/sites/SITE1", "/api/sites/SITE2"
GOOD = "4 quiet otters swim far"


def member(console: RunningConsole, site: str, email: str) -> str:
    engine = databases.open_engine_database(console.settings)
    with engine.write() as connection:
        account = users.register(connection, site, email, "Somebody", console.clock())
    engine.dispose()
    console.set_password(account.id, PASSWORD)
    return str(account.id)


@pytest.fixture
def later(console: RunningConsole) -> Iterator[None]:
    console.clock.ahead += FRESH_MS + 60_000
    yield
    console.clock.ahead = 0


def test_a_role_for_an_unknown_address_cannot_be_claimed(console: RunningConsole) -> None:
    """The attack: another site's administrator creates the account, and gets the role."""
    path = f"/api/grants/{OUTSIDER}"
    refused = console.call(CHIEF, "PUT", path, {"role": "viewer"})
    assert (refused.status_code, refused.json()["code"]) == (404, "unknown_account")
    key = member(console, "SITE2", OUTSIDER)
    cookie = console.sign_in(OUTSIDER)
    assert console.ask("GET", "/console/api/me", cookie).status_code == 403
    given = console.call(CHIEF, "PUT", path, {"role": "viewer"})
    assert given.status_code == 200, given.text
    assert given.json()["link"].startswith(f"{BASE}/reporting/enrol?")
    assert console.ask("GET", "/console/api/me", cookie).status_code == 401
    assert not console.signs_in(OUTSIDER)
    rows = console.call(CHIEF, "GET", "/api/grants").json()["rows"]
    (row,) = [item for item in rows if item["email"] == OUTSIDER]
    assert row["accountId"] == key
    console.enrol(given.json()["link"], GOOD)
    opened = console.ask("GET", "/console/api/me", console.sign_in(OUTSIDER, GOOD))
    assert opened.json()["role"] == "viewer"


def test_a_role_with_more_rights_ends_password_session_and_token(console: RunningConsole) -> None:
    email = "widened@site1.test"
    member(console, "SITE1", email)
    path = f"/api/grants/{email}"
    link = console.call(CHIEF, "PUT", path, {"role": "operator"}).json()["link"]
    console.enrol(link, GOOD)
    cookie, token = console.sign_in(email, GOOD), console.token("SITE1", email)
    assert console.ask("GET", "/console/api/me", cookie).json()["role"] == "operator"
    narrowed = console.call(CHIEF, "PUT", path, {"role": "viewer", "sites": ["SITE1"]})
    assert narrowed.json() == {}
    user = console.ask("GET", "/console/api/me", cookie).json()
    assert (user["role"], user["sites"]) == ("viewer", ["SITE1"])
    for wider in ({"role": "viewer"}, {"role": "operator", "bodies": True}):
        assert console.call(CHIEF, "PUT", path, wider).json()["link"]
        assert console.ask("GET", "/console/api/me", cookie).status_code == 401
        assert not console.signs_in(email, GOOD)
        by_token = console.ask("GET", "/api/worklist?SiteID=SITE1", x_access_token=token)
        assert by_token.status_code in {401, 403}


def test_the_console_compares_session_and_grant_itself(console: RunningConsole) -> None:
    """A session that the engine did not end is refused too."""
    held = grants.active_grant_of(console.database, console.ids["viewer"])
    assert held is not None
    before = console.clock.ahead
    console.clock.ahead += 1000
    grants.remove_grant(console.database, held.account_id)
    grants.save_grant(console.database, held, console.clock(), "test")
    response = console.call("viewer", "GET", "/api/me")
    assert (response.status_code, response.json()["code"]) == (403, "session_before_grant")
    console.clock.ahead = before
    grants.remove_grant(console.database, held.account_id)
    grants.save_grant(console.database, held, held.granted_at, "test")
    assert console.call("viewer", "GET", "/api/me").status_code == 200


def test_unknown_sites_are_refused(console: RunningConsole) -> None:
    """Alone, or among known sites."""
    for sites in (["SITE9"], ["SITE1", "site1"], ["SITE1 "]):
        body = {"role": "operator", "sites": sites}
        refused = console.call(CHIEF, "PUT", "/api/grants/reader@site1.test", body)
        assert (refused.status_code, refused.json()["code"]) == (400, "unknown_site"), sites


def test_an_empty_list_of_sites_is_refused(console: RunningConsole) -> None:
    """It does not permit all sites; null does."""
    email = "limited@site1.test"
    member(console, "SITE1", email)
    path = f"/api/grants/{email}"
    for sites in (["SITE1"], []):
        given = console.call(CHIEF, "PUT", path, {"role": "viewer", "sites": sites})
        assert given.status_code == (200 if sites else 400), given.text
    assert sites_of(console, email) == ["SITE1"]
    assert console.call(CHIEF, "PUT", path, {"role": "viewer", "sites": None}).status_code == 200
    assert sites_of(console, email) is None


def sites_of(console: RunningConsole, email: str) -> list[str] | None:
    rows = console.call(CHIEF, "GET", "/api/grants").json()["rows"]
    (sites,) = [row["sites"] for row in rows if row["email"] == email]
    return None if sites is None else list(sites)


def test_no_user_sets_the_password_of_another_account(console: RunningConsole) -> None:
    """
    The console sets no password of a new or an existing account.

    Only a system administrator gets the link of a new account; no user that of an existing one.
    """
    for who in (ADMIN, CHIEF):
        for email in ("brand-new@site1.test", "reader@site1.test", "viewer@site1.test"):
            body = {"email": email, "name": "N", "role": "user", "password": GOOD}
            response = console.call(who, "POST", "/api/sites/SITE1/users", body)
            assert response.status_code in {400, 403, 422}, response.text
            assert not console.signs_in(email, GOOD)
    invited = {"email": "invited@site1.test", "name": "N", "role": "user"}
    made = console.call(CHIEF, "POST", "/api/sites/SITE1/users", invited).json()
    console.enrol(made["link"], GOOD)
    assert console.signs_in(invited["email"], GOOD)
    for who, email in ((ADMIN, "new@site1.test"), (CHIEF, "reader@site2.test")):
        known = {**invited, "email": email}
        response = console.call(who, "POST", "/api/sites/SITE1/users", known)
        assert response.status_code == 200
        assert "link" not in response.json()


@pytest.mark.parametrize("action", ["enrolment", "disable", "enable"])
@pytest.mark.parametrize("who", ["viewer", "operator", "author", ADMIN])
def test_only_system_administrators_reset_and_disable(
    console: RunningConsole, who: str, action: str
) -> None:
    """For accounts of their own site and of another one, and for their own."""
    for email in ("reader@site1.test", "reader@site2.test", f"{who}@site1.test"):
        response = console.call(who, "POST", f"/api/people/{email}/{action}", {})
        assert response.status_code == 403, response.text


def test_no_user_resets_or_disables_their_own_account(console: RunningConsole) -> None:
    """A stolen session could obtain a new password that way."""
    for action in ("enrolment", "disable"):
        response = console.call(CHIEF, "POST", f"/api/people/chief@site1.test/{action}", {})
        assert response.status_code == 409, response.text
    assert console.call(CHIEF, "GET", "/api/me").status_code == 200


def test_disabling_an_account_ends_its_session(console: RunningConsole) -> None:
    """After enabling, the user must sign in again and has the role again."""
    email = "leaver@site1.test"
    key = member(console, "SITE1", email)
    link = console.call(CHIEF, "PUT", f"/api/grants/{key}", {"role": "viewer"}).json()["link"]
    console.enrol(link, GOOD)
    cookie = console.sign_in(email, GOOD)
    assert console.ask("GET", "/console/api/me", cookie).status_code == 200
    assert console.call(CHIEF, "POST", f"/api/people/{email}/disable", {}).status_code == 200
    assert console.ask("GET", "/console/api/me", cookie).status_code == 401
    assert not console.signs_in(email, GOOD)
    refused = console.call(CHIEF, "PUT", f"/api/grants/{email}", {"role": "operator"})
    assert refused.json()["code"] == "account_disabled"
    assert console.call(CHIEF, "POST", f"/api/people/{email}/enable", {}).status_code == 200
    assert console.ask("GET", "/console/api/me", cookie).status_code == 401
    opened = console.ask("GET", "/console/api/me", console.sign_in(email, GOOD))
    assert opened.status_code == 200


FRESH = {
    "PUT /api/grants/reader@site1.test": {"role": "viewer"},
    "DELETE /api/grants/reader@site1.test": None,
    "POST /api/people/reader@site1.test/enrolment": {},
    "POST /api/people/reader@site1.test/disable": {},
    "POST /api/people/reader@site1.test/enable": {},
    "POST /api/sites/SITE1/users": {"email": "x@site1.test", "name": "X"},
    "POST /api/sites/SITE1/tokens": {"email": "reader@site1.test"},
    "PUT /api/connections/listener/orders": {"reason": "r", "begun_on": "", "table": {}, "new": 0},
    "POST /api/connections/listener/orders/rollback": {"reason": "r", "begun_on": ""},
}


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("route", FRESH)
def test_sensitive_actions_need_a_password_of_the_last_ten_minutes(
    console: RunningConsole, route: str
) -> None:
    method, path = route.split()
    assert console.call(CHIEF, "GET", "/api/me").status_code == 200
    response = console.call(CHIEF, method, path, FRESH[route])
    assert (response.status_code, response.json()["code"]) == (403, "reauthentication_required")


def test_confirming_the_password_permits_sensitive_actions(console: RunningConsole) -> None:
    """Only the right password, and only in the session that confirmed it."""
    email, body = "chief@site1.test", {"email": "reader@site1.test"}
    own, other = console.sign_in(email), console.sign_in(email)
    console.clock.ahead += FRESH_MS + 60_000
    try:
        path, confirm = "/console/api/sites/SITE1/tokens", "/reporting/api/account/confirm"
        assert console.ask("POST", path, own, body).status_code == 403
        wrong = console.ask("POST", confirm, own, {"password": "not the right one"})
        assert wrong.status_code in {400, 401, 403}
        assert console.ask("POST", path, own, body).status_code == 403
        assert console.ask("POST", confirm, own, {"password": PASSWORD}).status_code == 204
        assert console.ask("POST", path, own, body).status_code == 200
        assert console.ask("POST", path, other, body).status_code == 403
    finally:
        console.clock.ahead = 0


HOOK = "def name(message):\n    return 'X'\n"


def test_a_draft_with_a_hook_needs_a_confirmed_password(console: RunningConsole) -> None:
    """Other drafts do not. Without the permission `code` a hook is always refused."""
    path = "/api/mappings/orders/draft"
    active = console.call(CHIEF, "GET", "/api/mappings/orders").json()["in_force"]
    begun = active["version"] if active else ""

    def save(who: str, file: str, text: str) -> tuple[int, str]:
        console.call(who, "DELETE", path)
        body = {"files": {file: text}, "begun_on": begun, "revision": 0}
        response = console.call(who, "PUT", path, body)
        return response.status_code, response.json().get("code", "")

    assert save(CHIEF, "own.py", HOOK)[0] == 200
    console.clock.ahead += FRESH_MS + 60_000
    try:
        assert save(CHIEF, "own.py", HOOK) == (403, "reauthentication_required")
        assert save(CHIEF, "codes/own.csv", "code,value\n")[0] == 200
        assert save("author", "own.py", HOOK) == (403, "not_permitted")
    finally:
        console.clock.ahead = 0


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": ""},
        {"origin": "null"},
        {"origin": "http://["},
        {"origin": "http://console.test:8080"},
        {"origin": "https://evil.test"},
        {"origin": "http://sub.console.test"},
        {"origin": "http://console.test.evil.test"},
        {"origin": "http://console.test@evil.test"},
        {"origin": BASE, "sec_fetch_site": "cross-site"},
        {"origin": BASE, "sec_fetch_site": "same-site"},
        {"origin": BASE, "sec_fetch_site": "none"},
    ],
)
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_request_from_another_origin_is_refused(
    console: RunningConsole, method: str, headers: dict[str, str]
) -> None:
    """No header, an opaque origin, another port, a sub-domain, and similar host names."""
    body = {"role": "viewer"} if method == "PUT" else None
    response = console.call(CHIEF, method, "/api/grants/reader@site1.test", body, **headers)
    assert (response.status_code, response.json()["code"]) == (403, "foreign_origin")


def test_signing_in_does_not_adopt_a_planted_cookie(console: RunningConsole) -> None:
    name = console.cookies[CHIEF].partition("=")[0]
    planted = f"{name}=planted-secret"
    cookie = console.sign_in("viewer@site1.test", cookie=planted)
    assert cookie != planted
    assert console.ask("GET", "/console/api/me", planted).status_code == 401


@pytest.mark.parametrize("who", [CHIEF, "author", "viewer", "admin1"])
def test_a_session_limited_to_another_site_reaches_nothing(
    console: RunningConsole, who: str
) -> None:
    """It opens no role for all sites; other users see SITE2 only."""
    with console.limited("SITE2"):
        response = console.call(who, "GET", "/api/me")
        if who == "viewer":
            assert response.json()["sites"] == ["SITE2"]
            message = console.messages["SITE1"]
            assert console.call(who, "GET", f"/api/messages/{message}").status_code == 404
            return
        assert (response.status_code, response.json()["code"]) == (403, "session_of_one_site")
        for path in ("/api/grants", "/api/sites", "/api/overview"):
            assert console.call(who, "GET", path).status_code == 403


def test_a_required_second_factor_closes_the_console(console: RunningConsole) -> None:
    """The page contains the reason."""
    with console.required_second_factor():
        response = console.call(CHIEF, "GET", "/api/me")
        assert (response.status_code, response.json()["code"]) == (403, "second_factor_required")
        assert "second_factor_required" in console.call(CHIEF, "GET", "/").text


@pytest.mark.parametrize("at", ["@", "\uff20", "\ufe6b"])
def test_another_spelling_of_an_address_names_the_same_account(
    console: RunningConsole, at: str
) -> None:
    """A site administrator does not reach an account with more rights by it."""
    email = "mighty@site1.test"
    key = member(console, "SITE1", email)
    given = console.call(CHIEF, "PUT", f"/api/grants/{email}", {"role": "operator", "bodies": True})
    assert given.status_code == 200, given.text
    written = email.replace("@", at)
    tokens = f"{SITE1}/tokens"
    refused = console.call(ADMIN, "POST", tokens, {"email": written, "label": "x", "scopes": []})
    assert (refused.status_code, refused.json()["code"]) == (403, "target_may_more")
    removed = console.call(ADMIN, "DELETE", f"{SITE1}/users/{quote(written)}")
    assert (removed.status_code, removed.json()["code"]) == (403, "target_may_more")
    engine = databases.open_engine_database(console.settings)
    with engine.read() as connection:
        assert users.sites_of(connection, int(key)) == ["SITE1"]
    engine.dispose()


def test_a_token_of_an_account_with_more_rights_is_not_revoked(console: RunningConsole) -> None:
    email = "tokened@site1.test"
    member(console, "SITE1", email)
    given = console.call(CHIEF, "PUT", f"/api/grants/{email}", {"role": "operator", "bodies": True})
    assert given.status_code == 200, given.text
    made = console.call(CHIEF, "POST", f"{SITE1}/tokens", {"email": email, "label": "own"})
    assert made.status_code == 200, made.text
    path = f"{SITE1}/tokens/{made.json()['id']}"
    refused = console.call(ADMIN, "DELETE", path)
    assert (refused.status_code, refused.json()["code"]) == (403, "target_may_more")
    assert console.call(CHIEF, "DELETE", path).status_code == 200


def test_an_event_names_an_account_by_its_id_as_a_user(console: RunningConsole) -> None:
    """The console names accounts by id; the target of the audit event is a user then too."""
    key = member(console, "SITE1", "by-id@site1.test")
    disabled = console.call(CHIEF, "POST", f"/api/people/{key}/disable")
    assert disabled.status_code == 200, disabled.text
    events = console.audit_events(CHIEF, target=f"user {key}")
    assert [event["action"] for event in events] == ["disable account"]
