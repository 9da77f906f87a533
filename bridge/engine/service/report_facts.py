"""What stands around a report, for the rules and for what is told of it: one statement for all.

Says what there is to read, so that nobody looks for addenda or preliminary reads in vain.
"""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection

from bridge.engine.records.tables import Report
from bridge.store.statements import Answer, Words, plain, said, say

_AROUND: Final = plain(
    """
    SELECT s.sign_delay,
        (SELECT a.email FROM engine_account AS a WHERE a.id = :owner) AS email,
        EXISTS (SELECT 1 FROM engine_prelim_read AS p WHERE p.report_pk = :report) AS prelims,
        EXISTS (SELECT 1 FROM engine_addendum AS d WHERE d.report_pk = :report) AS addenda
    FROM engine_site AS s WHERE s.site_id = :site
    """
)


@dataclass(frozen=True, slots=True)
class Around:
    """The site's sign delay in seconds, the owner's e-mail address ('' for none), what there is."""

    sign_delay: int
    user_email: str
    prelims: bool
    addenda: bool

    @classmethod
    def of(cls, connection: Connection, report: Report) -> "Around":
        """Read it for a stored report."""
        return cls.read(say(connection, _AROUND, **_of(report)))

    @classmethod
    def asked(cls, connection: Connection, report: Report) -> Words:
        """Give the statement for a stored report, to be run with others; `read` its answer."""
        return said(connection, _AROUND, **_of(report))

    @classmethod
    def read(cls, answer: Answer) -> "Around":
        """Read the answer."""
        row: Any = answer.first()
        return cls(int(row.sign_delay or 0), row.email or "", bool(row.prelims), bool(row.addenda))


def _of(report: Report) -> dict[str, Any]:
    return {"site": report.site_id, "owner": report.owner_id, "report": report.pk}
