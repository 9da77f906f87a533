"""The launch endpoint (interface reference, POST /api/report/launch/clinical)."""

import asyncio
import base64
import os
import secrets
from datetime import UTC, datetime
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from PIL import Image

from bridge.engine.http.engine_application import create_application
from bridge.engine.records.tables import metadata
from bridge.engine.settings import EngineSettings
from bridge.store.database import Database
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    BASE,
    FOREIGN,
    OTHER,
    READER,
    Service,
    boot,
    identity,
    launch_body,
    user,
)
from tests.eventually import eventually
from tests.processes import FORKED


def test_the_database_contains_no_readable_part_of_a_link(service: Service) -> None:
    """Links: only the hash of the handle and a sealed payload are stored."""
    body = service.launch(lazyLaunch=True, tags={"PatientName": "CANARY^NAME"}).json()
    token = body["reportLink"].partition("?token=")[2]
    with service.database.read() as connection:
        rows = connection.exec_driver_sql("SELECT * FROM engine_link").all()
    stored = repr(rows)
    assert "CANARY" not in stored
    assert token not in stored


def test_a_lazy_launch_of_a_draft_changes_nothing(service: Service) -> None:
    """The response has the status and the owner of the existing report."""
    service.launch(READER)
    body = service.launch(OTHER, lazyLaunch=True).json()
    assert (body["status"], body["owner"]["email"]) == ("Draft", READER)


def test_register_order_creates_an_ordered_report(service: Service) -> None:
    """Our extension: the worklist contains the order, empty and unassigned."""
    body = service.launch("service", lazyLaunch=True, registerOrder=True).json()
    assert (body["status"], body["owner"], body["reportStatus"]) == ("PreLaunch", {}, "Ordered")
    record = service.status()
    assert (record["status"], record["userEmail"]) == ("Ordered", "")
    assert record["hasContent"] is False


def test_register_order_needs_a_lazy_launch(service: Service) -> None:
    assert service.launch(registerOrder=True).status_code == 400


def test_register_order_does_not_change_a_signed_report(service: Service) -> None:
    """The response has a warning."""
    service.launch()
    service.post("report/sign", {"clinicalInfo": identity()})
    body = service.launch(lazyLaunch=True, registerOrder=True, tags={"Modality": "MR"}).json()
    assert (body["status"], body["warnings"]) == ("Final", ["report_signed"])


def test_an_eager_launch_of_an_order_assigns_it(service: Service) -> None:
    """An Ordered report becomes a Draft of the launching user, with its key findings."""
    tags = {"KeyFindings": "Nodule, 4 mm"}
    service.launch("service", lazyLaunch=True, registerOrder=True, tags=tags)
    body = service.launch(READER).json()
    assert (body["status"], body["owner"]["email"]) == ("Draft", READER)
    assert service.get("report/content", **identity()).json()["content"] == "Nodule, 4 mm"


def test_options_of_a_qr_code_do_not_matter_for_a_link(service: Service) -> None:
    """QrCodeOptions applies only when type is qrcode or all."""
    response = {"type": "link", "qrCodeOptions": {"size": "huge"}}
    assert service.launch(response=response).status_code == 200


def test_a_repeated_launch_fills_in_tags_and_findings(service: Service) -> None:
    """Non-empty values replace; key findings are used only while the report is empty."""
    service.launch(tags={"Modality": "CT", "StudyDescription": "Chest"})
    service.launch(tags={"Modality": "MR", "StudyDescription": "", "KeyFindings": "one"})
    service.launch(tags={"KeyFindings": "two"})
    export = service.post("report/export/json", {"clinicalInfo": identity()}).json()
    assert export["clinicalInfo"][0]["Modality"] == "MR"
    assert export["clinicalInfo"][0]["StudyDescription"] == "Chest"
    assert export["reportInfo"]["content"] == "one"


