"""Merges and corrections of a patient beside launches: one after the other, on both databases."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from sqlalchemy import text
from sqlmodel import select

from bridge.engine.errors import RuleBroken
from bridge.engine.records.tables import PatientPointer, ReportOrder
from bridge.engine.rules.text.billing import CodeRow, CodeSystem
from bridge.engine.rules.text.document import from_text
from bridge.engine.service.launch.creation import OrderInput
from bridge.engine.service.launch.registration import register
from bridge.engine.service.launch.report_updates import assign_report
from bridge.engine.service.report_lookup import find_orders, lock_report
from bridge.engine.service.reports.patients import merge_patients, update_patient
from bridge.engine.service.signing.prelims import prelim
from bridge.engine.service.sites import sites
from bridge.engine.service.sites.billing import code_map, set_code_map
from bridge.engine.service.sites.macros import macros_of, set_macro
from bridge.engine.service.sites.site_changes import apply_changes, prepare
from bridge.engine.service.work import Work
from bridge.store.errors import Busy, Conflict
from tests.bridge.engine.service.ward import SITE, Ward
from tests.eventually import eventually


def insist(ward: Ward, service: Callable[..., Any], *args: Any) -> Any:
    """Do it as the workshop does: what lost a race is tried again as a whole."""
    for _ in range(5):
        try:
            return ward.do(service, *args)
        except (Busy, Conflict):
            continue
    raise AssertionError("it lost every race")


def beside(ward: Ward, first: Callable[[Work], Any], then: Callable[[], Any]) -> Any:
    """
    Begin `then` in a thread while the transaction of `first` is still open.

    `first` commits when `then` waits for it, or has not waited and is done.
    """
    with ThreadPoolExecutor(1) as pool:
        with ward.work() as work:
            first(work)
            work.flush()
            other: Future[Any] = pool.submit(then)
            if ward.database.dialect == "postgresql":
                eventually(lambda: other.done() or waits(ward))
        return other.result(30)


def waits(ward: Ward) -> bool:
    """Tell whether a transaction of this database waits for a lock."""
    query = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with ward.database.read() as connection:
        return bool(connection.execute(query).scalar_one())


def mrns(ward: Ward) -> dict[str, str]:
    """Identifier of each accession."""
    with ward.work() as work:
        return {each.accession: each.mrn for each in work.session.exec(select(ReportOrder))}


def test_an_order_that_arrives_during_a_merge_belongs_to_the_survivor(ward: Ward) -> None:
    """It waits for the merge, and is found under either identifier."""
    ward.order("A1", mrn="OLD")

    beside(
        ward,
        lambda work: merge_patients(work, SITE, "M1", "OLD"),
        lambda: insist(ward, register, SITE, OrderInput("OLD", "A2")),
    )

    assert mrns(ward) == {"A1": "M1", "A2": "M1"}
    assert ward.status(ward.identity("A2", "OLD")) == "Ordered"


def test_a_merge_during_a_launch_takes_its_order_along(ward: Ward) -> None:
    """The order is not there yet when the merge begins."""
    beside(
        ward,
        lambda work: register(work, SITE, OrderInput("OLD", "A1")),
        lambda: insist(ward, merge_patients, SITE, "M1", "OLD"),
    )

    assert mrns(ward) == {"A1": "M1"}


def test_a_correction_during_a_launch_reaches_its_order(ward: Ward) -> None:
    """One patient has one name afterwards."""
    ward.order("A1")

    beside(
        ward,
        lambda work: register(
            work, SITE, OrderInput("M1", "A2", tags={"PatientName": "EXAMPLE^ADA"})
        ),
        lambda: insist(ward, update_patient, SITE, "M1", {"PatientName": "SAMPLE^ADA"}),
    )

    with ward.work() as work:
        names = {each.tags["PatientName"] for each in work.session.exec(select(ReportOrder))}
    assert names == {"SAMPLE^ADA"}


def test_an_identifier_that_leads_to_another_is_locked_as_that_one(ward: Ward) -> None:
    """OLD leads to M1, which is merged into M2 while an order for OLD arrives."""
    ward.do(merge_patients, SITE, "M1", "OLD")

    beside(
        ward,
        lambda work: merge_patients(work, SITE, "M2", "M1"),
        lambda: insist(ward, register, SITE, OrderInput("OLD", "A1")),
    )

    assert mrns(ward) == {"A1": "M2"}


def test_the_last_merge_of_a_circle_is_refused(ward: Ward) -> None:
    """A into B, B into C and C into A at once: 400 for the one that closes the circle."""
    refusals: list[str] = []

    def merge(survivor: str, prior: str) -> None:
        try:
            insist(ward, merge_patients, SITE, survivor, prior)
        except RuleBroken as refusal:
            refusals.append(refusal.code)

    beside(ward, lambda work: merge_patients(work, SITE, "B", "A"), lambda: merge("A", "B"))
    assert refusals == ["merge_cycle"]
    with ThreadPoolExecutor(3) as pool:
        for number in range(8):
            one, two, three = (f"{name}{number}" for name in "XYZ")
            pairs = [(two, one), (three, two), (one, three)]
            list(pool.map(lambda pair: merge(*pair), pairs))
    assert len(refusals) == 9
    with ward.work() as work:
        pointers = {row.prior_mrn: row.mrn for row in work.session.exec(select(PatientPointer))}
    assert not set(pointers) & set(pointers.values())  # each leads to an end, none in a circle


def test_an_order_is_found_while_its_patient_is_merged(ward: Ward) -> None:
    """A reader between two statements of its own sees the order before or after the merge."""
    orders = [ward.order(f"A{number}", mrn=f"OLD{number}") for number in range(20)]

    def merge_all() -> None:
        for each in orders:
            insist(ward, merge_patients, SITE, "M1", each.mrn)

    with ThreadPoolExecutor(1) as pool:
        merging = pool.submit(merge_all)
        while not merging.done():
            with ward.work() as work:
                assert len(find_orders(work.session, orders)) == len(orders)
        merging.result()


def test_two_changes_of_one_site_are_both_kept(ward: Ward) -> None:
    """Each changes another member."""

    def change(work: Work, **members: Any) -> None:
        site = sites.get_site(work.connection, SITE, lock=True)
        sites.update_site(work.connection, apply_changes(site, prepare(members)))

    beside(
        ward,
        lambda work: change(work, name="Renamed"),
        lambda: insist(ward, lambda work: change(work, locations=["North"])),
    )

    with ward.database.read() as connection:
        site = sites.get_site(connection, SITE)
    assert (site.name, site.locations) == ("Renamed", ("North",))


def test_two_tags_of_a_group_that_are_used_first_at_once(ward: Ward) -> None:
    """The group knows both, so that both queues can be read."""
    one, two = ward.draft("A1"), ward.draft("A2")
    ward.do(prelim, ward.draft("A0"), "Night", "Chest")

    beside(
        ward,
        lambda work: prelim(work, one, "Night", "Neuro"),
        lambda: insist(ward, prelim, two, "Night", "Spine"),
    )

    with ward.database.read() as connection:
        groups = sites.list_prelim_groups(connection, SITE)
    assert [sorted(each["tags"]) for each in groups] == [["Chest", "Neuro", "Spine"]]


def test_code_maps_and_macros_that_are_set_at_once(ward: Ward) -> None:
    """A map is replaced as a whole, and a site has one macro of a trigger."""
    one, two = (CodeRow(CodeSystem.CPT, "chest", code, "") for code in ("71045", "71046"))

    def both(work: Work, row: CodeRow) -> None:
        set_code_map(work.connection, SITE, [row])
        set_macro(work.connection, SITE, None, ".n", row.code, from_text("Normal."), work.now)

    beside(ward, lambda work: both(work, one), lambda: insist(ward, both, two))

    with ward.database.read() as connection:
        assert [row.code for row in code_map(connection, SITE)] == ["71046"]
        assert [each["name"] for each in macros_of(connection, SITE, None)] == ["71046"]


def test_a_merge_waits_for_a_report_that_is_being_opened(ward: Ward) -> None:
    """The merge has locked the patient by then, and waits for the report."""
    order = ward.order("A1", mrn="OLD")

    beside(
        ward,
        lambda work: assign_report(work, lock_report(work, order).report, ward.ann),
        lambda: insist(ward, merge_patients, SITE, "M1", "OLD"),
    )

    assert ward.status(ward.identity("A1")) == "Draft"
