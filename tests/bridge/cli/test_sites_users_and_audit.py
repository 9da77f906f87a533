"""Commands that administer the internal engine of a data directory."""

import base64
import json
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from sqlalchemy import text

from tests.bridge.cli.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.init()
    made.ok("site", "add", "SITE1", "--name", "First", "--sign-delay", "60")
    made.ok("user", "add", "ann@site1.test", "--name", "Ann", "--site", "SITE1", "--admin")
    return made


def test_a_site_is_shown_and_changed(home: Home, tmp_path: Path) -> None:
    """`bridge site show|set|list` changes single members, and stores an image as encoded by us."""
    picture = BytesIO()
    Image.new("RGB", (8, 4), "navy").save(picture, "BMP")
    (tmp_path / "bad.bmp").write_bytes(picture.getvalue())
    picture = BytesIO()
    Image.new("RGB", (8, 4), "navy").save(picture, "PNG")
    (tmp_path / "logo.png").write_bytes(picture.getvalue() + b"hidden behind")
    home.ok(
        *("site", "set", "SITE1", "timeZone=Europe/Vienna", 'locations=["North","South"]'),
        *("settings.AppLanguage=de", "settings.frameLinkSeconds=600"),
        f"headerImg=@{tmp_path / 'logo.png'}",
    )
    site = json.loads(home.ok("site", "show", "SITE1", "--json"))
    assert (site["timeZone"], site["signDelay"], site["name"]) == ("Europe/Vienna", 60, "First")
    assert site["locations"] == ["North", "South"]
    assert site["settings"]["AppLanguage"] == "de-DE"
    assert site["settings"]["frameLinkSeconds"] == 600
    assert site["headerImgType"] == "image/png"
    assert b"hidden" not in base64.b64decode(site["headerImg"])
    assert "headerImg      set" in home.ok("site", "show", "SITE1")
    home.ok("site", "set", "SITE1", "headerImg=null", "settings.AppLanguage=null")
    site = json.loads(home.ok("site", "show", "SITE1", "--json"))
    assert site["headerImg"] is None
    assert site["settings"]["AppLanguage"] is None
    assert site["settings"]["frameLinkSeconds"] == 600
    assert [load["SiteID"] for load in json.loads(home.ok("site", "list", "--json"))] == ["SITE1"]
    for wrong in (
        *("timeZone=Mars/Base", "signDelay=soon", "colour=red", "settings.colour=red"),
        *(f"headerImg=@{tmp_path / 'bad.bmp'}", "hostOrigins=[1,{}]", "settings=3"),
    ):
        assert home.run("site", "set", "SITE1", wrong).exit_code != 0, wrong
    assert home.run("site", "show", "NOWHERE").exit_code != 0
    assert json.loads(home.ok("site", "show", "SITE1", "--json")) == site


def test_users_and_tokens_are_listed_and_tokens_end(home: Home) -> None:
    """`bridge user list` and `bridge token list|revoke` never show a secret."""
    users = json.loads(home.ok("user", "list", "--site", "SITE1", "--json"))
    assert [(user["email"], user["role"]) for user in users] == [
        ("ann@site1.test", "administrator")
    ]
    secret = home.ok("token", "create", "--user", "ann@site1.test", "--label", "x").strip()
    listed = home.ok("token", "list", "--json")
    assert secret not in listed
    token = json.loads(listed)[0]
    assert (token["email"], token["revoked_at"]) == ("ann@site1.test", None)
    home.ok("token", "revoke", str(token["id"]))
    token = json.loads(home.ok("token", "list", "--site", "SITE1", "--json"))[0]
    assert token["revoked_at"] is not None
    assert home.run("token", "revoke", "4711").exit_code != 0
    assert home.run("token", "list", "--site", "NOWHERE").exit_code != 0


