"""Responses about one order. Times in ms, None if unknown."""

from pydantic import ConfigDict

from bridge.contract.requests import Model


class _Response(Model):
    model_config = ConfigDict(extra="forbid", frozen=True)


class OrderBody(_Response):
    """An order; the members with defaults are left out without the permission `bodies`."""

    id: int
    site: str
    state: str
    first_at: int | None
    accession: str
    placer: str
    filler: str
    merged_from: list[str]
    mrn: str = ""
    name: str = ""
    birth_date: str = ""
    sex: str = ""
    study: str = ""
    modality: str = ""
    study_uid: str = ""


class LinkBody(_Response):
    """A row with a page of its own; `page` is `message` or `delivery`."""

    page: str
    id: int


class SentenceBody(_Response):
    """What the state of an order is, and what it waits for."""

    text: str
    waits_for: str
    tone: str
    action: str
    link: LinkBody | None


class SpanBody(_Response):
    """A milestone; `after` is the time since the one before, `to` a destination."""

    kind: str
    at: int
    after: int | None
    to: str
    tone: str


class StepBody(_Response):
    """A step of the timeline; `lane` is message, order, report, delivery or person."""

    at: int
    lane: str
    kind: str
    text: str
    detail: str
    took: int | None
    since_previous: int | None
    count: int
    link: LinkBody | None
    tone: str


class OrderReportBody(_Response):
    """The report; `released_at` is the end of the sign delay."""

    id: str
    status: str
    reader: str
    addenda: int
    changed_at: int | None
    released_at: int | None


class LinkedOrderBody(_Response):
    """Another order of the same report."""

    id: int
    accession: str
    state: str
    study: str = ""


class WorklistPlaceBody(_Response):
    """The place on the unread worklist of the site; null beyond its first page."""

    place: int | None
    total: int | None


class OutsideVersionBody(_Response):
    """A version of an outside report; `text` is null if the texts of the patient are too long."""

    status: str
    at: int
    author: str
    text: str | None
    pdfs: int
    omitted: list[str]


class OutsideReportBody(_Response):
    """A report of the order that was not made here; the newest version is the first."""

    sender: str
    title: str
    versions: list[OutsideVersionBody]


class StructuredReportBody(_Response):
    """A DICOM SR, dose report or key object selection; `text` is null if it is too long."""

    title: str
    text: str | None
    set_aside: bool


class OrderMessageBody(_Response):
    """A message about the order."""

    id: int
    received_at: int
    listener: str
    message_type: str
    state: str
    ack_code: str
    attempts: int


class OrderDeliveryBody(_Response):
    """A result of the order's report."""

    id: int
    created_at: int
    destination: str
    event: str
    state: str
    attempts: int
    sent_at: int | None
    acknowledged_at: int | None
    latency: int | None
    waits_for: int | None


class OrderPageBody(_Response):
    """
    An order; `is_current` is false if the report engine does not answer.

    `outside` and `structured` are empty without the permission `bodies`.
    """

    now: int
    is_current: bool
    order: OrderBody
    sentence: SentenceBody
    spans: list[SpanBody]
    steps: list[StepBody]
    report: OrderReportBody | None
    linked: list[LinkedOrderBody]
    worklist: WorklistPlaceBody | None
    outside: list[OutsideReportBody]
    structured: list[StructuredReportBody]
    messages: list[OrderMessageBody]
    deliveries: list[OrderDeliveryBody]
