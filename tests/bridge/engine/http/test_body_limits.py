"""Authentication precedes reading the body, and bodies have limits."""

import json

import pytest

from bridge.web.bodies import BUDGET, MAX_VALUES, SMALL
from tests.bridge.engine.http.engine_service import ADMIN, OTHER, Service
from tests.unread import METHODS, UnreadRequest, paths_of


def test_no_route_reads_an_unauthenticated_body(service: Service) -> None:
    """Each path and method, also an unknown one, refuses the request without reading it."""
    application = service.application
    read = []
    for path in [*paths_of(application.router.routes), "/", "/nowhere", "/api/nowhere"]:
        for method in METHODS:
            request = service.runner.run(UnreadRequest(method, path).send(application))
            assert 200 <= request.status < 600, (method, path)
            if request.reads:
                read.append((method, path))
            if request.status < 300 and method not in ("GET", "OPTIONS"):
                read.append((method, path))
    assert read == []


@pytest.mark.parametrize(
    "headers",
    [
        {"x-access-token": "wrong"},
        {"authorization": "Bearer wrong"},
        {"cookie": "report_account=wrong; __Host-report_account=wrong"},
    ],
)
def test_no_route_reads_a_body_with_a_wrong_secret(
    service: Service, headers: dict[str, str]
) -> None:
    for path in paths_of(service.application.router.routes):
        request = UnreadRequest("POST", path, headers)
        assert not service.runner.run(request.send(service.application)).reads, path


def test_a_body_is_not_read_without_the_scope(service: Service) -> None:
    """A token without the scope is refused first."""
    made = service.post("admin/sites/SITE1/tokens", {"email": ADMIN, "scopes": ["launch"]}).json()
    headers = {"x-access-token": made["token"]}
    request = UnreadRequest("POST", "/api/admin/sites", headers)
    service.runner.run(request.send(service.application))
    assert (request.status, request.reads) == (403, 0)


def test_only_files_and_launches_may_be_large(service: Service) -> None:
    """Requests that name orders are refused by their declared length."""
    headers = {"x-access-token": service.tokens[ADMIN]}
    for path, reads in (("/api/report/sign", 0), ("/api/report/launch/clinical", 1)):
        request = service.runner.run(UnreadRequest("POST", path, headers).send(service.application))
        assert bool(request.reads) is bool(reads), path


@pytest.mark.parametrize("form", ["[%s]", '{"a":[%s]}', '{"a":{"b":[%s]}}'])
@pytest.mark.parametrize("value", ["0", "[]", "{}", '""', "[[]]"])
def test_a_body_of_many_small_values_is_refused(service: Service, form: str, value: str) -> None:
    """Each value would need far more memory than its text; it is refused before it is parsed."""
    body = form % ",".join([value] * (MAX_VALUES + 1))
    headers = {"content-type": "application/json"}
    path = "/api/report/launch/clinical"
    response = service.call("POST", path, ADMIN, content=body, headers=headers)
    assert (response.status_code, response.json()["code"]) == (413, "too_many_values")


def test_separators_in_a_text_are_not_counted_as_values(service: Service) -> None:
    """A long text within the limits is parsed."""
    body = json.dumps({"clinicalInfo": ',[{"\\' * MAX_VALUES})
    headers = {"content-type": "application/json"}
    path = "/api/report/launch/clinical"
    response = service.call("POST", path, ADMIN, content=body, headers=headers)
    assert response.json()["code"] == "invalid_request"


def test_bodies_in_progress_have_a_budget(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request beyond the memory budget gets 503 unread; the budget is released afterwards."""
    application = service.application
    monkeypatch.setattr(BUDGET, "size", 1000)
    headers = {"x-access-token": service.tokens[OTHER]}
    path = "/api/report/launch/clinical"
    large = {"content-type": "application/json"}
    BUDGET.take(900)
    try:
        refused = service.runner.run(UnreadRequest("POST", path, headers).send(application))
        response = service.call("POST", path, ADMIN, content=b" " * 2 * SMALL, headers=large)
        assert (response.status_code, response.json()["code"]) == (503, "overloaded")
        assert response.headers["retry-after"] == "1"
        assert service.launch().status_code == 200, "small bodies are exempt"
    finally:
        BUDGET.give_back(900)
    assert (refused.status, refused.reads) == (503, 0)
    assert BUDGET.used == 0


def test_a_single_body_may_be_larger_than_the_budget(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A size limit larger than the memory budget does not refuse requests permanently."""
    monkeypatch.setattr(BUDGET, "size", 10)
    assert service.launch().status_code == 200
