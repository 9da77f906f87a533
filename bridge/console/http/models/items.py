"""Responses about one message or one delivery: its page, its content, and what differs."""

from typing import Any

from pydantic import BaseModel

from bridge.console.http.models.lists import DeliveryRowBody, MessageRowBody
from bridge.console.http.models.orders import StepBody


class OrderLink(BaseModel):
    """An order that the item is about; without the permission `find` it has no `accession`."""

    id: int
    site: str
    report_id: str
    accession: str | None = None


class MessageEditBody(BaseModel):
    """An edit: `message_id` is the copy of `origin_id`."""

    message_id: int
    origin_id: int
    at: int
    email: str
    reason: str


class DeliveryEditBody(BaseModel):
    """An edit: `delivery_id` is the copy of `origin_id`."""

    delivery_id: int
    origin_id: int
    at: int
    email: str
    reason: str


class MessagePage(BaseModel):
    """
    A message without its content.

    `may` are the actions that are possible now: `replay`, `cancel`, `edit`, `content`.
    """

    row: MessageRowBody
    timeline: list[StepBody]
    edits: list[MessageEditBody]
    orders: list[OrderLink]
    may: list[str]


class AdjacentBody(BaseModel):
    """The ids on both sides."""

    previous: int | None
    next: int | None


class MessageNeighbours(BaseModel):
    """The nearest messages of the same patient, order and sender."""

    patient: AdjacentBody
    order: AdjacentBody
    sender: AdjacentBody


class ReasonedDelivery(DeliveryRowBody):
    """A delivery with the reason why its receiver has not accepted it."""

    reason: str


class DeliveryPage(BaseModel):
    """
    A delivery without its content; its neighbours are those of the same report and destination.

    `may` are the actions that are possible now: `retry`, `skip`, `edit`, `content`.
    """

    row: ReasonedDelivery
    timeline: list[StepBody]
    edits: list[DeliveryEditBody]
    orders: list[OrderLink]
    neighbours: AdjacentBody
    may: list[str]


class TreeNode(BaseModel):
    """A part of a message; `start` and `end` are UTF-16 positions in its `raw`."""

    place: str
    name: str
    type: str
    text: str
    meaning: str
    start: int
    end: int
    children: list["TreeNode"]


class ReplyError(BaseModel):
    """An error of a reply; `places` are those of nodes of the message that it answers."""

    code: str
    description: str
    severity: str
    place: str
    places: list[str]
    field: str
    text: str


class Reply(BaseModel):
    """The acknowledgment of a message, or the last reply to a delivery."""

    raw: str
    code: str
    errors: list[ReplyError]


class EngineCallBody(BaseModel):
    """A call to the report engine; `status` 0: there was no response. `took` is in ms."""

    call: str
    place: str
    status: int
    code: str
    took: int


class _Content(BaseModel):
    raw: str
    charset: str
    tree: list[TreeNode]
    more: bool
    is_dicom: bool
    ack: Reply | None
    damaged: bool


class KnownPatientBody(BaseModel):
    """A patient to be compared with others; "" is unknown."""

    mrn: str
    name: str
    birth_date: str
    sex: str


class MessagePatientBody(BaseModel):
    """
    A patient of a message: what it says, and what is known.

    `merged_into` is the survivor of a merged number; `orders` counts those under the number.
    """

    site: str
    said: KnownPatientBody | None
    known: KnownPatientBody
    merged_into: str
    orders: int


class MessageContent(_Content):
    """The content of a received message."""

    patients: list[MessagePatientBody]
    calls: list[EngineCallBody]
    notes: list[str]


class DeliveryContent(_Content):
    """The content of a delivery, with its failed attempts and further replies."""

    attempts: list[dict[str, Any]]


class PlaceDifferenceBody(BaseModel):
    """A place with another value; `kind` is `changed`, `added` or `removed`."""

    place: str
    name: str
    before: str
    after: str
    kind: str


class DifferenceBody(BaseModel):
    """What differs from the item `other`; None: there is nothing to compare with."""

    other: int | None
    differences: list[PlaceDifferenceBody]
