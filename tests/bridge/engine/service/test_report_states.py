"""Unsigned reports: register, open, reset, discard, delete, prelim, assign."""

from typing import Any

import pytest
from sqlmodel import select

from bridge.engine.errors import Forbidden, PrelimNotFound, ReportNotFound, RuleBroken
from bridge.engine.records.tables import (
    Account,
    DeletedReport,
    IssuedLink,
    PrelimGroup,
    Report,
    ReportOrder,
    Site,
    SiteMembership,
)
from bridge.engine.rules.lifecycle import ReportOrigin
from bridge.engine.rules.order import link_target
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.launch.creation import OrderInput
from bridge.engine.service.launch.registration import Registration, register, register_many
from bridge.engine.service.launch.report_updates import needs_transfer, open_for, unassign
from bridge.engine.service.report_lookup import lock_report
from bridge.engine.service.report_status import query_status
from bridge.engine.service.reports.deletion import delete_report, discard, reset_order
from bridge.engine.service.signing.prelims import list_waiting, prelim, withdraw
from bridge.engine.service.signing.sign import sign
from bridge.engine.service.worklist.ownership import assign_order
from tests.bridge.engine.service.harness import SITE, ServiceHarness


def test_registering_an_order(harness: ServiceHarness) -> None:
    """An order is registered as an empty, unassigned Ordered report."""
    order = harness.order("A1", Modality="CT")

    record = harness.record(order)
    assert (record.status, record.user_email, record.has_content) == ("Ordered", "", False)
    (change,) = harness.changes()
    assert change["event"] == "order_registered"
    assert change["record"] == record.as_json()
    assert change["orders"][0]["Modality"] == "CT"


def test_registering_again_updates_the_tags(harness: ServiceHarness) -> None:
    """Registering a known order changes the tags of an unsigned report; empty tags are removed."""
    order = harness.order("A1", Modality="CT", StudyDate="20260101")
    again = OrderInput("M1", "A1", tags={"Modality": "MR", "StudyDate": ""}, metadata={"k": 1})

    first = harness.do(register, SITE, again)
    second = harness.do(register, SITE, again)

    assert first.outcome is Registration.UPDATED
    assert second.outcome is Registration.UNCHANGED
    assert harness.events() == ["order_registered", "order_updated"]
    tags = harness.changes()[-1]["orders"][0]
    assert (tags["Modality"], tags["Metadata"], "StudyDate" in tags) == ("MR", {"k": 1}, False)
    assert tags["PatientName"] == "EXAMPLE^ADA"
    assert harness.record(order).report_id == first.report_id


def test_registering_a_signed_order_changes_nothing(harness: ServiceHarness) -> None:
    """A signed report does not change, and the outcome reports it."""
    harness.do(sign, harness.draft("A1"))

    done = harness.do(register, SITE, OrderInput("M1", "A1", tags={"Modality": "MR"}))

    assert (done.outcome, done.status) == (Registration.SIGNED, "Final")
    assert harness.events()[-1] == "report_finalized"


def test_registering_many_keeps_their_order(harness: ServiceHarness) -> None:
    """New, known and repeated orders of a batch have their outcomes in order."""
    harness.order("A2")
    batch = [OrderInput("M1", name, tags={"Modality": "CT"}) for name in ("A1", "A2", "A1", "A3")]
    batch[2] = OrderInput("M1", "A1", tags={"Modality": "MR"})

    done = harness.do(register_many, SITE, batch)

    assert [each.outcome for each in done] == ["created", "updated", "updated", "created"]
    assert done[0].report_id == done[2].report_id
    with harness.work() as work:
        assert lock_report(work, harness.identity("A1")).order.tags["Modality"] == "MR"


def test_opening_an_order_makes_it_a_draft(harness: ServiceHarness) -> None:
    """It belongs to the user who opened it; its origin is still the order."""
    order = harness.order("A1")

    report = harness.on_report(order, open_for, harness.ann)

    assert (report.status, report.owner_id, report.origin) == (
        "Draft",
        harness.ann,
        ReportOrigin.ORDER,
    )
    assert harness.events()[-1] == "report_opened"


