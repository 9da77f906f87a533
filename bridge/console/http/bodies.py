"""What requests of the console carry: strict, so that a misspelt member is told."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator

from bridge.console.audit_trail import ConsoleEventQuery
from bridge.console.deliveries import AcceptedDeliveryQuery, DeliveryQuery
from bridge.console.message_index import NumberKind
from bridge.console.message_search import MessageQuery
from bridge.console.permissions import ALL_SITES_ROLES, ConsoleRole, Grant
from bridge.queue.states import QueueState
from bridge.request_body import Model

Text = Annotated[str, Field(max_length=200)]
RowId = Annotated[int, Field(ge=1, lt=2**63)]
Moment = Annotated[int, Field(ge=0, lt=2**53)]


class _Body(Model):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MessageSearchBody(_Body):
    """In the body, for numbers of patients must not stand in addresses and logs."""

    kind: NumberKind | None = None
    number: Text = ""
    state: QueueState | None = None
    listener: Text | None = None
    text: Text = ""
    since: Moment | None = None
    until: Moment | None = None
    before: RowId | None = None
    limit: int = Field(50, ge=1, le=200)

    def wanted(self, sites: frozenset[str] | None) -> MessageQuery:
        """Give what is looked for, of these sites; a kind without a number is no condition."""
        kind = self.kind if self.number.strip() else None
        return MessageQuery(**{**self.model_dump(), "kind": kind}, sites=sites)


Segments = Annotated[
    list[Annotated[str, Field(max_length=2**21)]], Field(min_length=1, max_length=5000)
]


class EditedMessageBody(_Body):
    """A message written anew, a segment each."""

    segments: Segments


class ResentMessageBody(EditedMessageBody):
    """And why it is sent again."""

    reason: str = Field(min_length=1, max_length=500, pattern=r"\S")


class DeliverySearchBody(_Body):
    """In the body as the other search is."""

    state: QueueState | None = None
    destination: Text | None = None
    report_id: Text | None = None
    before: RowId | None = None
    limit: int = Field(50, ge=1, le=200)

    def wanted(self, sites: frozenset[str] | None) -> DeliveryQuery:
        """Give what is looked for, of these sites."""
        return DeliveryQuery(**self.model_dump(), sites=sites)


class WorklistSearchBody(_Body):
    """In the body, for patients may be asked for."""

    status: Text | None = None
    accession: Text | None = None
    mrn: Text | None = None
    text: Text | None = None
    cursor: Annotated[str, Field(max_length=1000)] | None = None
    limit: int = Field(50, ge=1, le=200)

    def wanted(self) -> dict[str, Any]:
        """Give what is asked of the service; what is empty is no condition."""
        return {name: value or None for name, value in self.model_dump().items()}


class GrantBody(_Body):
    """What a person may do here; `sites`: only there."""

    role: ConsoleRole
    bodies: bool = False
    sites: list[Annotated[str, Field(min_length=1, max_length=128)]] | None = Field(
        None, max_length=1000
    )

    @model_validator(mode="after")
    def _sensible(self) -> "GrantBody":
        if self.role is ConsoleRole.SITE_ADMINISTRATOR and not self.sites:
            raise ValueError("a site administrator has sites")
        if self.role in ALL_SITES_ROLES and self.sites:
            raise ValueError("no site limits this role")
        return self

    def grant(self, email: str) -> Grant:
        """Give it to a person."""
        return Grant(email, self.role, self.bodies, frozenset(self.sites) if self.sites else None)


class ConsoleEventParameters(_Body):
    """Which deeds, in the query: nothing of a patient stands in it. Times in ms."""

    email: Text | None = None
    action: Text | None = None
    subject: Text | None = None
    since: Moment | None = None
    until: Moment | None = None
    before: RowId | None = None
    limit: int = Field(100, ge=1, le=500)

    def wanted(self, sites: frozenset[str] | None) -> ConsoleEventQuery:
        """Give what is looked for, of these sites."""
        return ConsoleEventQuery(**self.model_dump(), sites=sites)


class AcceptedDeliveryParameters(_Body):
    """Which of what was sent; times in ms."""

    destination: Text | None = None
    report_id: Text | None = None
    since: Moment | None = None
    until: Moment | None = None
    before: RowId | None = None
    limit: int = Field(100, ge=1, le=500)

    def wanted(self, sites: frozenset[str] | None) -> AcceptedDeliveryQuery:
        """Give what is looked for, of these sites."""
        return AcceptedDeliveryQuery(**self.model_dump(), sites=sites)


class EngineEventParameters(_Body):
    """Which events of a site's audit trail, by the names that the service has for them."""

    action: Text | None = None
    user: Text | None = None
    reportId: Text | None = None  # noqa: N815  # the service's spelling
    since: Moment | None = None
    until: Moment | None = None
    before: RowId | None = None
    limit: int = Field(100, ge=1, le=500)


class OrderSearchBody(_Body):
    """What somebody asks for: by one number of an order, or by one of a patient."""

    accession: Text = ""
    """Or what the placer or the filler calls it."""
    patient: Text = ""

    @model_validator(mode="after")
    def _asks_for_one(self) -> "OrderSearchBody":
        if bool(self.accession.strip()) == bool(self.patient.strip()):
            raise ValueError("one number is asked for")
        return self

    def asked(self) -> tuple[NumberKind, str]:
        """Give the number, and what it is the number of."""
        order = self.accession.strip()
        return (NumberKind.ORDER, order) if order else (NumberKind.PATIENT, self.patient.strip())