def test_commands_are_audited(home: Home) -> None:
    """The trail records the commands, their actor, and reading the trail itself."""
    home.ok("site", "set", "SITE1", "signDelay=0")
    events = json.loads(home.ok("audit", "list", "--json"))
    assert [row["action"] for row in events] == ["site-update", "user-update", "site-create"]
    assert all(row["details"]["command"] for row in events)
    assert events[0]["details"]["members"] == ["signDelay"]
    assert events[0]["after"] == {"signDelay": 0}
    assert events[1]["target"] == {"type": "user", "id": "ann@site1.test"}
    for event in events:
        assert (event["actor"], event["origin"]) == (event["details"]["command"], "cli")
        assert "pid" in event["source"]
    events = json.loads(home.ok("audit", "list", "--action", "audit-read", "--json"))
    assert len(events) == 1


def test_verify_names_the_first_broken_entry(home: Home) -> None:
    """`bridge audit verify` exits with 0 for a valid chain, else with 1 and the place."""
    output = home.ok("audit", "verify")
    head = output.split()[-1]
    assert output.startswith("ok: 2 entries")
    home.ok("site", "set", "SITE1", "signDelay=0")
    home.ok("audit", "verify", "--head", head)
    with home.database().write() as connection:
        connection.execute(text("UPDATE engine_audit_event SET action = 'x' WHERE sequence = 2"))
    result = home.run("audit", "verify")
    assert result.exit_code == 1
    assert "broken at entry 2" in result.stdout


def test_a_stored_head_detects_a_shortened_trail(home: Home) -> None:
    """A shortened chain is valid but lacks the stored head."""
    head = home.ok("audit", "verify").split()[-1]
    with home.database().write() as connection:
        connection.execute(text("DELETE FROM engine_audit_event WHERE sequence = 2"))
    home.ok("audit", "verify")
    assert home.run("audit", "verify", "--head", head).exit_code == 1


def test_a_stored_head_detects_a_recomputed_chain(home: Home) -> None:
    """`bridge audit head` prints number and hash; both must be in the chain later."""
    head = home.ok("audit", "head").strip()
    assert head.split()[0] == "2"
    home.ok("site", "set", "SITE1", "signDelay=0")
    home.ok("audit", "verify", "--head", head)
    assert home.run("audit", "verify", "--head", head.replace("2 ", "1 ", 1)).exit_code == 1
    assert home.run("audit", "verify", "--head", "nonsense").exit_code != 0
    with home.database().write() as connection:
        connection.execute(text("DELETE FROM engine_audit_event"))
    home.ok("site", "set", "SITE1", "signDelay=1")
    home.ok("audit", "verify")
    assert home.run("audit", "verify", "--head", head).exit_code == 1


def test_the_export_is_fhir(home: Home) -> None:
    """`bridge audit export` prints one AuditEvent a line, by site and by time."""
    lines = [
        json.loads(line) for line in home.ok("audit", "export", "--site", "SITE1").splitlines()
    ]
    assert {line["resourceType"] for line in lines} == {"AuditEvent"}
    created = lines[0]
    assert created["meta"]["profile"][0].endswith("IHE.BasicAudit.Create")
    assert created["action"] == "C"
    assert created["subtype"][0]["code"] == "create"
    events = home.ok("audit", "export", "--site", "OTHER").splitlines()
    assert [json.loads(line)["subtype"][1]["code"] for line in events] == ["audit-export"]
    assert home.ok("audit", "export", "--since", "2999-01-01") == ""


def test_a_user_has_a_name_and_a_role_for_each_site(home: Home) -> None:
    """`bridge user add` changes the name and role at one site only."""
    home.ok("site", "add", "SITE2")
    home.ok("user", "add", "ann@site1.test", "--name", "Ann Two", "--site", "SITE2")
    known = {}
    for site in ("SITE1", "SITE2"):
        (ann,) = json.loads(home.ok("user", "list", "--site", site, "--json"))
        known[site] = (ann["name"], ann["role"])
    assert known == {"SITE1": ("Ann", "administrator"), "SITE2": ("Ann Two", "user")}
