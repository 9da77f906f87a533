"""
Sessions of the report page for schemathesis; loaded by `fuzz_hooks`, not by pytest.

Every operation is tried at a report of its own, brought to where the operation makes sense, and
at another one as soon as its session has ended: what is reached depends neither on the pace nor
on what came before. Only where answers lead to the next requests are all about one report.
"""

import os
from itertools import count
from typing import Any

import httpx
import schemathesis

from tests.bridge.engine.http.engine_service import boot, launch_body, user

ADDRESS, TOKEN = "FUZZ_ADDRESS", "FUZZ_TOKEN"  # names of variables
PAGE = "/reporting/api/session/"
SIGNED, BEGUN = ("sign-now",), ("sign-now", "addendum/create")
BEFORE = {
    "unsign": ("sign",),
    "addendum/create": SIGNED,
    "addendum/save": BEGUN,
    "addendum/sign": (*BEGUN, "addendum/save"),
    "addendum/cancel": BEGUN,
    "addendum/sign-now": (*BEGUN, "addendum/save", "addendum/sign"),
    "addendum/unsign": (*BEGUN, "addendum/save", "addendum/sign"),
}
"""What is done before an operation is tried."""
STATEFUL = "stateful"
VERSIONED = {"save", "sign", "sign-now", "prelim", "addendum/save", "addendum/sign"}

_numbers = count(1)


def _phase(case: Any) -> str:
    return str(case.meta.phase.name.value) if case.meta else ""


def _which(case: Any, context: Any) -> str:
    phase = _phase(case)
    return phase if phase == STATEFUL else f"{phase} {context.operation.label}"


@schemathesis.auth(refresh_interval=86_400, cache_by_key=_which).apply_to(path_regex=f"^{PAGE}")
class Session:
    """The bearer: begun by opening a link, and begun anew after a 401."""

    def get(self, case: Any, context: Any) -> str:
        """Open a report that nobody has seen; return the session."""
        with _client({"x-access-token": os.environ[TOKEN]}) as client:
            number = f"PAGE-{next(_numbers)}"
            body = launch_body(number, number, userInfo=user())
            link = client.post("/api/report/launch/clinical", json=body).json()["reportLink"]
            session = str(boot(client.get(link))["session"])
        if _phase(case) != STATEFUL:
            with _client(_bearing(session)) as page:
                for deed in BEFORE.get(context.operation.path.removeprefix(PAGE), ()):
                    said = {"version": _version(page, deed) or 0, "text": "seen"}
                    body = said if deed.endswith("save") else {"version": said["version"]}
                    page.post(PAGE + deed, json=body).raise_for_status()
        return session

    def set(self, case: Any, session: str, context: Any) -> None:
        """Bear it."""
        case.headers = {**(case.headers or {}), **_bearing(session)}


def present_version(case: Any) -> None:
    """Give what is well formed the present version: with another one it is refused for that."""
    deed = case.operation.path.removeprefix(PAGE)
    mode = case.meta.generation.mode if case.meta else None
    if deed not in VERSIONED or mode != schemathesis.GenerationMode.POSITIVE:
        return
    bearer = (case.headers or {}).get("Authorization")
    if bearer and isinstance(case.body, dict):
        with _client({"Authorization": bearer}) as page:
            if (version := _version(page, deed)) is not None:
                case.body = {**case.body, "version": version}


def _client(headers: dict[str, str]) -> httpx.Client:
    return httpx.Client(base_url=os.environ[ADDRESS], headers=headers, timeout=120)


def _bearing(session: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {session}"}


def _version(page: httpx.Client, deed: str) -> int | None:
    """Return the version of the report, or of its newest addendum; None if there is no such."""
    shown = page.get(f"{PAGE}report").json()
    if deed.startswith("addendum/"):
        shown = (shown.get("addenda") or [{}])[-1]
    version: int | None = shown.get("version")
    return version
