"""Texts that are kept together have a limit: requests of a few bytes copy texts of megabytes."""

import itertools
from collections.abc import Callable

import pytest

from bridge.contract.requests import UpdateMode
from bridge.engine.errors import EngineError
from bridge.engine.launch import Attachment
from bridge.engine.rules.lifecycle import FileKind
from bridge.engine.rules.text.document import MAX_NODES, from_text, to_json
from bridge.engine.service import stored_texts
from bridge.engine.service.reports.files import update_structured_reports
from bridge.engine.service.signing import addenda
from bridge.engine.service.signing.prelims import MAX_TAGS, prelim
from bridge.engine.service.signing.sign import sign, unsign
from bridge.engine.service.sites.macros import set_macro
from bridge.engine.service.sites.site_settings import set_template
from tests.bridge.engine.service.harness import SITE, ServiceHarness

TEXT = "Clear lungs. " * 100


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_texts, "MAX_STORED", 5000)


def code_of(refused: "pytest.ExceptionInfo[EngineError]") -> tuple[str, int]:
    return refused.value.code, refused.value.status


def repeat_until_refused(action: Callable[[], object]) -> int:
    """Count the repetitions until there is no room."""
    done = itertools.count()

    def repeat() -> None:
        while True:
            action()
            next(done)

    with pytest.raises(EngineError) as refused:
        repeat()
    assert code_of(refused) == ("too_much_text", 400)
    return next(done)


def test_each_preliminary_read_copies_the_text(harness: ServiceHarness) -> None:
    """Reads with the text of the report are refused when they have the limit together."""
    order = harness.draft("A1", text=TEXT)
    assert repeat_until_refused(lambda: harness.do(prelim, order, "Night", "CT")) == 4


def test_each_signature_copies_the_text(harness: ServiceHarness) -> None:
    """A report can be recalled until its signatures have the limit together."""
    harness.delay(60)
    order = harness.draft("A1", text=TEXT)

    def sign_and_recall() -> None:
        harness.do(sign, order)
        harness.do(unsign, order)

    assert repeat_until_refused(sign_and_recall) == 3


def test_addenda_are_exported_together(harness: ServiceHarness) -> None:
    """A further addendum is refused when the states of the report have the limit together."""
    harness.delay(0)
    order = harness.draft("A1")
    harness.do(sign, order)

    def add() -> None:
        harness.on_report(order, addenda.create_addendum, harness.bob)
        harness.on_report(order, addenda.save_addendum, from_text(TEXT))
        harness.on_report(order, addenda.sign_addendum, harness.bob)

    assert repeat_until_refused(add) == 4


def test_macros_and_templates_are_read_together(harness: ServiceHarness) -> None:
    """The limit is for the macros of a site, for those of a user, and for the site's templates."""
    document, names = from_text(TEXT), iter(range(100))

    def macro(owner: int | None) -> Callable[[], None]:
        def add() -> None:
            with harness.work() as work:
                key = f"m{next(names)}"
                set_macro(work.connection, SITE, owner, key, "", document, work.now)

        return add

    def template() -> None:
        with harness.work() as work:
            set_template(work.connection, SITE, next(names) + 1, "", to_json(document), work.now)

    assert repeat_until_refused(macro(None)) == 4
    assert repeat_until_refused(macro(harness.ann)) == 4
    assert repeat_until_refused(template) == 4


def test_tags_that_a_site_gets_by_their_use(harness: ServiceHarness) -> None:
    """A caller whose tag is another one each time does not fill the site's groups."""
    orders = [harness.draft(f"A{number}") for number in range(MAX_TAGS + 1)]
    for number, order in enumerate(orders[:-1]):
        harness.do(prelim, order, "Night", f"T{number}")
    with pytest.raises(EngineError) as refused:
        harness.do(prelim, orders[-1], "Night", "another")
    assert code_of(refused) == ("too_many_prelim_tags", 400)
    harness.do(prelim, orders[-1], "Night", "T0")


def test_a_report_with_its_structured_reports_can_be_saved(harness: ServiceHarness) -> None:
    """Files whose texts would make the report too large for the editor are refused."""
    order = harness.order("A1")

    def file(number: int, text: str) -> Attachment:
        digest = f"{number:064d}"
        kind = FileKind.STRUCTURED_REPORT
        return Attachment(kind, digest, b"", sop_instance_uid=f"1.{number}", details={"text": text})

    small, large = file(1, "Nodule."), file(2, "a\n" * MAX_NODES)
    harness.do(update_structured_reports, order, [small], UpdateMode.APPEND)
    with pytest.raises(EngineError) as refused:
        harness.do(update_structured_reports, order, [large], UpdateMode.APPEND)
    assert (*code_of(refused), refused.value.pointer) == ("too_much_text", 400, "/dicomSR")
