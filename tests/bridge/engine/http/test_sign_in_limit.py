"""The sign-in limit: attempts are counted before hashing, on all nodes."""

import asyncio
import threading
from collections import Counter

import pytest

from bridge.engine.errors import EngineError
from bridge.engine.live.credential_checks import MAX_WAITING, RESERVED, THREADS
from bridge.engine.service.accounts.sign_in_limit import undeclared_proxies
from tests.bridge.engine.http.engine_service import OURS, PASSWORD, READER, Service

GUESSES = 300
MOST = 20


def attempts(service: Service, sources: int, accounts: int = 1) -> Counter[int]:
    """Guess passwords concurrently from several addresses for several accounts."""

    async def one(number: int) -> int:
        peer = f"10.0.0.{number % sources + 1}"
        email = READER if accounts == 1 else f"user{number % accounts}@site1.test"
        form = {"email": email, "password": f"wrong guess {number}"}
        return await guess(service, peer, form)

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*(one(number) for number in range(GUESSES)))

    return Counter(service.runner.run(all_at_once()))


@pytest.mark.parametrize(("sources", "accounts"), [(1, 1), (250, 1), (1, 300)])
def test_concurrent_guesses_cause_few_hashes(service: Service, sources: int, accounts: int) -> None:
    """From one address or many, for one account or many."""
    service.set_password(READER)
    hashing = service.application.state.engine.hashing
    before = hashing.computed
    responses = attempts(service, sources, accounts)
    assert hashing.computed - before <= MOST
    assert responses[401] <= MOST
    assert set(responses) <= {401, 429, 503}


def test_guesses_from_many_addresses_leave_places_for_known_devices(service: Service) -> None:
    """The number of waiting unknown browsers is limited; a known one gets its result."""
    hashing = service.application.state.engine.hashing
    service.set_password(READER)
    before, release = hashing.computed, threading.Event()

    async def flood() -> list[object]:
        guesses = [hashing.run(release.wait, known=False) for _ in range(GUESSES)]
        tasks = [asyncio.ensure_future(each) for each in guesses]
        await asyncio.sleep(0)  # each waits or is refused
        owner = asyncio.ensure_future(hashing.run(lambda: "owner"))
        await asyncio.sleep(0)
        release.set()
        return [await owner, *await asyncio.gather(*tasks, return_exceptions=True)]

    owner, *others = service.runner.run(flood())
    assert owner == "owner"
    assert sum(isinstance(each, EngineError) for each in others) == GUESSES - (
        THREADS + MAX_WAITING - RESERVED
    )
    assert hashing.computed - before <= MOST
    responses = attempts(service, 250, 300)
    assert set(responses) <= {401, 429, 503}


async def guess(service: Service, address: str, form: dict[str, str], cookie: str = "") -> int:
    headers = OURS | ({"cookie": cookie} if cookie else {})
    path = "/reporting/login"
    response = await service.send_from(address, "POST", path, data=form, headers=headers)
    return response.status_code


def from_address(
    service: Service, address: str, password: str = PASSWORD, device: str | None = None
) -> int:
    cookie = "" if device is None else f"report_device={device}"
    form = {"email": READER, "password": password}
    return service.runner.run(guess(service, address, form, cookie))


def test_an_attacker_does_not_lock_the_owner_out(service: Service) -> None:
    """After an attack by one address another one signs in; after many, a known device does."""
    service.set_password(READER)
    assert service.sign_in().status_code == 303
    device = service.http.cookies["report_device"]
    attempts(service, 1)
    assert from_address(service, "10.0.0.1") == 429
    assert from_address(service, "10.9.9.9") == 303
    attempts(service, 250)
    assert from_address(service, "10.9.9.8") == 429
    assert from_address(service, "10.9.9.8", device=device) == 303
    assert from_address(service, "10.0.0.1", device=device) == 303


def test_a_forged_device_cookie_is_ignored(service: Service) -> None:
    """The limit for unknown browsers applies."""
    service.set_password(READER)
    attempts(service, 250)
    for value in ("x.eHh4", "1.eHh4eHh4eHh4eHh4eHh4eHh4eHh4", "", "."):
        assert from_address(service, "10.9.9.8", device=value) == 429


def test_a_clock_set_back_does_not_lock_accounts(service: Service) -> None:
    """A bucket with a time in the far future is dropped."""
    service.set_password(READER)
    attempts(service, 250)
    with service.database.write() as connection:
        connection.exec_driver_sql(
            "UPDATE engine_sign_in_bucket SET full_at = full_at + 1000000000"
        )
    assert from_address(service, "10.9.9.7") == 303


def test_the_wall_clock_does_not_end_the_limit(service: Service) -> None:
    service.set_password(READER)
    attempts(service, 1)
    service.application.state.engine.sign_in_limiter.moment = lambda _: 1_800_000_000_000
    service.clock.pass_seconds(24 * 3600)
    assert from_address(service, "10.0.0.1") == 429


def test_confirmations_and_changes_count(service: Service) -> None:
    """With a stolen session passwords cannot be guessed; the sign-in form has another bucket."""
    service.set_password(READER)
    service.sign_in()
    for number in range(10):
        body = {"password": f"wrong {number}"}
        assert service.account("POST", "/confirm", body).status_code == 400
    response = service.account("POST", "/confirm", {"password": PASSWORD})
    assert (response.status_code, response.json()["code"]) == (429, "too_many_attempts")
    body = {"present": PASSWORD, "wanted": "another horse battery"}
    assert service.account("POST", "/password", body).status_code == 429
    assert service.sign_in().status_code == 303


def test_addresses_of_one_network_count_together(service: Service) -> None:
    """An IPv6 host has a /64 network."""
    service.set_password(READER)
    for number in range(10):
        assert from_address(service, f"2001:db8::{number + 1}", "wrong guess") == 401
    assert from_address(service, "2001:db8::ffff", "wrong guess") == 429
    assert from_address(service, "2001:db8:1::1", "wrong guess") == 401


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "x-real-ip", "via"])
def test_an_undeclared_proxy_is_noted(service: Service, header: str) -> None:
    """`bridge check` reports it; the limit of the account applies."""
    service.set_password(READER)
    with service.database.read() as connection:
        assert undeclared_proxies(connection) == []
    responses = []
    for number in range(30):
        headers = OURS | {header: f"198.51.100.{number}"}
        form = {"email": READER, "password": "wrong guess"}
        responses.append(service.call("POST", "/reporting/login", None, data=form, headers=headers))
    assert responses[-1].status_code == 429
    with service.database.read() as connection:
        assert undeclared_proxies(connection) == ["127.0.0.1"]
