"""Enrolment links and one-time codes."""

import asyncio
import base64
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

from bridge.engine.rules.timestamps import iso
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    FOREIGN,
    OTHER,
    OURS,
    PASSWORD,
    READER,
    Service,
    boot,
    user,
)
from tests.bridge.engine.http.event_listener import listening
from tests.enrolment import form_of

CODE_SECONDS = 30


def _account_id(service: Service, email: str) -> str:
    found = service.get("account", "service", email=email)
    assert found.status_code == 200, found.text
    return str(found.json()["accountId"])


def link_for(service: Service, email: str, **more: Any) -> str:
    body = {"accountId": _account_id(service, email), **more}
    response = service.post("account/enrolment", body, "service")
    assert response.status_code == 200, response.text
    return str(response.json()["link"])


def take(service: Service, link: str, password: str = PASSWORD, code: str = "") -> httpx.Response:
    form = form_of(link, password, code)
    return service.call("POST", "/reporting/enrol", None, data=form, headers=OURS)


def code_of(service: Service, secret: str, steps: int = 0) -> str:
    seconds = service.clock.now // 1000 + steps * CODE_SECONDS
    totp = TOTP(base64.b32decode(secret), 6, SHA1(), CODE_SECONDS)  # noqa: S303  # RFC 6238
    return totp.generate(seconds).decode()


def secret_on(service: Service, link: str) -> str:
    page = service.open(link)
    assert page.status_code == 200, page.text
    assert 'src="data:image/png;base64,' in page.text
    return page.text.partition('<code class="secret">')[2].partition("<")[0]


def view_on(service: Service, link: str) -> tuple[str, dict[str, str]]:
    """Return the key that a view of a link shows, and the hidden fields of its form."""
    text = service.open(link).text
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)"[^>]*?value="([^"]*)"', text))
    return text.partition('<code class="secret">')[2].partition("<")[0], hidden


def send(
    service: Service, fields: dict[str, str], code: str, password: str = PASSWORD, again: str = ""
) -> httpx.Response:
    form = {**fields, "password": password, "again": again or password, "code": code}
    return service.call("POST", "/reporting/enrol", None, data=form, headers=OURS)


def with_codes(service: Service, email: str = READER) -> str:
    """Enrol a user with an authenticator app; return its key."""
    link = link_for(service, email, secondFactor=True)
    secret = secret_on(service, link)
    assert take(service, link, code=code_of(service, secret)).status_code == 303
    service.clock.pass_seconds(CODE_SECONDS)
    return secret


def test_a_link_sets_a_password_once(service: Service) -> None:
    """A used link shows its state, and a replayed request changes nothing."""
    link = link_for(service, READER)
    page = service.open(link)
    assert page.status_code == 200
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "no-referrer"
    assert take(service, link).status_code == 303
    assert service.sign_in().status_code == 303
    replayed = take(service, link, "another horse battery")
    assert (replayed.status_code, "has been used" in replayed.text) == (410, True)
    assert service.open(link).status_code == 410
    assert service.sign_in(password="another horse battery").status_code == 401


def test_an_expired_and_a_superseded_link_are_refused(service: Service) -> None:
    """A link is valid for 72 hours or until a newer one is issued; the page has the reason."""
    first = link_for(service, READER)
    second = link_for(service, READER)
    assert "newer link" in take(service, first).text
    service.clock.pass_seconds(72 * 3600)
    assert "expired" in take(service, second).text
    assert service.open(f"{second}x").status_code == 404
    assert service.sign_in().status_code == 401


def test_concurrent_uses_of_a_link_set_one_password(service: Service) -> None:
    """The other requests are refused."""
    link = link_for(service, READER)
    wanted = [f"{PASSWORD} {number}" for number in range(5)]

    async def all_at_once() -> list[httpx.Response]:
        posts = (
            service.http.post("/reporting/enrol", data=form_of(link, item), headers=OURS)
            for item in wanted
        )
        return list(await asyncio.gather(*posts))

    responses = service.runner.run(all_at_once())
    assert sorted(response.status_code for response in responses) == [303, 410, 410, 410, 410]
    winners = [item for item in wanted if service.sign_in(password=item).status_code == 303]
    assert len(winners) == 1


@pytest.mark.parametrize("password", ["short", "Password1234", READER, "x" * 2000])
def test_a_weak_password_leaves_the_link_open(service: Service, password: str) -> None:
    """The page shows the reason, and the owner can try again."""
    link = link_for(service, READER)
    assert take(service, link, password).status_code == 400
    assert take(service, link).status_code == 303


def test_a_reset_ends_password_sessions_and_tokens(service: Service) -> None:
    """Old passwords, sessions and codes are invalid after an enrolment."""
    service.set_password(READER)
    service.sign_in()
    assert service.account("GET", "").status_code == 200
    link = link_for(service, READER, endTokens=True)
    assert service.account("GET", "").status_code == 401
    assert service.launch(READER).status_code == 401
    assert service.sign_in().status_code == 401
    assert take(service, link).status_code == 303


def test_a_frame_or_a_page_of_another_origin_cannot_enrol(service: Service) -> None:
    """The form is refused in frames and from other sites."""
    link = link_for(service, READER)
    for headers in ({"sec-fetch-dest": "iframe"}, {"sec-fetch-site": "cross-site"}):
        form = form_of(link, PASSWORD)
        response = service.call("POST", "/reporting/enrol", None, data=form, headers=headers)
        assert response.status_code == 403
    assert service.open(link, headers={"sec-fetch-dest": "iframe"}).status_code == 403


@pytest.mark.parametrize("who", [ADMIN, READER, FOREIGN])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "account?email=reader@site1.test"),
        ("GET", "account/readers"),
        ("POST", "account/enrolment"),
        ("POST", "account/disable"),
        ("POST", "account/enable"),
        ("POST", "account/second-factor"),
    ],
)
def test_accounts_across_sites_need_a_service_token(
    service: Service, who: str, method: str, path: str
) -> None:
    """An administrator of a site cannot reset, disable or look up accounts."""
    body: dict[str, Any] | None = None if method == "GET" else {"accountId": "1"}
    if path.endswith("second-factor"):
        body = {"accountId": "1", "required": False}
    response = service.call(method, f"/api/{path}", who, json=body)
    assert response.status_code == 403


