"""The first steps of an installation, and the place to which the entrance leads each account."""

from typing import Any

import pytest
from sqlalchemy import delete

from bridge.monitoring import channels
from bridge.store.tables import CHANNELS
from config.sections import ChannelKind
from tests.acceptance.orders import order
from tests.acceptance.wire import sink
from tests.bridge.console.http.running_console import PASSWORD, PATIENTS, RunningConsole

LOGIN = "/reporting/login?next="


def steps(console: RunningConsole) -> dict[str, dict[str, Any]]:
    answer = console.call("chief", "GET", "/api/first-steps").json()
    assert answer["left"] == sum(not step["done"] for step in answer["steps"])
    return {step["name"]: step for step in answer["steps"]}


def location(console: RunningConsole, path: str, cookie: str = "") -> str:
    response = console.ask("GET", path, cookie)
    assert response.status_code == 303, response.text
    return response.headers["location"]


def test_the_newest_message_is_shown_with_its_sender_and_order(console: RunningConsole) -> None:
    """The step names type, listener, sender and accession, and nothing else of the patient."""
    console.store("orders", order(41, accession="A41", name="HIDDEN^NAME"))
    seen = steps(console)["sender"]
    message = seen["seen"]["message"]
    assert (message["listener"], message["message_type"]) == ("orders", "ORM^O01")
    assert message["application"] in seen["words"]
    assert "HIDDEN" not in str(seen)
    assert "M41" not in str(seen)
    assert not any(name in str(seen) for name in PATIENTS.values())


def test_a_site_and_its_zone_are_found(console: RunningConsole) -> None:
    site = steps(console)["site"]
    assert site["done"]
    assert {"id": "SITE1", "name": "Hospital SITE1", "zone": "UTC"} in site["seen"]["sites"]


def test_a_listener_is_shown_as_its_senders_reach_it(console: RunningConsole) -> None:
    """A listener of the loopback interface is for senders on this machine only."""
    listeners = {place["name"]: place for place in steps(console)["sender"]["seen"]["listeners"]}
    port = int(listeners["orders"]["address"].rpartition(":")[2])
    assert (listeners["orders"]["host"], listeners["orders"]["port"]) == ("127.0.0.1", port)
    assert listeners["orders"]["is_local"]


def test_a_destination_is_done_when_it_has_accepted_a_message(console: RunningConsole) -> None:
    """A refusal, or an open circuit, is not enough."""
    receiver = steps(console)["receiver"]
    assert not receiver["done"]
    now = console.clock()
    channels.store_activity(console.database, {(ChannelKind.DESTINATION, "ris"): now})
    try:
        assert steps(console)["receiver"]["done"]
        refused = channels.ChannelCircuit(None, 1, "AE", "it refused the message")
        channels.store_circuits(console.database, {"ris": refused})
        receiver = steps(console)["receiver"]
        assert not receiver["done"]
        assert "it refused the message" in receiver["words"]
    finally:
        with console.database.write() as connection:
            connection.execute(delete(CHANNELS).where(CHANNELS.c.name == "ris"))


def test_a_sample_result_completes_the_step_of_the_receiver(console: RunningConsole) -> None:
    """It has processing id T; without a receiver the reply says why not, and nothing is done."""
    body = {"destination": "archive"}
    path = "/api/first-steps/sample-result"
    reply = console.call("chief", "POST", path, body).json()
    assert (reply["accepted"], reply["code"]) == (False, "")
    assert "no connection" in reply["words"]
    assert not steps(console)["receiver"]["done"]
    with sink() as receiver:
        table = {"name": "archive", "address": f"127.0.0.1:{receiver.port}"}
        change = {"table": table, "reason": "its address", "begun_on": "", "new": False}
        saved = console.call("chief", "PUT", "/api/connections/destination/archive", change)
        assert saved.status_code == 200, saved.text
        reply = console.call("chief", "POST", path, body).json()
        assert (reply["accepted"], reply["code"]) == (True, "AA")
        (message,) = receiver.wait(1)
    assert b"|T|2.5.1" in message.split(b"\r")[0]
    try:
        assert steps(console)["receiver"]["done"]
    finally:
        with console.database.write() as connection:
            connection.execute(delete(CHANNELS).where(CHANNELS.c.name == "archive"))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("sample-order", {"listener": "nowhere"}),
        ("sample-result", {"destination": "nowhere"}),
    ],
)
def test_a_sample_needs_a_connection(
    console: RunningConsole, path: str, body: dict[str, str]
) -> None:
    response = console.call("chief", "POST", f"/api/first-steps/{path}", body)
    assert response.status_code == 404


def test_a_reader_is_invited_and_enrols(console: RunningConsole) -> None:
    """Members with a role in the console are no readers; an invited one is not enough."""
    before = steps(console)["reader"]["seen"]
    body = {"email": "rita@site1.test", "name": "Rita", "role": "user"}
    answer = console.call("chief", "POST", "/api/sites/SITE1/users", body)
    invited = steps(console)["reader"]["seen"]
    assert (invited["invited"], invited["enrolled"]) == (before["invited"] + 1, before["enrolled"])
    console.enrol(answer.json()["link"], "a heron stands on one leg")
    reader = steps(console)["reader"]
    assert reader["seen"]["enrolled"] == before["enrolled"] + 1
    assert reader["done"]


def test_the_user_learns_the_first_page_and_the_zones(console: RunningConsole) -> None:
    """Only who connects systems gets the number of steps; zones are those of visible sites."""
    chief = console.call("chief", "GET", "/api/me").json()
    assert (chief["home"], chief["zones"]) == ("overview", {"SITE1": "UTC", "SITE2": "UTC"})
    assert chief["start"]["left"] == sum(not step["done"] for step in steps(console).values())
    viewer = console.call("viewer1", "GET", "/api/me").json()
    assert (viewer["start"], viewer["zones"]) == (None, {"SITE1": "UTC"})


def test_the_entrance_leads_each_account_to_its_place(console: RunningConsole) -> None:
    """The overview, the reporting app without a role, and the sign-in without a session."""
    reader = console.sign_in("reader@site1.test")
    for path in ("/console", "/console/"):
        assert location(console, path, console.cookies["chief"]) == "/console/overview"
        assert location(console, path, reader) == "/reporting/"
    assert location(console, "/", console.cookies["chief"]) == "/console"
    assert location(console, "/") == "/console"
    assert location(console, "/console") == f"{LOGIN}/console"
    assert console.ask("GET", "/console/overview", reader).status_code == 403


def test_the_sign_in_returns_to_the_exact_page(console: RunningConsole) -> None:
    """With its query; an address of another service is not followed."""
    page = "/console/messages/17?tab=history"
    assert location(console, page) == f"{LOGIN}/console/messages/17%3Ftab%3Dhistory"
    for wanted, landed in (
        (page, page),
        ("/", "/"),
        ("/console//evil.test", "/reporting/worklist"),
        ("/console\\evil", "/reporting/worklist"),
        ("https://evil.test/console", "/reporting/worklist"),
        ("/consoles", "/reporting/worklist"),
    ):
        form = {"email": "chief@site1.test", "password": PASSWORD, "next": wanted}
        response = console.runner.run(
            console.client.post(
                "http://console.test/reporting/login",
                data=form,
                headers={"origin": "http://console.test"},
            )
        )
        console.client.cookies.clear()
        assert (wanted, response.headers["location"]) == (wanted, landed)
