"""What requests of the console carry: strict, so that a misspelt member is told."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from bridge.console.numbers import Kind
from bridge.console.searching import Search
from bridge.queue.states import State

Text = Annotated[str, Field(max_length=200)]
RowId = Annotated[int, Field(ge=1, lt=2**63)]
Moment = Annotated[int, Field(ge=0, lt=2**53)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MessageSearch(_Body):
    """In the body, for numbers of patients must not stand in addresses and logs."""

    kind: Kind | None = None
    number: Text = ""
    state: State | None = None
    listener: Text | None = None
    text: Text = ""
    since: Moment | None = None
    until: Moment | None = None
    before: RowId | None = None
    limit: int = Field(50, ge=1, le=200)

    def wanted(self) -> Search:
        """Give what is looked for; a kind without a number is no condition."""
        kind = self.kind if self.number.strip() else None
        return Search(**{**self.model_dump(), "kind": kind})


class DeliverySearch(_Body):
    """As bridge.queue.browse.Filter has it."""

    state: State | None = None
    destination: Text | None = None
    report_id: Text | None = None
    before: RowId | None = None
    limit: int = Field(50, ge=1, le=200)


class Accession(_Body):
    """The order that somebody asks for."""

    accession: str = Field(min_length=1, max_length=200)
