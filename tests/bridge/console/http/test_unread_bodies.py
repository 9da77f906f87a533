"""The console reads request bodies only of signed-in users, and within limits."""

import json

import pytest
from pydantic import ValidationError

from bridge.console.http.guard import LARGE_LIMIT, LIMIT, ConsoleRoute
from bridge.console.http.models.bodies import SampleMessagesBody
from bridge.web.bodies import BUDGET, MAX_VALUES
from mappings.hl7.batch import MAX_MESSAGES
from tests.bridge.console.http.running_console import BASE, RunningConsole
from tests.unread import METHODS, UnreadRequest, flat, paths_of


def test_no_route_reads_the_body_of_an_unknown_client(console: RunningConsole) -> None:
    """Every path and method; without a cookie, with a wrong one, and from another origin."""
    routes = console.application.router.routes
    wrong = {"cookie": "report_account=wrong", "origin": BASE, "host": "testserver"}
    foreign = {"cookie": console.cookies["chief"], "origin": "https://elsewhere.test"}
    for path in paths_of(routes):
        for method in METHODS:
            for headers in ({}, wrong, foreign):
                request = console.runner.run(
                    UnreadRequest(method, path, headers).send(console.application)
                )
                # A stream waits until the client of a signed-in user is gone.
                waits = (method, path, request.status) == ("GET", "/api/live", 200)
                assert not request.reads or waits, (method, path)
                assert method == "GET" or request.status in {401, 403, 404, 405}, (method, path)


def test_every_endpoint_is_a_console_route(console: RunningConsole) -> None:
    """Only the HTML page is not."""
    others = {
        getattr(route, "path", "")
        for route in flat(console.application.router.routes)
        if not isinstance(route, ConsoleRoute)
    }
    assert others == {"/", "/{place:path}"}


def test_only_some_users_may_send_large_bodies(console: RunningConsole) -> None:
    """Others are refused by the declared length."""
    cases = {
        ("author", "/api/mapping-learn"): 1,
        ("viewer", "/api/mapping-learn"): 0,
        ("editor", "/api/messages/1/check"): 1,
        ("operator", "/api/messages/1/check"): 0,
        ("chief", "/api/lists/messages"): 0,
    }
    for (who, path), reads in cases.items():
        own = {"cookie": console.cookies[who], "origin": "http://testserver"}
        request = console.runner.run(UnreadRequest("POST", path, own).send(console.application))
        assert request.reads == reads, (who, path)
        assert reads or request.status == 413
    assert LIMIT < LARGE_LIMIT
    assert BUDGET.used == 0


def test_a_body_of_many_small_values_is_refused(console: RunningConsole) -> None:
    """An attack with 20 MiB of empty lists needed 3.3 GiB."""
    text = json.dumps({"data": [[]] * (MAX_VALUES + 1)})
    headers = {
        "origin": BASE,
        "cookie": console.cookies["author"],
        "content-type": "application/json",
    }
    address = f"{BASE}/console/api/mapping-learn"
    response = console.runner.run(
        console.client.request("POST", address, content=text, headers=headers)
    )
    assert (response.status_code, response.json()["code"]) == (413, "too_large")


def test_sample_messages_are_counted_before_they_are_read() -> None:
    """A definition is inferred from all of them; 4 MB of text could hold 800,000."""
    assert SampleMessagesBody(text="MSH|\r" * MAX_MESSAGES).text
    assert SampleMessagesBody(text="MSH|^~\\&|MSH\r" * MAX_MESSAGES).text
    with pytest.raises(ValidationError):
        SampleMessagesBody(text="MSH|\r" * (MAX_MESSAGES + 1))
