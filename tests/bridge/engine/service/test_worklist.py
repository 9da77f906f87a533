"""The worklist query, its order by priority, prior reports, and the change feed."""

from collections.abc import Callable
from typing import Any

import pytest

from bridge.contract import ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.contract.responses import WorklistResponse
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import Site
from bridge.engine.rules.order import Priority
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service import change_feed
from bridge.engine.service.accounts.users import SiteUser
from bridge.engine.service.launch.registration import OrderInput
from bridge.engine.service.launch.report_updates import open_for
from bridge.engine.service.reports import priors
from bridge.engine.service.reports.order_links import link_orders, unlink_orders
from bridge.engine.service.reports.patients import merge_patients
from bridge.engine.service.reports.priors import list_priors, read_prior
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.signing.prelims import list_waiting, prelim
from bridge.engine.service.signing.sign import sign
from bridge.engine.service.work import Work
from bridge.engine.service.worklist import (
    MAX_WORDS,
    RowsQuery,
    Sort,
    SortColumn,
    WorklistQuery,
    read_rows,
    read_worklist,
)
from tests.bridge.engine.refusals import refused
from tests.bridge.engine.registrations import create_draft, register
from tests.bridge.engine.service.harness import PATIENT, SITE, ServiceHarness
from tests.peak_memory import peak_memory


def ask(harness: ServiceHarness, query: WorklistQuery) -> WorklistResponse:
    with harness.work() as work:
        return read_worklist(work.session, query, harness.now)


def names(page: WorklistResponse) -> list[str]:
    return [item["clinicalInfo"][0]["Accession"] for item in page.items]


LISTS: dict[str, Callable[[Work], object]] = {
    "API": lambda work: read_worklist(work.session, WorklistQuery(SITE), work.now),
    "application": lambda work: read_rows(work.session, RowsQuery(SITE), 1, work.now),
    "reviews": lambda work: list_waiting(work.session, SITE, "Night", "CT", work.now),
}


@pytest.mark.parametrize("read", LISTS.values(), ids=LISTS)
def test_lists_read_no_texts(harness: ServiceHarness, read: Callable[[Work], object]) -> None:
    """A list needs less memory than the text of one of its reports."""
    text = "Clear lungs. " * 100_000
    for name in ("A1", "A2"):
        harness.do(prelim, harness.draft(name, text=text), "Night", "CT")
    with harness.work() as work:
        read(work)  # builds statements and mappers
    with harness.work() as work, peak_memory() as peak:
        read(work)
    assert peak.bytes < len(text)


def test_pages_continue_after_the_last_one(harness: ServiceHarness) -> None:
    """Pages contain every report once, in order, also if many have the same time."""
    for number in range(7):
        day, name = 20260101 + number // 2, f"EXAMPLE^{chr(65 + number // 3)}'Ä\""
        harness.order(f"A{number}", StudyDate=str(day), PatientName=name)
        harness.later(number % 2)

    for sort in Sort:
        found: list[str] = []
        cursor = ""
        while True:
            page = ask(harness, WorklistQuery(SITE, sort=sort, limit=3, cursor=cursor))
            found += names(page)
            if page.next is None:
                break
            cursor = page.next
        forward = [f"A{number}" for number in range(7)]
        assert found == (forward[::-1] if sort.startswith("-") else forward)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"status": [ReportStatus.DRAFT]}, ["A2"]),
        ({"status": [ReportStatus.DRAFT, ReportStatus.FINAL]}, ["A2", "A3"]),
        ({"mrn": "M2"}, ["B1"]),
        ({"accession": "A1"}, ["A1"]),
        ({"text": "example ada"}, ["A1", "A2", "A3"]),
        ({"text": "EVE^EXAMPLE"}, ["B1"]),
        ({"text": "chest"}, ["A1"]),
        ({"text": "100%_"}, []),
        ({"mrn": "M1", "accession": "B1"}, []),
        ({"study_from": "20260102"}, ["A2", "A3"]),
        ({"study_to": "20260102"}, ["A1", "A2"]),
        ({"study_from": "20260102", "study_to": "20260102"}, ["A2"]),
        ({"modalities": ["ct", "MR"]}, ["A1", "A2"]),
        ({"modalities": ["CT"], "study_from": "20260102"}, []),
        ({"reader": "ANN@example.org"}, ["A2", "A3"]),
        ({"reader": "bob@example.org"}, []),
        ({"reader": "unknown@example.org"}, []),
        ({"reader": "none"}, ["A1", "B1"]),
        ({"locations": ["North"]}, ["L1"]),
    ],
)
def test_filters(harness: ServiceHarness, query: dict[str, object], expected: list[str]) -> None:
    """Status, patient, accession and text narrow the list."""
    harness.order("A1", StudyDescription="CT Chest", StudyDate="2026-01-01", Modality="CT")
    second = harness.order("A2", StudyDate="202601021530", Modality="MR")
    harness.on_report(second, open_for, harness.ann)
    harness.do(sign, harness.draft("A3", StudyDate="20260103"))
    harness.order("B1", mrn="M2", PatientName="EXAMPLE^EVE")
    if "locations" in query:
        harness.do(register, SITE, OrderInput("M3", "L1", location="North", tags=PATIENT))

    page = ask(harness, WorklistQuery(SITE, sort=Sort.CREATED, **query))  # type: ignore[arg-type]

    assert names(page) == expected


