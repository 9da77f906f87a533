"""Order, open, unassign, reset, discard, delete, prelim: who owns it, and what is left of it."""

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
from bridge.engine.rules.identity import link_target
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.rules.status import ReportOrigin
from bridge.engine.service.launch.creation import OrderInput
from bridge.engine.service.launch.registration import Registration, register, register_many
from bridge.engine.service.report_lookup import lock_report
from bridge.engine.service.report_status import query_status
from bridge.engine.service.reports.deletion import delete_report, discard, reset_order
from bridge.engine.service.signing.prelims import list_waiting, prelim, withdraw
from bridge.engine.service.signing.sign import sign
from bridge.engine.service.worklist.assignment import needs_transfer, open_for, unassign
from bridge.engine.service.worklist.ownership import assign_order
from tests.bridge.engine.service.ward import SITE, Ward


def test_registering_an_order(ward: Ward) -> None:
    """registerOrder: an empty, unassigned Ordered report stands on the worklist."""
    order = ward.order("A1", Modality="CT")

    record = ward.record(order)
    assert (record.status, record.user_email, record.has_content) == ("Ordered", "", False)
    (change,) = ward.changes()
    assert change["event"] == "order_registered"
    assert change["record"] == record.as_json()
    assert change["orders"][0]["Modality"] == "CT"


def test_registering_again_updates_the_tags(ward: Ward) -> None:
    """Sent again for the same triple: tags of an unsigned report change, empty ones are cleared."""
    order = ward.order("A1", Modality="CT", StudyDate="20260101")
    again = OrderInput("M1", "A1", tags={"Modality": "MR", "StudyDate": ""}, metadata={"k": 1})

    first = ward.do(register, SITE, again)
    second = ward.do(register, SITE, again)

    assert first.outcome is Registration.UPDATED
    assert second.outcome is Registration.UNCHANGED
    assert ward.events() == ["order_registered", "order_updated"]
    tags = ward.changes()[-1]["orders"][0]
    assert (tags["Modality"], tags["Metadata"], "StudyDate" in tags) == ("MR", {"k": 1}, False)
    assert tags["PatientName"] == "EXAMPLE^ADA"
    assert ward.record(order).report_id == first.report_id


def test_registering_a_signed_order_changes_nothing(ward: Ward) -> None:
    """A signed report is left alone, and the caller is told so."""
    ward.do(sign, ward.draft("A1"))

    done = ward.do(register, SITE, OrderInput("M1", "A1", tags={"Modality": "MR"}))

    assert (done.outcome, done.status) == (Registration.SIGNED, "Final")
    assert ward.events()[-1] == "report_finalized"


def test_registering_many_keeps_their_order(ward: Ward) -> None:
    """A batch: new, known and repeated orders, each answered in its place."""
    ward.order("A2")
    batch = [OrderInput("M1", name, tags={"Modality": "CT"}) for name in ("A1", "A2", "A1", "A3")]
    batch[2] = OrderInput("M1", "A1", tags={"Modality": "MR"})

    done = ward.do(register_many, SITE, batch)

    assert [each.outcome for each in done] == ["created", "updated", "updated", "created"]
    assert done[0].report_id == done[2].report_id
    with ward.work() as work:
        assert lock_report(work, ward.identity("A1")).order.tags["Modality"] == "MR"


def test_opening_an_order_makes_it_a_draft(ward: Ward) -> None:
    """Ordered, opened: Draft of the user who opened it, initially created as Ordered."""
    order = ward.order("A1")

    report = ward.on_report(order, open_for, ward.ann)

    assert (report.status, report.owner_id, report.origin) == (
        "Draft",
        ward.ann,
        ReportOrigin.ORDER,
    )
    assert ward.events()[-1] == "report_opened"


def test_a_draft_of_somebody_else_is_transferred(ward: Ward) -> None:
    """Draft owned by another user, prompt answered: Draft owned by the launching user."""
    order = ward.draft("A1")
    assert ward.on_report(order, lambda _, report: needs_transfer(report, ward.bob))

    ward.on_report(order, open_for, ward.bob)

    assert ward.record(order).user_email == "bob@example.org"
    assert ward.events()[-1] == "report_transferred"