def test_readers_are_counted(service: Service) -> None:
    """An invited reader counts as enrolled after the link; a role in the console ends both."""

    def counts() -> dict[str, int]:
        found: dict[str, int] = service.get("account/readers", "service").json()
        return found

    before = counts()
    body = {"email": "rita@site1.test", "name": "Rita", "role": "user"}
    assert service.post("admin/sites/SITE1/users", body, ADMIN).status_code == 200
    assert counts() == {**before, "invited": before["invited"] + 1}
    take(service, link_for(service, body["email"]))
    assert counts() == {**before, "enrolled": before["enrolled"] + 1}
    link_for(service, body["email"], secondFactor=True)
    assert counts() == before


@pytest.mark.parametrize("email", [READER, FOREIGN, "new@site3.test", "READER@SITE1.test"])
@pytest.mark.parametrize("who", [ADMIN, "service"])
def test_no_password_is_accepted_for_another_account(
    service: Service, email: str, who: str
) -> None:
    """No route sets the password of another account, for any caller and spelling of the address."""
    body = {"email": email, "name": "X", "password": "a password of another"}
    response = service.post("admin/sites/SITE1/users", body, who)
    assert (response.status_code, response.json()["code"]) == (400, "password_not_accepted")


def test_codes_are_required_and_valid_once(service: Service) -> None:
    """A missing, an old and a used code are refused."""
    secret = with_codes(service)
    assert service.sign_in().status_code == 401
    assert service.sign_in(code="000000").status_code == 401
    now = code_of(service, secret)
    assert service.sign_in(code=now).status_code == 303
    assert service.account("GET", "").json()["secondFactor"] is True
    assert service.sign_in(code=now).status_code == 401
    assert service.sign_in(code=code_of(service, secret, -1)).status_code == 401
    assert service.sign_in(code=code_of(service, secret, -5)).status_code == 401