def test_an_item_contains_all_orders_of_a_group(harness: ServiceHarness) -> None:
    """A linked report is one item."""
    one, two = harness.order("A1", Modality="CT"), harness.order("A2", Modality="MR")
    harness.do(link_orders, [one, two])

    (item,) = ask(harness, WorklistQuery(SITE, accession="A2")).items

    assert [order["Modality"] for order in item["orders"]] == ["CT", "MR"]
    assert (item["status"], item["hasContent"], item["ownerName"]) == ("Ordered", False, "")


def test_an_item_has_the_most_urgent_priority_and_the_first_time(harness: ServiceHarness) -> None:
    """Priority is a code of table 0485 or null; the time is that of the first order."""
    harness.order("NONE")
    for accession, priority in (("A1", " routine "), ("A2", "STAT"), ("A3", "R"), ("A4", "U-7")):
        order = OrderInput("M1", accession, tags=PATIENT, metadata={"Priority": priority})
        harness.do(register, SITE, order)
        harness.later(60)
    harness.do(link_orders, [harness.identity("A1"), harness.identity("A2")])

    found = {
        item["clinicalInfo"][0]["Accession"]: (item["priority"], item["orderedAt"])
        for item in ask(harness, WorklistQuery(SITE)).items
    }

    assert found == {
        "NONE": (None, "2027-01-15T08:00:00.000Z"),
        "A1": ("S", "2027-01-15T08:00:00.000Z"),
        "A3": ("R", "2027-01-15T08:02:00.000Z"),
        "A4": ("U-7", "2027-01-15T08:03:00.000Z"),
    }


@pytest.mark.parametrize("cursor", ["x", "bnVsbA", "W10", "WyJ1cGRhdGVkIiwxLDJd", "ÿ", "W1tbW1tb"])
def test_an_invalid_cursor_is_refused(harness: ServiceHarness, cursor: str) -> None:
    """An invalid cursor, or one of another sort order, gives 400."""
    with pytest.raises(EngineError) as refused:
        ask(harness, WorklistQuery(SITE, cursor=cursor))

    assert refused.value.code == "bad_cursor"


def test_changes_that_were_not_read_are_not_pruned(harness: ServiceHarness) -> None:
    """Changes after the given cursor are kept, however old they are."""
    for number in range(3):
        harness.order(f"A{number}")
    cursors = [change["cursor"] for change in harness.changes()]
    with harness.database.write() as connection:
        assert change_feed.prune_changes(connection, harness.now + 1, 10, cursors[1]) == 2
    assert [change["cursor"] for change in harness.changes()] == cursors[2:]


def test_a_search_finds_the_orders_that_a_merge_moved(harness: ServiceHarness) -> None:
    """By the number of the surviving patient."""
    harness.order("A1", mrn="OLD")
    harness.do(merge_patients, SITE, "SURVIVOR", "OLD")
    assert len(ask(harness, WorklistQuery(SITE, text="survivor")).items) == 1


def test_words_of_a_search_are_limited(harness: ServiceHarness) -> None:
    """Each word is compared with each order of the site; a repeated one counts once."""
    order = harness.order("A1")
    many = " ".join(chr(ord("a") + number) for number in range(MAX_WORDS + 1))
    (found,) = ask(harness, WorklistQuery(SITE, text="example " * 100)).items
    assert found["orders"][0]["Accession"] == order.accession
    with pytest.raises(EngineError) as refused:
        ask(harness, WorklistQuery(SITE, text=many))
    assert (refused.value.code, refused.value.pointer) == ("too_many_words", "/q")


SENT = {
    "ROUTINE": "R",
    "NONE": None,
    "STAT": "S",
    "LATER": "prn",
    "PREOP": "Preop",
    "SOON": " asap ",
    "UNKNOWN": "U-7",
    "URGENT": "Urgent",
    "STAT2": "stat",
    "NUMBER": 1,
}
BY_PRIORITY = [
    *("STAT", "STAT2", "SOON", "URGENT", "PREOP", "ROUTINE", "NONE", "UNKNOWN", "NUMBER", "LATER"),
]


def add(harness: ServiceHarness, accession: str, priority: Any) -> None:
    metadata = {} if priority is None else {"Priority": priority}
    order = OrderInput("M1", accession, tags=PATIENT, metadata=metadata)
    harness.do(register, SITE, order)
    harness.later(60)


@pytest.fixture
def sent(harness: ServiceHarness) -> ServiceHarness:
    for accession, priority in SENT.items():
        add(harness, accession, priority)
    return harness


