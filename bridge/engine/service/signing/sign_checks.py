"""
The checks before signing: findings in a report's text, and the site's behaviour for each.

Only the application runs them; the API signs without checks (V50).
"""

from typing import Any

from bridge.engine.errors import EngineError
from bridge.engine.records.tables import Report
from bridge.engine.rules.text.document import Document, restore
from bridge.engine.rules.text.signing_checks import Behaviour, CheckFinding, find_all
from bridge.engine.service.lifecycle import document_json
from bridge.engine.service.report_lookup import key_of, lock_report_by_id, orders_of
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.sites.preferences import SignChecks, preferences_of
from bridge.engine.service.work import Work


class SigningProhibited(EngineError):  # noqa: N818  # named for what happened
    """The site prohibits signing a report with such findings in the application."""

    status = 400
    code = "signing_prohibited"
    text = "the site's checks do not let this report be signed"


def check(work: Work, _: Editor, report_id: str) -> list[dict[str, Any]]:
    """Return the findings in the saved text, each with the site's behaviour."""
    report = lock_report_by_id(work, report_id)
    behaviours = preferences_of(work.connection, report.site_id).signChecks
    return [
        {**each.as_json(), "behaviour": behaviours.behaviour(each.check).value}
        for each in _findings(work, report, behaviours)
    ]


def refuse_prohibited(work: Work, report: Report) -> None:
    """Raise `SigningProhibited` if the site prohibits signing with one of the findings."""
    behaviours = preferences_of(work.connection, report.site_id).signChecks
    found = _findings(work, report, behaviours)
    if any(behaviours.behaviour(each.check) is Behaviour.PROHIBIT for each in found):
        raise SigningProhibited


def _findings(work: Work, report: Report, behaviours: SignChecks) -> list[CheckFinding]:
    """Return the findings that the site does not silence."""
    orders = [order.tags for order in orders_of(work.session, key_of(report))]
    document: Document = restore(document_json(report))
    return [
        each
        for each in find_all(document, orders)
        if behaviours.behaviour(each.check) is not Behaviour.SILENT
    ]