def test_a_draft_of_another_user_is_transferred(harness: ServiceHarness) -> None:
    """A Draft of another user is transferred to the opening user after the confirmation."""
    order = harness.draft("A1")
    assert harness.on_report(order, lambda _, report: needs_transfer(report, harness.bob))

    harness.on_report(order, open_for, harness.bob)

    assert harness.record(order).user_email == "bob@example.org"
    assert harness.events()[-1] == "report_transferred"


def test_reset_of_an_unassigned_order(harness: ServiceHarness) -> None:
    """G9: Ordered with content can be reset; then it is empty, and cannot be reset again."""
    order = harness.draft("A1")
    harness.do(unassign, order)

    harness.do(reset_order, order)

    assert not harness.record(order).has_content
    with pytest.raises(RuleBroken) as refused:
        harness.do(reset_order, order)
    assert refused.value.code == "nothing_to_reset"


def test_an_applied_template_is_content(harness: ServiceHarness) -> None:
    """G25: a template that was applied counts as content, until the order is reset."""
    order = harness.order("A1")
    harness.on_report(order, open_for, harness.ann)
    harness.on_report(order, lambda _, report: setattr(report, "template_number", 3))
    assert harness.record(order).has_content

    harness.do(reset_order, order)

    assert not harness.record(order).has_content


def test_discard(harness: ServiceHarness) -> None:
    """V67: a launched Draft is deleted, a Draft from an order is reset to Ordered."""
    launched, ordered = harness.draft("A1"), harness.order("A2")
    harness.on_report(ordered, open_for, harness.ann)

    harness.on_report(launched, discard)
    harness.on_report(ordered, discard)

    assert harness.status(ordered) == "Ordered"
    with pytest.raises(ReportNotFound):
        harness.status(launched)
    assert harness.events()[-2:] == ["report_discarded", "report_discarded"]


@pytest.mark.parametrize("state", ["Ordered", "Draft", "Preliminary"])
def test_delete(harness: ServiceHarness, state: str) -> None:
    """Deleting an unsigned report revokes its links; the order can be launched again."""
    order = harness.order("A1") if state == "Ordered" else harness.draft("A1")
    if state == "Preliminary":
        harness.do(prelim, order, "G", "T")
    old = harness.record(order).report_id
    with harness.work() as work:
        work.session.add(
            IssuedLink(
                handle_hash="h",
                purpose="launch",
                site_id=SITE,
                key_id="1",
                sealed=b"",
                target=link_target(order),
                created_at=1,
                expires_at=2,
            )
        )

    assert harness.do(delete_report, order)

    with harness.work() as work:
        assert query_status(work.connection, [order, harness.identity("X")], harness.now) == []
        assert work.session.exec(select(IssuedLink)).one().revoked_at == harness.now
        assert work.session.exec(select(DeletedReport)).one().report_id == old
    assert harness.changes()[-1]["event"] == "report_deleted"
    assert harness.changes()[-1]["orders"][0]["Accession"] == "A1"
    harness.order("A1")
    assert harness.record(order).report_id != old


def test_delete_revokes_the_links_of_a_lazy_launch(harness: ServiceHarness) -> None:
    """G26: PreLaunch has no report, but its pending links are revoked."""
    assert harness.do(delete_report, harness.identity("A1")) is False


def test_prelim_and_its_queue(harness: ServiceHarness) -> None:
    """A preliminary read makes a report Preliminary; the longest-waiting report is listed first."""
    one, two = harness.draft("A1"), harness.draft("A2")
    harness.do(prelim, two, "Night", "CT")
    harness.later(1)
    harness.do(prelim, one, "Day", "CT")
    harness.do(prelim, one, "Night", "CT")

    with harness.work() as work:
        queue = list_waiting(work.session, SITE, "Night", "CT", harness.now)
        assert [each.record.orders[0].accession for each in queue] == ["A2", "A1"]
        with pytest.raises(PrelimNotFound):
            list_waiting(work.session, SITE, "Night", "MR", harness.now)
    harness.do(sign, two)
    with harness.work() as work:
        assert len(list_waiting(work.session, SITE, "Night", "CT", harness.now)) == 1


