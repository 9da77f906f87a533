"""The table of who may do what to whom: every action, for every kind of actor and target."""

import itertools

import pytest

from bridge.authority import (
    TABLE,
    AccountAction,
    AccountActor,
    AccountRefusal,
    AccountRequest,
    AccountTarget,
    Rights,
    decide,
)

SYSTEM = Rights(system=True)
ROLE = Rights(console=frozenset({"see", "bodies"}), sites=frozenset({"A"}))
WIDER = Rights(console=frozenset({"see", "bodies", "grant"}), sites=None)

ACTORS = {
    "system": AccountActor(1, SYSTEM),
    "operator": AccountActor(None, SYSTEM),
    "site": AccountActor(2, administers=frozenset({"A"})),
    "other site": AccountActor(3, administers=frozenset({"B"})),
    "user": AccountActor(4),
    "owner": AccountActor(9),
    "owner at site": AccountActor(9, administers=frozenset({"A"})),
    "owner system": AccountActor(9, SYSTEM),
}
TARGETS = {
    "new": AccountTarget(9),
    "enrolled": AccountTarget(9, enrolled=True),
    "console": AccountTarget(9, ROLE, enrolled=True),
    "administrator": AccountTarget(9, SYSTEM, enrolled=True),
    "last": AccountTarget(9, SYSTEM, enrolled=True, last_administrator=True),
    "nobody": AccountTarget(None),
}
CELLS = list(itertools.product(ACTORS, TARGETS, AccountAction))
SYSTEM_ACTIONS = (
    *(AccountAction.ENROL, AccountAction.CHANGE_EMAIL, AccountAction.DISABLE, AccountAction.ENABLE),
    *(AccountAction.GRANT, AccountAction.REVOKE_GRANT),
)


def permitted(who: str, whom: str, action: AccountAction) -> bool:
    """State the table anew, in other words."""
    system, owner = "system" in who or who == "operator", who.startswith("owner")
    site = who in ("site", "owner at site")
    if action is AccountAction.INVITE:
        return system or site
    if whom == "nobody":
        return False
    may_more = whom in ("console", "administrator", "last")
    if action in SYSTEM_ACTIONS:
        ends = action in (AccountAction.DISABLE, AccountAction.GRANT, AccountAction.REVOKE_GRANT)
        return system and not owner and not (ends and whom == "last")
    of_site = system or (site and not may_more)
    return {
        AccountAction.SET_PASSWORD: owner or (system and whom == "new"),
        AccountAction.CREATE_TOKEN: owner or of_site,
        AccountAction.REVOKE_TOKEN: owner or of_site,
        AccountAction.CHANGE_ROLE: of_site or (site and owner),
        AccountAction.REMOVE: not owner and of_site,
    }[action]


@pytest.mark.parametrize(("who", "whom", "action"), CELLS)
def test_every_cell(who: str, whom: str, action: AccountAction) -> None:
    """Nobody obtains a right that they do not hold."""
    refusal = decide(ACTORS[who], TARGETS[whom], AccountRequest(action, "A"))
    assert (refusal is None) is permitted(who, whom, action), refusal


def test_the_table_knows_every_action() -> None:
    """A new action is refused by nothing else than a rule of its own."""
    assert set(TABLE) == set(AccountAction)


@pytest.mark.parametrize("action", AccountAction)
def test_an_unknown_site_is_refused_to_everybody(action: AccountAction) -> None:
    """Before anything else is looked at."""
    request = AccountRequest(action, "X", site_exists=False)
    assert decide(ACTORS["system"], TARGETS["new"], request) is AccountRefusal.UNKNOWN_SITE


def test_nobody_grants_what_they_do_not_hold() -> None:
    """Neither more permissions nor more sites, and nobody grants to who may more."""
    assert not ROLE.cover(WIDER)
    assert WIDER.cover(ROLE)
    assert not ROLE.cover(Rights(console=frozenset({"see"}), sites=None))
    assert not ROLE.cover(Rights(console=frozenset({"see"}), sites=frozenset({"A", "B"})))
    grantor = AccountActor(1, WIDER)
    request = AccountRequest(AccountAction.GRANT, grants=ROLE)
    assert decide(grantor, TARGETS["new"], request) is AccountRefusal.NOT_PERMITTED


def test_the_last_administrator_goes_by_force_only() -> None:
    """The operator says so explicitly."""
    request = AccountRequest(AccountAction.DISABLE)
    last = TARGETS["last"]
    assert decide(ACTORS["operator"], last, request) is AccountRefusal.LAST_ADMINISTRATOR
    assert decide(ACTORS["operator"], last, request, force=True) is None
