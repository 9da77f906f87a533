"""Administration of sites, users, tokens, groups and templates over HTTP."""

from tests.bridge.engine.http.engine_service import ADMIN, FOREIGN, READER, Service, identity


def test_only_a_service_token_creates_sites(service: Service) -> None:
    """A site administrator cannot create sites."""
    body = {"SiteID": "SITE3", "timeZone": "Europe/Vienna", "signDelay": 30}
    assert service.post("admin/sites", body).status_code == 403
    made = service.post("admin/sites", body, "service")
    assert made.status_code == 201
    assert made.json()["signDelay"] == 30
    assert service.post("admin/sites", body, "service").json()["code"] == "site_exists"
    assert [each["SiteID"] for each in service.get("admin/sites").json()] == ["SITE1"]
    assert len(service.get("admin/sites", "service").json()) == 3


def test_invalid_site_settings_are_refused(service: Service) -> None:
    """Nothing changes."""
    before = service.get("admin/sites/SITE1").json()
    for wrong in (
        {"timeZone": "Mars/Base"},
        {"signDelay": -1},
        {"signDelay": 86_401},
        {"signDelay": "60"},
        {"locations": "North"},
        {"hostOrigins": ["*"]},
    ):
        response = service.call("PUT", "/api/admin/sites/SITE1", json=wrong)
        assert response.status_code == 400, wrong
    assert service.get("admin/sites/SITE1").json() == before


def test_administrators_of_other_sites_are_refused(service: Service) -> None:
    for path in ("", "/users", "/tokens", "/prelim-groups", "/templates"):
        assert service.get(f"admin/sites/SITE1{path}", FOREIGN).status_code == 403
        assert service.get(f"admin/sites/SITE1{path}", READER).status_code == 403
        assert service.get(f"admin/sites/NOWHERE{path}", FOREIGN).status_code == 404
    body = {"email": FOREIGN, "name": "F", "role": "administrator"}
    assert service.post("admin/sites/SITE1/users", body, FOREIGN).status_code == 403


def test_configured_groups_limit_preliminary_reads(service: Service) -> None:
    """prelim: with configured groups, any other group or tag is refused."""
    group = {"name": "Night", "tags": ["Resident"]}
    assert service.post("admin/sites/SITE1/prelim-groups", group).status_code == 200
    service.launch()
    body = {"clinicalInfo": identity(), "prelimGroup": "Day", "prelimTag": "Resident"}
    assert service.post("report/prelim", body).json()["code"] == "unknown_prelim_group"
    body |= {"prelimGroup": "Night", "prelimTag": "Fellow"}
    assert service.post("report/prelim", body).json()["code"] == "unknown_prelim_tag"
    body["prelimTag"] = "Resident"
    assert service.post("report/prelim", body).status_code == 200
    found = service.get("admin/sites/SITE1/prelim-groups").json()
    assert [(each["name"], each["tags"]) for each in found] == [("Night", ["Resident"])]


def test_templates_are_numbered(service: Service) -> None:
    """A template is set, replaced, listed and removed; an invalid document is refused."""
    path = "/api/admin/sites/SITE1/templates/3"
    section = {"type": "section", "title": "Findings"}
    document = {"type": "doc", "content": [section]}
    for name in ("Chest", "Chest CT"):
        response = service.call("PUT", path, json={"name": name, "document": document})
        assert response.status_code == 200
    listed = service.get("admin/sites/SITE1/templates").json()
    assert [(each["number"], each["name"]) for each in listed] == [(3, "Chest CT")]
    bad = {"name": "Bad", "document": {"type": "html"}}
    assert service.call("PUT", path, json=bad).status_code == 400
    assert service.call("DELETE", path).status_code == 200
    assert service.call("DELETE", path).status_code == 404


def test_the_role_of_a_user_can_be_changed(service: Service) -> None:
    """The new role has effect on the next request."""
    assert service.post("report/status", {"clinicalInfo": [identity()]}, READER).status_code == 403
    body = {"email": READER, "name": "Reader", "role": "administrator"}
    assert service.post("admin/sites/SITE1/users", body, ADMIN).status_code == 200
    assert service.post("report/status", {"clinicalInfo": [identity()]}, READER).status_code == 404
