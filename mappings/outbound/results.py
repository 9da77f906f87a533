"""The input of an outbound definition: one release or status change of a report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from mappings.language.code_tables import UnmappedCode


class ResultEvent(StrEnum):
    """The event that a message reports."""

    FINAL = "final"
    ADDENDUM = "addendum"
    CORRECTION = "correction"  # replaces a released text, or withdraws a released addendum
    RETRACTION = "retraction"  # withdraws the released report
    PRELIMINARY = "preliminary"
    CANCELLATION = "cancellation"  # withdraws a preliminary report that was not signed
    RECALL = "recall"  # the signature was recalled in the sign delay; nothing final was sent
    ORDER_STATUS = "order-status"


@dataclass(frozen=True, slots=True)
class Signer:
    """A person as the report service names them; `identifier` is component 1 of XCN and NDL."""

    name: str = ""
    email: str = ""
    identifier: str = ""


@dataclass(frozen=True, slots=True)
class SignedAddendum:
    """A signed addendum. Addenda are in the order of signing."""

    text: str
    signed_at: datetime | None = None
    signed_by: Signer = field(default_factory=Signer)


WITHDRAWALS = frozenset({ResultEvent.RETRACTION, ResultEvent.CANCELLATION})
"""Events that withdraw what was sent."""


class SentSection(NamedTuple):
    """OBX-3.1, OBX-3.3 and OBX-4 of a section of a report that a receiver has."""

    code: str
    system: str
    sub_id: str


class FileFormat(StrEnum):
    """The file formats of reports, with the names of ED-3 (HL7 v2.5.1 §2A.24)."""

    PDF = "PDF"
    RTF = "RTF"


@dataclass(frozen=True, slots=True)
class DocumentNames:
    """TXA-12 and TXA-13: the document of a message, and the one that it replaces or extends."""

    number: str = ""
    parent: str = ""


@dataclass(frozen=True, slots=True)
class ResultOrder:
    """
    An order of the report: its tags, Metadata, numbers, and segments.

    `echo` is `OrderEvent.echo`: decoded lines in the sender's delimiters, MSH first. `procedure_id`
    is the Requested Procedure ID of the worklist, '' if it is not known.
    """

    tags: Mapping[str, str]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    placer: str = ""
    filler: str = ""
    echo: tuple[str, ...] = ()
    procedure_id: str = ""


@dataclass(frozen=True, slots=True)
class ResultContext:
    """
    The data of one outbound message. Datetimes are aware, and written in `time_zone`.

    `earlier` are the events of this report that were sent to the receiver before, in order. `files`
    is the report in other formats. `sent_sections` are the sections that the receiver has.
    """

    event: ResultEvent
    control_id: str
    now: datetime
    site: str
    orders: tuple[ResultOrder, ...]
    report_text: str = ""
    addenda: tuple[SignedAddendum, ...] = ()
    signed_at: datetime | None = None
    signed_by: Signer = field(default_factory=Signer)
    destination: Mapping[str, str] = field(default_factory=dict)
    report_status: str = ""
    time_zone: str = "UTC"
    earlier: tuple[ResultEvent, ...] = ()
    files: Mapping[FileFormat, bytes] = field(default_factory=dict)
    sent_sections: tuple[SentSection, ...] = ()
    document: DocumentNames = field(default_factory=DocumentNames)
    unmapped_codes: list[UnmappedCode] | None = None
    """Receives the codes that no code table contains; None: they are not collected."""