def test_a_wrong_code_does_not_enrol(service: Service) -> None:
    """The form requires a code of the authenticator app."""
    link = link_for(service, READER, secondFactor=True)
    secret_on(service, link)
    assert take(service, link, code="123").status_code == 400
    assert take(service, link).status_code == 400
    assert service.sign_in().status_code == 401


def test_an_earlier_look_at_a_link_gives_no_second_factor(service: Service) -> None:
    """Each view has a secret of its own, and the account gets that of the form that was sent."""
    link = link_for(service, READER, secondFactor=True)
    looked, _ = view_on(service, link)
    service.open(link)
    owned, form = view_on(service, link)
    later, _ = view_on(service, link)
    assert len({looked, owned, later}) == 3
    for other in (looked, later):
        assert send(service, form, code_of(service, other)).status_code == 400
    assert send(service, form, code_of(service, owned)).status_code == 303
    service.clock.pass_seconds(CODE_SECONDS)
    for other in (looked, later):
        assert service.sign_in(code=code_of(service, other)).status_code == 401
    assert service.sign_in(code=code_of(service, owned)).status_code == 303


def test_a_form_keeps_its_secret_after_a_mistake(service: Service) -> None:
    """The owner need not set up the authenticator again for a wrong code or password."""
    link = link_for(service, READER, secondFactor=True)
    secret, form = view_on(service, link)
    code = code_of(service, secret)
    for response in (
        send(service, form, "000000"),
        send(service, form, code, "short"),
        send(service, form, code, PASSWORD, again="another"),
    ):
        assert response.status_code == 400
        assert f'<code class="secret">{secret}<' in response.text
    assert send(service, form, code).status_code == 303


def test_an_answer_shows_no_secret_of_another_view(service: Service) -> None:
    """A form without a secret, or with that of another link, gets a new one."""
    _, foreign = view_on(service, link_for(service, OTHER, secondFactor=True))
    link = link_for(service, READER, secondFactor=True)
    secret, form = view_on(service, link)
    for view in (None, foreign["view"], "", "x.y", form["view"][:-6] + "AAAAA="):
        fields = {"token": form["token"], **({} if view is None else {"view": view})}
        response = send(service, fields, "000000")
        assert response.status_code == 400
        assert '<code class="secret">' in response.text
        assert secret not in response.text
    assert send(service, {**form, "view": foreign["view"]}, code_of(service, secret)).is_error
    assert send(service, form, code_of(service, secret)).status_code == 303


def test_a_form_without_a_secret_means_the_newest_view(service: Service) -> None:
    """A program that sends only the fields that a person fills in uses the last view."""
    link = link_for(service, READER, secondFactor=True)
    looked, newest = secret_on(service, link), secret_on(service, link)
    assert take(service, link, code=code_of(service, looked)).status_code == 400
    assert take(service, link, code=code_of(service, newest)).status_code == 303


def test_pages_of_a_link_are_not_cached(service: Service) -> None:
    """Neither the form nor any answer to it."""
    link = link_for(service, READER, secondFactor=True)
    secret, form = view_on(service, link)
    answers = [service.open(link), send(service, form, "1"), service.open(f"{link}x")]
    answers += [send(service, form, code_of(service, secret)), service.open(link)]
    assert [answer.headers["cache-control"] for answer in answers] == ["no-store"] * 5


def test_the_secret_is_stored_sealed(service: Service) -> None:
    secret = with_codes(service)
    with service.database.read() as connection:
        rows = connection.exec_driver_sql("SELECT totp_sealed FROM engine_account").all()
    stored = b"".join(bytes(row[0]) for row in rows if row[0])
    assert stored
    assert base64.b32decode(secret) not in stored


