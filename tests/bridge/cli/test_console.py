"""`bridge console`: roles are given within their sense, limited to sites, listed and taken."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bridge.cli.application import application
from bridge.wiring.homes import make_home

RUN = CliRunner()


@pytest.fixture
def home(tmp_path: Path) -> str:
    """A home with its own database."""
    make_home(tmp_path / "home")
    (tmp_path / "home" / "bridge.toml").write_text("", "utf-8")
    return str(tmp_path / "home")


def test_a_role_is_given_for_sites_listed_and_taken(home: str) -> None:
    """The role in force is the last one given."""
    given = ["console", "grant", "Ada@example.org", "--home", home, "--role"]
    assert RUN.invoke(application, [*given, "viewer"]).exit_code == 0
    limited = [*given, "site-administrator", "--site", "S1", "--site", "S2", "--bodies"]
    assert RUN.invoke(application, limited).exit_code == 0
    listed = RUN.invoke(application, ["console", "list", "--home", home, "--json"])
    assert json.loads(listed.stdout) == [
        {
            "email": "ada@example.org",
            "role": "site-administrator",
            "bodies": True,
            "sites": ["S1", "S2"],
        }
    ]
    taken = ["console", "revoke", "ada@example.org", "--home", home]
    assert [RUN.invoke(application, taken).exit_code for _ in range(2)] == [0, 1]


def test_a_role_for_nobody_is_told(home: str) -> None:
    """It waits for whoever comes; more often it is a slip."""
    at = ["--home", home]
    for made in (["site", "add", "S1"], ["user", "add", "ada@example.org", "--site", "S1"]):
        RUN.invoke(application, [*made, "--name", "Ada", *at])
    for email, noted in (("ada@example.org", False), ("aad@example.org", True)):
        given = RUN.invoke(application, ["console", "grant", email, "--role", "viewer", *at])
        assert given.exit_code == 0, given.output
        assert (f"note: nobody signs in as {email}" in given.stderr) is noted, given.output


@pytest.mark.parametrize(
    "role", [["site-administrator"], ["system-administrator", "--site", "S1"], ["emperor"]]
)
def test_what_makes_no_sense_is_refused(home: str, role: list[str]) -> None:
    """A site administrator of none, a system administrator of one, and who is no role at all."""
    command = ["console", "grant", "ada@example.org", "--home", home, "--role", *role]
    assert RUN.invoke(application, command).exit_code != 0
