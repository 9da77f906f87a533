"""How passwords are stored."""

from pathlib import Path

import pytest
from sqlalchemy import text

from bridge.engine.service.accounts import passwords, users
from bridge.engine.service.sites import site_settings
from bridge.engine.service.sites.site_settings import SiteSettings
from bridge.store.database import Database
from tests.databases import fresh_file

LEAST = "$argon2id$v=19$m=65536,t=3,p=4$"  # RFC 9106 4, second choice: 64 MiB, three passes


@pytest.fixture(scope="module")
def quick_passwords() -> None:
    """Hash passwords with the product's cost here."""


def test_passwords_are_argon2id_hashes(tmp_path: Path) -> None:
    """The hash is Argon2id with 64 MiB and three passes, and does not contain the password."""
    database = Database(fresh_file(tmp_path / "engine.db"))
    with database.write() as connection:
        site_settings.add_site(connection, SiteSettings("SITE1", "First"), 0)
        account = users.register(connection, "SITE1", "rea@site1.test", "Rea", 0)
        passwords.store_hash(connection, account.id, passwords.hash_password("correct horse"), 1)
        stored = connection.execute(text("SELECT password_hash FROM engine_account")).scalar_one()
    database.dispose()

    assert stored.startswith(LEAST)
    assert "correct horse" not in stored
