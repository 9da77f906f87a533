"""
What stands around a report, for the rules and for what is told of it: one statement for all.

Says what there is to read, so that nobody looks for addenda or preliminary reads in vain.
"""

from dataclasses import dataclass

from sqlalchemy import bindparam, exists, select
from sqlmodel import Session

from bridge.engine.records.tables import Report, metadata

_SITES = metadata.tables["engine_site"]
_ACCOUNTS = metadata.tables["engine_account"]
_PRELIMS = metadata.tables["engine_prelim_read"]
_ADDENDA = metadata.tables["engine_addendum"]

# Made once: to make a statement costs more than to run it.
_AROUND = select(
    _SITES.c.sign_delay,
    select(_ACCOUNTS.c.email).where(_ACCOUNTS.c.id == bindparam("owner")).scalar_subquery(),
    exists().where(_PRELIMS.c.report_pk == bindparam("report")),
    exists().where(_ADDENDA.c.report_pk == bindparam("report")),
).where(_SITES.c.site_id == bindparam("site"))


@dataclass(frozen=True, slots=True)
class Around:
    """The site's sign delay in seconds, the owner's e-mail address ('' for none), what there is."""

    sign_delay: int
    user_email: str
    prelims: bool
    addenda: bool

    @classmethod
    def of(cls, session: Session, report: Report) -> "Around":
        """Read it for a stored report."""
        asked = {"site": report.site_id, "owner": report.owner_id, "report": report.pk}
        delay, email, prelims, addenda = session.execute(_AROUND, asked).one()
        return cls(int(delay or 0), email or "", bool(prelims), bool(addenda))
