"""What an inbound message means: order events, and the issues found on the way.

Plain values only; how they come out of a message is `mappings.inbound.order_mapping` and
`mappings.inbound.patient_mapping`, what is done about them is the bridge's business.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class OrderAction(StrEnum):
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
class PatientVisit:
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

    action: OrderAction
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
    visit: PatientVisit | None = None
    renumbers: bool = False
    """Of a merge: the patient alone gets a new number, which is nobody else's (A46, A47)."""