def test_key_images_are_kept_once(service: Service) -> None:
    """keyImages: the same picture in one or in two requests is stored once."""
    buffer = BytesIO()
    Image.new("RGB", (4, 4), (200, 10, 10)).save(buffer, "PNG")
    image = {"imageData": base64.b64encode(buffer.getvalue()).decode(), "contentType": "image/png"}
    for _ in range(2):
        assert service.launch(keyImages=[image, image]).status_code == 200
    with service.database.read() as connection:
        count = connection.exec_driver_sql("SELECT count(*) FROM engine_report_file").scalar()
    assert count == 1


@pytest.mark.parametrize("more", [0, 20])
def test_a_batch_returns_one_result_per_launch(service: Service, more: int) -> None:
    """Our extension: a response or problem for each, in order; a refused launch stores nothing."""
    batch: list[Any] = [
        launch_body("A1", lazyLaunch=True, registerOrder=True, tags={"PatientName": "DOE^JANE"}),
        launch_body("A2", lazyLaunch=True, registerOrder=True, tags={"PatientName": "ROE^JANE"}),
        {"clinicalInfo": 5},
        launch_body("A1", lazyLaunch=True, registerOrder=True, tags={"Modality": "MR"}),
        launch_body("A3", userInfo=user(name="")),
        launch_body("A4", site="NOWHERE"),
        launch_body("A5", tags={"PatientMRN": "a@b.test"}),
        *[{"clinicalInfo": 5}] * more,
    ]
    response = service.post("report/launch/clinical/batch", batch, "service")
    assert response.status_code == 200
    found = [(row["status"], row.get("code", "")) for row in response.json()]
    assert found == [
        ("PreLaunch", ""),
        (409, "patient_name_mismatch"),
        (400, "invalid_request"),
        ("PreLaunch", ""),
        ("Draft", ""),
        (404, "site_not_found"),
        (400, "placeholder_identifier"),
        *[(400, "invalid_request")] * more,
    ]
    items = service.get("worklist", SiteID="SITE1").json()["items"]
    assert {item["orders"][0]["Accession"] for item in items} == {"A1", "A3"}


WRONG: dict[str, dict[str, Any]] = {
    "Metadata as text": {"tags": {"Metadata": "x"}},
    "Metadata as list": {"tags": {"Metadata": []}},
    "user without an address": {"userInfo": {"UserEmail": "no address", "UserName": "N"}},
}


def test_invalid_launches_are_400_and_create_nothing(service: Service) -> None:
    """Launch: each is refused with its place, lazy launches too."""
    for name, changes in WRONG.items():
        for lazy in ({}, {"lazyLaunch": True}):
            response = service.launch(**{**lazy, **changes})
            assert response.status_code == 400, (name, response.text)
            assert response.json()["errors"][0]["pointer"]
    assert service.get("worklist", SiteID="SITE1").json()["items"] == []


def test_a_batch_has_a_limit(service: Service) -> None:
    """A batch with more launches than the settings allow is refused."""
    engine = service.application.state.engine
    engine.settings = EngineSettings(engine.settings.link_keys)
    response = service.post("report/launch/clinical/batch", [{}] * 501, "service")
    assert (response.status_code, response.json()["code"]) == (400, "batch_too_large")


def test_every_missing_tag_is_reported(service: Service) -> None:
    """`errors` has the place of each error."""

    def places(body: Any) -> set[str]:
        response = service.post("report/launch/clinical", body)
        assert response.status_code == 400, response.text
        return {error["pointer"] for error in response.json()["errors"]}

    both = {"/clinicalInfo/PatientMRN", "/clinicalInfo/Accession"}
    body = launch_body()
    for name in ("PatientMRN", "Accession"):
        body["clinicalInfo"][name] = " "
    assert places(body) == both
    del body["clinicalInfo"]["SiteID"], body["clinicalInfo"]["Accession"]
    assert places(body) == {"/clinicalInfo/SiteID", *both}
    del body["reportingApp"]
    assert places({**body, "lazyLaunch": "{x}"}) == {
        *("/clinicalInfo/SiteID", "/reportingApp", "/lazyLaunch"),
        *both,
    }
    one = launch_body(mrn="")
    assert places(one) == {"/clinicalInfo/PatientMRN"}
    (problem,) = service.post("report/launch/clinical/batch", [{"clinicalInfo": {}}]).json()
    assert both < {error["pointer"] for error in problem["errors"]}


