"""Administration of sites, users, tokens, groups and templates over HTTP."""

import base64
from io import BytesIO

from PIL import Image

from tests.bridge.engine.http.engine_service import ADMIN, READER, Service, identity, user


def test_only_a_service_token_creates_sites(service: Service) -> None:
    """A site administrator cannot create sites."""
    body = {"SiteID": "SITE3", "timeZone": "Europe/Vienna", "signDelay": 30}
    assert service.post("admin/sites", body).status_code == 403
    made = service.post("admin/sites", body, "service")
    assert made.status_code == 201
    assert made.json()["signDelay"] == 30
    assert service.post("admin/sites", body, "service").json()["code"] == "site_exists"
    assert [row["SiteID"] for row in service.get("admin/sites").json()] == ["SITE1"]
    assert len(service.get("admin/sites", "service").json()) == 3


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
    assert [(row["name"], row["tags"]) for row in found] == [("Night", ["Resident"])]


def test_templates_are_numbered(service: Service) -> None:
    """A template is set, replaced, listed and removed; an invalid document is refused."""
    path = "/api/admin/sites/SITE1/templates/3"
    section = {"type": "section", "title": "Findings"}
    document = {"type": "doc", "content": [section]}
    for name in ("Chest", "Chest CT"):
        response = service.call("PUT", path, json={"name": name, "document": document})
        assert response.status_code == 200
    listed = service.get("admin/sites/SITE1/templates").json()
    assert [(row["number"], row["name"]) for row in listed] == [(3, "Chest CT")]
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


SITE = "/api/admin/sites/SITE1"


def png(size: tuple[int, int] = (6, 3)) -> bytes:
    picture = BytesIO()
    Image.new("RGB", size, "teal").save(picture, "PNG")
    return picture.getvalue()


def uri(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def test_members_change_one_by_one(service: Service) -> None:
    """PATCH: members that are not named keep their value; null restores the default."""
    response = service.call("PATCH", SITE, json={"locations": ["North"], "settings": {}})
    assert response.status_code == 200
    assert (response.json()["signDelay"], response.json()["locations"]) == (60, ["North"])
    response = service.call("PATCH", SITE, json={"signDelay": 5, "locations": None})
    assert (response.json()["signDelay"], response.json()["locations"]) == (5, [])
    assert service.call("PATCH", SITE, READER, json={"signDelay": 0}).status_code == 403
    for wrong in (
        {"signDelay": "5"},
        {"signDelay": -1},
        {"signDelay": 86_401},
        {"locations": "North"},
        {"settings": {"colour": "red"}},
        {"settings": {"AppLanguage": "tlh"}},
        {"settings": {"frameLinkSeconds": 1}},
        {"settings": {"pageSize": "B5"}},
        {"timeZone": "Mars/Base"},
        {"hostOrigins": ["*"]},
        {"footerImg": "https://elsewhere.test/a.png"},
        {"footerImg": uri(b"<svg onload=alert(1)>", "image/svg+xml")},
        {"headerImg": "%%%"},
    ):
        assert service.call("PATCH", SITE, json=wrong).status_code == 400, wrong
    assert service.get("admin/sites/SITE1").json()["signDelay"] == 5


def test_the_paper_size(service: Service) -> None:
    """settings.pageSize: A4 unless the site chooses Letter."""
    assert service.get("admin/sites/SITE1").json()["settings"]["pageSize"] == "A4"
    response = service.call("PATCH", SITE, json={"settings": {"pageSize": "Letter"}})
    assert response.json()["settings"]["pageSize"] == "Letter"
    assert service.get("admin/sites/SITE1").json()["settings"]["pageSize"] == "Letter"


def test_images_are_re_encoded(service: Service) -> None:
    """headerImg, footerImg and signatures: format and size are checked; hidden data is removed."""
    data = png() + b"hidden"
    change = {"headerImg": base64.b64encode(data).decode(), "headerImgType": "image/png"}
    assert service.call("PATCH", SITE, json={**change, "footerImg": uri(data)}).status_code == 200
    signature = f"{SITE}/users/{READER}/signature"
    assert service.call("PUT", signature, json={"signature": uri(data)}).status_code == 200
    service.launch(READER)
    service.post("report/sign", {"clinicalInfo": identity()})
    record = service.post("report/export/json", {"clinicalInfo": identity()}).json()
    shown = [
        base64.b64decode(record["siteInfo"]["headerImg"]),
        base64.b64decode(record["siteInfo"]["footerImg"].partition(",")[2]),
        base64.b64decode(record["reportInfo"]["signedBy"]["signature"].partition(",")[2]),
    ]
    assert record["siteInfo"]["headerImgType"] == "image/png"
    assert all(text.startswith(b"\x89PNG") and b"hidden" not in text for text in shown)
    large = uri(png((3000, 3000)))
    assert service.call("PUT", signature, json={"signature": large}).status_code == 400
    assert service.call("PATCH", SITE, json={"headerImg": None}).json()["headerImgType"] is None
    unknown = f"{SITE}/users/unknown@site1.test/signature"
    assert service.call("PUT", unknown, json={"signature": None}).status_code == 404


def test_the_site_configures_the_lifetime_of_links(service: Service) -> None:
    """For links with a user and for links that require signing in."""
    life = {"settings": {"frameLinkSeconds": 60, "loginLinkSeconds": 120}}
    assert service.call("PATCH", SITE, json=life).status_code == 200
    acting = service.launch(userInfo=user()).json()["reportLink"]
    other = service.launch(READER, userInfo=user()).json()["reportLink"]
    service.clock.pass_seconds(59)
    assert service.open(acting).status_code == 200
    service.clock.pass_seconds(2)
    assert "expired" in service.open(acting).text
    service.http.cookies.clear()
    assert "Sign in" in service.open(other).text
    service.clock.pass_seconds(60)
    assert "expired" in service.open(other).text


def test_a_site_can_disable_the_browser_route(service: Service) -> None:
    """GET /reporting/init has a token in the address."""
    address = "/reporting/init"
    query = {"SiteID": "SITE1", "Auth": service.tokens[ADMIN], "UserName": "R", "UserEmail": READER}
    assert service.call("GET", address, None, params=query).status_code == 303
    service.call("PATCH", SITE, json={"settings": {"browserInit": False}})
    assert service.call("GET", address, None, params=query).status_code == 403


def test_the_site_configures_the_inactivity_period(service: Service) -> None:
    """A session ends after it."""
    service.call("PATCH", SITE, json={"settings": {"sessionIdleSeconds": 300}})
    page = service.open_report()
    service.clock.pass_seconds(299)
    assert page("report").status_code == 200
    service.clock.pass_seconds(301)
    assert page("report").status_code == 401