def test_a_report_is_listed_under_its_newest_tag_only(harness: ServiceHarness) -> None:
    """The group and tag of its newest active read."""
    order = harness.draft("A1")
    for group, tag in (("Night", "CT"), ("Night", "MR"), ("Day", "MR")):
        harness.later(1)
        harness.do(prelim, order, group, tag)

    def listed() -> list[tuple[str, str]]:
        with harness.work() as work:
            return [
                (group, tag)
                for group, tag in (("Night", "CT"), ("Night", "MR"), ("Day", "MR"))
                if list_waiting(work.session, SITE, group, tag, harness.now)
            ]

    assert listed() == [("Day", "MR")]
    harness.do(withdraw, order)
    assert listed() == [("Night", "MR")]


def test_withdrawing_the_only_read_makes_the_report_a_draft(harness: ServiceHarness) -> None:
    """Text and owner stay; withdrawing is refused if the report is not Preliminary."""
    order = harness.draft("A1")
    harness.do(prelim, order, "Night", "CT")
    harness.later(1)

    harness.do(withdraw, order)

    assert (harness.status(order), harness.content(order)) == ("Draft", "Clear lungs.")
    assert harness.record(order).user_email == "ann@example.org"
    assert harness.events()[-1] == "report_prelim_withdrawn"
    for status, code in (("Draft", "report_not_preliminary"), ("Final", "report_signed")):
        if status == "Final":
            harness.do(sign, order)
        with pytest.raises(RuleBroken) as refused:
            harness.do(withdraw, order)
        assert refused.value.code == code


def test_withdrawing_a_read_undoes_its_review(harness: ServiceHarness) -> None:
    """The earlier read, which the withdrawn read had reviewed, is unreviewed again."""
    order = harness.draft("A1")
    harness.do(prelim, order, "Night", "CT")
    harness.later(1)
    harness.on_report(order, open_for, harness.bob)
    harness.do(prelim, order, "Night", "CT")
    harness.later(1)

    harness.do(withdraw, order)

    assert harness.status(order) == "Preliminary"
    with harness.work() as work:
        (one,) = list_waiting(work.session, SITE, "Night", "CT", harness.now)
        assert one.read_at == harness.now - 2000


def add_groups(harness: ServiceHarness, **more: Any) -> None:
    """Add the groups Night and Day; `more` are further columns of Night."""
    with harness.work() as work:
        night = PrelimGroup(site_id=SITE, name="Night", tags=["CT"], **more)
        work.session.add(night)
        work.session.add(PrelimGroup(site_id=SITE, name="Day", tags=["CT"]))


def test_a_group_accepts_the_reads_of_its_members(harness: ServiceHarness) -> None:
    """A read of a user who is not a member is refused with 400. E-mail addresses ignore case."""
    add_groups(harness, members=["Ann@Example.org"])
    own, foreign = harness.draft("A1"), harness.draft("A2")
    harness.on_report(foreign, open_for, harness.bob)

    harness.do(prelim, own, "Night", "CT")
    with pytest.raises(RuleBroken) as refused:
        harness.do(prelim, foreign, "Night", "CT")

    assert (refused.value.code, refused.value.pointer) == ("not_prelim_member", "/prelimGroup")
    assert (harness.status(own), harness.status(foreign)) == ("Preliminary", "Draft")
    harness.do(prelim, foreign, "Day", "CT")  # a group without members is open to all users


