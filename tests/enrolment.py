"""Set a user's password over HTTP by an enrolment link, as users do."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from tests.eventually import PATIENCE
from tests.trust import TRUSTED

Call = Callable[[str, str, Any], httpx.Response]
"""Calls the API with a service token: method, path below `/api/`, body."""


def link_for(call: Call, email: str, *, second_factor: bool = False) -> str:
    found = call("GET", f"account?email={email}", None).json()
    body = {"accountId": found["accountId"], "secondFactor": second_factor, "endTokens": False}
    link: str = call("POST", "account/enrolment", body).json()["link"]
    return link


def form_of(link: str, password: str, code: str = "") -> dict[str, str]:
    token = parse_qs(urlsplit(link).query)["token"][0]
    return {"token": token, "password": password, "again": password, "code": code}


def enrol(call: Call, url: str, email: str, password: str) -> None:
    """Set the password of a user without a second factor."""
    open_link(link_for(call, email), url, password)


def open_link(link: str, url: str, password: str) -> None:
    """Set a password by a link; `url` is the address of the service."""
    answer = httpx.post(
        f"{url}/reporting/enrol", data=form_of(link, password), timeout=PATIENCE, verify=TRUSTED
    )
    assert answer.status_code == httpx.codes.SEE_OTHER, answer.text
