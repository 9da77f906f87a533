"""
The tables of the bridge, as SQLModel classes; a test compares them with the migrations.

Statements use the `Table` of a class, such as `ORDERS`. Times are milliseconds since the Unix
epoch. Tags and other documents are stored as JSON texts. The tables of the queues are in
`bridge.queue.statements`.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ForeignKeyConstraint,
    Index,
    MetaData,
    SmallInteger,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlmodel import Field, SQLModel

from bridge.store.columns import (
    BIG_KEY,
    big_number,
    binary,
    json_object,
    json_or_none,
    key,
    moment,
    moment_or_none,
)

metadata = MetaData()


def partial_index(name: str, *columns: str, where: str) -> Index:
    """Return an index of the rows that meet a condition, on both databases."""
    return Index(name, *columns, postgresql_where=text(where), sqlite_where=text(where))


class Record(SQLModel):
    """The base of the bridge's tables. The engine's tables have other metadata."""

    metadata = metadata


class OrderRecord(Record, table=True):
    """An order, as far as later messages and results need it (`order_index`)."""

    __tablename__ = "bridge_order"
    __table_args__ = (
        UniqueConstraint("site", "accession", "mrn", name="uq_bridge_order_key"),
        Index("ix_bridge_order_patient", "site", "mrn"),
        partial_index("bridge_order_report", "report_id", where="report_id <> ''"),
    )

    id: int | None = key()
    site: str
    mrn: str
    accession: str
    state: str
    placer: str
    filler: str
    tags: str
    echo: str
    report_id: str
    first_message: int = big_number()
    place: int
    last_message: int = big_number()
    state_changed_at: int | None = moment_or_none()
    tags_sent_at: int | None = moment_or_none()
    opened_at: int | None = moment_or_none()
    state_clock: int | None = moment_or_none()
    tags_clock: int | None = moment_or_none()
    opened_clock: int | None = moment_or_none()


class OrderSignal(Record, table=True):
    """A link, parent, mark or later event of an order."""

    __tablename__ = "order_signal"

    order_id: int = Field(primary_key=True, foreign_key="bridge_order.id", sa_type=BIG_KEY)
    kind: str = Field(primary_key=True)
    signal: int = Field(primary_key=True, sa_type=BigInteger, index=True)


class KnownReportRecord(Record, table=True):
    """The last known state of the report of one order."""

    __tablename__ = "known_report"

    site: str = Field(primary_key=True)
    accession: str = Field(primary_key=True)
    mrn: str = Field(primary_key=True)
    report_id: str
    status: str
    final: int
    addenda: int
    changed_at: int = moment()
    check_at: int = moment()

    __table_args__ = (
        Index("ix_report_seen_check", "check_at"),
        Index("known_report_report", "report_id"),
    )


class MergedPatient(Record, table=True):
    """A pointer from a merged patient identifier to the surviving one."""

    __tablename__ = "merged_patient"
    __table_args__ = (Index("ix_merged_patient_survivor", "site", "mrn"),)

    site: str = Field(primary_key=True)
    prior_mrn: str = Field(primary_key=True)
    mrn: str
    merged_into: str | None = None
    merged_at: int | None = moment_or_none()
    identity: str | None = None
    sent_at: int | None = moment_or_none()
    clock: int | None = moment_or_none()


class SeparatedPatient(Record, table=True):
    """
    When a message said last that a number does not lead to another one.

    A merge of the two that was sent before has no effect when it arrives.
    """

    __tablename__ = "separated_patient"

    site: str = Field(primary_key=True)
    prior_mrn: str = Field(primary_key=True)
    mrn: str = Field(primary_key=True)
    sent_at: int = moment()
    clock: int = big_number()


class IdentifierChange(Record, table=True):
    """A merge of two patient numbers; it is not deleted when it is undone."""

    __tablename__ = "identifier_change"
    __table_args__ = (
        Index("identifier_change_prior", "site", "prior_mrn", "id"),
        {"sqlite_autoincrement": True},
    )

    id: int | None = key()
    site: str
    prior_mrn: str
    mrn: str
    at: int = moment()
    message_id: int | None = moment_or_none()
    undone_at: int | None = moment_or_none()
    undone_by_message: int | None = moment_or_none()


class IdentifierChangeItem(Record, table=True):
    """What a merge moved, as it was before (`bridge.store.records.identifier_changes`)."""

    __tablename__ = "identifier_change_item"
    __table_args__ = (Index("identifier_change_item_change", "change_id"),)

    id: int | None = key()
    change_id: int = big_number()
    kind: str
    name: str
    before: str


class MergeUndo(Record, table=True):
    """A merge that an operator is undoing: messages about its patients wait."""

    __tablename__ = "merge_undo"

    site: str = Field(primary_key=True)
    prior_mrn: str = Field(primary_key=True)
    begun_at: int = moment()
    include_signed: int = 0
    keep: str = "[]"


class PatientDemographics(Record, table=True):
    """The latest demographics of a patient."""

    __tablename__ = "patient_demographics"

    site: str = Field(primary_key=True)
    mrn: str = Field(primary_key=True)
    sent_at: int = moment()
    tags: str
    clock: int = big_number()


class VisitTransferRecord(Record, table=True):
    """A pointer from a former visit to the current one."""

    __tablename__ = "visit_transfer"
    __table_args__ = (Index("ix_moved_visit_to", "site", "mrn"),)

    site: str = Field(primary_key=True)
    prior_mrn: str = Field(primary_key=True)
    visit_key: str = Field(primary_key=True)
    prior_number: str = Field(primary_key=True)
    mrn: str
    number: str
    sent_at: int = moment()
    tags: str
    echo: str
    clock: int = big_number()


class ExceptionRecord(Record, table=True):
    """A message, order, delivery or feed that needs attention."""

    __tablename__ = "exception"
    __table_args__ = (partial_index("exception_unseen", "noted_at", where="seen_at IS NULL"),)

    kind: str = Field(primary_key=True)
    row_id: int = big_number(primary_key=True)
    code: str = Field(primary_key=True)
    noted_at: int = moment()
    seen_at: int | None = moment_or_none()
    seen_by: str = ""


class DeliveryAttempt(Record, table=True):
    """A failed attempt to deliver a message, or a further reply to it."""

    __tablename__ = "delivery_attempt"
    __table_args__ = (Index("delivery_attempt_delivery", "delivery_id", "id"),)

    id: int | None = key()
    delivery_id: int = big_number()
    kind: str
    at: int = moment()
    code: str
    detail: str
    retry_at: int | None = moment_or_none()
    reply: bytes = binary()


class StorageCommitment(Record, table=True):
    """A request to a PACS to confirm that it keeps the objects of a delivery."""

    __tablename__ = "storage_commitment"
    __table_args__ = (
        Index("storage_commitment_delivery", "delivery_id"),
        Index("storage_commitment_state", "destination", "state", "requested_at"),
    )

    transaction_uid: str = Field(primary_key=True)
    delivery_id: int = big_number()
    destination: str
    instances: str
    state: str
    requested_at: int = moment()
    answered_at: int | None = moment_or_none()
    requests: int = 1


class SequenceNumber(Record, table=True):
    """The sequence number that was accepted last from a sender."""

    __tablename__ = "sequence_number"

    listener: str = Field(primary_key=True)
    sender: int = big_number(primary_key=True)
    number: int | None = moment_or_none()


class UnknownCode(Record, table=True):
    """A code of messages that its code table does not contain."""

    __tablename__ = "unknown_code"

    mapping: str = Field(primary_key=True)
    code_table: str = Field(primary_key=True)
    code: str = Field(primary_key=True)
    place: str
    policy: str
    back: int
    version: str
    count: int = big_number()
    first_at: int = moment()
    last_at: int = moment()
    seen_at: int | None = moment_or_none()
    seen_by: str = ""


class MappingVersionRecord(Record, table=True):
    """An immutable version of a mapping definition."""

    __tablename__ = "mapping_version"

    name: str = Field(primary_key=True)
    version: str = Field(primary_key=True)
    sources: str
    stored_at: int = moment()
    digest: str | None = None


class MappingActivation(Record, table=True):
    """The activation of a version."""

    __tablename__ = "mapping_activation"
    __table_args__ = (
        ForeignKeyConstraint(
            ["name", "version"], ["mapping_version.name", "mapping_version.version"]
        ),
        Index("mapping_activation_name", "name", "id"),
    )

    id: int | None = key()
    name: str
    version: str
    at: int = moment()
    actor: str
    reason: str
    origin: str
    evidence: str | None = None


class MappingDraftRecord(Record, table=True):
    """The draft of an author."""

    __tablename__ = "mapping_draft"

    name: str = Field(primary_key=True)
    actor: str = Field(primary_key=True)
    sources: str
    begun_on: str
    revision: int = big_number()
    checked_version: str
    saved_at: int = moment()


class ReconcileRoundRecord(Record, table=True):
    """A round of the reconcile job, as a JSON text, or the request for one."""

    __tablename__ = "reconcile_round"

    name: str = Field(primary_key=True)
    body: str


class FeedCursor(Record, table=True):
    """The position up to which a change feed was read."""

    __tablename__ = "feed_cursor"

    feed: str = Field(primary_key=True)
    cursor: int = big_number()
    marked: int | None = moment_or_none()
    replaced_at: int | None = moment_or_none()


class Channel(Record, table=True):
    """The state of a listener or destination that all nodes share."""

    __tablename__ = "channel"

    kind: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    paused_at: int | None = moment_or_none()
    paused_by: str = ""
    active_at: int = Field(default=0, sa_type=BigInteger)
    open_until: int | None = moment_or_none()
    loaded_at: int | None = moment_or_none()
    refused: int = 0
    problem_code: str = ""
    problem: str = ""


class ChannelStartFailure(Record, table=True):
    """The reason why a node could not start a channel."""

    __tablename__ = "channel_start_failure"

    kind: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    node: str = Field(primary_key=True)
    reason: str
    at: int = moment()


class HandshakeFailureRecord(Record, table=True):
    """TLS handshakes that failed, by channel, peer and reason."""

    __tablename__ = "handshake_failure"

    kind: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    node: str = Field(primary_key=True)
    peer: str = Field(primary_key=True)
    reason: str = Field(primary_key=True)
    subject: str
    is_trouble: int = Field(sa_type=SmallInteger)
    count: int = big_number()
    first_at: int = moment()
    last_at: int = moment()


class DicomPeerRecord(Record, table=True):
    """What a DICOM peer did last, on any node."""

    __tablename__ = "dicom_peer"

    title: str = Field(primary_key=True)
    address: str
    associated_at: int | None = moment_or_none()
    request: str
    requested_at: int | None = moment_or_none()
    answers: int = big_number()


class DicomRefusalRecord(Record, table=True):
    """Associations and requests that the DICOM port refused, by address, AE title and reason."""

    __tablename__ = "dicom_refusal"

    address: str = Field(primary_key=True)
    title: str = Field(primary_key=True)
    reason: str = Field(primary_key=True)
    count: int = big_number()
    first_at: int = moment()
    last_at: int = moment()


class NodeFilesRecord(Record, table=True):
    """Fingerprints of the configuration files of a node."""

    __tablename__ = "node_files"

    node: str = Field(primary_key=True)
    host: str
    files: str
    at: int = moment()


class AlertRecord(Record, table=True):
    """A condition that needs the attention of an operator."""

    __tablename__ = "alert"

    key: str = Field(primary_key=True)
    severity: str
    text: str
    raised_at: int = moment()
    seen_at: int = moment()
    notified_at: int | None = moment_or_none()
    cleared_at: int | None = moment_or_none()
    recurrences: int = 0
    kind: str = ""
    name: str = ""
    action: str = ""


class ConsoleGrant(Record, table=True):
    """The console role of an account."""

    __tablename__ = "console_grant"

    id: int | None = key()
    account_id: str | None = Field(default=None, unique=True)
    email: str
    role: str
    bodies: int = Field(sa_type=SmallInteger)
    sites: str = ""
    granted_at: int = moment()
    granted_by: str
    suspended: int = Field(default=0, sa_type=SmallInteger)


class MessageEdit(Record, table=True):
    """The origin of a message that an operator edited and sent again."""

    __tablename__ = "message_edit"

    message_id: int | None = key()
    origin_id: int = Field(sa_type=BigInteger)
    at: int = moment()
    email: str
    reason: str

    __table_args__ = (Index("message_edit_origin", "origin_id"),)


class DeliveryEdit(Record, table=True):
    """The origin of a delivery that an operator edited and sent again."""

    __tablename__ = "delivery_edit"
    __table_args__ = (Index("delivery_edit_origin", "origin_id"),)

    delivery_id: int | None = key()
    origin_id: int = big_number()
    at: int = moment()
    email: str
    reason: str


class BackgroundJobRecord(Record, table=True):
    """A background job: a bulk action, an export, a search, a shadow run, an examination."""

    __tablename__ = "background_job"
    __table_args__ = (
        partial_index(
            *("background_job_open", "state", "id"),
            where="state IN ('waiting', 'running', 'stopping')",
        ),
        Index("background_job_account", "account_id", "id"),
    )

    id: int | None = key()
    kind: str
    title: str
    selection: str
    options: str
    upper_id: int | None = moment_or_none()
    actor: str
    account_id: str
    reason: str
    state: str
    expected: int | None = moment_or_none()
    handled: int = big_number()
    succeeded: int = big_number()
    failed: int = big_number()
    cursor: int = big_number()
    result: str = ""
    created_at: int = moment()
    started_at: int | None = moment_or_none()
    finished_at: int | None = moment_or_none()
    owner: str | None = None
    lease_until: int | None = moment_or_none()


class BackgroundJobRow(Record, table=True):
    """The result of a background job for one row."""

    __tablename__ = "background_job_row"

    job_id: int = big_number(primary_key=True)
    row_id: int = big_number(primary_key=True)
    outcome: str
    detail: str = ""


class BackgroundJobPart(Record, table=True):
    """A part of the file that an export has written."""

    __tablename__ = "background_job_part"

    job_id: int = big_number(primary_key=True)
    number: int = Field(primary_key=True)
    content: bytes = binary()


class SavedViewRecord(Record, table=True):
    """Filters, columns and sorting of a list, by name."""

    __tablename__ = "saved_view"
    __table_args__ = (
        UniqueConstraint("account_id", "list_name", "name", name="saved_view_name"),
        partial_index("saved_view_shared", "shared", where="shared = 1"),
    )

    id: int | None = key()
    list_name: str
    name: str
    account_id: str
    email: str
    shared: int = Field(sa_type=SmallInteger)
    body: str
    changed_at: int = moment()


class ChannelStatisticsRecord(Record, table=True):
    """What a channel did within a span of time: outcomes, latencies, and its queue."""

    __tablename__ = "channel_statistics"
    __table_args__ = (Index("channel_statistics_channel", "kind", "name", "span", "at"),)

    span: int = Field(primary_key=True, sa_type=SmallInteger)
    at: int = big_number(primary_key=True)
    kind: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    source: str = Field(primary_key=True)
    counts: str
    latency: str
    waiting: int | None = moment_or_none()
    oldest: int | None = moment_or_none()


class ReportEventRecord(Record, table=True):
    """A change of a report's state, as the report service reported it."""

    __tablename__ = "report_event"
    __table_args__ = (
        UniqueConstraint("site", "report_id", "at", "event", name="report_event_once"),
        Index("report_event_report", "report_id", "at"),
    )

    id: int | None = key()
    site: str
    report_id: str
    at: int = moment()
    event: str
    status: str
    actor: str = ""


