"""The table of who may do what to whom: every action, for every kind of actor and target."""

import itertools

import pytest

from bridge.authority import TABLE, Action, Actor, Refusal, Request, Rights, Target, decide

SYSTEM = Rights(system=True)
ROLE = Rights(console=frozenset({"see", "bodies"}), sites=frozenset({"A"}))
WIDER = Rights(console=frozenset({"see", "bodies", "grant"}), sites=None)

ACTORS = {
    "system": Actor(1, SYSTEM),
    "operator": Actor(None, SYSTEM),
    "site": Actor(2, administers=frozenset({"A"})),
    "other site": Actor(3, administers=frozenset({"B"})),
    "user": Actor(4),
    "owner": Actor(9),
    "owner at site": Actor(9, administers=frozenset({"A"})),
    "owner system": Actor(9, SYSTEM),
}
TARGETS = {
    "new": Target(9),
    "enrolled": Target(9, enrolled=True),
    "console": Target(9, ROLE, enrolled=True),
    "administrator": Target(9, SYSTEM, enrolled=True),
    "last": Target(9, SYSTEM, enrolled=True, last_administrator=True),
    "nobody": Target(None),
}
CELLS = list(itertools.product(ACTORS, TARGETS, Action))
SYSTEM_ACTIONS = (
    *(Action.ENROL, Action.CHANGE_EMAIL, Action.DISABLE, Action.ENABLE),
    *(Action.GRANT, Action.REVOKE_GRANT),
)


def permitted(who: str, whom: str, action: Action) -> bool:
    """State the table anew, in other words."""
    system, owner = "system" in who or who == "operator", who.startswith("owner")
    site = who in ("site", "owner at site")
    if action is Action.INVITE:
        return system or site
    if whom == "nobody":
        return False
    may_more = whom in ("console", "administrator", "last")
    if action in SYSTEM_ACTIONS:
        ends = action in (Action.DISABLE, Action.GRANT, Action.REVOKE_GRANT)
        return system and not owner and not (ends and whom == "last")
    of_site = system or (site and not may_more)
    return {
        Action.SET_PASSWORD: owner or (system and whom == "new"),
        Action.CREATE_TOKEN: owner or of_site,
        Action.REVOKE_TOKEN: owner or of_site,
        Action.CHANGE_ROLE: of_site or (site and owner),
        Action.REMOVE: not owner and of_site,
    }[action]


@pytest.mark.parametrize(("who", "whom", "action"), CELLS)
def test_every_cell(who: str, whom: str, action: Action) -> None:
    """Nobody obtains a right that they do not hold."""
    refusal = decide(ACTORS[who], TARGETS[whom], Request(action, "A"))
    assert (refusal is None) is permitted(who, whom, action), refusal


def test_the_table_knows_every_action() -> None:
    """A new action is refused by nothing else than a rule of its own."""
    assert set(TABLE) == set(Action)


@pytest.mark.parametrize("action", Action)
def test_an_unknown_site_is_refused_to_everybody(action: Action) -> None:
    """Before anything else is looked at."""
    request = Request(action, "X", site_exists=False)
    assert decide(ACTORS["system"], TARGETS["new"], request) is Refusal.UNKNOWN_SITE


def test_nobody_grants_what_they_do_not_hold() -> None:
    """Neither more permissions nor more sites, and nobody grants to who may more."""
    assert not ROLE.cover(WIDER)
    assert WIDER.cover(ROLE)
    assert not ROLE.cover(Rights(console=frozenset({"see"}), sites=None))
    assert not ROLE.cover(Rights(console=frozenset({"see"}), sites=frozenset({"A", "B"})))
    grantor = Actor(1, WIDER)
    request = Request(Action.GRANT, grants=ROLE)
    assert decide(grantor, TARGETS["new"], request) is Refusal.NOT_PERMITTED


def test_the_last_administrator_goes_by_force_only() -> None:
    """The operator says so explicitly."""
    request = Request(Action.DISABLE)
    last = TARGETS["last"]
    assert decide(ACTORS["operator"], last, request) is Refusal.LAST_ADMINISTRATOR
    assert decide(ACTORS["operator"], last, request, force=True) is None
