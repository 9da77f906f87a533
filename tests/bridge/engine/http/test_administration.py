"""Administration of sites, users, tokens, groups and templates over HTTP."""

from tests.bridge.engine.http.engine_service import ADMIN, FOREIGN, READER, Service, identity


def test_only_a_service_token_creates_sites(service: Service) -> None:
    """A site administrator administers own sites and makes no others."""
    body = {"SiteID": "SITE3", "timeZone": "Europe/Vienna", "signDelay": 30}
    assert service.post("admin/sites", body).status_code == 403
    made = service.post("admin/sites", body, "service")
    assert made.status_code == 201
    assert made.json()["signDelay"] == 30
    assert service.post("admin/sites", body, "service").json()["code"] == "site_exists"
    assert [each["SiteID"] for each in service.get("admin/sites").json()] == ["SITE1"]
    assert len(service.get("admin/sites", "service").json()) == 3


def test_settings_that_make_no_sense_are_refused(service: Service) -> None:
    """Each with its place, and nothing changes."""
    before = service.get("admin/sites/SITE1").json()
    for wrong in (
        {"timeZone": "Mars/Base"},
        {"signDelay": -1},
        {"signDelay": 86_401},
        {"signDelay": "60"},
        {"locations": "North"},
        {"hostOrigins": ["*"]},
    ):
        answer = service.call("PUT", "/api/admin/sites/SITE1", json=wrong)
        assert answer.status_code == 400, wrong
    assert service.get("admin/sites/SITE1").json() == before


def test_foreign_administrators_are_kept_out(service: Service) -> None:
    """Only administrators of a site may change it."""
    for path in ("", "/users", "/tokens", "/prelim-groups", "/templates"):
        assert service.get(f"admin/sites/SITE1{path}", FOREIGN).status_code == 403
        assert service.get(f"admin/sites/SITE1{path}", READER).status_code == 403
        assert service.get(f"admin/sites/NOWHERE{path}", FOREIGN).status_code == 404
    body = {"email": FOREIGN, "name": "F", "role": "administrator"}
    assert service.post("admin/sites/SITE1/users", body, FOREIGN).status_code == 403


def test_configured_groups_decide_what_prelim_takes(service: Service) -> None:
    """prelim: with groups set up, any other group or tag is refused."""
    group = {"name": "Night", "tags": ["Resident"]}
    assert service.post("admin/sites/SITE1/prelim-groups", group).status_code == 200
    service.launch()
    body = {"clinicalInfo": identity(), "prelimGroup": "Day", "prelimTag": "Resident"}
    assert service.post("report/prelim", body).json()["code"] == "unknown_prelim_group"
    body["prelimGroup"] = "Night"
    assert service.post("report/prelim", body).status_code == 200
    found = service.get("admin/sites/SITE1/prelim-groups").json()
    assert [(each["name"], each["tags"]) for each in found] == [("Night", ["Resident"])]


def test_templates_are_numbered(service: Service) -> None:
    """Set, replaced, listed, removed; the document must be one of ours."""
    path = "/api/admin/sites/SITE1/templates/3"
    section = {"type": "section", "title": "Findings"}
    document = {"type": "doc", "content": [section]}
    for name in ("Chest", "Chest CT"):
        answer = service.call("PUT", path, json={"name": name, "document": document})
        assert answer.status_code == 200
    listed = service.get("admin/sites/SITE1/templates").json()
    assert [(each["number"], each["name"]) for each in listed] == [(3, "Chest CT")]
    bad = {"name": "Bad", "document": {"type": "html"}}
    assert service.call("PUT", path, json=bad).status_code == 400
    assert service.call("DELETE", path).status_code == 200
    assert service.call("DELETE", path).status_code == 404


def test_a_users_role_may_be_changed(service: Service) -> None:
    """An administrator by name is one from then on."""
    assert service.post("report/status", {"clinicalInfo": [identity()]}, READER).status_code == 403
    body = {"email": READER, "name": "Reader", "role": "administrator"}
    assert service.post("admin/sites/SITE1/users", body, ADMIN).status_code == 200
    assert service.post("report/status", {"clinicalInfo": [identity()]}, READER).status_code == 404
