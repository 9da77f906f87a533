"""
Order events: the results of inbound mappings, as plain values.

`mappings.inbound.order_mapping` and `mappings.inbound.patient_mapping` create them; the bridge
executes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class OrderAction(StrEnum):
    """The action that a sender requests for an order or a patient."""

    CREATE = "create"
    AWAIT = "await"
    CHANGE = "change"
    CANCEL = "cancel"
    REPLACE = "replace"
    DISCONTINUE = "discontinue"
    HOLD = "hold"
    RELEASE = "release"
    REPORTED = "reported"
    LINK = "link"
    UNLINK = "unlink"
    PATIENT_UPDATE = "patient-update"
    PATIENT_MERGE = "patient-merge"
    PATIENT_UNMERGE = "patient-unmerge"
    VISIT_MOVE = "visit-move"
    OUTSIDE_REPORT = "outside-report"
    IGNORE = "ignore"


CHILD_OF = "child-of"
"""The kind of signal that contains the number of an order's parent. It does not link reports."""


@dataclass(frozen=True, slots=True)
class LinkSignal:
    """
    A reason to link orders: orders of one patient with an equal signal share a report.

    `kind` is study-uid, accession, message-group, printset, order-group, parent, custom:<name> or
    `CHILD_OF`.
    """

    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class PatientVisit:
    """
    The visit of a patient event; orders have its `number` in their Metadata under `key`.

    A move assigns the orders of visit `prior` to the patient of the event, with `number`. An update
    sets the Metadata `values` of the orders of visit `number`.
    """

    key: str
    number: str
    prior: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutsideReport:
    """
    A version of a report that was not made here.

    `number` names the document at its sender (`MSH-3|MSH-4`), `parent` the one that it replaces or
    completes. `status` is a word of `OutsideStatus`, `code` the status as sent. `at` is the time
    of the version in ms.
    """

    sender: str
    number: str
    parent: str
    status: str
    code: str
    at: int | None
    title: str
    author: str
    text: str = field(repr=False)
    pdfs: tuple[bytes, ...] = field(repr=False)
    omitted: tuple[str, ...]
    """The types of the parts that are neither text, RTF nor PDF."""

    @property
    def is_withdrawn(self) -> bool:
        return self.status == "withdrawn"


@dataclass(frozen=True, slots=True)
class OrderEvent:
    """
    The result for one ORC/OBR group, or for one PID of an ADT message.

    `clinical_info` contains the tags with a value. An HL7 null (`""`) becomes an empty string,
    which deletes the stored value (HL7 v2.5.1 §2.5.3). `echo` contains segments as sent, MSH first,
    for the result message.
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
    merged_into: str = ""
    """The number that a merge names, if it leads to `mrn`; `clinical_info` is not about it."""
    merged_into_info: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What the merge says of the patient with that number."""
    other_mrns: tuple[str, ...] = ()
    """Other numbers in PID-3 with the type and authority of `mrn`."""
    prior_name: str = ""
    order_control: str = ""
    order_status: str = ""
    result_status: str = ""
    examined: bool = False
    note: str = ""
    visit: PatientVisit | None = None
    lists: Mapping[str, str] = field(default_factory=dict)
    """The keys of Metadata that are lists of distinct values, with their separators."""
    renumbers: bool = False
    """Of a merge: the patient gets a new number that no other patient has (A46, A47)."""
    is_further: bool = False
    """Of an undone merge: a pair of further numbers of the two patients."""
    is_mutual: bool = False
    """Of an undone merge: either of the two patients may be the one that was merged (A37)."""
    outside: OutsideReport | None = None
    """Of an outside report; None if the group only names another order of the same report."""

    @property
    def outside_is_final(self) -> bool:
        """True for an outside report whose order has a final or corrected result."""
        return self.action is OrderAction.OUTSIDE_REPORT and bool(self.result_status)
