"""Signed-in accounts: the cookie, protection from other sites, and the sign-in limit."""

import asyncio
import threading
from collections import Counter

import pytest
import sqlalchemy

from bridge.audit import trail
from bridge.engine.errors import EngineError
from bridge.engine.live.credential_checks import MAX_WAITING, RESERVED, THREADS
from bridge.engine.rules.timestamps import iso
from bridge.engine.service.accounts.sign_in_limit import undeclared_proxies
from bridge.network_source import Proxies
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    BASE,
    FOREIGN,
    OTHER,
    OURS,
    PASSWORD,
    READER,
    Service,
    boot,
    identity,
    user,
)


@pytest.fixture
def reader(service: Service) -> Service:
    service.set_password(READER)
    service.set_password(ADMIN)
    assert service.sign_in().status_code == 303
    return service


def test_the_cookie_of_a_session_is_not_readable_by_scripts(service: Service) -> None:
    """HttpOnly, SameSite=Lax; with https also __Host- and Secure."""
    service.set_password(READER)
    response = service.sign_in()
    assert response.headers["location"] == "/reporting/worklist"
    cookie, device = response.headers.get_list("set-cookie")
    assert cookie.startswith("report_account=")
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Lax")
    assert device.startswith("report_device=")
    assert "HttpOnly; SameSite=Lax" in device
    engine = service.application.state.engine
    engine.addresses = type(engine.addresses)("https://engine.test", [], Proxies())
    for secure in service.sign_in().headers.get_list("set-cookie"):
        assert secure.startswith("__Host-report_")
        assert secure.endswith("; Secure")


def test_pages_redirect_to_the_login_page(service: Service) -> None:
    """Without a session. No page may frame the login page."""
    for place in ("worklist", "settings", "administration"):
        response = service.call("GET", f"/reporting/{place}", None)
        assert (response.status_code, response.headers["location"]) == (
            303,
            f"/reporting/login?next=/reporting/{place}",
        )
    page = service.call("GET", "/reporting/login?next=/reporting/settings", None)
    assert 'type="password"' in page.text
    assert boot(page)["next"] == "/reporting/settings"
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    foreign = service.call("GET", "/reporting/login?next=https://evil.test/", None)
    assert boot(foreign)["next"] == "/reporting/worklist"


def test_a_signed_in_user_gets_the_app(reader: Service) -> None:
    """The page of the app contains no user data; it loads them."""
    page = reader.call("GET", "/reporting/worklist", None)
    assert boot(page)["mode"] == "worklist"
    assert READER not in page.text
    me = reader.account("GET", "").json()
    assert (me["email"], me["sites"][0]["role"]) == (READER, "user")
    framed = reader.call("GET", "/reporting/worklist", None, headers={"sec-fetch-dest": "iframe"})
    assert framed.status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.test"},
        {"origin": "null"},
    ],
)
def test_a_page_of_another_origin_changes_nothing(reader: Service, headers: dict[str, str]) -> None:
    """The cookie alone is not sufficient: the request must come from our own origin."""
    response = reader.account("POST", "/tokens", {"label": "x"}, headers=headers)
    assert (response.status_code, response.json()["code"]) == (403, "foreign_origin")
    labels = [row["label"] for row in reader.account("GET", "/tokens").json()]
    assert "x" not in labels
    reader.runner.run(reader.application.state.engine.audit_buffer.flush())
    with reader.database.read() as connection:
        query = trail.TrailQuery(action="token-create")
        (event,) = trail.read_page(connection, query)
    assert (event.user, event.details["code"]) == (READER, "foreign_origin")


@pytest.mark.parametrize("path", ["/tokens", "/admin/sites/SITE1/tokens"])
def test_a_token_needs_a_recent_proof_of_identity(reader: Service, path: str) -> None:
    """A session that was left open makes no secret; a request with a token needs no proof."""
    assert reader.sign_in(ADMIN).status_code == 303
    body = {"label": "x"} if path == "/tokens" else {"label": "x", "email": READER}
    assert reader.account("POST", path, body).status_code in {200, 201}
    reader.clock.pass_seconds(11 * 60)
    refused = reader.account("POST", path, body)
    assert (refused.status_code, refused.json()["code"]) == (403, "reauthentication_required")
    assert reader.account("POST", "/confirm", {"password": PASSWORD}).status_code == 204
    assert reader.account("POST", path, body).status_code in {200, 201}
    reader.clock.pass_seconds(11 * 60)
    assert reader.post("admin/sites/SITE1/tokens", {"email": READER}).status_code == 200


