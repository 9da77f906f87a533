"""The sign-in limit: attempts are counted before hashing, on all nodes."""

import asyncio
import threading
from collections import Counter

import httpx
import pytest

from bridge.engine.live.credential_checks import MOST_WAITING, RESERVED, THREADS, TooBusy
from bridge.engine.service.accounts.sign_in_limit import undeclared_proxies
from tests.bridge.engine.http.engine_service import BASE, READER, Service
from tests.bridge.engine.http.test_accounts import OURS, PASSWORD, account, enrol, sign_in

GUESSES = 300
MOST = 20


def attempts(service: Service, sources: int, accounts: int = 1) -> Counter[int]:
    """Guess passwords concurrently from several addresses for several accounts."""
    application = service.application

    async def one(number: int) -> int:
        peer = (f"10.0.0.{number % sources + 1}", 4000)
        transport = httpx.ASGITransport(app=application, client=peer)
        email = READER if accounts == 1 else f"user{number % accounts}@site1.test"
        form = {"email": email, "password": f"wrong guess {number}"}
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            answer = await client.post("/reporting/login", data=form, headers=OURS)
        return answer.status_code

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*(one(number) for number in range(GUESSES)))

    return Counter(service.runner.run(all_at_once()))


@pytest.mark.parametrize(("sources", "accounts"), [(1, 1), (250, 1), (1, 300)])
def test_concurrent_guesses_cause_few_hashes(service: Service, sources: int, accounts: int) -> None:
    """From one address or many, for one account or many."""
    enrol(service, READER)
    hashing = service.application.state.engine.hashing
    before = hashing.computed
    answers = attempts(service, sources, accounts)
    assert hashing.computed - before <= MOST
    assert answers[401] <= MOST
    assert set(answers) <= {401, 429, 503}


def test_guesses_from_many_addresses_leave_places_for_known_devices(service: Service) -> None:
    """The number of waiting unknown browsers is limited; a known one gets its result."""
    hashing = service.application.state.engine.hashing
    enrol(service, READER)
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
    assert sum(isinstance(each, TooBusy) for each in others) == GUESSES - (
        THREADS + MOST_WAITING - RESERVED
    )
    assert hashing.computed - before <= MOST
    answers = attempts(service, 250, 300)
    assert set(answers) <= {401, 429, 503}


def from_address(service: Service, address: str, cookies: httpx.Cookies | None = None) -> int:
    """Sign in with the right password from an address."""

    async def one() -> int:
        transport = httpx.ASGITransport(app=service.application, client=(address, 4000))
        form = {"email": READER, "password": PASSWORD}
        async with httpx.AsyncClient(transport=transport, base_url=BASE, cookies=cookies) as client:
            answer = await client.post("/reporting/login", data=form, headers=OURS)
        return answer.status_code

    return service.runner.run(one())


def test_an_attacker_does_not_lock_the_owner_out(service: Service) -> None:
    """After an attack by one address another one signs in; after many, a known device does."""
    enrol(service, READER)
    assert sign_in(service).status_code == 303
    device = httpx.Cookies({"report_device": service.http.cookies["report_device"]})
    attempts(service, 1)
    assert from_address(service, "10.0.0.1") == 429
    assert from_address(service, "10.9.9.9") == 303
    attempts(service, 250)
    assert from_address(service, "10.9.9.8") == 429
    assert from_address(service, "10.9.9.8", device) == 303
    assert from_address(service, "10.0.0.1", device) == 303


def test_a_forged_device_cookie_is_ignored(service: Service) -> None:
    """The limit for unknown browsers applies."""
    enrol(service, READER)
    attempts(service, 250)
    for value in ("x.eHh4", "1.eHh4eHh4eHh4eHh4eHh4eHh4eHh4", "", "."):
        assert from_address(service, "10.9.9.8", httpx.Cookies({"report_device": value})) == 429


def test_a_clock_set_back_does_not_lock_accounts(service: Service) -> None:
    """A bucket with a time in the far future is dropped."""
    enrol(service, READER)
    attempts(service, 250)
    with service.database.write() as connection:
        connection.exec_driver_sql(
            "UPDATE engine_sign_in_bucket SET full_at = full_at + 1000000000"
        )
    assert from_address(service, "10.9.9.7") == 303


def test_the_wall_clock_does_not_end_the_limit(service: Service) -> None:
    """The limit uses a monotonic clock."""
    enrol(service, READER)
    attempts(service, 1)
    service.application.state.engine.throttle.moment = lambda _: 1_800_000_000_000
    service.clock.pass_seconds(24 * 3600)
    assert from_address(service, "10.0.0.1") == 429


def test_confirmations_and_changes_count(service: Service) -> None:
    """With a stolen session passwords cannot be guessed; the sign-in form has another bucket."""
    enrol(service, READER)
    sign_in(service)
    for number in range(10):
        body = {"password": f"wrong {number}"}
        assert account(service, "POST", "/confirm", body).status_code == 400
    answer = account(service, "POST", "/confirm", {"password": PASSWORD})
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_attempts")
    body = {"present": PASSWORD, "wanted": "another horse battery"}
    assert account(service, "POST", "/password", body).status_code == 429
    assert sign_in(service).status_code == 303


def test_addresses_of_one_network_count_together(service: Service) -> None:
    """An IPv6 host has a /64 network."""
    enrol(service, READER)
    for number in range(10):
        assert from_guess(service, f"2001:db8::{number + 1}") == 401
    assert from_guess(service, "2001:db8::ffff") == 429
    assert from_guess(service, "2001:db8:1::1") == 401


def from_guess(service: Service, address: str) -> int:
    """Guess once from an address."""

    async def one() -> int:
        transport = httpx.ASGITransport(app=service.application, client=(address, 4000))
        form = {"email": READER, "password": "wrong guess"}
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            answer = await client.post("/reporting/login", data=form, headers=OURS)
        return answer.status_code

    return service.runner.run(one())


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "x-real-ip", "via"])
def test_an_undeclared_proxy_is_noted(service: Service, header: str) -> None:
    """`bridge check` reports it; the limit of the account applies."""
    enrol(service, READER)
    with service.database.read() as connection:
        assert undeclared_proxies(connection) == []
    answers = []
    for number in range(30):
        headers = OURS | {header: f"198.51.100.{number}"}
        form = {"email": READER, "password": "wrong guess"}
        answers.append(service.call("POST", "/reporting/login", None, data=form, headers=headers))
    assert answers[-1].status_code == 429
    with service.database.read() as connection:
        assert undeclared_proxies(connection) == ["127.0.0.1"]