@pytest.mark.parametrize("hidden", ["\n", "\r\n", "\t", "\u202e", "\u2066", "\u200b", "\ufeff"])
def test_identifiers_have_no_invisible_characters(service: Service, hidden: str) -> None:
    """Identifiers that look equal are equal: others are 400 with the place, on every route."""
    for name, changes in (
        ("PatientMRN", {"mrn": f"P{hidden}1"}),
        ("Accession", {"accession": f"A{hidden}1"}),
    ):
        refused = service.launch(**changes)
        assert refused.status_code == 400
        assert refused.json()["errors"][0]["pointer"] == f"/clinicalInfo/{name}"
        status = service.post("report/status", {"clinicalInfo": [identity(**changes)]})
        assert status.json()["errors"][0]["pointer"] == f"/clinicalInfo/0/{name}"
    merge = {"SiteID": "SITE1", "PatientMRN": "P1", "PriorPatientMRN": f"P{hidden}0"}
    assert service.post("patient/merge", merge).json()["errors"][0]["pointer"] == "/PriorPatientMRN"
    content = service.get("report/content", **identity(mrn=f"P{hidden}1"))
    assert (content.status_code, content.json()["errors"][0]["pointer"]) == (400, "PatientMRN")


def test_a_name_in_two_scripts_is_one_name(service: Service) -> None:
    """The component groups of a person name are compared one by one."""
    first = service.launch(tags={"PatientName": "Yamada^Tarou=山田^太郎"})
    same = service.launch(accession="A2", tags={"PatientName": "山田^太郎"})
    other = service.launch(accession="A3", tags={"PatientName": "山田^花子"})
    assert (first.status_code, same.status_code, other.status_code) == (200, 200, 409)


def test_an_administrator_launches_for_an_unknown_user(service: Service) -> None:
    """Authentication 6: unknown users are registered on the site at their first launch."""
    body = service.launch(userInfo=user("New.Person@Site1.test", "New Person")).json()
    assert body["owner"] == {"name": "New Person", "email": "new.person@site1.test"}
    members = service.get("admin/sites/SITE1/users").json()
    assert {"new.person@site1.test": "user"}.items() <= {
        member["email"]: member["role"] for member in members
    }.items()


def test_an_invalid_auth_is_refused_or_reported(service: Service) -> None:
    """403 if the header token is not sufficient, else a warning."""
    invalid = (
        ("rbt_unknown", "auth_invalid"),
        (service.tokens[FOREIGN], "user_not_permitted"),
        (service.tokens[READER], "user_not_permitted"),
    )
    for number, (token, code) in enumerate(invalid):
        for lazy in (False, True):
            named: dict[str, Any] = {"userInfo": user(Auth=token), "lazyLaunch": lazy}
            refused = service.launch(READER, accession=f"R{number}", **named)
            assert (refused.status_code, refused.json()["code"]) == (403, code)
            assert refused.json()["errors"][0]["pointer"] == "/userInfo/Auth"
            assert service.launch(FOREIGN, **named).status_code == 403
            warned = service.launch(accession=f"W{number}{lazy}", **named)
            assert (warned.status_code, warned.json()["warnings"]) == (200, ["auth_ignored"])
            registered = service.launch(
                accession=f"O{number}{lazy}", registerOrder=True, **{**named, "lazyLaunch": True}
            )
            assert registered.json()["warnings"] == ["auth_ignored"]
    batch = [launch_body("B1", userInfo=user(Auth="rbt_unknown")), launch_body("B2")]
    first, second = service.post("report/launch/clinical/batch", batch, READER).json()
    assert (first["status"], second["status"]) == (403, "Draft")
    good = service.launch(accession="G1", userInfo=user(Auth=service.tokens[ADMIN]))
    assert good.json()["warnings"] == []