def test_unassign_keeps_the_content(ward: Ward) -> None:
    """Draft, unassign: Ordered, content kept; the next user's launch makes it their Draft."""
    order = ward.draft("A1")

    ward.do(unassign, order)

    record = ward.record(order)
    assert (record.status, record.user_email, record.has_content) == ("Ordered", "", True)
    ward.on_report(order, open_for, ward.bob)
    assert (ward.content(order), ward.status(order)) == ("Clear lungs.", "Draft")


def test_reset_clears_user_and_content(ward: Ward) -> None:
    """Draft created from Ordered, reset: Ordered, user assignment removed, content cleared."""
    order = ward.order("A1")
    ward.on_report(order, open_for, ward.ann)
    ward.on_report(order, lambda _, report: setattr(report, "content_text", "text"))

    ward.do(reset_order, order)

    record = ward.record(order)
    assert (record.status, record.user_email, record.has_content) == ("Ordered", "", False)


def test_reset_of_an_unassigned_order(ward: Ward) -> None:
    """G9: Ordered with content can be reset; then it is empty, and cannot be reset again."""
    order = ward.draft("A1")
    ward.do(unassign, order)

    ward.do(reset_order, order)

    assert not ward.record(order).has_content
    with pytest.raises(RuleBroken) as refused:
        ward.do(reset_order, order)
    assert refused.value.code == "nothing_to_reset"


def test_an_applied_template_is_content(ward: Ward) -> None:
    """G25: a template that was applied counts as content, until the order is reset."""
    order = ward.order("A1")
    ward.on_report(order, open_for, ward.ann)
    ward.on_report(order, lambda _, report: setattr(report, "template_number", 3))
    assert ward.record(order).has_content

    ward.do(reset_order, order)

    assert not ward.record(order).has_content


def test_reset_of_a_launched_draft_is_refused(ward: Ward) -> None:
    """Only a Draft that was initially created as Ordered can be reset: 400."""
    with pytest.raises(RuleBroken) as refused:
        ward.do(reset_order, ward.draft("A1"))

    assert refused.value.code == "report_not_from_order"


def test_discard(ward: Ward) -> None:
    """V67: a launched Draft is deleted, a Draft from an order is reset to Ordered."""
    launched, ordered = ward.draft("A1"), ward.order("A2")
    ward.on_report(ordered, open_for, ward.ann)

    ward.on_report(launched, discard)
    ward.on_report(ordered, discard)

    assert ward.status(ordered) == "Ordered"
    with pytest.raises(ReportNotFound):
        ward.status(launched)
    assert ward.events()[-2:] == ["report_discarded", "report_discarded"]


@pytest.mark.parametrize("state", ["Ordered", "Draft", "Preliminary"])
def test_delete(ward: Ward, state: str) -> None:
    """Non-signed, delete: removed with its links; the triple can be launched again."""
    order = ward.order("A1") if state == "Ordered" else ward.draft("A1")
    if state == "Preliminary":
        ward.do(prelim, order, "G", "T")
    old = ward.record(order).report_id
    with ward.work() as work:
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

    assert ward.do(delete_report, order)

    with ward.work() as work:
        assert query_status(work.connection, [order, ward.identity("X")], ward.now) == []
        assert work.session.exec(select(IssuedLink)).one().revoked_at == ward.now
        assert work.session.exec(select(DeletedReport)).one().report_id == old
    assert ward.changes()[-1]["event"] == "report_deleted"
    assert ward.changes()[-1]["orders"][0]["Accession"] == "A1"
    ward.order("A1")
    assert ward.record(order).report_id != old


def test_delete_of_a_signed_report_is_refused(ward: Ward) -> None:
    """Signed reports cannot be deleted: 400, also while they cool."""
    ward.delay(60)
    order = ward.draft("A1")
    ward.do(sign, order)

    with pytest.raises(RuleBroken) as refused:
        ward.do(delete_report, order)

    assert refused.value.code == "report_signed"


