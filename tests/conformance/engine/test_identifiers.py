"""Identifiers of the maximum length in any script, on both databases: stored or refused."""

import random

import pytest

from tests.bridge.engine.http.engine_service import Service, identity
from tests.conformance.engine.cases import Case
from tests.conftest import database_url

__all__ = ["database_url"]  # both databases

SCRIPTS = {"latin": (33, 126), "cjk": (0x4E00, 0x9FFF), "emoji": (0x1F300, 0x1F5FF)}


def long_text(script: str, length: int, seed: int) -> str:
    chosen = random.Random(seed)
    return "".join(chr(chosen.randint(*SCRIPTS[script])) for _ in range(length))


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("length", [64, 255, 341, 1024, 1025])
def test_long_identifiers(service: Service, script: str, length: int) -> None:
    """Order identity: an accepted identifier is found; a longer one is 400."""
    mrn, accession = (long_text(script, length, seed) for seed in (1, 2))
    accepted = len(mrn.encode()) <= 1024 and len(accession.encode()) <= 1024
    for lazy in (True, False):
        response = service.launch(accession=accession, mrn=mrn, lazyLaunch=lazy)
        assert response.status_code == (200 if accepted else 400), response.text
    if accepted:
        assert service.status(accession, mrn)["clinicalInfo"] == [identity(accession, mrn)]


@pytest.mark.parametrize("script", SCRIPTS)
def test_reading_by_long_identifiers(service: Service, script: str) -> None:
    """A request with a long unknown identifier is 400 or 404."""
    case = Case(service)
    name = long_text(script, 1024, 3)
    for path in ("sign", "unsign", "delete", "export/json", "export/rtf"):
        assert case.post(path, name).status_code in (400, 404), path
    for path in ("reset-order", "unassign"):
        assert case.flat(path, name).status_code in (400, 404), path
    for path in ("link-orders", "unlink-orders"):
        assert case.orders(path, name, f"{name[:-1]}x").status_code in (400, 404), path
    merge = {"SiteID": "SITE1", "PatientMRN": name, "PriorPatientMRN": name[::-1]}
    assert service.post("patient/merge", merge).status_code in (200, 400)


def test_long_names_of_all_kinds(service: Service) -> None:
    """Users, groups and sites with long names: stored or refused."""
    name = long_text("cjk", 1024, 4)
    case = Case(service)
    case.draft("A1")
    assert case.post("prelim", "A1", prelimGroup=name, prelimTag=name[::-1]).status_code in (
        200,
        400,
    )
    info = {"UserEmail": f"{name[:60]}@site1.test", "UserName": name}
    assert service.launch(accession="A2", userInfo=info).status_code in (200, 400)
    response = service.post("admin/sites", {"SiteID": name}, "service")
    assert response.status_code in (201, 400), response.text
