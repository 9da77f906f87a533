"""Report shares: at most as long as the site permits, and each of its own report."""

from bridge.contract.errors import ErrorCode
from bridge.engine.records.tables import Share
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.reports import shares
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.sites.preferences import preferences_of
from tests.bridge.engine.refusals import refused
from tests.bridge.engine.service.harness import SITE, ServiceHarness


def test_a_share_ends_when_the_site_requires_it(harness: ServiceHarness) -> None:
    """A longer lifetime is shortened, a shorter one is kept."""
    ann = Editor(harness.ann, SiteRole.USER, "s")
    report_id = harness.record(harness.draft("A1")).report_id
    with harness.work() as work:
        longest = preferences_of(work.connection, SITE).shareSeconds
    for seconds, lifetime in ((longest + 1, longest), (60, 60), (None, longest)):
        made = harness.do(shares.create_share, ann, report_id, bytes, seconds)
        assert made.expires_at == harness.now + lifetime * 1000
        harness.do(shares.revoke, ann, report_id, made.pk)
        with harness.work() as work:
            work.session.delete(work.session.get_one(Share, made.pk))


def test_a_share_is_revoked_at_its_own_report(harness: ServiceHarness) -> None:
    """The key of another report's share is unknown, and that share stays valid."""
    ann = Editor(harness.ann, SiteRole.USER, "s")
    one, other = (harness.record(harness.draft(each)).report_id for each in ("A1", "A2"))
    made = harness.do(shares.create_share, ann, one, bytes, None)

    with refused(ErrorCode.NOT_FOUND):
        harness.do(shares.revoke, ann, other, made.pk)

    assert [each["id"] for each in harness.do(shares.list_shares, ann, one)] == [made.pk]