def test_a_forbidden_read_in_the_app_is_recorded(reader: Service) -> None:
    """The worklist of a site that the user is not on."""
    assert reader.account("GET", "/rows?SiteID=SITE2").status_code == 403
    reader.runner.run(reader.application.state.engine.audit_buffer.flush())
    with reader.database.read() as connection:
        (event,) = trail.read_page(connection, trail.TrailQuery(action="worklist"))
    assert (event.user, event.outcome) == (READER, "refused")


def test_the_own_origin_is_accepted_without_fetch_metadata(reader: Service) -> None:
    """Over plain http browsers send Origin only."""
    response = reader.account("POST", "/tokens", {"label": "x"}, headers={"origin": BASE})
    assert response.status_code == 201


def test_a_page_of_another_origin_cannot_sign_a_user_in(service: Service) -> None:
    """Even with the right password; a frame cannot either."""
    service.set_password(READER)
    form = {"email": READER, "password": PASSWORD}
    for headers in ({"sec-fetch-site": "cross-site"}, {"sec-fetch-dest": "iframe"}):
        response = service.call("POST", "/reporting/login", None, data=form, headers=headers)
        assert response.status_code == 403
        assert "set-cookie" not in response.headers


def test_password_guesses_are_limited(service: Service) -> None:
    """After 10 failures of an address in 15 minutes, the right password is refused too."""
    service.set_password(READER)
    for _ in range(10):
        assert service.sign_in(password="wrong wrong").status_code == 401
    page = service.sign_in()
    assert (page.status_code, boot(page)["message"]) == (429, "too_many_attempts")
    service.clock.pass_seconds(15 * 60)
    assert service.sign_in().status_code == 303


def test_signing_out_ends_the_session(reader: Service) -> None:
    """Signing out deletes the cookie and invalidates its secret."""
    secret = reader.http.cookies["report_account"]
    assert reader.account("POST", "/sign-out").status_code == 204
    reader.http.cookies.set("report_account", secret)
    assert reader.account("GET", "").status_code == 401


def test_an_idle_session_ends(reader: Service) -> None:
    """After half an hour without activity; background polls are no activity."""
    unattended = OURS | {"x-unattended": "1"}
    polls = []
    for _ in range(3):
        reader.clock.pass_seconds(11 * 60)
        polls.append(reader.account("GET", "", headers=unattended))
    assert polls[-1].status_code == 401
    reader.sign_in()
    for _ in range(3):
        reader.clock.pass_seconds(11 * 60)
        assert reader.account("GET", "").status_code == 200


def test_a_disabled_account_or_one_without_site_cannot_sign_in(
    service: Service, reader: Service
) -> None:
    """Disabling ends sessions at once."""
    with service.database.write() as connection:
        connection.execute(sqlalchemy.text("update engine_account set disabled_at = 1"))
    assert reader.account("GET", "").status_code == 401
    assert service.sign_in().status_code == 401
    with service.database.write() as connection:
        connection.execute(sqlalchemy.text("update engine_account set disabled_at = null"))
        connection.execute(sqlalchemy.text("delete from engine_membership"))
    assert boot(service.sign_in())["message"] == "no_site"


def test_own_tokens_are_shown_once_and_revoked(reader: Service) -> None:
    """The list has name, expiry and last use; a token of another user cannot be revoked."""
    body = {"label": "Viewer", "expiresDays": 30}
    made = reader.account("POST", "/tokens", body).json()
    assert reader.post("report/launch/clinical", None, made["token"]).status_code == 400
    shown, *_ = reader.account("GET", "/tokens").json()
    assert shown["label"] == "Viewer"
    assert shown["expiresAt"] == iso(reader.clock.now + 30 * 86_400_000)
    assert shown["lastUsedAt"] == iso(reader.clock.now)
    assert made["token"] not in str(shown)
    theirs = reader.account("DELETE", "/tokens/1")
    assert theirs.status_code == 404
    assert reader.account("DELETE", f"/tokens/{made['id']}").status_code == 204
    assert reader.post("report/launch/clinical", None, made["token"]).status_code == 401


