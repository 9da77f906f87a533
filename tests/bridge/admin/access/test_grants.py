"""Stored grants: the last system administrator, conflicts, and grants without account."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import text

from bridge.admin.access import grants
from bridge.admin.access.permissions import ConsoleRole, Grant
from bridge.admin.errors import GrantRefused
from bridge.store.database import Database
from tests.eventually import PATIENCE

CHIEF = ConsoleRole.SYSTEM_ADMINISTRATOR


def chief(number: int) -> Grant:
    return Grant(f"chief{number}@x.test", CHIEF, account_id=str(number))


def chiefs(database: Database) -> set[str]:
    found = [
        grants.active_grant_of(database, grant.account_id) for grant in grants.all_grants(database)
    ]
    return {item.account_id for item in found if item is not None and item.role is CHIEF}


def demote(database: Database, number: int) -> None:
    before = grants.grant_of(database, str(number))
    viewer = Grant("x@x.test", ConsoleRole.VIEWER, account_id=str(number))
    grants.save_grant(database, viewer, 2, "test", before=before)


def remove(database: Database, number: int) -> None:
    grants.remove_grant(database, str(number))


def disable(database: Database, number: int) -> None:
    grants.suspend_grant(database, str(number))


WAYS = [demote, remove, disable]


@pytest.mark.parametrize("way", WAYS)
def test_the_last_administrator_is_not_removed(database: Database, way: object) -> None:
    """
    The last administrator is not demoted or disabled either. Suspended and unknown accounts do not
    count as administrators.
    """
    assert callable(way)
    for number in (1, 2):
        grants.save_grant(database, chief(number), 1, "test")
    grants.suspend_grant(database, "2")
    with pytest.raises(GrantRefused) as refusal:
        way(database, 1)
    assert refusal.value.code == "last_administrator"
    assert chiefs(database) == {"1"}
    grants.resume_grant(database, "2")
    way(database, 1)
    assert chiefs(database) == {"2"}


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_concurrent_changes_do_not_remove_both_administrators(
    database: Database, first: object, second: object
) -> None:
    """One of two concurrent changes is refused, on both databases."""
    assert callable(first)
    assert callable(second)
    for attempt in range(5):
        with database.write() as connection:
            connection.execute(text("DELETE FROM console_grant"))
        for number in (1, 2):
            grants.save_grant(database, chief(number), 1, "test")
        together = Barrier(2)

        def go(way: object, number: int, together: Barrier = together) -> bool:
            assert callable(way)
            together.wait(PATIENCE)
            try:
                way(database, number)
            except GrantRefused:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            done = [pool.submit(go, first, 1), pool.submit(go, second, 2)]
            assert sorted(task.result() for task in done) == [False, True], attempt
        assert len(chiefs(database)) == 1


def test_a_role_that_changed_meanwhile_is_not_overwritten(database: Database) -> None:
    """The stored grant must still be the one that the actor saw."""
    before = Grant("a@x.test", CHIEF, account_id="1", granted_at=5)
    with pytest.raises(GrantRefused) as refusal:
        grants.save_grant(database, chief(1), 6, "test", before=before)
    assert refusal.value.code == "changed_meanwhile"


def test_only_a_grant_with_more_rights_changes_its_time(database: Database) -> None:
    """Sessions from before that time are refused."""
    viewer = Grant("a@x.test", ConsoleRole.VIEWER, account_id="7")
    operator = Grant("a@x.test", ConsoleRole.OPERATOR, account_id="7")
    moments = []
    for now, item in ((10, operator), (20, viewer), (30, operator)):
        before = grants.grant_of(database, "7")
        grants.save_grant(database, item, now, "test", before=before)
        found = grants.active_grant_of(database, "7")
        assert found is not None
        moments.append(found.granted_at)
    assert moments == [10, 10, 30]


def test_an_unbound_grant_has_no_effect_until_it_is_bound(database: Database) -> None:
    """It is bound to one account. An account that has a grant keeps its own."""
    old = text("""
        INSERT INTO console_grant (email, role, bodies, sites, granted_at, granted_by)
        VALUES (:email, 'system-administrator', 0, '', 1, 'test')
    """)
    with database.write() as connection:
        connection.execute(old, [{"email": "a@x.test"}, {"email": "b@x.test"}])
    assert grants.active_grant_of(database, "") is None
    assert grants.grants_without_account(database) == ["a@x.test", "b@x.test"]
    grants.bind_account(database, "a@x.test", "1", suspended=False)
    grants.bind_account(database, "b@x.test", "1", suspended=False)
    assert grants.grants_without_account(database) == []
    assert [(grant.email, grant.account_id) for grant in grants.all_grants(database)] == [
        ("a@x.test", "1")
    ]
