"""Pre-warming a session (interface reference, POST /api/report/init and GET /reporting/init)."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from tests.bridge.engine.http.engine_service import (
    ADMIN,
    BASE,
    FOREIGN,
    READER,
    Service,
    boot,
    user,
)


def body(**changes: Any) -> dict[str, Any]:
    return {
        "clinicalInfo": {"SiteID": "SITE1", **changes},
        "userInfo": user("new@site1.test", "New Person"),
    }


def test_a_session_link_lives_five_minutes(service: Service) -> None:
    """Limits: 5 minutes from issue, reported by expiresAt. It can be loaded more than once."""
    response = service.post("report/init", body(AppLanguage="fr-CA", SpeechLanguage="pt"))
    prepared = response.json()
    assert set(prepared) == {"sessionLink", "expiresAt"}
    link = prepared["sessionLink"]
    assert link.startswith(f"{BASE}/reporting/init?token=")
    assert link.endswith("&AppLanguage=fr-CA&SpeechLanguage=pt-BR")
    ends = datetime.fromisoformat(prepared["expiresAt"])
    assert ends == datetime.fromtimestamp(service.clock.now / 1000 + 300, UTC)
    assert prepared["expiresAt"].endswith("Z")
    first = service.open(link)
    assert first.status_code == 200
    assert "En attente d" in first.text
    again = service.open(link)
    assert again.status_code == 200
    assert "set-cookie" not in again.headers  # the same session continues
    service.clock.pass_seconds(299)
    assert service.open(link).status_code == 200
    service.clock.pass_seconds(2)
    expired = service.open(link)
    assert expired.status_code == 410
    assert "expired" in expired.text


def test_init_registers_the_user_and_creates_no_report(service: Service) -> None:
    """Rule 3: an unknown UserEmail is registered on the site; no report is created."""
    assert service.post("report/init", body()).status_code == 200
    emails = [each["email"] for each in service.get("admin/sites/SITE1/users").json()]
    assert "new@site1.test" in emails
    assert service.get("worklist", SiteID="SITE1").json()["items"] == []


def test_an_invalid_auth_of_a_session_is_refused_or_reported(service: Service) -> None:
    """403 if the header token is not sufficient, else a warning, as for a launch."""
    lent = body()
    for token in ("rbt_unknown", service.tokens[FOREIGN]):
        lent["userInfo"]["Auth"] = token
        assert service.post("report/init", lent, READER).status_code == 403
        assert service.post("report/init", lent).json()["warnings"] == ["auth_ignored"]
    assert "warnings" not in service.post("report/init", body()).json()


def test_required_members(service: Service) -> None:
    """SiteID, UserName and UserEmail are required; the address must be valid."""
    for place, name in (
        ("clinicalInfo", "SiteID"),
        ("userInfo", "UserName"),
        ("userInfo", "UserEmail"),
    ):
        for value in (None, "", " "):
            wrong = body()
            wrong[place][name] = value
            assert service.post("report/init", wrong).status_code == 400
    wrong = body()
    wrong["userInfo"]["UserEmail"] = "no address"
    assert service.post("report/init", wrong).status_code == 400


def browse(service: Service, **query: str) -> Any:
    """Load the browser route."""
    return service.call("GET", f"/reporting/init?{urlencode(query)}", None)


def test_the_browser_route_redirects_to_an_address_without_the_token(service: Service) -> None:
    """Rule 6: the token is not in the new address; no referrer, no store."""
    response = browse(
        service,
        SiteID="SITE1",
        Auth=service.tokens[ADMIN],
        UserName="New Person",
        UserEmail="n@site1.test",
        PatientMRN="",
    )
    assert response.status_code == 303
    assert response.headers["referrer-policy"] == "no-referrer"
    target = response.headers["location"]
    assert target.startswith("/reporting/init?token=")
    assert service.tokens[ADMIN] not in target
    assert "Waiting" in service.call("GET", target, None).text


def test_the_browser_route_shows_the_reason_of_a_refusal(service: Service) -> None:
    """Rules 1 and 5: a study parameter with a value is rejected; the reason is displayed."""
    good = {
        "SiteID": "SITE1",
        "Auth": service.tokens[ADMIN],
        "UserName": "N",
        "UserEmail": "n@site1.test",
    }
    cases = [
        ({**good, "PatientMRN": "1"}, 400),
        ({**good, "SiteID": ""}, 400),
        ({**good, "UserEmail": ""}, 400),
        ({**good, "Auth": "rbt_wrong"}, 401),
        ({**good, "Auth": service.tokens[READER]}, 403),
        ({**good, "SiteID": "NOWHERE"}, 404),
        ({**good, "AppLanguage": "tlh"}, 400),
        ({"SiteID": "SITE1"}, 401),
        ({"token": "A" * 22}, 404),
    ]
    for query, status in cases:
        response = browse(service, **query)
        assert response.status_code == status, query
        assert "<p>" in response.text


def test_a_study_opens_after_another_users_session(service: Service) -> None:
    """Rules 4 and 7: the frame opens the report link; the other user replaces the session."""
    service.open(service.post("report/init", body()).json()["sessionLink"])
    link = service.launch(userInfo=user(READER)).json()["reportLink"]
    page = service.session(service.open(link, headers={"sec-fetch-dest": "iframe"}))
    assert page("report").json()["owner"] is True
    assert service.status()["userEmail"] == READER


def test_a_report_has_the_languages_of_the_pre_warmed_session(service: Service) -> None:
    """Rule 7: the languages of the launch have precedence; another user does not get them."""
    init = body(AppLanguage="ja-JP", SpeechLanguage="ko-KR")
    service.open(service.post("report/init", init).json()["sessionLink"])
    opened = _opened(service, "A1")
    assert opened == ("ja-JP", "ko-KR")
    again = body(AppLanguage="ja-JP", SpeechLanguage="it-IT")
    service.open(service.post("report/init", again).json()["sessionLink"])
    assert _opened(service, "A2") == ("ja-JP", "it-IT")
    own = {"AppLanguage": "de-DE", "SpeechLanguage": "pl-PL"}
    assert _opened(service, "A3", reportingApp=own) == ("de-DE", "pl-PL")
    assert _opened(service, "A4") == ("ja-JP", "it-IT")
    other = user(READER, "Rea Der")
    assert _opened(service, "A5", userInfo=other) == ("en-US", "en-US")


def _opened(service: Service, accession: str, **changes: Any) -> tuple[str, str]:
    """Launch for the pre-warmed user in the same browser; return the report's languages."""
    launch = {"userInfo": body()["userInfo"], **changes}
    link = service.launch(accession=accession, **launch).json()["reportLink"]
    opened = service.open(link)
    speech = service.session(opened)("dictation").json()["language"]
    return boot(opened)["locale"], speech
