"""The context of a message that is being applied, its changes, and its outcome.

The changes are stored in the transaction that stores the outcome. A message that could not be
applied is tried again or parked.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bridge.contract import OrderKey
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.intake.process.jobs import MessageJob, ReceivedMatch
from bridge.intake.process.worklist import REPORTED_ELSEWHERE_BEGUN, ReportIds
from bridge.orders.addressing import PATIENT_CONFLICT
from bridge.orders.hierarchy import PARENT_REPLACED
from bridge.orders.order import Order, Patient
from bridge.orders.patients import DemographicsUpdate, Separation
from bridge.orders.plans import ORDER_CANCELLED, ORDER_UNKNOWN, SEVERAL_ACCESSIONS, SUPERSEDED
from bridge.orders.received_objects import MatchFault, SetAside
from bridge.orders.times import UNKNOWN, MessageTime
from bridge.orders.undone_merges import UndoneMerge
from bridge.orders.visits import OTHER_PATIENT, VisitReference, VisitTransfer
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.states import QueueEvent
from bridge.store.records.exceptions import MERGE_UNDONE
from mappings.inbound.events import OrderEvent

ORDER_MOVED = "order_moved"
"""The code of a message that moved an order to another patient."""

IDENTIFIER_MOVED = "identifier_moved"
"""The code of a message that moves an identifier for which there is no merge to undo."""

OUTSIDE_NOT_SUPPORTED = "outside_reports_not_supported"
"""The code of an outside report if the report service has no place for it."""

EXCEPTION_NOTES = (
    MERGE_UNDONE,
    IDENTIFIER_MOVED,
    "report_kept",
    REPORTED_ELSEWHERE_BEGUN,
    "several_orders",
    "other_accession",
    SEVERAL_ACCESSIONS,
    OTHER_PATIENT,
    PATIENT_CONFLICT,
    MatchFault.NO_ORDER,
    SetAside.OTHER_PATIENT,
    SetAside.SECOND_VERSION,
    ORDER_MOVED,
    OUTSIDE_NOT_SUPPORTED,
    "examined_after_cancel",
    PARENT_REPLACED,
    SUPERSEDED,
    ORDER_UNKNOWN,
    ORDER_CANCELLED,
)
"""Notes that are exceptions. The first one is the message's code in `bridge messages list`."""


@dataclass(frozen=True, slots=True)
class Merge:
    """
    A merge to store, and when it was sent.

    `identity` are the survivor's demographics in the message.
    """

    site: str
    prior_mrn: str
    mrn: str
    identity: Mapping[str, str] = field(default_factory=dict, repr=False)
    sent: MessageTime | None = None


@dataclass(frozen=True, slots=True)
class MessageChanges:
    """The changes of one message: orders, reports of other orders, merges, moves."""

    message_id: int
    orders: Sequence[Order]
    reports: Mapping[OrderKey, str] = field(default_factory=dict)
    merges: Sequence[Merge] = ()
    undone_merges: Sequence[UndoneMerge] = ()
    separations: Sequence[Separation] = ()
    moves: Sequence[tuple[VisitReference, VisitTransfer]] = ()
    exception_code: str = ""
    """The code of the exception that the message leaves, or ''."""
    demographics: Sequence[DemographicsUpdate] = ()
    renamed_patients: Sequence[Patient] = ()
    """Patients whose name changed: parked orders may match them now."""
    removed: Sequence[OrderKey] = ()
    """Orders that were combined with another one."""
    discontinued: Sequence[OrderKey] = ()
    """Orders that the message discontinues, which others would cancel."""
    received: ReceivedMatch | None = None
    """What a modality sent."""
    waits_for: Collection[int] = ()
    """The keys of the orders for which the message waits."""