def test_confirming_renews_the_time_of_authentication(service: Service) -> None:
    """A wrong password or code does not change `authenticatedAt`."""
    secret = with_codes(service)
    assert service.sign_in(code=code_of(service, secret)).status_code == 303
    before = service.account("GET", "").json()["authenticatedAt"]
    service.clock.pass_seconds(601)
    for body in ({"password": "wrong wrong"}, {"password": PASSWORD}):
        assert service.account("POST", "/confirm", body).status_code == 400
    assert service.account("GET", "").json()["authenticatedAt"] == before
    body = {"password": PASSWORD, "code": code_of(service, secret)}
    assert service.account("POST", "/confirm", body).status_code == 204
    assert service.account("GET", "").json()["authenticatedAt"] == iso(service.clock.now)


def test_a_weak_new_password_is_refused(service: Service) -> None:
    """The policy also applies to a change by the owner."""
    service.set_password(READER)
    service.sign_in()
    body = {"present": PASSWORD, "wanted": "Password1234"}
    response = service.account("POST", "/password", body)
    assert (response.status_code, response.json()["code"]) == (400, "password_common")


def test_disabling_an_account_ends_its_access(service: Service) -> None:
    """Sessions, tokens, links of the account and links that its tokens created."""
    service.set_password(OTHER)
    link = service.launch(ADMIN, userInfo=user(OTHER, "Other")).json()["reportLink"]
    page = service.session(service.open(link))
    share = page("shares", {})
    own = service.launch(OTHER, accession="A2", lazyLaunch=True).json()["reportLink"]
    service.sign_in(OTHER)
    assert service.account("GET", "").status_code == 200
    key = _account_id(service, OTHER)
    assert service.post("account/disable", {"accountId": key}, "service").status_code == 204
    assert service.account("GET", "").status_code == 401
    assert page("report").status_code == 401
    assert service.launch(OTHER).status_code == 401
    for item in (link, own):
        response = service.open(item)
        assert "mode" not in response.text or boot(response)["mode"] != "report"
    assert service.sign_in(OTHER).status_code == 401
    named = service.launch(ADMIN, accession="A3", userInfo=user(OTHER, "Other"))
    assert (named.status_code, named.json()["code"]) == (403, "account_disabled")
    if share.status_code < 300:
        assert service.open(share.json()["share"]["link"]).status_code == 404
    assert service.post("account/enable", {"accountId": key}, "service").status_code == 204
    assert page("report").status_code == 401
    assert service.launch(OTHER).status_code == 401
    assert service.sign_in(OTHER).status_code == 303


def test_leaving_a_site_ends_its_sessions_and_links(service: Service) -> None:
    """Enabling an account restores none of them."""
    link = service.launch(ADMIN, userInfo=user(OTHER, "Other")).json()["reportLink"]
    page = service.session(service.open(link))
    path = f"/api/admin/sites/SITE1/users/{OTHER}"
    assert service.call("DELETE", path).status_code == 200
    assert page("report").status_code == 401
    body = {"email": OTHER, "name": "Other"}
    assert service.post("admin/sites/SITE1/users", body).status_code == 200
    assert page("report").status_code == 401
    assert service.open(link).status_code == 410


def test_a_session_ends_with_the_token_that_created_its_link(service: Service) -> None:
    """The session stays ended after a reload of the page."""
    made = service.post("admin/sites/SITE1/tokens", {"email": ADMIN}).json()
    link = service.launch(made["token"], userInfo=user(OTHER, "Other")).json()["reportLink"]
    page = service.session(service.open(link))
    again = service.session(service.open("/reporting/launch-report/clinical"))
    assert page("report").status_code == 200
    path = f"/api/admin/sites/SITE1/tokens/{made['id']}"
    assert service.call("DELETE", path).status_code == 200
    assert page("report").status_code == 401
    assert again("report").status_code == 401