class ScheduledStepRecord(Record, table=True):
    """A scheduled procedure step of an order, as the modality worklist shows it."""

    __tablename__ = "scheduled_step"
    __table_args__ = (
        UniqueConstraint("site", "accession", "mrn", "position", name="scheduled_step_order"),
        Index("scheduled_step_day", "day", "modality"),
        Index("scheduled_step_accession", "accession"),
        Index("scheduled_step_mrn", "mrn"),
        Index("scheduled_step_study", "study_uid"),
        Index("scheduled_step_workitem", "workitem_uid"),
    )

    id: int | None = key()
    site: str
    accession: str
    mrn: str
    position: int = Field(sa_type=SmallInteger)
    step_id: str
    study_uid: str
    status: str
    modality: str
    stations: str
    location: str
    day: int | None = None
    time: str
    item: str
    changed_at: int = moment()
    performed: str = ""
    workitem_uid: str = ""
    performed_steps: str = "{}"


class StepComputationRecord(Record, table=True):
    """How far the steps of stored orders have been computed again by a new definition."""

    __tablename__ = "step_computation"

    name: str = Field(primary_key=True)
    version: str
    cursor: int | None = Field(default=None, sa_type=BigInteger)


class AppliedCountRecord(Record, table=True):
    """How often messages of sites were settled (`bridge.queue.inbox`)."""

    __tablename__ = "applied_count"

    slot: int = Field(primary_key=True)
    site: int = Field(primary_key=True)
    count: int = big_number()


