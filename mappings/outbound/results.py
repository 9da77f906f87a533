"""What an outbound definition is given: one release (or status change) of one report.

Plain values; `mappings.outbound.definition` turns them into bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from mappings.language.code_tables import UnmappedCode


class ResultEvent(StrEnum):
    """Why a message goes out."""

    FINAL = "final"
    ADDENDUM = "addendum"
    CORRECTION = "correction"  # a released text is replaced, or a released addendum withdrawn
    RETRACTION = "retraction"  # the released report as a whole was wrong
    PRELIMINARY = "preliminary"
    CANCELLATION = "cancellation"  # a preliminary report came to nothing before it was signed
    RECALL = "recall"  # unsigned inside the sign delay: nothing final was ever sent
    ORDER_STATUS = "order-status"


@dataclass(frozen=True, slots=True)
class Signer:
    """A person as the report service names them; `identifier` is for XCN/NDL component 1."""

    name: str = ""
    email: str = ""
    identifier: str = ""


@dataclass(frozen=True, slots=True)
class SignedAddendum:
    """One signed addendum, in order of signing."""

    text: str
    signed_at: datetime | None = None
    signed_by: Signer = field(default_factory=Signer)


WITHDRAWALS = frozenset({ResultEvent.RETRACTION, ResultEvent.CANCELLATION})
"""Events whose messages say that what was sent does not stand, and nothing else."""


class SentSection(NamedTuple):
    """OBX-3.1, OBX-3.3 and OBX-4 under which a receiver has text of a report."""

    code: str
    system: str
    sub_id: str


class FileFormat(StrEnum):
    """What a report can be sent as beside its text, as ED-3 names it (HL7 v2.5.1 §2A.24)."""

    PDF = "PDF"
    RTF = "RTF"


@dataclass(frozen=True, slots=True)
class DocumentNames:
    """TXA-12 and TXA-13: the document that a message is about, and the one it follows."""

    number: str = ""
    parent: str = ""


@dataclass(frozen=True, slots=True)
class ResultOrder:
    """One order of the report: its tags, Metadata, numbers, and the segments it came with.

    `echo` is `OrderEvent.echo`: decoded lines in the sender's own delimiters, MSH first.
    """

    tags: Mapping[str, str]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    placer: str = ""
    filler: str = ""
    echo: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResultContext:
    """
    Everything one outbound message may say. Datetimes are aware; written in `time_zone`.

    `earlier` are the events of this report that the receiver was told of before, in order;
    `files` is the report in other formats, as bytes; `shown` what the receiver has of its text.
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
    shown: tuple[SentSection, ...] = ()
    document: DocumentNames = field(default_factory=DocumentNames)
    missed: list[UnmappedCode] | None = None
    """Where codes are noted that no table has; None: nobody wants to know."""
