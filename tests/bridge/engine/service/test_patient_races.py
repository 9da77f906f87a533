"""Merges and updates of a patient concurrent with launches are serialized, on both databases."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from sqlmodel import select

from bridge.contract import OrderKey
from bridge.engine.errors import EngineError
from bridge.engine.launch import LaunchInput
from bridge.engine.records.tables import PatientPointer, ReportOrder, Site
from bridge.engine.rules.text.billing import CodeRow, CodeSystem
from bridge.engine.rules.text.document import from_text
from bridge.engine.service.caller import Caller
from bridge.engine.service.launch.launch_users import LaunchUsers
from bridge.engine.service.launch.launches import execute_all
from bridge.engine.service.launch.registration import OrderInput
from bridge.engine.service.launch.report_updates import assign_report
from bridge.engine.service.report_lookup import find_orders, lock_patients, lock_report
from bridge.engine.service.reports.patients import merge_patients, update_patient
from bridge.engine.service.signing.prelims import prelim
from bridge.engine.service.sites import site_settings
from bridge.engine.service.sites.billing import code_map, set_code_map
from bridge.engine.service.sites.macros import macros_of, set_macro
from bridge.engine.service.sites.site_settings import apply_changes, prepare
from bridge.engine.service.work import Work
from bridge.store.errors import Busy, Conflict
from tests.bridge.engine.registrations import register
from tests.bridge.engine.service.harness import SITE, ServiceHarness
from tests.eventually import PATIENCE


def retry(harness: ServiceHarness, service: Callable[..., Any], *args: Any) -> Any:
    """Repeat a use case after a conflict, as the executor does."""
    for _ in range(5):
        try:
            return harness.do(service, *args)
        except (Busy, Conflict):
            continue
    raise AssertionError("a conflict in every attempt")


def run_during(
    harness: ServiceHarness, first: Callable[[Work], Any], then: Callable[[], Any]
) -> Any:
    """
    Start `then` in a thread while the transaction of `first` is open.

    `first` commits when `then` waits for a lock or has ended.
    """
    with ThreadPoolExecutor(1) as pool:
        with harness.work() as work:
            first(work)
            work.flush()
            other: Future[Any] = pool.submit(then)
            harness.await_lock(other)
        return other.result(PATIENCE)


def mrns(harness: ServiceHarness) -> dict[str, str]:
    with harness.work() as work:
        return {row.accession: row.mrn for row in work.session.exec(select(ReportOrder))}


def test_an_order_that_arrives_during_a_merge_gets_the_surviving_identifier(
    harness: ServiceHarness,
) -> None:
    harness.order("A1", mrn="OLD")

    run_during(
        harness,
        lambda work: merge_patients(work, SITE, "M1", "OLD"),
        lambda: retry(harness, register, SITE, OrderInput("OLD", "A2")),
    )

    assert mrns(harness) == {"A1": "M1", "A2": "M1"}
    assert harness.status(harness.identity("A2", "OLD")) == "Ordered"


def test_a_merge_during_a_launch_includes_its_order(harness: ServiceHarness) -> None:
    """The order is not committed when the merge starts."""
    run_during(
        harness,
        lambda work: register(work, SITE, OrderInput("OLD", "A1")),
        lambda: retry(harness, merge_patients, SITE, "M1", "OLD"),
    )

    assert mrns(harness) == {"A1": "M1"}


def test_a_patient_update_during_a_launch_includes_its_order(harness: ServiceHarness) -> None:
    harness.order("A1")

    run_during(
        harness,
        lambda work: register(
            work, SITE, OrderInput("M1", "A2", tags={"PatientName": "EXAMPLE^ADA"})
        ),
        lambda: retry(harness, update_patient, SITE, "M1", {"PatientName": "SAMPLE^ADA"}),
    )

    with harness.work() as work:
        names = {row.tags["PatientName"] for row in work.session.exec(select(ReportOrder))}
    assert names == {"SAMPLE^ADA"}


def _register_on(work: Work, *sites: str) -> int:
    caller = Caller(0, None, "", service=True)
    tags = {"PatientMRN": "M1", "Accession": "A1"}
    orders = [LaunchInput(OrderKey(site, "M1", "A1"), tags, register_order=True) for site in sites]
    return len(execute_all(work, LaunchUsers(work.connection, caller, work.now), orders))


def test_batches_of_several_sites_lock_their_patients_in_one_order(harness: ServiceHarness) -> None:
    """A batch for two sites waits for the first one's patient and has not locked the second's."""
    with harness.database.session() as session:
        session.add(Site(site_id="SITE2", name="Second", created_at=harness.now))

    def lock_both(work: Work) -> None:
        lock_patients(work, SITE, ["M1"])
        waiting.append(pool.submit(harness.do, _register_on, "SITE2", SITE))
        harness.await_lock(waiting[0])
        lock_patients(work, "SITE2", ["M1"])

    waiting: list[Future[int]] = []
    with ThreadPoolExecutor(1) as pool:
        harness.do(lock_both)
        assert waiting[0].result(PATIENCE) == 2


def test_a_merged_identifier_is_locked_as_its_survivor(harness: ServiceHarness) -> None:
    """OLD was merged into M1, which is merged into M2 while an order for OLD arrives."""
    harness.do(merge_patients, SITE, "M1", "OLD")

    run_during(
        harness,
        lambda work: merge_patients(work, SITE, "M2", "M1"),
        lambda: retry(harness, register, SITE, OrderInput("OLD", "A1")),
    )

    assert mrns(harness) == {"A1": "M2"}


def test_the_last_merge_of_a_cycle_is_refused(harness: ServiceHarness) -> None:
    """Concurrent merges of A into B, B into C and C into A: 400 for one of them."""
    refusals: list[str] = []

    def merge(survivor: str, prior: str) -> None:
        try:
            retry(harness, merge_patients, SITE, survivor, prior)
        except EngineError as refusal:
            refusals.append(refusal.code)

    run_during(harness, lambda work: merge_patients(work, SITE, "B", "A"), lambda: merge("A", "B"))
    assert refusals == ["merge_cycle"]
    with ThreadPoolExecutor(3) as pool:
        for number in range(8):
            one, two, three = (f"{name}{number}" for name in "XYZ")
            pairs = [(two, one), (three, two), (one, three)]
            list(pool.map(lambda pair: merge(*pair), pairs))
    assert len(refusals) == 9
    with harness.work() as work:
        pointers = {row.prior_mrn: row.mrn for row in work.session.exec(select(PatientPointer))}
    assert not set(pointers) & set(pointers.values())  # no chains and no cycles


def test_an_order_is_found_while_its_patient_is_merged(harness: ServiceHarness) -> None:
    """A reader with two statements sees the order before or after the merge."""
    orders = [harness.order(f"A{number}", mrn=f"OLD{number}") for number in range(20)]

    def merge_all() -> None:
        for order in orders:
            retry(harness, merge_patients, SITE, "M1", order.mrn)

    with ThreadPoolExecutor(1) as pool:
        merging = pool.submit(merge_all)
        while not merging.done():
            with harness.work() as work:
                assert len(find_orders(work.session, orders)) == len(orders)
        merging.result()


def test_concurrent_changes_of_one_site_are_both_kept(harness: ServiceHarness) -> None:
    """Each changes a different member."""

    def change(work: Work, **members: Any) -> None:
        site = site_settings.get_site(work.connection, SITE, lock=True)
        site_settings.update_site(work.connection, apply_changes(site, prepare(members)))

    run_during(
        harness,
        lambda work: change(work, name="Renamed"),
        lambda: retry(harness, lambda work: change(work, locations=["North"])),
    )

    with harness.database.read() as connection:
        site = site_settings.get_site(connection, SITE)
    assert (site.name, site.locations) == ("Renamed", ("North",))


def test_concurrent_first_uses_of_two_tags_of_a_group(harness: ServiceHarness) -> None:
    one, two = harness.draft("A1"), harness.draft("A2")
    harness.do(prelim, harness.draft("A0"), "Night", "Chest")

    run_during(
        harness,
        lambda work: prelim(work, one, "Night", "Neuro"),
        lambda: retry(harness, prelim, two, "Night", "Spine"),
    )

    with harness.database.read() as connection:
        groups = site_settings.list_prelim_groups(connection, SITE)
    assert [sorted(group["tags"]) for group in groups] == [["Chest", "Neuro", "Spine"]]


def test_concurrent_changes_of_code_maps_and_macros(harness: ServiceHarness) -> None:
    """A code map is replaced as a whole, and a site has one macro per trigger."""
    one, two = (CodeRow(CodeSystem.CPT, "chest", code, "") for code in ("71045", "71046"))

    def both(work: Work, row: CodeRow) -> None:
        set_code_map(work.connection, SITE, [row])
        set_macro(work.connection, SITE, None, ".n", row.code, from_text("Normal."), work.now)

    run_during(harness, lambda work: both(work, one), lambda: retry(harness, both, two))

    with harness.database.read() as connection:
        assert [row.code for row in code_map(connection, SITE)] == ["71046"]
        assert [macro["name"] for macro in macros_of(connection, SITE, None)] == ["71046"]


def test_a_merge_waits_for_a_report_that_is_being_opened(harness: ServiceHarness) -> None:
    order = harness.order("A1", mrn="OLD")

    run_during(
        harness,
        lambda work: assign_report(work, lock_report(work, order).report, harness.ann),
        lambda: retry(harness, merge_patients, SITE, "M1", "OLD"),
    )

    assert harness.status(harness.identity("A1")) == "Draft"