def test_preferences_are_kept(reader: Service) -> None:
    """Language, theme, name and signature; an unknown language is refused."""
    body = {"AppLanguage": "de-DE", "theme": "light", "signatureText": "Consultant", "name": "Rea"}
    assert reader.account("PUT", "", body).json()["signatureText"] == "Consultant"
    assert reader.account("PUT", "", {"theme": ""}).json()["AppLanguage"] == "de-DE"
    page = boot(reader.call("GET", "/reporting/worklist", None))
    assert (page["locale"], page["theme"]) == ("de-DE", "dark")
    assert reader.account("PUT", "", {"AppLanguage": "xx"}).status_code == 400


def test_the_signature_text_follows_the_name(reader: Service) -> None:
    reader.account("PUT", "", {"signatureText": "Consultant"})
    reader.launch(userInfo=user(READER, "Rea Der"))
    reader.post("report/sign", {"clinicalInfo": identity()})
    body = {"clinicalInfo": identity()}
    assert "Rea Der, Consultant" in reader.post("report/export/html", body).text
    signed_by = reader.post("report/export/json", body).json()["reportInfo"]["signedBy"]
    assert set(signed_by) == {"name", "email", "signature"}


def test_a_new_password_ends_other_sessions(reader: Service) -> None:
    """The current password is required; the session that changed it continues."""
    other = reader.http.cookies["report_account"]
    reader.sign_in()
    wrong = {"present": "wrong", "wanted": "another horse"}
    assert reader.account("POST", "/password", wrong).json()["code"] == "wrong_password"
    right = {"present": PASSWORD, "wanted": "another horse"}
    assert reader.account("POST", "/password", right).status_code == 204
    assert reader.account("GET", "").status_code == 200
    reader.http.cookies.clear()
    reader.http.cookies.set("report_account", other)
    assert reader.account("GET", "").status_code == 401


def test_the_administration_requires_an_administrator(reader: Service) -> None:
    """The endpoints and their permissions equal those for tokens."""
    assert reader.account("GET", "/admin/sites/SITE1/users").status_code == 403
    assert reader.account("GET", "/admin/sites").json() == []
    reader.sign_in(ADMIN)
    found = reader.account("GET", "/admin/sites/SITE1/users").json()
    assert {row["email"] for row in found} == {ADMIN, READER, OTHER}
    assert reader.account("GET", "/admin/sites/SITE2/users").status_code == 403
    assert reader.account("POST", "/admin/sites", {"SiteID": "SITE9"}).status_code == 403
    assert FOREIGN not in str(found)
    body = {"name": "Night", "tags": ["Resident"]}
    assert reader.account("POST", "/admin/sites/SITE1/prelim-groups", body).status_code == 200


def test_a_report_is_opened_from_the_worklist(reader: Service) -> None:
    """Opening assigns the report; a page of another site cannot cause it."""
    reader.launch("service", lazyLaunch=True, registerOrder=True)
    (row,) = reader.account("GET", "/rows", params={"SiteID": "SITE1"}).json()["items"]
    path = f"/reporting/report/{row['reportId']}"
    foreign = reader.call("GET", path, None, headers={"sec-fetch-site": "cross-site"})
    assert foreign.headers["location"] == "/reporting/worklist"
    assert reader.status()["status"] == "Ordered"
    page = reader.call("GET", path, None, headers=OURS)
    assert (boot(page)["mode"], boot(page)["reportId"]) == ("report", row["reportId"])
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert (reader.status()["status"], reader.status()["userEmail"]) == ("Draft", READER)
    assert reader.session(page)("report").json()["writable"] is True
    second = reader.call("GET", path, None, headers=OURS)
    assert reader.session(second)("report").json()["writable"] is False  # it asks first


