"""Access administration: each role against each role, and the order of the steps."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest
from typing_extensions import override

from bridge.admin.access import grants
from bridge.admin.access.access_administration import AccessAdministration, Administrator
from bridge.admin.access.permissions import ConsoleRole, Grant
from bridge.admin.errors import GrantRefused
from bridge.admin.report_engine import ReportEngine
from bridge.contract.responses import AccountInfo, EnrolmentLink
from bridge.store.database import Database

S1, S2 = frozenset({"S1"}), frozenset({"S2"})
T = TypeVar("T")


@dataclass
class Engine(ReportEngine):
    """
    The engine's accounts in memory; `calls` in order, with the role that was stored then.

    `meanwhile` runs while the sites are read.
    """

    database: Database
    known: dict[str, AccountInfo] = field(default_factory=dict)
    calls: list[tuple[str, str, ConsoleRole | None]] = field(default_factory=list)
    meanwhile: Callable[[], object] = lambda: None

    def add(self, number: int, email: str) -> str:
        key = str(number)
        self.known[key] = AccountInfo(
            account_id=key, email=email, disabled=False, enrolled=True, password=True
        )
        return key

    @override
    async def account(self, who: str) -> AccountInfo | None:
        found = (
            account for account in self.known.values() if who in {account.account_id, account.email}
        )
        return next(found, None)

    @override
    async def enrol(
        self, account_id: str, *, second_factor: bool, end_tokens: bool
    ) -> EnrolmentLink:
        assert end_tokens
        self._note("enrol", account_id)
        self.known[account_id] = self.known[account_id].model_copy(update={"password": False})
        return EnrolmentLink(link=f"https://x.test/enrol#{account_id}", expires_at=1)

    @override
    async def require_second_factor(self, account_id: str, *, required: bool) -> None:
        self._note(f"second factor {required}", account_id)

    @override
    async def set_disabled(self, account_id: str, *, disabled: bool) -> None:
        self._note(f"disabled {disabled}", account_id)
        self.known[account_id] = self.known[account_id].model_copy(update={"disabled": disabled})

    @override
    async def sites(self) -> frozenset[str]:
        self.meanwhile()
        return S1 | S2

    def _note(self, what: str, account_id: str) -> None:
        held = grants.grant_of(self.database, account_id)
        self.calls.append((what, account_id, held.role if held else None))


@dataclass
class AccessSetup:
    database: Database
    engine: Engine
    access: AccessAdministration
    people: dict[str, Grant] = field(default_factory=dict)

    def add_user(self, number: int, name: str, grant: Grant) -> Grant:
        key = self.engine.add(number, f"{name}@x.test")
        made = replace(grant, account_id=key, email=f"{name}@x.test")
        grants.save_grant(self.database, made, 1, "test")
        held = grants.grant_of(self.database, key)
        assert held is not None
        self.people[name] = held
        return held

    def by(self, name: str) -> Administrator:
        """Return a user as an actor."""
        return Administrator(name, self.people[name])


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


ROLES = {
    "viewer": Grant("", ConsoleRole.VIEWER),
    "viewer1": Grant("", ConsoleRole.VIEWER, sites=S1),
    "operator": Grant("", ConsoleRole.OPERATOR),
    "reader": Grant("", ConsoleRole.OPERATOR, bodies=True, sites=S1),
    "author": Grant("", ConsoleRole.MAPPING_AUTHOR),
    "admin1": Grant("", ConsoleRole.SITE_ADMINISTRATOR, sites=S1),
    "chief": Grant("", ConsoleRole.SYSTEM_ADMINISTRATOR),
    "chief2": Grant("", ConsoleRole.SYSTEM_ADMINISTRATOR),
    "boss": Grant("", ConsoleRole.SYSTEM_ADMINISTRATOR, bodies=True),
}
WISHES = {**ROLES, "admin2": Grant("", ConsoleRole.SITE_ADMINISTRATOR, sites=S2)}


@pytest.fixture
def setup(database: Database) -> AccessSetup:
    engine = Engine(database)
    made = AccessSetup(database, engine, AccessAdministration(database, engine, lambda: 100))
    for number, (name, grant) in enumerate(ROLES.items(), start=1):
        made.add_user(number, name, grant)
    engine.add(99, "new@x.test")
    return made


@pytest.mark.parametrize("giver", ["chief", "boss"])
@pytest.mark.parametrize("target", [*ROLES, "new"])
def test_a_grant_stays_within_the_rights_of_the_actor(
    setup: AccessSetup, giver: str, target: str
) -> None:
    """A role is assigned only if it and the target's present role are within the actor's."""
    own, key = setup.people[giver], "99" if target == "new" else str(_number(target))
    for wish in WISHES.values():
        before = grants.grant_of(setup.database, key)
        may = target != giver and own.covers(wish) and (before is None or own.covers(before))
        assert _is_done(setup.access.grant(setup.by(giver), f"{target}@x.test", wish)) is may
        held = grants.grant_of(setup.database, key)
        assert held == before or (held is not None and own.covers(held))


def _is_done(work: Coroutine[Any, Any, Any]) -> bool:
    try:
        run(work)
    except GrantRefused:
        return False
    return True


def _number(name: str) -> int:
    return list(ROLES).index(name) + 1


@pytest.mark.parametrize("target", ROLES)
def test_enrolment_disabling_and_removal_follow_the_same_rule(
    setup: AccessSetup, target: str
) -> None:
    """No actor resets their own account, nor one that has `bodies` if the actor has not."""
    email, by = f"{target}@x.test", setup.by("chief")
    may = target != "chief" and setup.people["chief"].covers(setup.people[target])
    for work in (
        setup.access.enrol(by, email),
        setup.access.set_disabled(by, email, disabled=True),
        setup.access.revoke(by, email),
    ):
        assert _is_done(work) is may


def test_the_password_ends_before_the_new_role_is_stored(setup: AccessSetup) -> None:
    """When the engine creates the link, the account still has its previous role, or none."""
    made = run(setup.access.grant(setup.by("chief"), "new@x.test", ROLES["operator"]))
    assert made is not None
    assert made.link
    made = run(setup.access.grant(setup.by("chief"), "viewer@x.test", ROLES["chief"]))
    assert made is not None
    assert setup.engine.calls == [
        ("enrol", "99", None),
        ("enrol", str(_number("viewer")), ConsoleRole.VIEWER),
    ]


def test_a_refused_role_does_not_end_the_password(setup: AccessSetup) -> None:
    """The last administrator, and a role that another administrator changes meanwhile."""
    root = Administrator("root")
    for name in ("chief2", "boss"):
        grants.remove_grant(setup.database, setup.people[name].account_id)
    wish = Grant("", ConsoleRole.OPERATOR, bodies=True, sites=S1)
    with pytest.raises(GrantRefused) as refusal:
        run(setup.access.grant(root, "chief@x.test", wish))
    assert refusal.value.code == "last_administrator"

    viewer = setup.people["viewer"]
    setup.engine.meanwhile = lambda: grants.remove_grant(setup.database, viewer.account_id)
    with pytest.raises(GrantRefused) as refusal:
        run(setup.access.grant(root, "viewer@x.test", wish))
    assert refusal.value.code == "changed_meanwhile"
    assert setup.engine.calls == []


@pytest.mark.parametrize(
    ("email", "wish", "code"),
    [
        ("unknown@x.test", Grant("", ConsoleRole.VIEWER), "unknown_account"),
        ("new@x.test", Grant("", ConsoleRole.VIEWER, sites=frozenset({"S3"})), "unknown_site"),
        (
            "new@x.test",
            Grant("", ConsoleRole.SITE_ADMINISTRATOR, sites=S1 | {"S3"}),
            "unknown_site",
        ),
        ("new@x.test", Grant("", ConsoleRole.SITE_ADMINISTRATOR), "site_needed"),
    ],
)
def test_unknown_accounts_and_sites_are_refused(
    setup: AccessSetup, email: str, wish: Grant, code: str
) -> None:
    """For users of the console and for the operator with access to the data directory."""
    for by in (setup.by("chief"), Administrator("root")):
        with pytest.raises(GrantRefused) as refusal:
            run(setup.access.grant(by, email, wish))
        assert refusal.value.code == code
    assert setup.engine.calls == []


def test_an_account_without_role_needs_no_second_factor(setup: AccessSetup) -> None:
    """The list of grants shows who must still enrol."""
    run(setup.access.revoke(setup.by("chief"), "viewer@x.test"))
    assert setup.engine.calls == [("second factor False", str(_number("viewer")), None)]
    run(setup.access.enrol(setup.by("chief"), "operator@x.test"))
    listed = {entry.email: entry.pending for entry in run(setup.access.entries())}
    assert listed["operator@x.test"]
    assert not listed["author@x.test"]
    assert "viewer@x.test" not in listed
