"""One message being applied: what is known of it, what it changes, and the notes about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from bridge.intake.patients.visit_transfers import OTHER_PATIENT
from bridge.intake.process.addressing import PATIENT_CONFLICT
from bridge.intake.process.jobs import Job
from bridge.intake.process.order_hierarchy import PARENT_REPLACED
from bridge.intake.process.order_repository import Change
from bridge.intake.process.planning import ORDER_CANCELLED, ORDER_UNKNOWN, SUPERSEDED
from bridge.intake.process.worklist_changes import Groups
from bridge.store.records.merged_patients import Patient
from bridge.store.records.message_time import UNKNOWN, MessageTime
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from bridge.store.records.patient_demographics import DemographicsUpdate
from bridge.store.records.visit_transfers import VisitReference, VisitTransfer
from mappings.inbound.events import OrderEvent

ORDER_MOVED = "order_moved"
"""The code of a message that gave an order to another patient."""

FOR_PEOPLE = (
    "report_kept",
    "several_orders",
    "other_accession",
    OTHER_PATIENT,
    PATIENT_CONFLICT,
    ORDER_MOVED,
    "examined_after_cancel",
    PARENT_REPLACED,
    SUPERSEDED,
    ORDER_UNKNOWN,
    ORDER_CANCELLED,
)
"""Notes that are exceptions; the first is the message's code: `bridge messages list` shows it."""


@dataclass(slots=True)
class Run:
    """One message being applied: what is known, what changes, what there is to say."""

    job: Job
    index: dict[OrderIndexKey, IndexedOrder]
    groups: Groups = field(default_factory=dict)
    fresh: set[OrderIndexKey] = field(default_factory=set)
    """Orders that it has registered and whose reports nobody has begun."""
    together: dict[OrderIndexKey, str] = field(default_factory=dict)
    """Link groups of its new orders: those of one group are to share a report from the start."""
    changed: dict[OrderIndexKey, IndexedOrder] = field(default_factory=dict)
    merges: list[tuple[str, str, str]] = field(default_factory=list)
    moves: list[tuple[VisitReference, VisitTransfer]] = field(default_factory=list)
    words: list[DemographicsUpdate] = field(default_factory=list)
    renamed: list[Patient] = field(default_factory=list)
    gone: list[OrderIndexKey] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def all(cls, jobs: Sequence[Job], index: Mapping[OrderIndexKey, IndexedOrder]) -> "list[Run]":
        """
        Return one run for each job of a batch, with the known orders of its own patients.

        A run changes its index, and some rules look at each order in it: with the orders of the
        whole batch, a batch would cost the square of its size.
        """
        by_patient: dict[Patient, dict[OrderIndexKey, IndexedOrder]] = {}
        for key, order in index.items():
            by_patient.setdefault((key.site, key.mrn), {})[key] = order
        runs = []
        for job in jobs:
            own: dict[OrderIndexKey, IndexedOrder] = {}
            for patient in job.patients:
                own |= by_patient.get(patient, {})
            runs.append(cls(job, own))
        return runs

    @property
    def sent(self) -> MessageTime:
        """When the message was sent; by no clock, when it arrived, where MSH-7 proves nothing."""
        claimed = self.job.claimed
        return self.job.occasion.sent_at or MessageTime(claimed.received_at, UNKNOWN)

    def put(self, order: IndexedOrder) -> None:
        """Have an order remembered as it stands now."""
        self.changed[order.key] = self.index[order.key] = order

    def rename(self, event: OrderEvent) -> None:
        """Have what is to be remembered of who was merged remembered of the survivor."""
        prior = (event.site, event.prior_mrn)
        hers = {key: each for key, each in self.changed.items() if key[:2] == prior}
        for key, each in hers.items():
            now = key._replace(mrn=event.mrn)
            del self.changed[key]
            self.changed.setdefault(now, replace(each, key=now))

    def drop(self, key: OrderIndexKey) -> None:
        """Have an order forgotten that is one with another."""
        self.index.pop(key, None)
        self.changed.pop(key, None)
        self.groups.pop(key, None)
        self.gone.append(key)

    def change(self) -> Change:
        """Give what is to be remembered, reports filled in."""
        orders = [
            replace(each, report_id=self.groups.get(each.key, each.report_id))
            for each in self.changed.values()
        ]
        others = {key: each for key, each in self.groups.items() if key not in self.changed}
        number, news = self.job.claimed.message_id, (self.words, self.renamed, self.gone)
        return Change(number, orders, others, self.merges, self.moves, self.concern, *news)

    @property
    def concern(self) -> str:
        """The note that asks for a person, if there is one."""
        return next((note for note in self.notes if note in FOR_PEOPLE), "")