@pytest.mark.parametrize(
    ("reviewers", "members", "taken"),
    [
        (None, ["ann@example.org"], True),  # Bob is in no group
        (None, ["ann@example.org", "bob@example.org"], False),
        (["BOB@example.org"], ["ann@example.org"], True),
        (["admin@example.org"], ["ann@example.org"], False),
        ([], [], False),
    ],
)
def test_only_a_reviewer_becomes_owner_of_a_preliminary(
    harness: ServiceHarness, reviewers: list[str] | None, members: list[str], *, taken: bool
) -> None:
    """V9: a reviewer who opens the report becomes its owner; for other users it is read-only."""
    add_groups(harness, members=members, reviewers=reviewers)
    order = harness.draft("A1")
    harness.do(prelim, order, "Night", "CT")

    harness.on_report(order, open_for, harness.bob)

    owner = "bob@example.org" if taken else "ann@example.org"
    assert harness.record(order).user_email == owner
    if not taken:
        with pytest.raises(RuleBroken) as refused:
            harness.do(assign_order, order, "bob@example.org")
        assert refused.value.code == "not_prelim_reviewer"


def test_a_preliminary_reader_is_no_reviewer(harness: ServiceHarness) -> None:
    """A user who may not sign is not a reviewer, unless the group names them."""
    order = harness.draft("A1")
    harness.do(prelim, order, "Night", "CT")
    set_role(harness, harness.bob, SiteRole.PRELIM)

    harness.on_report(order, open_for, harness.bob)

    assert harness.record(order).user_email == "ann@example.org"


def test_a_draft_is_assigned_to_another_user(harness: ServiceHarness) -> None:
    """The content stays; users of other sites and signed reports are refused."""
    order = harness.draft("A1")

    harness.do(assign_order, order, "bob@example.org")

    record = harness.record(order)
    assert (record.user_email, record.status, harness.content(order)) == (
        "bob@example.org",
        "Draft",
        "Clear lungs.",
    )
    with pytest.raises(Forbidden) as unknown:
        harness.do(assign_order, order, "unknown@example.org")
    assert unknown.value.code == "user_not_found"
    harness.do(sign, order)
    with pytest.raises(RuleBroken) as signed:
        harness.do(assign_order, order, "ann@example.org")
    assert signed.value.code == "report_signed"


def set_role(harness: ServiceHarness, account_id: int, role: SiteRole) -> None:
    """Change a user's role on the site."""
    with harness.database.session() as session:
        member = session.get(SiteMembership, (SITE, account_id))
        assert member is not None
        member.role = role
        session.add(member)


def test_configured_prelim_groups_are_required(harness: ServiceHarness) -> None:
    """V60: a site with configured groups refuses an unknown group or tag with 400."""
    with harness.work() as work:
        work.session.add(PrelimGroup(site_id=SITE, name="Night", tags=["CT"]))
    order = harness.draft("A1")

    for group, tag, code in (
        ("Day", "CT", "unknown_prelim_group"),
        ("Night", "MR", "unknown_prelim_tag"),
    ):
        with pytest.raises(RuleBroken) as refused:
            harness.do(prelim, order, group, tag)
        assert refused.value.code == code

    assert harness.status(order) == "Draft"


def test_status_of_several(harness: ServiceHarness) -> None:
    """V34: reports in request order, each once; a single unknown order is 404."""
    one, two = harness.draft("A1"), harness.order("A2")

    with harness.work() as work:
        records = query_status(work.connection, [two, harness.identity("X"), one, two], harness.now)
        assert [each.orders[0].accession for each in records] == ["A2", "A1"]
        with pytest.raises(ReportNotFound):
            query_status(work.connection, [harness.identity("X")], harness.now)


def test_sites_do_not_see_each_other(harness: ServiceHarness) -> None:
    """The same MRN and accession on another site is another report."""
    with harness.work() as work:
        work.session.add(Site(site_id="SITE2", created_at=1))
    order = harness.draft("A1")

    harness.do(register, "SITE2", OrderInput("M1", "A1"))

    with harness.work() as work:
        assert len(work.session.exec(select(ReportOrder)).all()) == 2
        assert len({each.site_id for each in work.session.exec(select(Report))}) == 2
        assert work.session.get(Account, harness.ann) is not None
    assert harness.status(order) == "Draft"