def test_delete_of_what_was_only_launched_lazily(ward: Ward) -> None:
    """G26: PreLaunch has no record, yet its pending links are revoked."""
    assert ward.do(delete_report, ward.identity("A1")) is False


def test_prelim_and_its_queue(ward: Ward) -> None:
    """Prelim from Draft and Preliminary: Preliminary; the longest-waiting comes first."""
    one, two = ward.draft("A1"), ward.draft("A2")
    ward.do(prelim, two, "Night", "CT")
    ward.later(1)
    ward.do(prelim, one, "Day", "CT")
    ward.do(prelim, one, "Night", "CT")

    with ward.work() as work:
        queue = list_waiting(work.session, SITE, "Night", "CT", ward.now)
        assert [each.record.orders[0].accession for each in queue] == ["A2", "A1"]
        with pytest.raises(PrelimNotFound):
            list_waiting(work.session, SITE, "Night", "MR", ward.now)
    ward.do(sign, two)
    with ward.work() as work:
        assert len(list_waiting(work.session, SITE, "Night", "CT", ward.now)) == 1


def test_a_report_that_left_a_tag_is_not_listed_there(ward: Ward) -> None:
    """The newest active read says where a report waits; a withdrawn one leads back."""
    order = ward.draft("A1")
    for group, tag in (("Night", "CT"), ("Night", "MR"), ("Day", "MR")):
        ward.later(1)
        ward.do(prelim, order, group, tag)

    def waits() -> list[tuple[str, str]]:
        with ward.work() as work:
            return [
                (group, tag)
                for group, tag in (("Night", "CT"), ("Night", "MR"), ("Day", "MR"))
                if list_waiting(work.session, SITE, group, tag, ward.now)
            ]

    assert waits() == [("Day", "MR")]
    ward.do(withdraw, order)
    assert waits() == [("Night", "MR")]


def test_withdrawing_the_only_read_leads_back_to_a_draft(ward: Ward) -> None:
    """The text and the owner stay; a report that is not Preliminary is refused."""
    order = ward.draft("A1")
    ward.do(prelim, order, "Night", "CT")
    ward.later(1)

    ward.do(withdraw, order)

    assert (ward.status(order), ward.content(order)) == ("Draft", "Clear lungs.")
    assert ward.record(order).user_email == "ann@example.org"
    assert ward.events()[-1] == "report_prelim_withdrawn"
    for status, code in (("Draft", "report_not_preliminary"), ("Final", "report_signed")):
        if status == "Final":
            ward.do(sign, order)
        with pytest.raises(RuleBroken) as refused:
            ward.do(withdraw, order)
        assert refused.value.code == code


def test_the_read_before_waits_for_its_review_again(ward: Ward) -> None:
    """The review that the withdrawn read was is undone with it."""
    order = ward.draft("A1")
    ward.do(prelim, order, "Night", "CT")
    ward.later(1)
    ward.on_report(order, open_for, ward.bob)
    ward.do(prelim, order, "Night", "CT")
    ward.later(1)

    ward.do(withdraw, order)

    assert ward.status(order) == "Preliminary"
    with ward.work() as work:
        (one,) = list_waiting(work.session, SITE, "Night", "CT", ward.now)
        assert one.read_at == ward.now - 2000


def groups_of(ward: Ward, **more: object) -> None:
    """Ann reads for Night; `more` are the group's other columns."""
    with ward.work() as work:
        night = PrelimGroup(site_id=SITE, name="Night", tags=["CT"], **more)
        work.session.add(night)
        work.session.add(PrelimGroup(site_id=SITE, name="Day", tags=["CT"]))