@dataclass(slots=True)
class JobContext:
    """One message that is being applied: known orders, changes, and notes."""

    job: MessageJob
    index: dict[OrderKey, Order]
    report_ids: ReportIds = field(default_factory=dict)
    """Report ids that the engine returned for this message."""
    new_orders: set[OrderKey] = field(default_factory=set)
    """Orders that this message registered and whose reports nobody has opened."""
    link_groups: dict[OrderKey, str] = field(default_factory=dict)
    """Link groups of its new orders: the orders of a group share a report from the start."""
    changed: dict[OrderKey, Order] = field(default_factory=dict)
    merges: list[Merge] = field(default_factory=list)
    undone_merges: list[UndoneMerge] = field(default_factory=list)
    separations: list[Separation] = field(default_factory=list)
    moves: list[tuple[VisitReference, VisitTransfer]] = field(default_factory=list)
    demographics: list[DemographicsUpdate] = field(default_factory=list)
    renamed_patients: list[Patient] = field(default_factory=list)
    removed: list[OrderKey] = field(default_factory=list)
    discontinued: list[OrderKey] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    waits_for: set[int] = field(default_factory=set)
    """The keys of the orders for which the message waits."""

    @classmethod
    def for_batch(
        cls, jobs: Sequence[MessageJob], index: Mapping[OrderKey, Order]
    ) -> "list[JobContext]":
        """
        Return one context for each job, with the known orders of the job's own patients.

        Some rules scan all orders of a context. With the orders of the whole batch, the time
        would grow with the square of the batch.
        """
        by_patient: dict[Patient, dict[OrderKey, Order]] = {}
        for key, order in index.items():
            by_patient.setdefault((key.site, key.mrn), {})[key] = order
        contexts = []
        for job in jobs:
            own: dict[OrderKey, Order] = {}
            for patient in job.patients:
                own |= by_patient.get(patient, {})
            contexts.append(cls(job, own))
        return contexts

    @property
    def sent(self) -> MessageTime:
        """The sending time; the time of arrival, without a clock, if MSH-7 is not reliable."""
        claimed = self.job.claimed
        return self.job.source.sent_at or MessageTime(claimed.received_at, UNKNOWN)

    def put(self, order: Order) -> None:
        self.changed[order.key] = self.index[order.key] = order

    def move_to_survivor(self, event: OrderEvent) -> None:
        """Move the changed orders of a merged patient to the survivor."""
        prior = (event.site, event.prior_mrn)
        moved = {key: order for key, order in self.changed.items() if key.patient == prior}
        for key, order in moved.items():
            now = replace(key, mrn=event.mrn)
            del self.changed[key]
            self.changed.setdefault(now, replace(order, key=now))

    def remove(self, key: OrderKey) -> None:
        """Remove an order that was combined with another one."""
        self.index.pop(key, None)
        self.changed.pop(key, None)
        self.report_ids.pop(key, None)
        self.removed.append(key)

    def change(self) -> MessageChanges:
        """Return the changes to store, with report ids."""
        orders = [
            replace(order, report_id=self.report_ids.get(order.key, order.report_id))
            for order in self.changed.values()
        ]
        others = {
            key: report_id for key, report_id in self.report_ids.items() if key not in self.changed
        }
        return MessageChanges(
            self.job.claimed.message_id,
            orders,
            others,
            self.merges,
            self.undone_merges,
            self.separations,
            self.moves,
            self.exception_code,
            self.demographics,
            self.renamed_patients,
            self.removed,
            self.discontinued,
            self.job.received,
            self.waits_for,
        )

    @property
    def exception_code(self) -> str:
        """The first note that is an exception, or ''."""
        return next((note for note in self.notes if note in EXCEPTION_NOTES), "")


MAX_AMBIGUOUS_ATTEMPTS = 12
"""Attempts with an unknown result, after which a message is parked."""

UNSAVED_RETRY_MS = 5_000
"""Milliseconds until a message is tried again whose changes could not be stored."""


def failure_outcome(claimed: ClaimedMessage, failure: EngineFailure, now: int) -> MessageOutcome:
    """
    Return the outcome after a failed call.

    Transient: try again without limit. Ambiguous: try again with a limit, because the message
    itself may cause the failure. Permanent: park.
    """
    wait = failure.retry_after
    return _outcome(
        claimed,
        failure.failure,
        failure.code,
        failure.call,
        None if wait is None else now + round(wait * 1000),
    )


def unsaved_outcome(claimed: ClaimedMessage, now: int) -> MessageOutcome:
    """Return the outcome if the engine has the orders but the changes cannot be stored."""
    return _outcome(
        claimed, FailureKind.AMBIGUOUS, "not_remembered", retry_at=now + UNSAVED_RETRY_MS
    )


def interrupted_outcome(claimed: ClaimedMessage) -> MessageOutcome:
    """Return the outcome if the lease ended. It is stored only if no other node has the message."""
    return MessageOutcome(claimed.message_id, QueueEvent.POSTPONED, code="interrupted")


def unread_outcome(claimed: ClaimedMessage) -> MessageOutcome:
    """Return the outcome if the worker process failed: the message itself may be the cause."""
    return _outcome(claimed, FailureKind.AMBIGUOUS, "not_read")


def _outcome(
    claimed: ClaimedMessage,
    failure: FailureKind,
    code: str,
    detail: str = "",
    retry_at: int | None = None,
) -> MessageOutcome:
    ambiguous = claimed.ambiguous_attempts + (failure is FailureKind.AMBIGUOUS)
    is_final = failure is FailureKind.PERMANENT or ambiguous >= MAX_AMBIGUOUS_ATTEMPTS
    event = QueueEvent.GIVEN_UP if is_final else QueueEvent.POSTPONED
    # A replay of a parked message starts to count again.
    return MessageOutcome(
        claimed.message_id,
        event,
        failure,
        code,
        detail,
        retry_at,
        ambiguous_attempts=0 if is_final else ambiguous,
    )