class WaitingMessage(Record, table=True):
    """A keyed number of the order that a message about an unknown order waits for."""

    __tablename__ = "waiting_message"

    key: int = big_number(primary_key=True)
    message_id: int = Field(primary_key=True, sa_type=BigInteger, index=True)


class StepEventRecord(Record, table=True):
    """What a modality has said of an order, until the delivery has queued it for receivers."""

    __tablename__ = "step_event"
    __table_args__ = (
        UniqueConstraint("message_id", "site", "accession", "mrn", name="step_event_once"),
    )

    id: int | None = key()
    message_id: int = big_number()
    site: str
    accession: str
    mrn: str
    status: str
    at: int = moment()


class MappingExampleRecord(Record, table=True):
    """A message without patient data, and what a definition makes of it."""

    __tablename__ = "mapping_example"
    __table_args__ = (Index("mapping_example_name", "name", "id"),)

    id: int | None = key()
    name: str
    label: str
    listener: str
    payload: bytes = binary()
    expected: str
    added_at: int = moment()
    added_by: str


class MessageNumberCursor(Record, table=True):
    """The message up to which the numbers of messages are indexed."""

    __tablename__ = "message_number_cursor"

    name: str = Field(primary_key=True)
    message_id: int = big_number()


class IndexKey(Record, table=True):
    """The fingerprint of the key with which numbers are hashed; one row."""

    __tablename__ = "index_key"

    id: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    fingerprint: str