def test_a_signed_in_user_prepares_a_session_without_a_token(reader: Service) -> None:
    """Init rule: no Auth is needed on the user's own site; in a frame it is."""
    own = "/reporting/init?SiteID=SITE1"
    assert reader.call("GET", own, None).status_code == 200
    frame = {"sec-fetch-dest": "iframe"}
    assert reader.call("GET", own, None, headers=frame).status_code == 401
    assert reader.call("GET", "/reporting/init?SiteID=SITE2", None).status_code == 403


def test_a_report_of_another_site_is_not_found(reader: Service) -> None:
    """The response equals that for a missing report."""
    body = {"clinicalInfo": identity(site="SITE2"), "userInfo": user(FOREIGN)}
    made = reader.launch(FOREIGN, **body).json()
    page = reader.call("GET", f"/reporting/report/{made['reportId']}", None, headers=OURS)
    assert page.status_code == 404


def test_the_audit_trail_has_the_changes_of_a_user(reader: Service) -> None:
    """The name before and after; of a password only the fact that it changed."""
    wanted = "a quite different 7 horse"
    changed = {"name": "Reader Renamed", "signatureText": "Consultant"}
    assert reader.account("PUT", "", changed).status_code == 200
    body = {"present": PASSWORD, "wanted": wanted}
    assert reader.account("POST", "/password", body).status_code == 204
    with reader.database.read() as connection:
        rows = [event.as_json() for event in trail.read_page(connection, trail.TrailQuery())]
    (profile,) = [row for row in rows if row["action"] == "profile-update"]
    (password,) = [row for row in rows if row["action"] == "password-update"]
    assert profile["after"] == changed
    assert set(profile["before"]) == {"name"}
    assert profile["before"] != profile["after"]
    assert (password["before"], password["after"]) == ({}, {"password": "changed"})
    assert wanted not in str(rows)
    assert PASSWORD not in str(rows)
    assert "argon2" not in str(rows)


GUESSES = 300
MOST = 20


def attempts(service: Service, sources: int, accounts: int = 1) -> Counter[int]:
    """Guess passwords concurrently from several addresses for several accounts."""

    async def one(number: int) -> int:
        peer = f"10.0.0.{number % sources + 1}"
        email = READER if accounts == 1 else f"user{number % accounts}@site1.test"
        form = {"email": email, "password": f"wrong guess {number}"}
        return await guess(service, peer, form)

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*(one(number) for number in range(GUESSES)))

    return Counter(service.runner.run(all_at_once()))


@pytest.mark.parametrize(("sources", "accounts"), [(1, 1), (250, 1), (1, 300)])
def test_concurrent_guesses_cause_few_hashes(service: Service, sources: int, accounts: int) -> None:
    """From one address or many, for one account or many."""
    service.set_password(READER)
    hashing = service.application.state.engine.hashing
    before = hashing.computed
    responses = attempts(service, sources, accounts)
    assert hashing.computed - before <= MOST
    assert responses[401] <= MOST
    assert set(responses) <= {401, 429, 503}


def test_guesses_from_many_addresses_leave_places_for_known_devices(service: Service) -> None:
    """The number of waiting unknown browsers is limited; a known one gets its result."""
    hashing = service.application.state.engine.hashing
    service.set_password(READER)
    before, release = hashing.computed, threading.Event()

    async def flood() -> list[object]:
        guesses = [hashing.run(release.wait, known=False) for _ in range(GUESSES)]
        tasks = [asyncio.ensure_future(item) for item in guesses]
        await asyncio.sleep(0)  # each waits or is refused
        owner = asyncio.ensure_future(hashing.run(lambda: "owner"))
        await asyncio.sleep(0)
        release.set()
        return [await owner, *await asyncio.gather(*tasks, return_exceptions=True)]

    owner, *others = service.runner.run(flood())
    assert owner == "owner"
    assert sum(isinstance(other, EngineError) for other in others) == GUESSES - (
        THREADS + MAX_WAITING - RESERVED
    )
    assert hashing.computed - before <= MOST
    responses = attempts(service, 250, 300)
    assert set(responses) <= {401, 429, 503}


