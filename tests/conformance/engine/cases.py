"""Preparation of reports in each state, by requests only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from bridge.engine.service.signing.releases import release_due
from tests.bridge.engine.http.engine_service import ADMIN, DELAY, READER, Page, Service, identity


@dataclass(frozen=True, slots=True)
class Case:
    """An engine, and requests that bring reports to a state; orders are named by accession."""

    service: Service

    def post(self, path: str, accession: str, who: str = ADMIN, **more: Any) -> httpx.Response:
        """Post a body that names one report in `clinicalInfo`."""
        body = {"clinicalInfo": identity(accession), **more}
        return self.service.post(f"report/{path}", body, who)

    def flat(self, path: str, accession: str) -> httpx.Response:
        return self.service.post(f"report/{path}", identity(accession))

    def orders(self, path: str, *accessions: str, **more: Any) -> httpx.Response:
        """Post `link-orders` or `unlink-orders` for orders of patient P1."""
        named = [{"PatientMRN": "P1", "Accession": accession} for accession in accessions]
        return self.service.post(
            f"report/{path}", {"SiteID": "SITE1", "clinicalInfo": named} | more
        )

    def record(self, accession: str) -> dict[str, Any]:
        return self.service.status(accession)

    def content(self, accession: str) -> str:
        response = self.service.get("report/content", **identity(accession))
        assert response.status_code == 200, response.text
        text: str = response.json()["content"]
        return text

    def export(self, accession: str) -> dict[str, Any]:
        response = self.post("export/json", accession)
        assert response.status_code == 200, response.text
        record: dict[str, Any] = response.json()
        return record

    def page(self, accession: str) -> Page:
        return self.service.open_report(accession=accession)

    def order(self, accession: str, **tags: Any) -> None:
        """Register an order: an empty, unassigned Ordered report."""
        ok(
            self.service.launch(
                "service", accession=accession, lazyLaunch=True, registerOrder=True, tags=tags
            )
        )

    def draft(self, accession: str, text: str = "Findings.", **tags: Any) -> None:
        tags = {**({"KeyFindings": text} if text else {}), **tags}
        ok(self.service.launch(READER, accession=accession, tags=tags))

    def sign(self, accession: str, *, now: bool = False) -> None:
        """Sign a report; `now`: without sign delay."""
        ok(self.post("sign", accession, ignoreSignDelay=now))

    def addendum(self, accession: str, *texts: str) -> None:
        page = self.page(accession)
        for text in texts:
            version = _newest(page("addendum/create", {}))
            version = _newest(page("addendum/save", {"version": version, "text": text}))
            ok(page("addendum/sign", {"version": version}))

    def deliver(self) -> None:
        release_due(self.service.database, self.service.clock.now)

    def wait(self) -> None:
        self.service.clock.pass_seconds(DELAY + 1)


def ok(response: httpx.Response) -> httpx.Response:
    assert response.status_code < 300, response.text
    return response


def _newest(response: httpx.Response) -> int:
    version: int = ok(response).json()["addenda"][-1]["version"]
    return version


def _ordered(case: Case, name: str) -> None:
    case.order(name)


def _unassigned(case: Case, name: str) -> None:
    case.order(name)
    case.draft(name)
    ok(case.flat("unassign", name))


def _draft_of_order(case: Case, name: str) -> None:
    case.order(name)
    case.draft(name)


def _preliminary(case: Case, name: str) -> None:
    case.draft(name)
    ok(case.post("prelim", name, prelimGroup="G", prelimTag="T"))


def _cooling(case: Case, name: str) -> None:
    case.draft(name)
    case.sign(name)


def _cooling_after_prelim(case: Case, name: str) -> None:
    _preliminary(case, name)
    case.sign(name)


def _final(case: Case, name: str) -> None:
    case.draft(name)
    case.sign(name, now=True)


def _elapsed(case: Case, name: str) -> None:
    _cooling(case, name)
    case.wait()


def _addendum(case: Case, name: str) -> None:
    _final(case, name)
    case.addendum(name, "First.")


def _addenda(case: Case, name: str) -> None:
    _final(case, name)
    case.addendum(name, "First.", "Second.")


def _addendum_to_cooling(case: Case, name: str) -> None:
    _cooling(case, name)
    case.addendum(name, "First.")


def _addendum_elapsed(case: Case, name: str) -> None:
    _addendum(case, name)
    case.wait()


def _nothing(case: Case, name: str) -> None:
    """No launch."""


def _pre_launch(case: Case, name: str) -> None:
    ok(case.service.launch(READER, accession=name, lazyLaunch=True))


# How to reach each state, and its status; None: no report.
STATES: Mapping[str, tuple[Callable[[Case, str], None], str | None]] = {
    # states that need time come first, because they would end the cooling of earlier ones
    "elapsed": (_elapsed, "Final"),
    "addendum-elapsed": (_addendum_elapsed, "Addendum"),
    "none": (_nothing, None),
    "prelaunch": (_pre_launch, None),
    "ordered": (_ordered, "Ordered"),
    "unassigned": (_unassigned, "Ordered"),
    "draft": (lambda case, name: case.draft(name), "Draft"),
    "draft-of-order": (_draft_of_order, "Draft"),
    "preliminary": (_preliminary, "Preliminary"),
    "cooling": (_cooling, "Final"),
    "cooling-after-prelim": (_cooling_after_prelim, "Final"),
    "released": (_final, "Final"),
    "addendum": (_addendum, "Addendum"),
    "addenda": (_addenda, "Addendum"),
    "addendum-to-cooling": (_addendum_to_cooling, "Addendum"),
}
