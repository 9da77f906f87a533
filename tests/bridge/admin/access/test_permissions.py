"""Roles, grants and sessions: the pure rules of the console."""

from dataclasses import replace

import pytest

from bridge.admin.access.permissions import (
    ROLE_PERMISSIONS,
    ConsoleRole,
    ConsoleSession,
    Grant,
    Permission,
    admit,
    require_fresh,
)
from bridge.admin.errors import PermissionDenied, ReauthRequired, SessionRefused
from bridge.authority import FRESH_MS

NOW = 1_700_000_000_000
S1, S2 = frozenset({"S1"}), frozenset({"S2"})
GRANTS = [
    *(Grant("a@x.test", role, bodies) for role in ConsoleRole for bodies in (False, True)),
    *(
        Grant("a@x.test", role, bodies, sites)
        for role in (ConsoleRole.VIEWER, ConsoleRole.OPERATOR, ConsoleRole.SITE_ADMINISTRATOR)
        for bodies in (False, True)
        for sites in (S1, S2, S1 | S2)
    ),
]


def rights(grant: Grant) -> set[tuple[str, str]]:
    """Return all pairs of permission and site; `*` is a site that no grant names."""
    sites = ("S1", "S2", "*")
    return {
        (permission, site)
        for permission in grant.permissions
        for site in sites
        if grant.sees([site])
    }


@pytest.mark.parametrize("own", GRANTS)
def test_covering_means_having_all_rights_of_the_other_grant(own: Grant) -> None:
    for other in GRANTS:
        if own.covers(other):
            assert rights(other) <= rights(own), (own, other)
            assert not other.grants_more_than(own)
        else:
            assert other.grants_more_than(own)


@pytest.mark.parametrize("role", ConsoleRole)
def test_only_system_administrators_assign_roles(role: ConsoleRole) -> None:
    """No other role has the permission `grant`."""
    assert (Permission.GRANT in ROLE_PERMISSIONS[role]) is (
        role is ConsoleRole.SYSTEM_ADMINISTRATOR
    )


@pytest.mark.parametrize("grant", GRANTS)
@pytest.mark.parametrize("site", ["S1", "S2", "S3"])
def test_a_session_limited_to_a_site_reaches_no_other(grant: Grant, site: str) -> None:
    """It opens no role for all sites."""
    try:
        left = admit(grant, ConsoleSession(site, NOW, second_factor=True), second_factor=True)
    except SessionRefused as refusal:
        assert refusal.code == "session_of_one_site"  # noqa: PT017
        return
    assert left.role not in {ConsoleRole.SYSTEM_ADMINISTRATOR, ConsoleRole.MAPPING_AUTHOR}
    assert left.visible_sites == frozenset({site})
    assert grant.sees([site])
    assert rights(left) <= rights(grant) | {(permission, site) for permission in grant.permissions}


def test_a_required_second_factor() -> None:
    """A session without one is admitted only if the installation does not require it."""
    grant, session = GRANTS[0], ConsoleSession(None, NOW, second_factor=False)
    with pytest.raises(SessionRefused) as refusal:
        admit(grant, session, second_factor=True)
    assert refusal.value.code == "second_factor_required"
    assert admit(grant, session, second_factor=False) == grant


def test_a_session_that_is_older_than_the_grant_is_refused() -> None:
    """With or without a second factor."""
    grant = replace(GRANTS[0], granted_at=NOW)
    with pytest.raises(SessionRefused) as refusal:
        admit(grant, ConsoleSession(None, NOW - 1, second_factor=True), second_factor=True)
    assert refusal.value.code == "session_before_grant"
    assert admit(grant, ConsoleSession(None, NOW, second_factor=True), second_factor=True) == grant


@pytest.mark.parametrize(
    ("age", "fresh"),
    [(0, True), (FRESH_MS, True), (FRESH_MS + 1, False), (-1000, True), (-FRESH_MS, False)],
)
def test_a_confirmed_password_is_valid_for_ten_minutes(age: int, *, fresh: bool) -> None:
    """A time in the future is accepted only within the clock skew."""
    if fresh:
        require_fresh(NOW - age, NOW)
        return
    with pytest.raises(ReauthRequired):
        require_fresh(NOW - age, NOW)


@pytest.mark.parametrize("role", ConsoleRole)
def test_no_role_includes_bodies(role: ConsoleRole) -> None:
    """The right to read message content is granted separately."""
    assert Permission.BODIES not in ROLE_PERMISSIONS[role]
    with pytest.raises(PermissionDenied):
        Grant("a@b.test", role).require(Permission.BODIES)
    Grant("a@b.test", role, bodies=True).require(Permission.BODIES)


def test_a_viewer_has_the_permission_see_only() -> None:
    assert ROLE_PERMISSIONS[ConsoleRole.VIEWER] == {Permission.SEE}
