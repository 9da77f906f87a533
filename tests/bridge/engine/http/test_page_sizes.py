"""Pages of the change feed and of waiting preliminary reads are limited by their size, too."""

from typing import Any

import pytest

from bridge.engine.service import change_feed
from bridge.engine.service.signing import prelims
from tests.bridge.engine.http.engine_service import ADMIN, Service, identity

GROUP = {"prelimGroup": "Night", "prelimTag": "Resident"}


def feed(service: Service, who: str, **query: Any) -> list[list[dict[str, Any]]]:
    """Read the feed to its end; return the changes of each page."""
    pages: list[list[dict[str, Any]]] = []
    cursor = 0
    while True:
        response = service.get("report/changes", who, after=cursor, **query)
        assert response.status_code == 200, response.text
        if not response.json()["changes"]:
            return pages
        pages.append(response.json()["changes"])
        cursor = response.json()["cursor"]


@pytest.mark.parametrize("query", [{}, {"without": "report_opened"}], ids=["all", "some"])
@pytest.mark.parametrize("who", ["service", ADMIN])
def test_a_page_of_the_feed_ends_at_its_size(
    service: Service, monkeypatch: pytest.MonkeyPatch, who: str, query: dict[str, str]
) -> None:
    """Each change is on one page. A change that is larger than the limit is a page of its own."""
    for number, length in enumerate((10, 10, 50_000, 10, 10)):
        service.launch(accession=f"A{number}", tags={"Notes": "ä" * length})
    (whole,) = feed(service, who, **query)
    assert len(whole) == 5
    monkeypatch.setattr(change_feed, "MAX_PAGE_CHARACTERS", 20_000)

    pages = feed(service, who, **query)

    assert [len(page) for page in pages] == [3, 2]
    assert [change for page in pages for change in page] == whole
    monkeypatch.setattr(change_feed, "MAX_PAGE_CHARACTERS", 1)
    assert [len(page) for page in feed(service, who, **query)] == [1] * 5
    assert [len(page) for page in feed(service, who, limit=2, **query)] == [1] * 5


def waiting(service: Service) -> list[list[str]]:
    """Read the waiting reports to the end; return the accessions of each page."""
    pages: list[list[str]] = []
    cursor: str | None = ""
    while cursor is not None:
        response = service.get("report/site/prelims", SiteID="SITE1", cursor=cursor, **GROUP)
        assert response.status_code == 200, response.text
        page = response.json()
        pages.append([each["clinicalInfo"][0]["Accession"] for each in page["reports"]])
        assert page["clinicalInfo"] == page["reports"][0]["clinicalInfo"]
        cursor = page.get("next")
    return pages


@pytest.mark.parametrize(
    ("name", "limit", "sizes"),
    [
        ("MAX_WAITING", 2, [2, 2, 1]),
        ("MAX_WAITING", 5, [5]),
        ("MAX_WAITING_ORDERS", 3, [3, 2]),
        ("MAX_WAITING_ORDERS", 1, [1, 1, 1, 1, 1]),
    ],
)
def test_waiting_reports_have_pages(
    service: Service, monkeypatch: pytest.MonkeyPatch, name: str, limit: int, sizes: list[int]
) -> None:
    """Each waiting report is on one page, the longest-waiting first."""
    accessions = [f"A{number}" for number in range(5)]
    for accession in accessions:
        service.launch(accession=accession, tags={"KeyFindings": "Clear."})
        body = {"clinicalInfo": identity(accession), **GROUP}
        assert service.post("report/prelim", body).status_code == 200
    assert waiting(service) == [accessions]
    monkeypatch.setattr(prelims, name, limit)
    pages = waiting(service)
    assert [len(page) for page in pages] == sizes
    assert [accession for page in pages for accession in page] == accessions


@pytest.mark.parametrize("cursor", ["x", "1", "1.", "-1.2", "9" * 30])
def test_an_invalid_cursor_of_waiting_reports(service: Service, cursor: str) -> None:
    """It is refused with its code, as that of the worklist."""
    service.launch(tags={"KeyFindings": "Clear."})
    service.post("report/prelim", {"clinicalInfo": identity(), **GROUP})
    response = service.get("report/site/prelims", SiteID="SITE1", cursor=cursor, **GROUP)
    assert (response.status_code, response.json()["code"]) == (400, "bad_cursor")
