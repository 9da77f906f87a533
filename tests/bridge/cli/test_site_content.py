"""Commands that set the groups, templates, codes and signatures of a site."""

import json
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from sqlalchemy import text

from tests.bridge.cli.home import Home
from tests.bridge.cli.test_sites_users_and_audit import home

__all__ = ["home"]

MRRT = """<html><head><title>Chest CT</title></head><body>
<section data-section-name="Findings"><header>Findings</header><p>Lungs: clear</p></section>
<script>alert(1)</script></body></html>"""
CODES = "system,match,code,description\nicd10,nodule,R91.1,Solitary nodule\ncpt,CT1,71250,\n"


def test_prelim_groups(home: Home) -> None:
    """`bridge site groups set|list` replaces a group completely."""
    home.ok("site", "groups", "set", "SITE1", "Night", "--tag", "Resident", "--tag", "Fellow")
    home.ok("site", "groups", "set", "SITE1", "Night", "--tag", "Resident", "--reviewer", "a@b.c")
    (group,) = json.loads(home.ok("site", "groups", "list", "SITE1", "--json"))
    assert (group["name"], group["tags"]) == ("Night", ["Resident"])
    assert (group["members"], group["reviewers"]) == ([], ["a@b.c"])
    assert home.run("site", "groups", "set", "NOWHERE", "Night", "--tag", "x").exit_code != 0
    assert home.run("site", "groups", "set", "SITE1", "Night").exit_code != 0


def test_templates(home: Home, tmp_path: Path) -> None:
    """`bridge site templates import|list|export|remove` handles MRRT, and removes its scripts."""
    file = tmp_path / "chest.html"
    file.write_text(MRRT, "utf-8")
    home.ok("site", "templates", "import", "SITE1", "7", str(file))
    (template,) = json.loads(home.ok("site", "templates", "list", "SITE1", "--json"))
    assert (template["number"], template["name"]) == (7, "Chest CT")
    written = home.ok("site", "templates", "export", "SITE1", "7")
    assert "Lungs: clear" in written
    assert "alert" not in written
    file.write_text(written, "utf-8")
    home.ok("site", "templates", "import", "SITE1", "8", str(file), "--name", "Again")
    again = json.loads(home.ok("site", "templates", "list", "SITE1", "--json"))[1]
    assert (again["name"], again["document"]) == ("Again", template["document"])
    home.ok("site", "templates", "remove", "SITE1", "7")
    for missing in (("export", "SITE1", "7"), ("remove", "SITE1", "7"), ("export", "NO", "8")):
        assert home.run("site", "templates", *missing).exit_code != 0


def test_codes(home: Home, tmp_path: Path) -> None:
    """`bridge site codes import|export` returns the imported codes. A bad file changes nothing."""
    file = tmp_path / "codes.csv"
    file.write_text(CODES, "utf-8")
    assert "2 rows" in home.ok("site", "codes", "import", "SITE1", str(file))
    assert home.ok("site", "codes", "export", "SITE1") == CODES
    file.write_text("system,match,code\nnone,x,y\n", "utf-8")
    refused = home.run("site", "codes", "import", "SITE1", str(file))
    assert refused.exit_code != 0
    assert "line 2" in str(refused.exception)
    assert home.ok("site", "codes", "export", "SITE1") == CODES


def test_signatures(home: Home, tmp_path: Path) -> None:
    """`bridge user signature` encodes, removes and refuses images."""
    file = tmp_path / "hand.png"
    picture = BytesIO()
    Image.new("RGB", (8, 4), "navy").save(picture, "PNG")
    file.write_bytes(picture.getvalue() + b"hidden behind")
    command = ("user", "signature", "ann@site1.test")
    home.ok(*command, "--image", str(file))
    assert signature(home).startswith("data:image/png;base64,")
    assert home.run("user", "signature", "nobody@site1.test", "--remove").exit_code != 0
    assert home.run(*command).exit_code != 0
    file.write_bytes(b"no picture")
    assert home.run(*command, "--image", str(file)).exit_code != 0
    home.ok(*command, "--remove")
    assert signature(home) == "None"


def signature(home: Home) -> str:
    database = home.database()
    with database.read() as connection:
        found = connection.execute(text("SELECT signature FROM engine_membership")).scalar_one()
    database.dispose()
    return str(found)


@pytest.mark.parametrize("command", ["groups", "templates", "codes"])
def test_commands_are_audited(home: Home, tmp_path: Path, command: str) -> None:
    """Each command is in the audit trail, written in its own transaction."""
    file = tmp_path / "file"
    file.write_text(CODES if command == "codes" else MRRT, "utf-8")
    home.ok(
        "site",
        *{
            "groups": ("groups", "set", "SITE1", "Night", "--tag", "x"),
            "templates": ("templates", "import", "SITE1", "1", str(file)),
            "codes": ("codes", "import", "SITE1", str(file)),
        }[command],
    )
    action = {"groups": "prelim-group", "templates": "template", "codes": "code-map"}[command]
    (first, *_) = json.loads(home.ok("audit", "list", "--json"))
    assert first["action"] == f"{action}-update"