def test_a_group_accepts_the_reads_of_its_members(ward: Ward) -> None:
    """Bob is no member: 400, nothing changes. Letters of an address may be of either case."""
    groups_of(ward, members=["Ann@Example.org"])
    own, foreign = ward.draft("A1"), ward.draft("A2")
    ward.on_report(foreign, open_for, ward.bob)

    ward.do(prelim, own, "Night", "CT")
    with pytest.raises(RuleBroken) as refused:
        ward.do(prelim, foreign, "Night", "CT")

    assert (refused.value.code, refused.value.pointer) == ("not_prelim_member", "/prelimGroup")
    assert (ward.status(own), ward.status(foreign)) == ("Preliminary", "Draft")
    ward.do(prelim, foreign, "Day", "CT")  # a group without members is everybody's


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
def test_only_a_reviewer_takes_a_preliminary(
    ward: Ward, reviewers: list[str] | None, members: list[str], *, taken: bool
) -> None:
    """V9: a reviewer who opens it owns it; anybody else only sees it."""
    groups_of(ward, members=members, reviewers=reviewers)
    order = ward.draft("A1")
    ward.do(prelim, order, "Night", "CT")

    ward.on_report(order, open_for, ward.bob)

    owner = "bob@example.org" if taken else "ann@example.org"
    assert ward.record(order).user_email == owner
    if not taken:
        with pytest.raises(RuleBroken) as refused:
            ward.do(assign_order, order, "bob@example.org")
        assert refused.value.code == "not_prelim_reviewer"


def test_a_preliminary_reader_reviews_nobody(ward: Ward) -> None:
    """Who may never sign is no reviewer, unless the group names them."""
    order = ward.draft("A1")
    ward.do(prelim, order, "Night", "CT")
    set_role(ward, ward.bob, SiteRole.PRELIM)

    ward.on_report(order, open_for, ward.bob)

    assert ward.record(order).user_email == "ann@example.org"


def test_a_draft_is_assigned_to_another_user(ward: Ward) -> None:
    """The content stays; strangers and signed reports are refused."""
    order = ward.draft("A1")

    ward.do(assign_order, order, "bob@example.org")

    record = ward.record(order)
    assert (record.user_email, record.status, ward.content(order)) == (
        "bob@example.org",
        "Draft",
        "Clear lungs.",
    )
    with pytest.raises(Forbidden) as stranger:
        ward.do(assign_order, order, "nobody@example.org")
    assert stranger.value.code == "user_not_found"
    ward.do(sign, order)
    with pytest.raises(RuleBroken) as signed:
        ward.do(assign_order, order, "ann@example.org")
    assert signed.value.code == "report_signed"


def set_role(ward: Ward, account_id: int, role: SiteRole) -> None:
    """Give somebody another role on the site."""
    with ward.database.session() as session:
        member = session.get(SiteMembership, (SITE, account_id))
        assert member is not None
        member.role = role
        session.add(member)


def test_configured_prelim_groups_bind(ward: Ward) -> None:
    """V60: unknown group or tag of a site that has groups: 400, nothing changes."""
    with ward.work() as work:
        work.session.add(PrelimGroup(site_id=SITE, name="Night", tags=["CT"]))
    order = ward.draft("A1")

    for group, tag, code in (
        ("Day", "CT", "unknown_prelim_group"),
        ("Night", "MR", "unknown_prelim_tag"),
    ):
        with pytest.raises(RuleBroken) as refused:
            ward.do(prelim, order, group, tag)
        assert refused.value.code == code

    assert ward.status(order) == "Draft"


def test_status_of_several(ward: Ward) -> None:
    """V34: found ones in request order, two orders of one report once; a single unknown is 404."""
    one, two = ward.draft("A1"), ward.order("A2")

    with ward.work() as work:
        records = query_status(work.connection, [two, ward.identity("X"), one, two], ward.now)
        assert [each.orders[0].accession for each in records] == ["A2", "A1"]
        with pytest.raises(ReportNotFound):
            query_status(work.connection, [ward.identity("X")], ward.now)


def test_sites_do_not_see_each_other(ward: Ward) -> None:
    """The same MRN and accession on another site is another report."""
    with ward.work() as work:
        work.session.add(Site(site_id="SITE2", created_at=1))
    order = ward.draft("A1")

    ward.do(register, "SITE2", OrderInput("M1", "A1"))

    with ward.work() as work:
        assert len(work.session.exec(select(ReportOrder)).all()) == 2
        assert len({each.site_id for each in work.session.exec(select(Report))}) == 2
        assert work.session.get(Account, ward.ann) is not None
    assert ward.status(order) == "Draft"