async def guess(service: Service, address: str, form: dict[str, str], cookie: str = "") -> int:
    headers = OURS | ({"cookie": cookie} if cookie else {})
    path = "/reporting/login"
    response = await service.send_from(address, "POST", path, data=form, headers=headers)
    return response.status_code


def from_address(
    service: Service, address: str, password: str = PASSWORD, device: str | None = None
) -> int:
    cookie = "" if device is None else f"report_device={device}"
    form = {"email": READER, "password": password}
    return service.runner.run(guess(service, address, form, cookie))


def test_an_attacker_does_not_lock_the_owner_out(service: Service) -> None:
    """After an attack by one address another one signs in; after many, a known device does."""
    service.set_password(READER)
    assert service.sign_in().status_code == 303
    device = service.http.cookies["report_device"]
    attempts(service, 1)
    assert from_address(service, "10.0.0.1") == 429
    assert from_address(service, "10.9.9.9") == 303
    attempts(service, 250)
    assert from_address(service, "10.9.9.8") == 429
    assert from_address(service, "10.9.9.8", device=device) == 303
    assert from_address(service, "10.0.0.1", device=device) == 303


def test_a_forged_device_cookie_is_ignored(service: Service) -> None:
    """The limit for unknown browsers applies."""
    service.set_password(READER)
    attempts(service, 250)
    for value in ("x.eHh4", "1.eHh4eHh4eHh4eHh4eHh4eHh4eHh4", "", "."):
        assert from_address(service, "10.9.9.8", device=value) == 429


def test_a_clock_set_back_does_not_lock_accounts(service: Service) -> None:
    """A bucket with a time in the far future is dropped."""
    service.set_password(READER)
    attempts(service, 250)
    with service.database.write() as connection:
        connection.exec_driver_sql(
            "UPDATE engine_sign_in_bucket SET full_at = full_at + 1000000000"
        )
    assert from_address(service, "10.9.9.7") == 303


def test_the_wall_clock_does_not_end_the_limit(service: Service) -> None:
    service.set_password(READER)
    attempts(service, 1)
    service.application.state.engine.sign_in_limiter.moment = lambda _: 1_800_000_000_000
    service.clock.pass_seconds(24 * 3600)
    assert from_address(service, "10.0.0.1") == 429


def test_confirmations_and_changes_count(service: Service) -> None:
    """With a stolen session passwords cannot be guessed; the sign-in form has another bucket."""
    service.set_password(READER)
    service.sign_in()
    for number in range(10):
        body = {"password": f"wrong {number}"}
        assert service.account("POST", "/confirm", body).status_code == 400
    response = service.account("POST", "/confirm", {"password": PASSWORD})
    assert (response.status_code, response.json()["code"]) == (429, "too_many_attempts")
    body = {"present": PASSWORD, "wanted": "another horse battery"}
    assert service.account("POST", "/password", body).status_code == 429
    assert service.sign_in().status_code == 303


def test_addresses_of_one_network_count_together(service: Service) -> None:
    """An IPv6 host has a /64 network."""
    service.set_password(READER)
    for number in range(10):
        assert from_address(service, f"2001:db8::{number + 1}", "wrong guess") == 401
    assert from_address(service, "2001:db8::ffff", "wrong guess") == 429
    assert from_address(service, "2001:db8:1::1", "wrong guess") == 401


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "x-real-ip", "via"])
def test_an_undeclared_proxy_is_noted(service: Service, header: str) -> None:
    """`bridge check` reports it; the limit of the account applies."""
    service.set_password(READER)
    with service.database.read() as connection:
        assert undeclared_proxies(connection) == []
    responses = []
    for number in range(30):
        headers = OURS | {header: f"198.51.100.{number}"}
        form = {"email": READER, "password": "wrong guess"}
        responses.append(service.call("POST", "/reporting/login", None, data=form, headers=headers))
    assert responses[-1].status_code == 429
    with service.database.read() as connection:
        assert undeclared_proxies(connection) == ["127.0.0.1"]
