"""Display preferences: set on the report page and kept for the next report."""

from typing import Any

import httpx
import pytest

from tests.bridge.engine.http.engine_service import READER, Page, Service, boot, user

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

HOME = "/reporting/launch-report/clinical"


def opened(service: Service, accession: str = "A1", **app: object) -> httpx.Response:
    launch: dict[str, Any] = {"accession": accession, "userInfo": user(READER), "reportingApp": app}
    return service.open(service.launch(**launch).json()["reportLink"])


def set_preferences(page: Page, **preferences: object) -> httpx.Response:
    return page.call("PUT", "choices", json=preferences)


def test_language_and_theme_are_kept_for_the_next_report(service: Service) -> None:
    """A pre-warmed frame, and a launch without a language, use the preferred language."""
    page = opened(service)
    assert (boot(page)["locale"], boot(page)["theme"]) == ("en-US", "dark")
    chosen = set_preferences(service.session(page), AppLanguage="de-DE", theme="light")
    assert chosen.status_code == 204
    init = {"clinicalInfo": {"SiteID": "SITE1"}, "userInfo": user(READER)}
    waiting = boot(service.open(service.post("report/init", init).json()["sessionLink"]))
    assert (waiting["locale"], waiting["theme"]) == ("de-DE", "light")
    after = boot(opened(service, "A2"))
    assert (after["locale"], after["theme"]) == ("de-DE", "light")


def test_a_preference_overrides_the_launch_of_the_page(service: Service) -> None:
    """A reloaded page keeps its language; the next launch may set another one."""
    page = opened(service, AppLanguage="fr-FR")
    set_preferences(service.session(page), AppLanguage="ja-JP")
    assert boot(service.call("GET", HOME, None))["locale"] == "ja-JP"
    assert boot(opened(service, "A2", AppLanguage="fr-FR"))["locale"] == "fr-FR"


@pytest.mark.parametrize(
    ("launch", "own", "site", "compares"),
    [
        (None, None, True, True),
        (None, False, True, False),
        (True, False, False, True),
        (False, None, True, False),
    ],
)
def test_auto_comparison_is_decided_by_launch_then_user_then_site(
    service: Service, *, launch: bool | None, own: bool | None, site: bool, compares: bool
) -> None:
    """AutoComparePrior of the launch, else of the user, else of the site, else false."""
    assert service.session(opened(service, "A0"))("report").json()["autoCompare"] is False
    service.call("PATCH", "/api/admin/sites/SITE1", json={"settings": {"AutoComparePrior": site}})
    page = service.session(opened(service))
    assert page("report").json()["autoCompare"] is site
    set_preferences(page, AutoComparePrior=own)
    app = {} if launch is None else {"AutoComparePrior": launch}
    assert service.session(opened(service, "A2", **app))("report").json()["autoCompare"] is compares


def test_invalid_preferences_are_refused(service: Service) -> None:
    """Unknown languages, unknown themes and values of a wrong type are refused."""
    page = service.session(opened(service))
    for wrong in ({"AppLanguage": "tlh"}, {"theme": "pink"}, {"AutoComparePrior": "yes"}):
        assert set_preferences(page, **wrong).status_code == 400
