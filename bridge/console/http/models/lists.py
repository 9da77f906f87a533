"""
The responses of the lists and of the search, as the console's pages read them.

They describe the responses; a test compares them. Times are in ms.
"""

from typing import Annotated

from pydantic import ConfigDict, Field

from bridge.contract.requests import Model


class _Response(Model):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MessageRowBody(_Response):
    """A message without content; `cause` is a code, `cause_text` says it in words."""

    id: int
    received_at: int
    listener: str
    message_type: str
    mapping: str
    mapping_version: str
    state: str
    ack_code: str
    acknowledgment: str
    retransmits: int
    flags: int
    attempts: int
    not_before: int
    error_code: str
    error_place: str
    failure: str
    code: str
    detail: str
    settled_at: int | None
    cause: str
    cause_text: str
    action: str


class DeliveryRowBody(_Response):
    """A delivery without content; `waits_for` is an earlier delivery of its lane."""

    id: int
    destination: str
    report_id: str
    release_key: str
    event: str
    state: str
    control_id: str
    attempts: int
    not_before: int
    failure: str
    code: str
    detail: str
    release_at: int
    created_at: int
    sent_at: int | None
    acknowledged_at: int | None
    settled_at: int | None
    cause: str
    cause_text: str
    action: str
    latency: int | None
    waits_for: int | None


class OrderReportBody(_Response):
    """The report of an order as the bridge has seen it last."""

    id: str
    status: str
    at: int | None


class LastDeliveryBody(_Response):
    """The newest delivery of an order's report."""

    id: int
    state: str


class OrderRowBody(_Response):
    """An order without patient data; `sentence` is that of its page, as far as is stored."""

    id: int
    site: str
    state: str
    first_at: int | None
    first_message: int
    last_message: int
    report: OrderReportBody | None
    last_delivery: LastDeliveryBody | None
    sentence: str
    waits_for: str
    tone: str


class AttentionRowBody(_Response):
    """An attention item; `subject` is `message`, `order`, `delivery` or `feed`."""

    subject: str
    row_id: int
    code: str
    noted_at: int
    seen_at: int | None
    seen_by: str
    words: str
    action: str
    advice: str


class AuditRowBody(_Response):
    """An audit event of the console or of a command."""

    id: int
    at: int
    email: str
    action: str
    subject: str
    outcome: str
    site: str
    reason: str


class StepRowBody(_Response):
    """A scheduled procedure step; `start` is local, a day or a time; `stations` are AE titles."""

    id: int
    order_id: int | None
    site: str
    start: str
    status: str
    modality: str
    stations: list[str]
    location: str
    step_id: str
    changed_at: int


AnyRow = (
    MessageRowBody | DeliveryRowBody | OrderRowBody | AttentionRowBody | AuditRowBody | StepRowBody
)


class ListPageBody(_Response):
    """A page of a list."""

    rows: list[AnyRow]
    next: int | None
    examined_to: int | None
    complete: bool
    sortable: bool
    indexed_from: int | None = None


class RowsResponse(_Response):
    """Rows by their ids."""

    rows: list[AnyRow]


class CountBody(_Response):
    """How many rows match."""

    count: int
    exact: bool


class ColumnsResponse(_Response):
    """Values by id and column; `left` are rows for another call."""

    values: dict[int, dict[str, str]]
    left: list[int]


class HitBody(_Response):
    """Something that was found."""

    id: str
    title: str
    detail: str
    state: str
    at: int | None
    exact: bool


Hits = Annotated[list[HitBody], Field(default_factory=list)]


class FoundBody(_Response):
    """What a search has found."""

    orders: Hits
    messages: Hits
    deliveries: Hits
    channels: Hits
    definitions: Hits
    similar: list[str]
    kinds: list[str]


class ViewFilters(_Response):
    """What a view restores."""

    filters: dict[str, int | str | list[str]]
    columns: list[str]
    sort: str


class SavedViewBody(_Response):
    """A saved view; `own`: the user is its owner."""

    id: int
    list: str
    name: str
    shared: bool
    owner: str
    own: bool
    body: ViewFilters


class ViewsBody(_Response):
    """The views that a user may use."""

    rows: "list[SavedViewBody]"