class ChainedAuditEvent(Record, table=True):
    """An event of the audit chain (`bridge.audit.chain`)."""

    __tablename__ = "audit_event"

    sequence: int | None = key()
    at: int = moment()
    site_id: str | None = None
    action: str
    outcome: str
    account_id: int | None = moment_or_none()
    token_id: int | None = moment_or_none()
    report_id: str | None = None
    details: dict[str, Any] = json_object()
    previous_hash: str
    hash: str
    version: int = Field(sa_type=SmallInteger)
    actor: str | None = None
    origin: str | None = None
    source: str | None = None
    node: str | None = None
    target_type: str | None = None
    target_id: str | None = None
    before: dict[str, Any] | None = json_or_none()
    after: dict[str, Any] | None = json_or_none()
    event_id: str | None = Field(default=None, unique=True)


class AuditOutboxEvent(Record, table=True):
    """An audit event on its way to the chain, as a JSON text (`bridge.audit.outbox`)."""

    __tablename__ = "audit_outbox"

    id: int | None = key()
    event_id: str = Field(unique=True)
    at: int = moment()
    body: str


ORDERS: Final = metadata.tables["bridge_order"]
SIGNALS: Final = metadata.tables["order_signal"]
KNOWN_REPORTS: Final = metadata.tables["known_report"]
MERGED_PATIENTS: Final = metadata.tables["merged_patient"]
IDENTIFIER_CHANGES: Final = metadata.tables["identifier_change"]
IDENTIFIER_CHANGE_ITEMS: Final = metadata.tables["identifier_change_item"]
MERGE_UNDOS: Final = metadata.tables["merge_undo"]
SEPARATED_PATIENTS: Final = metadata.tables["separated_patient"]
DEMOGRAPHICS: Final = metadata.tables["patient_demographics"]
VISIT_TRANSFERS: Final = metadata.tables["visit_transfer"]
EXCEPTIONS: Final = metadata.tables["exception"]
DELIVERY_ATTEMPTS: Final = metadata.tables["delivery_attempt"]
SEQUENCE_NUMBERS: Final = metadata.tables["sequence_number"]
UNKNOWN_CODES: Final = metadata.tables["unknown_code"]
MAPPING_VERSIONS: Final = metadata.tables["mapping_version"]
MAPPING_ACTIVATIONS: Final = metadata.tables["mapping_activation"]
MAPPING_DRAFTS: Final = metadata.tables["mapping_draft"]
RECONCILE_ROUNDS: Final = metadata.tables["reconcile_round"]
FEED_CURSORS: Final = metadata.tables["feed_cursor"]
CHANNELS: Final = metadata.tables["channel"]
START_FAILURES: Final = metadata.tables["channel_start_failure"]
HANDSHAKE_FAILURES: Final = metadata.tables["handshake_failure"]
DICOM_PEERS: Final = metadata.tables["dicom_peer"]
DICOM_REFUSALS: Final = metadata.tables["dicom_refusal"]
NODE_FILES: Final = metadata.tables["node_files"]
ALERTS: Final = metadata.tables["alert"]
CONSOLE_GRANTS: Final = metadata.tables["console_grant"]
MESSAGE_EDITS: Final = metadata.tables["message_edit"]
DELIVERY_EDITS: Final = metadata.tables["delivery_edit"]
BACKGROUND_JOBS: Final = metadata.tables["background_job"]
BACKGROUND_JOB_ROWS: Final = metadata.tables["background_job_row"]
BACKGROUND_JOB_PARTS: Final = metadata.tables["background_job_part"]
SAVED_VIEWS: Final = metadata.tables["saved_view"]
CHANNEL_STATISTICS: Final = metadata.tables["channel_statistics"]
REPORT_EVENTS: Final = metadata.tables["report_event"]
STORAGE_COMMITMENTS: Final = metadata.tables["storage_commitment"]
SCHEDULED_STEPS: Final = metadata.tables["scheduled_step"]
STEP_COMPUTATIONS: Final = metadata.tables["step_computation"]
STEP_EVENTS: Final = metadata.tables["step_event"]
APPLIED_COUNTS: Final = metadata.tables["applied_count"]
WAITING_MESSAGES: Final = metadata.tables["waiting_message"]
MAPPING_EXAMPLES: Final = metadata.tables["mapping_example"]
MESSAGE_NUMBER_CURSORS: Final = metadata.tables["message_number_cursor"]
AUDIT_EVENTS: Final = metadata.tables["audit_event"]
AUDIT_OUTBOX: Final = metadata.tables["audit_outbox"]


def upsert(table: Table, *columns: str, key: Sequence[str] = ()) -> Insert:
    """
    Insert rows; a row with the same key gets their values of these columns.

    `key` is the primary key by default, and `columns` are all others. The `Insert` is PostgreSQL's:
    SQLite has the same syntax.
    """
    statement = insert(table)
    key = key or [column.name for column in table.primary_key]
    columns = columns or tuple(column.name for column in table.c if column.name not in key)
    return statement.on_conflict_do_update(
        index_elements=key, set_={name: statement.excluded[name] for name in columns}
    )