@pytest.mark.parametrize("how", ["revoke", "disable", "remove"])
def test_a_session_ends_with_the_token_that_gave_its_link_the_authority(
    service: Service, how: str
) -> None:
    """The token in userInfo.Auth counts like the one in the header: its links are revoked."""
    made = service.post("admin/sites/SITE1/tokens", {"email": OTHER}).json()
    promoted = {"email": OTHER, "name": "Other", "role": "administrator"}
    assert service.post("admin/sites/SITE1/users", promoted).status_code == 200
    info = user("acting@site1.test", "Acting", Auth=made["token"])
    link = service.launch(READER, userInfo=info).json()["reportLink"]
    page = service.session(service.open(link))
    assert page("report").status_code == 200
    if how == "revoke":
        service.call("DELETE", f"/api/admin/sites/SITE1/tokens/{made['id']}")
    elif how == "remove":
        service.call("DELETE", f"/api/admin/sites/SITE1/users/{OTHER}")
    else:
        body = {"accountId": _account_id(service, OTHER)}
        assert service.post("account/disable", body, "service").status_code == 204
    assert service.open(link).status_code == 410
    assert how == "remove" or page("report").status_code == 401


def test_a_session_ends_with_the_token_that_identified_its_user(service: Service) -> None:
    """A link without a user opens as the user of an earlier link's session, and ends with it."""
    made = service.post("admin/sites/SITE1/tokens", {"email": ADMIN}).json()
    first = service.launch(made["token"], userInfo=user(OTHER, "Other")).json()["reportLink"]
    assert service.open(first).status_code == 200
    pages = []
    for accession in ("A2", "A3"):  # the second one gets its user from the first one
        launched = service.launch(READER, accession=accession, lazyLaunch=True)
        pages.append(service.page(launched))
    pages.append(service.session(service.open("/reporting/launch-report/clinical")))
    assert [page("report").status_code for page in pages] == [200] * 3
    path = f"/api/admin/sites/SITE1/tokens/{made['id']}"
    assert service.call("DELETE", path).status_code == 200
    assert [page("report").status_code for page in pages] == [401] * 3


def test_an_invited_account_gives_its_first_site_no_control(service: Service) -> None:
    """The creator of an account gets neither a password nor a link of it."""
    email = "both@site3.test"
    made = service.post("admin/sites/SITE1/users", {"email": email, "name": "B"})
    assert set(made.json()) == {"email", "name", "role"}
    body = {"email": email, "name": "B", "role": "administrator"}
    assert service.post("admin/sites/SITE2/users", body, FOREIGN).status_code == 200
    token = service.post("admin/sites/SITE1/tokens", {"email": email}).json()["token"]
    assert service.get("admin/sites/SITE2/users", token).status_code == 403
    assert _token_of(link_for(service, email))


def _token_of(link: str) -> str:
    return parse_qs(urlsplit(link).query)["token"][0]


@pytest.mark.parametrize("how", ["disable", "reset", "remove", "revoke"])
def test_open_event_streams_end(service: Service, how: str) -> None:
    """An open event stream reports at once that the session has ended."""
    made = service.post("admin/sites/SITE1/tokens", {"email": ADMIN}).json()
    link = service.launch(made["token"], userInfo=user(OTHER, "Other")).json()["reportLink"]
    page = service.session(service.open(link))
    body = {"accountId": _account_id(service, OTHER)}
    method, path, sent = {
        "disable": ("POST", "account/disable", body),
        "reset": ("POST", "account/enrolment", body),
        "remove": ("DELETE", f"admin/sites/SITE1/users/{OTHER}", None),
        "revoke": ("DELETE", f"admin/sites/SITE1/tokens/{made['id']}", None),
    }[how]
    headers = {"x-access-token": service.tokens["service"]}

    async def end() -> dict[str, Any]:
        async with listening(page) as listener:
            response = await service.http.request(
                method, f"/api/{path}", json=sent, headers=headers
            )
            assert response.status_code < 300, response.text
            return await listener.next("ended")

    assert service.runner.run(end()) == {"reason": "ended"}
