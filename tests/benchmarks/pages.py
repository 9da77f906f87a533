"""The latency of the requests of each console page, as a signed-in user, in milliseconds."""

import statistics
import time
from collections.abc import Mapping

import httpx

from tests.acceptance.house import House
from tests.benchmarks.seeding import FREQUENT, INDEXED, MESSAGES_A_DAY
from tests.enrolment import open_link

EMAIL, PASSWORD = "olga@site1.test", "correct horse battery"  # invented
BOUND = 300.0
_HOUR = 3_600_000
Request = tuple[str, str, object]


def page_requests(count: int, now: int) -> Mapping[str, Request]:
    """Return the requests for an installation with `count` messages, the last received at `now`."""
    middle = max(INDEXED, count // 2 // INDEXED * INDEXED)
    began = now - count * 24 * _HOUR // MESSAGES_A_DAY
    hour = {"since": (began + now) // 2, "until": (began + now) // 2 + _HOUR}
    messages = {
        "newest": {},
        "control id": {"kind": "control", "number": f"C{middle}"},
        "patient": {"kind": "patient", "number": f"M{middle // 5}"},
        "frequent patient": {"kind": "patient", "number": FREQUENT},
        "order": {"kind": "order", "number": f"A{middle}"},
        "parked": {"state": "parked"},
        "refused, text": {"state": "refused", "text": "no such words"},
        "queued": {"state": "queued"},
        "done": {"state": "done"},
        "an hour": hour,
        "an hour, text": {**hour, "text": "no such words"},
        "text": {"text": "production only"},
        "text, no match": {"text": "no such words"},
        "listener": {"listener": "spare"},
    }
    deliveries = {
        "newest": {},
        "parked": {"state": "parked"},
        "queued": {"state": "queued"},
        "report": {"report_id": f"r{middle}"},
        "destination": {"destination": "none"},
    }
    return {
        "dashboard": ("GET", "overview", None),
        **{
            f"messages: {name}": ("POST", "messages/search", body)
            for name, body in messages.items()
        },
        "message": ("GET", f"messages/{middle}", None),
        "message: content": ("GET", f"messages/{middle}/content", None),
        **{
            f"deliveries: {name}": ("POST", "deliveries/search", body)
            for name, body in deliveries.items()
        },
        "order tracking": ("POST", "orders/find", {"accession": f"A{middle}"}),
        "worklist": ("POST", "sites/SITE1/worklist", {}),
        "audit events": ("GET", "deeds", None),
        "audit events, no match": ("GET", "deeds?email=nobody@example.org", None),
        "audit": ("GET", "sites/SITE1/audit", None),
    }


def grant(house: House) -> None:
    """Create a system administrator of a running installation."""
    house.bridge("user", "add", EMAIL, "--name", "Olga", "--site", "SITE1")
    role = ("--role", "system-administrator", "--bodies")
    printed = house.bridge("console", "grant", EMAIL, *role)
    open_link(printed.split()[-1], house.url, PASSWORD)


def measure(house: House, count: int, rounds: int) -> dict[str, float]:
    """Send each request `rounds` times; return medians. Raises if a status is not 200."""
    form = {"email": EMAIL, "password": PASSWORD, "token": "", "next": ""}
    with httpx.Client(base_url=house.url, timeout=60) as client:
        client.post("/reporting/login", data=form)
        client.headers["origin"] = house.url
        return {
            name: statistics.median(_ask(client, *each) for _ in range(rounds))
            for name, each in page_requests(count, time.time_ns() // 1_000_000).items()
        }


def _ask(client: httpx.Client, method: str, path: str, body: object) -> float:
    before = time.perf_counter()
    answer = client.request(method, f"/console/api/{path}", json=body)
    took = 1000 * (time.perf_counter() - before)
    if answer.status_code != httpx.codes.OK:
        raise AssertionError(f"{method} {path}: {answer.status_code}")
    return took
