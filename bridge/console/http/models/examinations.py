"""Requests and responses about examinations of partners."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from bridge.admin.background.jobs import JobState
from bridge.admin.examination.job import ExaminationRequest, Role, TlsChoice
from bridge.admin.examination.results import Verdict
from bridge.console.http.models.bodies import Body, NotBlank
from config.sections import ChannelKind

_Name = Annotated[str, Field(max_length=64)]


class ExaminationBody(Body):
    """
    An examination to begin: of a destination, of the receiver at an address, or of the sender that
    will connect to a port. `listener` is the one that this sender sends to later.

    `probes`: some of those of a receiver; none: all. `agreed`: who at the partner agreed.
    """

    role: Role
    destination: _Name = ""
    address: Annotated[str, Field(max_length=260)] = ""
    tls: TlsChoice = TlsChoice.NONE
    port: Annotated[int, Field(ge=0, lt=2**16)] = 0
    listener: _Name = ""
    probes: Annotated[list[_Name], Field(default_factory=list, max_length=100)]
    agreed: NotBlank

    def request(self) -> ExaminationRequest:
        return ExaminationRequest(
            self.role,
            self.destination,
            self.address.strip(),
            self.tls,
            self.port,
            self.listener,
            self.probes,
            self.agreed,
        )


class ProbeBody(BaseModel):
    name: str
    title: str


class ProbeResultBody(BaseModel):
    """What a probe found; `settings` are those with which messages arrive."""

    name: str
    title: str
    verdict: Verdict
    words: str
    expected: str
    advice: str
    took_ms: int
    settings: dict[str, Any]


class ProposedChangeBody(BaseModel):
    """A setting to change, written as in bridge.toml; empty if it is not set."""

    setting: str
    before: str
    after: str
    why: str


class ProposalBody(BaseModel):
    """
    Settings that fit, of a connection or of a new one without a name.

    `table` has all its settings with the changes. It is saved by the endpoint of connections, with
    `begun_on`.
    """

    kind: ChannelKind
    name: str
    begun_on: str
    table: dict[str, Any]
    changes: list[ProposedChangeBody]


class ExaminationResponse(BaseModel):
    """
    An examination; times in ms.

    `listens` is the address to which the sender connects, empty until it is open. `sent` is the
    number of messages, null until the end. `proposal` is null in lists, and while nothing was
    found. `error` and `detail` say why it has failed.
    """

    id: int
    role: Role
    subject: str
    destination: str
    listener: str
    address: str
    tls: TlsChoice
    agreed: str
    actor: str
    state: JobState
    created_at: int
    finished_at: int | None
    listens: str
    sent: int | None
    error: str
    detail: str
    probes: list[ProbeBody]
    results: list[ProbeResultBody]
    counts: dict[Verdict, int]
    proposal: ProposalBody | None


class ExaminationsResponse(BaseModel):
    """Examinations, newest first."""

    rows: list[ExaminationResponse]


class ProbesResponse(BaseModel):
    """The probes that exist, and the limit of messages that a receiver gets."""

    receiver: list[ProbeBody]
    sender: list[ProbeBody]
    most_messages: int
    lowest_port: int
