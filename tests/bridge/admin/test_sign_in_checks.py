"""`bridge check` reports weak settings of sign-in."""

from pathlib import Path

import pytest

from bridge.admin.checks.checks import check_sign_in
from bridge.admin.checks.findings import CheckSeverity
from bridge.admin.data_directory import create_data_directory
from bridge.engine.service.accounts.sign_in_limit import SignInLimiter
from bridge.engine.settings import Quota
from bridge.store.databases import migrate_all, open_engine_database
from config import load


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({}, []),
        ({"BRIDGE_HTTP__PUBLIC_URL": "https://reports.example"}, ["http.trusted_proxies"]),
        (
            {
                "BRIDGE_HTTP__PUBLIC_URL": "https://reports.example",
                "BRIDGE_HTTP__TRUSTED_PROXIES": '["127.0.0.1/32"]',
            },
            [],
        ),
        ({"BRIDGE_SIGN_IN__SECOND_FACTOR": "optional"}, ["sign_in.second_factor"]),
    ],
)
def test_weak_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, str], place: list[str]
) -> None:
    """The check reports an undeclared proxy and console roles with a password only."""
    home = tmp_path / "home"
    create_data_directory(home)
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    found = list(check_sign_in(load(home)))
    assert [each.place for each in found] == place
    assert all(each.severity is CheckSeverity.WARNING for each in found)


def test_an_undeclared_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check reports an undeclared proxy beside a declared one, until it is declared too."""
    home = tmp_path / "home"
    create_data_directory(home)
    settings = load(home)
    migrate_all(settings)
    database = open_engine_database(settings)
    SignInLimiter(database, Quota(20, 900)).record_undeclared_proxy("127.0.0.1")
    database.dispose()
    for declared, places in (
        ("[]", ["http.trusted_proxies"]),
        ('["10.0.0.1"]', ["http.trusted_proxies"]),
        ('["10.0.0.1", "127.0.0.1"]', []),
    ):
        monkeypatch.setenv("BRIDGE_HTTP__TRUSTED_PROXIES", declared)
        assert [each.place for each in check_sign_in(load(home))] == places
