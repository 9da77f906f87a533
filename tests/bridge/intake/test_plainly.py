"""Which messages ask for one launch and nothing else."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bridge.intake.plainly import plainly, sorted_out
from bridge.intake.planning import Occasion, plan
from bridge.intake.reading import Job
from bridge.intake.running import Run
from bridge.queue.work import Claimed
from bridge.store.message_time import MessageTime, Resolution, clock
from bridge.store.order_index import IndexedOrder
from mappings.events import Action, LinkSignal, OrderEvent, Visit

STUDY, OTHER = LinkSignal("study-uid", "1.2.3"), LinkSignal("study-uid", "1.2.4")
MINUTES = clock(1, Resolution.MINUTE)
CLAIMED = Claimed(7, b"MSH", "ris", "orders", "1", (1,), 1, 0, 0, "ORM^O01")


def event(
    accession: str = "A", action: Action = Action.CREATE, signal: LinkSignal = STUDY
) -> OrderEvent:
    """What a message says of an order."""
    tags = {"SiteID": "S", "PatientMRN": "M", "Accession": accession, "StudyDescription": "CT"}
    return OrderEvent(action, "S", "", "M", accession, tags, {}, "ORC", (signal,), f"P{accession}")


def run(*events: OrderEvent, known: Sequence[IndexedOrder] = (), number: int = 7) -> Run:
    """A message that brings these events, and what is known before it."""
    occasion = Occasion(number, MessageTime(60_000 * number, MINUTES))
    job = Job(replace(CLAIMED, message_id=number), occasion, events)
    return Run(job, {each.key: each for each in known})


def order(of: OrderEvent) -> IndexedOrder:
    """An order that was registered by an event before."""
    return plan([of], {}, Occasion(1, MessageTime(60_000, MINUTES)))[0].after


ONE = event()


@pytest.mark.parametrize(
    "asked",
    [
        run(ONE),
        run(event("B", signal=OTHER), known=[order(ONE)]),
        run(event(action=Action.CHANGE), known=[order(ONE)]),
        run(ONE, ONE),
        run(ONE, event("", Action.IGNORE)),
    ],
    ids=["new", "new beside another", "changed", "said twice", "with what is passed over"],
)
def test_one_launch(asked: Run) -> None:
    """Registered by one launch, as it is planned in any case."""
    found = plainly(asked)
    assert found is not None
    assert [found.task] == plan(asked.job.events, asked.index, asked.job.occasion)
    assert found.launch.register_order
    assert found.launch.clinical_info["Accession"] == found.task.after.key.accession


@pytest.mark.parametrize(
    "asked",
    [
        run(event("B"), known=[order(ONE)]),
        run(ONE, event("B")),
        run(event(action=Action.CHANGE, signal=OTHER), known=[order(ONE)]),
        run(event(action=Action.LINK), known=[order(ONE)]),
        run(event(action=Action.CANCEL), known=[order(ONE)]),
        run(event(action=Action.UNLINK), known=[order(ONE)]),
        run(ONE, replace(ONE, action=Action.PATIENT_UPDATE)),
        run(replace(ONE, visit=Visit("VisitNumber", "V1"))),
        run(replace(ONE, action=Action.IGNORE)),
    ],
    ids=[
        "shares a signal",
        "two orders",
        "another study",
        "to be linked",
        "cancelled",
        "taken out of its group",
        "with a patient",
        "with a visit",
        "nothing",
    ],
)
def test_more_than_a_launch(asked: Run) -> None:
    """Somebody may have to be linked, unlinked, taken off or told: not at one go."""
    assert plainly(asked) is None
    assert sorted_out([asked]) == ([], [asked])


def test_what_cannot_be_planned_is_left_to_itself() -> None:
    """It fails where its failure is told of; the others of its batch go on."""
    broken = run(replace(ONE, action="no such thing"))  # type: ignore[arg-type]  # a fault of ours
    plain, others = sorted_out([broken, run(ONE, number=8)])
    assert [each.run.job.occasion.message_id for each in plain] == [8]
    assert others == [broken]
