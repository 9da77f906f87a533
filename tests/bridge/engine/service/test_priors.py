"""Earlier reports: signed ones of the same patient on the same site."""

import pytest

from bridge.contract.errors import ErrorCode
from bridge.engine.records.tables import Site
from bridge.engine.rules.lifecycle import Status
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.accounts.users import SiteUser
from bridge.engine.service.launch.registration import OrderInput
from bridge.engine.service.reports import priors
from bridge.engine.service.reports.priors import list_priors, read_prior
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.signing.sign import sign
from tests.bridge.engine.refusals import refused
from tests.bridge.engine.registrations import create_draft
from tests.bridge.engine.service.harness import PATIENT, ServiceHarness


def test_reports_of_another_site_are_no_priors(harness: ServiceHarness) -> None:
    """Another site's patient with the same identifier is another patient."""
    ann = Editor(harness.ann, SiteRole.USER, "s")
    present, prior = harness.draft("A1"), harness.draft("A2")
    harness.do(sign, prior)
    with harness.database.session() as session:
        session.add(Site(site_id="SITE2", name="Other Clinic", created_at=harness.now))
    with harness.work() as work:
        owner = SiteUser(harness.ann, "ann@example.org", "Ann")
        foreign = create_draft(work, "SITE2", OrderInput("M1", "X9", tags=PATIENT), owner, "Text.")
        foreign.status, foreign.signed_at = Status.FINAL, work.now
        work.session.add(foreign)
        foreign_id = foreign.report_id

    report_id, prior_id = (harness.record(each).report_id for each in (present, prior))
    assert [each["reportId"] for each in harness.do(list_priors, ann, report_id)] == [prior_id]
    with refused(ErrorCode.REPORT_NOT_FOUND):
        harness.do(read_prior, ann, report_id, foreign_id)


def test_only_the_newest_reports_are_examined(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A placeholder of a patient may have any number of reports; each can still be opened."""
    monkeypatch.setattr(priors, "EXAMINED", 2)
    ann = Editor(harness.ann, SiteRole.USER, "s")
    orders = [harness.draft(f"A{number}") for number in range(4)]
    for order in orders[1:]:
        harness.do(sign, order)
    present, *earlier = (harness.record(each).report_id for each in orders)
    listed = {each["reportId"] for each in harness.do(list_priors, ann, present)}
    assert listed == set(earlier[1:])
    assert harness.do(read_prior, ann, present, earlier[0])["document"]