def rows(harness: ServiceHarness, **query: Any) -> list[str]:
    """Return the accessions of the app's list, most urgent first."""
    wanted = RowsQuery(SITE, sort=SortColumn.PRIORITY, **{"descending": False, **query})
    with harness.work() as work:
        found = read_rows(work.session, wanted, 1, harness.now)
    return [row["clinicalInfo"][0]["Accession"] for row in found.items]


def pages(harness: ServiceHarness, limit: int = 3, **query: Any) -> list[str]:
    found, cursor = [], ""
    while True:
        wanted = WorklistQuery(SITE, limit=limit, cursor=cursor, **query)
        with harness.work() as work:
            page = read_worklist(work.session, wanted, harness.now)
        found += [item["clinicalInfo"][0]["Accession"] for item in page.items]
        if page.next is None:
            return found
        cursor = page.next


def test_the_most_urgent_comes_first_then_the_oldest(sent: ServiceHarness) -> None:
    """An order without a priority, or with an unknown one, is routine."""
    assert rows(sent) == BY_PRIORITY
    assert pages(sent, sort=Sort.PRIORITY) == BY_PRIORITY
    assert rows(sent, descending=True)[0] == "LATER"
    assert pages(sent, sort=Sort.LEAST_URGENT)[0] == "LATER"


def test_filters_by_priority_and_modality(sent: ServiceHarness) -> None:
    """Routine includes orders without a known priority."""
    assert rows(sent, priority=Priority.STAT) == ["STAT", "STAT2"]
    assert rows(sent, priority=Priority.ROUTINE) == ["ROUTINE", "NONE", "UNKNOWN", "NUMBER"]
    urgent = [Priority.STAT, Priority.ASAP]
    assert pages(sent, sort=Sort.CREATED, priorities=urgent) == ["STAT", "SOON", "URGENT", "STAT2"]
    tags = {**PATIENT, "Modality": "mr"}
    sent.do(register, SITE, OrderInput("M1", "MR", tags=tags, metadata={"Priority": "S"}))
    assert rows(sent, modality="MR", priority=Priority.STAT) == ["MR"]


def test_a_group_has_its_most_urgent_priority(harness: ServiceHarness) -> None:
    """The urgent order of a group counts, also if it is not the anchor."""
    for accession, priority in (("A1", "R"), ("A2", "A"), ("A3", "S")):
        add(harness, accession, priority)
    group = [harness.identity("A1"), harness.identity("A3")]
    harness.do(link_orders, group)
    assert rows(harness) == ["A1", "A2"]
    harness.do(unlink_orders, group[1:])
    assert rows(harness) == ["A3", "A2", "A1"]


def test_a_changed_priority_moves_the_order(harness: ServiceHarness) -> None:
    """An order change (XO) with another priority is sorted by it; one without keeps it."""
    add(harness, "A1", "R")
    add(harness, "A2", "R")
    add(harness, "A2", "S")
    assert rows(harness) == ["A2", "A1"]
    add(harness, "A2", None)
    assert rows(harness) == ["A2", "A1"]
    add(harness, "A2", "R")
    assert rows(harness) == ["A1", "A2"]


def test_reports_of_another_site_are_no_priors(harness: ServiceHarness) -> None:
    """Another site's patient with the same identifier is another patient."""
    ann = Editor(harness.ann, SiteRole.USER, "s")
    present, prior = harness.draft("A1"), harness.draft("A2")
    harness.do(sign, prior)
    with harness.database.session() as session:
        session.add(Site(site_id="SITE2", name="Other Clinic", created_at=harness.now))
    with harness.work() as work:
        owner = SiteUser(harness.ann, "ann@example.org", "Ann")
        foreign = create_draft(work, "SITE2", OrderInput("M1", "X9", tags=PATIENT), owner, "Text.")
        foreign.status, foreign.signed_at = ReportStatus.FINAL, work.now
        work.session.add(foreign)
        foreign_id = foreign.report_id

    report_id, prior_id = (harness.record(item).report_id for item in (present, prior))
    assert [row["reportId"] for row in harness.do(list_priors, ann, report_id)] == [prior_id]
    with refused(ErrorCode.REPORT_NOT_FOUND):
        harness.do(read_prior, ann, report_id, foreign_id)


def test_only_the_newest_reports_are_examined(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A placeholder of a patient may have any number of reports; each can still be opened."""
    monkeypatch.setattr(priors, "EXAMINED", 2)
    ann = Editor(harness.ann, SiteRole.USER, "s")
    orders = [harness.draft(f"A{number}") for number in range(4)]
    for order in orders[1:]:
        harness.do(sign, order)
    present, *earlier = (harness.record(item).report_id for item in orders)
    listed = {prior["reportId"] for prior in harness.do(list_priors, ann, present)}
    assert listed == set(earlier[1:])
    assert harness.do(read_prior, ann, present, earlier[0])["document"]
