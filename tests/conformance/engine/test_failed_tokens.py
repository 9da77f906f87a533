"""Limits: after 20 failed authentications of an address in 15 minutes, 429 for that address."""

from dataclasses import replace
from typing import Any

import httpx
import pytest

from bridge.network_source import Proxies
from bridge.quotas import Quota
from tests.bridge.engine.http.engine_service import ADMIN, Service
from tests.conformance.engine.test_problems import is_problem

WINDOW = 15 * 60
HERE, THERE, LOOPBACK = "203.0.113.9", "2001:db8::7", "127.0.0.1"


def ask(service: Service, address: str, token: str, **headers: str) -> httpx.Response:
    headers = {"x-access-token": token, **headers}
    return service.runner.run(
        service.send_from(address, "GET", "/api/report/changes", headers=headers)
    )


def begin(service: Service, address: str, **query: Any) -> httpx.Response:
    return service.runner.run(service.send_from(address, "GET", "/reporting/init", params=query))


def test_twenty_failures_of_one_address(service: Service) -> None:
    """The next one is 429 with Retry-After until the window ends; valid tokens are accepted."""
    for _ in range(20):
        assert ask(service, HERE, "rbt_guess").status_code == 401
    refused = ask(service, HERE, "rbt_guess")
    assert is_problem(refused, 429)["code"] == "too_many_requests"
    assert refused.headers["retry-after"] == str(WINDOW)
    assert refused.headers["ratelimit-policy"] == f'"authentication";q=20;w={WINDOW}'
    assert ask(service, HERE, "").status_code == 429
    assert ask(service, HERE, service.tokens[ADMIN]).status_code == 200
    assert ask(service, THERE, "rbt_guess").status_code == 401
    service.clock.pass_seconds(WINDOW)
    assert ask(service, HERE, "rbt_guess").status_code == 401


def test_init_and_the_interface_share_the_count(service: Service) -> None:
    """Failures of one address are counted together for init and the interface."""
    engine = service.application.state.engine
    rates = replace(engine.settings.rates, failed_authentications=Quota(4, WINDOW))
    engine.settings = replace(engine.settings, rates=rates)
    query = {"SiteID": "SITE1", "UserName": "N", "UserEmail": "n@x.test", "Auth": "rbt_guess"}
    for _ in range(2):
        assert ask(service, HERE, "rbt_guess").status_code == 401
        assert begin(service, HERE, **query).status_code == 401
    assert ask(service, HERE, "rbt_guess").status_code == 429
    assert begin(service, HERE, **query).status_code == 429
    assert begin(service, THERE, **query).status_code == 401


@pytest.mark.parametrize("proxies", [["10.0.0.0/8"], []])
def test_behind_a_proxy(service: Service, proxies: list[str]) -> None:
    """Clients of a trusted proxy are counted separately, those of another proxy together."""
    engine = service.application.state.engine
    engine.proxies = Proxies(proxies)
    for number in range(20):
        hops = f"198.51.100.{number}, {HERE}"  # the client can forge the first one
        assert ask(service, "10.1.2.3", "x", **{"x-forwarded-for": hops}).status_code == 401
    again = {"x-forwarded-for": f"192.0.2.1, {HERE}"}
    assert ask(service, "10.1.2.3", "x", **again).status_code == 429
    other = ask(service, "10.1.2.3", "x", **{"x-forwarded-for": THERE})
    assert other.status_code == (401 if proxies else 429)


def test_the_loopback_address_is_exempt(service: Service) -> None:
    """Behind an undeclared local proxy it is the address of all clients."""
    for _ in range(30):
        assert ask(service, LOOPBACK, "rbt_guess").status_code == 401


def test_the_limit_is_a_setting(service: Service) -> None:
    """0 switches it off."""
    engine = service.application.state.engine
    rates = replace(engine.settings.rates, failed_authentications=Quota(0))
    engine.settings = replace(engine.settings, rates=rates)
    for _ in range(30):
        assert ask(service, HERE, "rbt_guess").status_code == 401