def test_a_plain_user_launches_for_members_only(service: Service) -> None:
    """Authentication 3 and 5: launching for other users requires a site administrator."""
    assert service.launch(READER, userInfo=user(OTHER)).json()["owner"]["email"] == OTHER
    for more in ({}, {"Auth": ""}):
        assert service.launch(READER, userInfo=user("x@site1.test", **more)).status_code == 403


def test_a_service_token_must_name_a_user(service: Service) -> None:
    """The report of an eager launch always has an owner."""
    assert service.launch("service").status_code == 400
    assert service.launch("service", userInfo=user()).json()["owner"]["email"] == READER


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
    emails = [row["email"] for row in service.get("admin/sites/SITE1/users").json()]
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


def killed_inside(url: str, key: bytes, now: int, link: str) -> None:
    """Open a link, and exit after the report's row is written and before the commit."""
    from sqlalchemy import event  # noqa: PLC0415

    database = Database(url)

    @event.listens_for(database.engine, "after_cursor_execute")
    def die(connection: object, cursor: object, statement: str, *rest: object) -> None:
        if statement.startswith("INSERT INTO engine_report "):
            os._exit(9)

    settings = EngineSettings((("1", key),), public_url=BASE, threads=1)
    application = create_application(settings, database, clock=lambda: now)

    async def opening() -> None:
        transport = httpx.ASGITransport(app=application)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            await client.get(link.removeprefix(BASE))

    asyncio.run(opening())


def test_a_process_killed_during_an_opening_leaves_no_report(service: Service) -> None:
    """The report is created in one transaction, and the link can be opened again."""
    key, engine = secrets.token_bytes(32), service.application.state.engine
    engine.keys = type(engine.keys)((("1", key),), secrets.token_bytes)
    link = service.launch(
        userInfo=user(READER), lazyLaunch=True, tags={"KeyFindings": "Nodule"}
    ).json()["reportLink"]
    url = service.database.engine.url.render_as_string(hide_password=False)
    arguments = (url, key, service.clock.now, link)
    process = FORKED.Process(target=killed_inside, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == 9
    with service.database.read() as connection:
        assert connection.execute(metadata.tables["engine_report"].select()).all() == []

    def opened() -> httpx.Response | None:
        page = service.open(link)
        return page if page.status_code == 200 else None

    page = eventually(opened)  # after PostgreSQL has detected the end of the process
    assert page is not None
    assert boot(page)["transfer"] is False
    assert service.get("report/content", **identity()).json()["content"] == "Nodule"


MERGE = {"SiteID": "SITE1", "PatientMRN": "KEPT", "PriorPatientMRN": "OLD"}


def launched(service: Service, accession: str, mrn: str, birth: str, **options: Any) -> int:
    tags = {"PatientMRN": mrn, "PatientName": "SAME^NAME", "PatientBirthDate": birth}
    return service.launch(accession=accession, mrn=mrn, tags=tags, **options).status_code


def test_another_birth_date_is_another_person(service: Service) -> None:
    """A launch with the merged number is refused, and accepted when the merge is undone."""
    assert launched(service, "A1", "KEPT", "19800203") == 200
    assert service.post("patient/merge", MERGE).status_code == 200
    assert launched(service, "A2", "OLD", "19800203") == 200
    assert launched(service, "A3", "OLD", "1961-06-07") == 409
    assert launched(service, "A3", "OLD", "19610607", lazyLaunch=True) == 409
    for _ in range(2):
        assert service.post("patient/unmerge", MERGE).status_code == 200
    assert launched(service, "A3", "OLD", "19610607") == 200
    rows = service.get("worklist", SiteID="SITE1").json()["items"]
    found = {
        listed["Accession"]: listed["PatientMRN"] for row in rows for listed in row["clinicalInfo"]
    }
    assert found == {"A1": "KEPT", "A2": "KEPT", "A3": "OLD"}
