"""The table of account actions: each action, actor and target."""

import itertools

import pytest

from bridge.authority import (
    TABLE,
    AccountAction,
    AccountActor,
    AccountRequest,
    AccountTarget,
    Rights,
    decide,
)
from bridge.contract.errors import ErrorCode

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


def permitted(actor: str, target: str, action: AccountAction) -> bool:
    """Compute the table again, as rules."""
    system, owner = "system" in actor or actor == "operator", actor.startswith("owner")
    site = actor in ("site", "owner at site")
    if action is AccountAction.INVITE:
        return system or site
    if target == "nobody":
        return False
    may_more = target in ("console", "administrator", "last")
    if action in SYSTEM_ACTIONS:
        ends = action in (AccountAction.DISABLE, AccountAction.GRANT, AccountAction.REVOKE_GRANT)
        return system and not owner and not (ends and target == "last")
    of_site = system or (site and not may_more)
    return {
        AccountAction.SET_PASSWORD: owner or (system and target == "new"),
        AccountAction.CREATE_TOKEN: owner or of_site,
        AccountAction.REVOKE_TOKEN: owner or of_site,
        AccountAction.CHANGE_ROLE: of_site or (site and owner),
        AccountAction.REMOVE: not owner and of_site,
    }[action]


@pytest.mark.parametrize(("actor", "target", "action"), CELLS)
def test_every_cell(actor: str, target: str, action: AccountAction) -> None:
    """No actor obtains a right that the actor lacks."""
    refusal = decide(ACTORS[actor], TARGETS[target], AccountRequest(action, "A"))
    assert (refusal is None) is permitted(actor, target, action), refusal


def test_the_table_knows_every_action() -> None:
    assert set(TABLE) == set(AccountAction)


@pytest.mark.parametrize("action", AccountAction)
def test_an_unknown_site_is_refused_to_everybody(action: AccountAction) -> None:
    """An unknown site is refused first, for each actor."""
    request = AccountRequest(action, "X", site_exists=False)
    assert decide(ACTORS["system"], TARGETS["new"], request) is ErrorCode.UNKNOWN_SITE


def test_an_actor_grants_only_own_rights() -> None:
    """An actor grants only its own permissions and sites, and only to weaker accounts."""
    assert not ROLE.cover(WIDER)
    assert WIDER.cover(ROLE)
    assert not ROLE.cover(Rights(console=frozenset({"see"}), sites=None))
    assert not ROLE.cover(Rights(console=frozenset({"see"}), sites=frozenset({"A", "B"})))
    grantor = AccountActor(1, WIDER)
    request = AccountRequest(AccountAction.GRANT, grants=ROLE)
    assert decide(grantor, TARGETS["new"], request) is ErrorCode.NOT_PERMITTED


def test_the_last_administrator_needs_force() -> None:
    """Only the operator removes the last administrator, and only with force."""
    request = AccountRequest(AccountAction.DISABLE)
    last = TARGETS["last"]
    assert decide(ACTORS["operator"], last, request) is ErrorCode.LAST_ADMINISTRATOR
    assert decide(ACTORS["operator"], last, request, force=True) is None
