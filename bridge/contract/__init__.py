"""
The HTTP interface of the report engine: terms here; `requests` and `responses` have the bodies,
`errors` the error codes.

The engine and `bridge.engine_client` share it, and do not import each other.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, ConfigDict, Field

TOKEN_HEADER = "x-access-token"  # noqa: S105  # the header's name, no token


MAX_REPORT_ORDERS = 100
"""Orders of one report. Each change in the feed has all of them, with their tags."""


class ReportStatus(StrEnum):
    """Status of a report (interface reference, Report status record)."""

    ORDERED = "Ordered"
    DRAFT = "Draft"
    PRELIMINARY = "Preliminary"
    FINAL = "Final"
    ADDENDUM = "Addendum"


class OutsideStatus(StrEnum):
    """Status of a version of a report that was not made here; a later one wins at equal times."""

    UNKNOWN = "unknown"
    PRELIMINARY = "preliminary"
    FINAL = "final"
    ADDENDUM = "addendum"
    CORRECTED = "corrected"
    WITHDRAWN = "withdrawn"


SIGNED: Final = frozenset({ReportStatus.FINAL, ReportStatus.ADDENDUM})

PRE_LAUNCH: Final = "PreLaunch"
"""Status in a launch response for a report that does not exist yet."""


_MARKED = 1 << 52
"""
The bit that is set in cursors with a mark. JSON readers represent integers of up to 53 bits
exactly.
"""
_MARK_BITS = 16
MAX_MARKS = 1 << _MARK_BITS


def mark_cursor(position: int, mark: int) -> int:
    """
    Return a change feed cursor: the number of a change, and a mark computed from its content.

    Cursors increase with the numbers. A cursor of an older release has no mark: it is the number.
    """
    return _MARKED | position << _MARK_BITS | mark


def split_cursor(cursor: int) -> tuple[int, int | None]:
    """Return the number of a cursor's change, and its mark, None if the cursor has no mark."""
    if not _MARKED <= cursor < 2 * _MARKED:
        return cursor, None
    return (cursor - _MARKED) >> _MARK_BITS, cursor % MAX_MARKS


def _describe_all_as_required(schema: dict[str, Any]) -> None:
    schema["required"] = list(schema["properties"])
    for member in schema["properties"].values():
        member.pop("default", None)


KeyText = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


@dataclass(frozen=True, slots=True, repr=False, order=True)
class OrderKey:
    """The key of one order."""

    # A service of another vendor may omit members: they are read as empty.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        serialize_by_alias=True, json_schema_extra=_describe_all_as_required
    )

    site: Annotated[KeyText, Field(alias="SiteID")] = ""
    mrn: Annotated[KeyText, Field(alias="PatientMRN")] = ""
    accession: Annotated[KeyText, Field(alias="Accession")] = ""

    @property
    def patient(self) -> tuple[str, str]:
        return self.site, self.mrn

    def tags(self) -> dict[str, str]:
        """Return the key with the names of the interface reference."""
        return {"SiteID": self.site, "PatientMRN": self.mrn, "Accession": self.accession}
