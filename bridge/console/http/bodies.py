"""Request bodies and query parameters of the console. An unknown member is an error."""

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
    """Criteria for messages, in the body: URLs and access logs must not contain patient ids."""

    kind: NumberKind | None = None
    number: Text = ""
    state: QueueState | None = None
    listener: Text | None = None
    text: Text = ""
    since: Moment | None = None
    until: Moment | None = None
    before: RowId | None = None
    limit: int = Field(50, ge=1, le=200)

    def query(self, sites: frozenset[str] | None) -> MessageQuery:
        """Return the query for these sites; a kind without a number is ignored."""
        kind = self.kind if self.number.strip() else None
        return MessageQuery(**{**self.model_dump(), "kind": kind}, sites=sites)


Segments = Annotated[
    list[Annotated[str, Field(max_length=2**21)]], Field(min_length=1, max_length=5000)
]


class EditedMessageBody(_Body):
    """The segments of an edited message."""

    segments: Segments


class ResentMessageBody(EditedMessageBody):
    """An edited message to resend, with the reason."""

    reason: str = Field(min_length=1, max_length=500, pattern=r"\S")


class DeliverySearchBody(_Body):
    """Criteria for deliveries."""

    state: QueueState | None = None
    destination: Text | None = None
    report_id: Text | None = None
    before: RowId | None = None
    limit: int = Field(50, ge=1, le=200)

    def query(self, sites: frozenset[str] | None) -> DeliveryQuery:
        """Return the query for these sites."""
        return DeliveryQuery(**self.model_dump(), sites=sites)


class WorklistSearchBody(_Body):
    """Criteria for reports of a worklist, in the body because they may name a patient."""

    status: Text | None = None
    accession: Text | None = None
    mrn: Text | None = None
    text: Text | None = None
    cursor: Annotated[str, Field(max_length=1000)] | None = None
    limit: int = Field(50, ge=1, le=200)

    def query(self) -> dict[str, Any]:
        """Return the parameters for the report engine; empty values become None."""
        return {name: value or None for name, value in self.model_dump().items()}


class GrantBody(_Body):
    """A role to assign; `sites` limits it, `bodies` permits to read message content."""

    role: ConsoleRole
    bodies: bool = False
    sites: list[Annotated[str, Field(min_length=1, max_length=128)]] | None = Field(
        None, max_length=1000
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> "GrantBody":
        if self.role is ConsoleRole.SITE_ADMINISTRATOR and not self.sites:
            raise ValueError("a site administrator has sites")
        if self.role in ALL_SITES_ROLES and self.sites:
            raise ValueError("no site limits this role")
        return self

    def grant(self, email: str) -> Grant:
        """Return the grant for an account."""
        return Grant(email, self.role, self.bodies, frozenset(self.sites) if self.sites else None)


class ConsoleEventParameters(_Body):
    """Criteria for the console's audit events, without patient data. Times in ms."""

    email: Text | None = None
    action: Text | None = None
    subject: Text | None = None
    since: Moment | None = None
    until: Moment | None = None
    before: RowId | None = None
    limit: int = Field(100, ge=1, le=500)

    def query(self, sites: frozenset[str] | None) -> ConsoleEventQuery:
        """Return the query for these sites."""
        return ConsoleEventQuery(**self.model_dump(), sites=sites)


class AcceptedDeliveryParameters(_Body):
    """Criteria for accepted deliveries; times in ms."""

    destination: Text | None = None
    report_id: Text | None = None
    since: Moment | None = None
    until: Moment | None = None
    before: RowId | None = None
    limit: int = Field(100, ge=1, le=500)

    def query(self, sites: frozenset[str] | None) -> AcceptedDeliveryQuery:
        """Return the query for these sites."""
        return AcceptedDeliveryQuery(**self.model_dump(), sites=sites)


class EngineEventParameters(_Body):
    """Criteria for a site's audit events, with the parameter names of the report engine."""

    action: Text | None = None
    user: Text | None = None
    reportId: Text | None = None  # noqa: N815  # the report engine's spelling
    since: Moment | None = None
    until: Moment | None = None
    before: RowId | None = None
    limit: int = Field(100, ge=1, le=500)


class OrderSearchBody(_Body):
    """One number of an order, or one patient id."""

    accession: Text = ""
    """The accession, or the placer or filler number."""
    patient: Text = ""

    @model_validator(mode="after")
    def _has_one_number(self) -> "OrderSearchBody":
        if bool(self.accession.strip()) == bool(self.patient.strip()):
            raise ValueError("one number is asked for")
        return self

    def number(self) -> tuple[NumberKind, str]:
        """Return the kind of the number, and the number."""
        order = self.accession.strip()
        return (NumberKind.ORDER, order) if order else (NumberKind.PATIENT, self.patient.strip())
