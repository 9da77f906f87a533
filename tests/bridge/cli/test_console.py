"""`bridge console` grants, lists and revokes roles of accounts."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from bridge.admin.access import grants
from bridge.store.databases import bridge_database
from tests.bridge.cli.home import Home
from tests.databases import create_migrated_home

CHIEF = ("--role", "system-administrator")


def listed(home: Home) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(home.ok("console", "list", "--json"))
    return found


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    create_migrated_home(made.folder)
    (made.folder / "bridge.toml").write_text("", "utf-8")
    for site in ("S1", "S2"):
        made.ok("site", "add", site)
    for name in ("ada", "bob"):
        made.ok("user", "add", f"{name}@example.org", "--site", "S1", "--name", name)
    return made


def test_grant_list_and_revoke(home: Home) -> None:
    """A wider role prints a link, a narrower one does not. The last grant is active."""
    grant = ("console", "grant", "Ada@example.org", "--role")
    first = home.ok(*grant, "viewer", "--bodies").splitlines()
    assert first[0] == "Ada@example.org is viewer in the console"
    assert "/reporting/enrol?token=" in first[1]
    limited = json.loads(home.ok(*grant, "site-administrator", "--site", "S1", "--json"))
    assert limited["link"]
    narrowed = json.loads(home.ok(*grant, "viewer", "--site", "S1", "--json"))
    assert narrowed["link"] is None
    (row,) = listed(home)
    assert row.pop("account_id")
    assert row == {
        "email": "ada@example.org",
        "role": "viewer",
        "bodies": False,
        "sites": ["S1"],
        "pending": True,
        "second_factor": False,
        "disabled": False,
    }
    for expect in (0, 1):
        home.ok("console", "revoke", "ada@example.org", expect=expect)


def test_a_user_with_a_console_role_gets_one_link(home: Home) -> None:
    """`user add --console` prints the one link that is valid."""
    rights = ("--console", "viewer", "--bodies")
    lines = home.ok(
        *("user", "add", "eve@example.org", "--site", "S1", "--name", "Eve"), *rights
    ).splitlines()
    assert [line for line in lines if "/reporting/enrol?token=" in line] == lines[-1:]
    (row,) = listed(home)
    assert (row["email"], row["role"], row["bodies"]) == ("eve@example.org", "viewer", True)
    for wrong in (("--bodies",), ("--console", "chief")):
        home.ok(
            *("user", "add", "fay@example.org", "--site", "S1", "--name", "Fay", *wrong), expect=2
        )


def test_unknown_address_or_site(home: Home) -> None:
    """An unknown address or site is refused, and leaves no role."""
    home.ok("console", "grant", "aad@example.org", *CHIEF, expect=1)
    for site in ("S3", "s1"):
        home.ok(
            *("console", "grant", "ada@example.org", "--role", "viewer", "--site", site), expect=1
        )
    assert listed(home) == []


def test_account_of_a_pending_role(home: Home) -> None:
    """A site that later adds the address gets this account, and no link."""
    link = home.ok("console", "grant", "new@example.org", *CHIEF, "--pending").splitlines()[1]
    assert "/reporting/enrol?token=" in link
    (before,) = listed(home)
    assert before["pending"]
    home.ok("user", "add", "NEW@example.org", "--site", "S2", "--name", "Mallory", "--admin")
    (after,) = listed(home)
    assert after["account_id"] == before["account_id"]


def test_the_last_system_administrator_stays_without_force(home: Home) -> None:
    """The last one cannot be revoked, demoted or disabled. A disabled one does not count."""
    for name in ("ada", "bob"):
        home.ok("console", "grant", f"{name}@example.org", *CHIEF)
    home.ok("user", "disable", "bob@example.org")
    assert {row["email"]: row["disabled"] for row in listed(home)} == {
        "ada@example.org": False,
        "bob@example.org": True,
    }
    ada = "ada@example.org"
    home.ok("console", "revoke", ada, expect=1)
    home.ok("console", "grant", ada, "--role", "viewer", expect=1)
    home.ok("user", "disable", ada, expect=1)
    assert {row["role"] for row in listed(home)} == {"system-administrator"}
    home.ok("user", "enable", "bob@example.org")
    home.ok("user", "disable", ada)
    home.ok("user", "disable", "bob@example.org", "--force")


@pytest.mark.parametrize(
    "role", [["site-administrator"], ["system-administrator", "--site", "S1"], ["emperor"]]
)
def test_invalid_grants(home: Home, role: list[str]) -> None:
    """The number of sites must match the role, and an unknown role is refused."""
    assert home.run("console", "grant", "ada@example.org", "--role", *role).exit_code != 0


def test_roles_of_addresses_become_roles_of_accounts_at_the_upgrade(home: Home) -> None:
    """The upgrade creates one reserved account for an address without an account."""
    old = text("""
        INSERT INTO console_grant (email, role, bodies, sites, granted_at, granted_by)
        VALUES (:email, 'system-administrator', 0, '', 1, 'test')
    """)
    with bridge_database(home.folder) as database:
        with database.write() as connection:
            connection.execute(old, [{"email": "ada@example.org"}, {"email": "ghost@example.org"}])
        home.ok("migrate")
        assert grants.grants_without_account(database) == []
    rows = {row["email"]: row for row in listed(home)}
    assert set(rows) == {"ada@example.org", "ghost@example.org"}
    assert all(row["account_id"] and row["pending"] for row in rows.values())
    link = home.ok("user", "enrol", "ghost@example.org")
    assert "/reporting/enrol?token=" in link
