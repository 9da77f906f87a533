"""
Sessions of the report page for schemathesis; loaded by `fuzz_hooks`, not by pytest.

Every operation has its own report in a state in which the operation is possible, and a new
report when its session has ended. So the result depends neither on the speed nor on earlier
requests. Only the stateful phase uses one report for all operations.
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
"""The actions that precede an operation."""
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
    """The bearer token: from an opened link; renewed after a 401."""

    def get(self, case: Any, context: Any) -> str:
        """Open a new report; return the session."""
        with _client({"x-access-token": os.environ[TOKEN]}) as client:
            number = f"PAGE-{next(_numbers)}"
            body = launch_body(number, number, userInfo=user())
            link = client.post("/api/report/launch/clinical", json=body).json()["reportLink"]
            session = str(boot(client.get(link))["session"])
        if _phase(case) != STATEFUL:
            with _client(_authorization(session)) as page:
                for action in BEFORE.get(context.operation.path.removeprefix(PAGE), ()):
                    saved = {"version": _version(page, action) or 0, "text": "saved"}
                    body = saved if action.endswith("save") else {"version": saved["version"]}
                    page.post(PAGE + action, json=body).raise_for_status()
        return session

    def set(self, case: Any, session: str, context: Any) -> None:
        case.headers = {**(case.headers or {}), **_authorization(session)}


def present_version(case: Any) -> None:
    """Put the present version into a valid body; another version would be refused."""
    action = case.operation.path.removeprefix(PAGE)
    mode = case.meta.generation.mode if case.meta else None
    if action not in VERSIONED or mode != schemathesis.GenerationMode.POSITIVE:
        return
    bearer = (case.headers or {}).get("Authorization")
    if bearer and isinstance(case.body, dict):
        with _client({"Authorization": bearer}) as page:
            if (version := _version(page, action)) is not None:
                case.body = {**case.body, "version": version}


def _client(headers: dict[str, str]) -> httpx.Client:
    return httpx.Client(base_url=os.environ[ADDRESS], headers=headers, timeout=120)


def _authorization(session: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {session}"}


def _version(page: httpx.Client, action: str) -> int | None:
    """Return the version of the report or of its newest addendum; None if there is none."""
    shown = page.get(f"{PAGE}report").json()
    if action.startswith("addendum/"):
        shown = (shown.get("addenda") or [{}])[-1]
    version: int | None = shown.get("version")
    return version
