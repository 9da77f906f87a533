"""What an inbound message means: order events, and the issues found on the way.

Plain values only; how they come out of a message is `mappings.inbound.orders` and
`mappings.inbound.patients`, what is done about them is the bridge's business.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from typing_extensions import override

from mappings.hl7.refusals import Refusal


class Action(StrEnum):
    """What the sender wants done with an order or a patient."""

    CREATE = "create"
    AWAIT = "await"
    CHANGE = "change"
    CANCEL = "cancel"
    REPLACE = "replace"
    DISCONTINUE = "discontinue"
    HOLD = "hold"
    RELEASE = "release"
    LINK = "link"
    UNLINK = "unlink"
    PATIENT_UPDATE = "patient-update"
    PATIENT_MERGE = "patient-merge"
    VISIT_MOVE = "visit-move"
    IGNORE = "ignore"


class Severity(StrEnum):
    """Whether an issue stops what was asked for."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Issue:
    """One mistake with its place: in a message (`path`) or in a definition (`file`, `line`).

    `message` names places, never values. `refusal` is what the sender would be told;
    None for warnings and for mistakes in definitions.
    """

    path: str
    code: str
    message: str
    severity: Severity = Severity.ERROR
    file: str = ""
    line: int = 0
    column: int = 0
    refusal: Refusal | None = None

    @override
    def __str__(self) -> str:
        """Read as compilers write: file:line:column: severity: path: message."""
        place = f"{self.file}:{self.line}:{self.column}: " if self.file else ""
        path = f"{self.path}: " if self.path else ""
        return f"{place}{self.severity}: {path}{self.message} [{self.code}]"


CHILD_OF = "child-of"
"""The kind of signal that names an order's parent by its number; it joins nobody."""


@dataclass(frozen=True, slots=True)
class LinkSignal:
    """Orders of one patient that carry an equal signal are read together.

    kind: study-uid | accession | message-group | printset | order-group | parent | custom:<name>,
    or `CHILD_OF`.
    """

    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class Visit:
    """
    The visit that a patient event is about: `number` as an order's Metadata has it under `key`.

    A move gives the orders of visit `prior` to the event's patient under `number`; an update
    brings `values` of Metadata to the orders of visit `number`.
    """

    key: str
    number: str
    prior: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OrderEvent:
    """One ORC/OBR group (or one PID of an ADT message), ready for the report service.

    `clinical_info` holds only tags with a value; an explicit HL7 null (`""`) gives an
    empty string: delete what is stored (HL7 v2.5.1 §2.5.3). `echo` keeps the raw segment
    lines, MSH first, so that a result can repeat them.
    """

    action: Action
    site: str
    location: str
    mrn: str
    accession: str
    clinical_info: Mapping[str, Any]
    reporting_app: Mapping[str, Any]
    place: str
    link_signals: tuple[LinkSignal, ...] = ()
    placer: str = ""
    filler: str = ""
    echo: tuple[str, ...] = ()
    prior_mrn: str = ""
    prior_name: str = ""
    order_control: str = ""
    order_status: str = ""
    examined: bool = False
    note: str = ""
    visit: Visit | None = None
    renumbers: bool = False
    """Of a merge: the patient alone gets a new number, which is nobody else's (A46, A47)."""
