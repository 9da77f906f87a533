"""An order that a page opened and left without a word is everybody's again; a text stays."""

from typing import Any

import pytest

from tests.bridge.engine.http.engine_service import (
    OTHER,
    READER,
    Page,
    Service,
    identity,
    user,
)

FINDINGS = {"KeyFindings": "Nodule of 5 mm."}


def register(service: Service, email: str = READER, **tags: str) -> Any:
    """Register the order A1 and return the response, whose link opens it for a user."""
    launched = service.launch(
        lazyLaunch=True, registerOrder=True, userInfo=user(email), tags={**tags}
    )
    assert launched.status_code == 200, launched.text
    return launched


def sweep(service: Service, seconds: float = 0) -> None:
    """Let time pass, and look for abandoned orders as the engine does every ten seconds."""
    service.clock.pass_seconds(seconds)
    service.runner.run(service.application.state.engine.untouched_sweep.sweep())


def state(service: Service) -> tuple[str, str]:
    record = service.status()
    return record["status"], record["userEmail"] or ""


@pytest.mark.parametrize("ending", ["leave", "end"])
@pytest.mark.parametrize("tags", [{}, FINDINGS], ids=["empty", "with key findings"])
def test_an_untouched_order_returns(service: Service, ending: str, tags: dict[str, str]) -> None:
    """Leaving the page or the end of the session gives the order back as it was."""
    page = service.page(register(service, **tags))
    page("report")
    assert state(service) == ("Draft", READER)
    assert page(ending, {}).status_code == 204
    assert state(service) == ("Ordered", "")
    assert service.status()["hasContent"] is False
    again = service.page(register(service, OTHER, **tags))
    assert again("report").json()["content"] == tags.get("KeyFindings", "")
    assert state(service) == ("Draft", OTHER)


@pytest.mark.parametrize("tags", [{}, FINDINGS], ids=["empty", "with key findings"])
def test_a_written_order_stays_the_readers(service: Service, tags: dict[str, str]) -> None:
    """One saved word makes it a Draft for good, also if the word is removed again."""
    page = service.page(register(service, **tags))
    page.save("Words.")
    page.save(text=next(iter(tags.values()), ""))
    page("leave", {})
    sweep(service, 3600)
    assert state(service) == ("Draft", READER)


def test_the_last_words_of_a_closing_page_stay(service: Service) -> None:
    """A page that saves while it closes keeps its order."""
    page = service.page(register(service))
    version = page("report").json()["version"]
    assert page("save", {"version": version, "text": "Last.", "leaving": True}).status_code == 204
    sweep(service, 3600)
    assert state(service) == ("Draft", READER)


def test_an_order_with_text_returns_with_its_text(service: Service) -> None:
    """Text that was written before stays in an order that is opened and left."""
    page = service.page(register(service))
    page.save("Begun yesterday.")
    assert service.post("report/unassign", identity()).status_code == 200
    page = service.page(register(service, OTHER))
    assert state(service) == ("Draft", OTHER)
    page("leave", {})
    assert state(service) == ("Ordered", "")
    assert page.service.get("report/content", **identity()).json()["content"] == "Begun yesterday."


def test_an_assigned_order_stays_the_readers(service: Service) -> None:
    """A launch by the API assigns on purpose: the order does not return."""
    register(service)
    page = service.page(service.launch(userInfo=user()))
    page("leave", {})
    sweep(service, 3600)
    assert state(service) == ("Draft", READER)


def test_a_reload_keeps_the_order(service: Service) -> None:
    """The next page is requested before the page before is left."""
    launched = register(service)
    first, second = service.page(launched), service.page(launched)
    first("leave", {})
    assert state(service) == ("Draft", READER)
    second("report")
    second("leave", {})
    assert state(service) == ("Ordered", "")


def test_a_second_window_keeps_the_order(service: Service) -> None:
    """The order returns when the last of its reader's windows is left."""
    launched = register(service)
    first, second = service.page(launched), service.page(launched)
    for page in (first, second):
        page.call("GET", "events", params={"once": "true"})
        page("open", {"tab": page.secret.encode().hex()[:24]})
    second("leave", {})
    assert state(service) == ("Draft", READER)
    service.clock.pass_seconds(30)
    first("leave", {})
    assert state(service) == ("Ordered", "")


def test_a_crashed_page_gives_the_order_back(service: Service) -> None:
    """Without a sign of life the order returns after a minute."""
    page = service.page(register(service))
    page("report")
    sweep(service, 30)
    assert state(service) == ("Draft", READER)
    sweep(service, 31)
    assert state(service) == ("Ordered", "")


def test_a_lost_machine_gives_the_order_back(service: Service) -> None:
    """A connection that only looks open does not keep the order."""
    page = service.page(register(service))
    for _ in range(10):
        service.clock.pass_seconds(40)
        look(page)
    assert state(service) == ("Draft", READER)
    sweep(service, 400)
    assert state(service) == ("Ordered", "")


def look(page: Page) -> None:
    """Do what an open page does while its reader looks at the images: nothing but heartbeats."""
    page.call("GET", "events", params={"once": "true"})
    assert page("presence", {}).status_code == 200
    sweep(page.service)


def test_a_reader_who_only_looks_keeps_the_order(service: Service) -> None:
    """A page that is open for hours, also hidden, keeps its order without a word."""
    page = service.page(register(service))
    for _ in range(120):
        service.clock.pass_seconds(60)
        look(page)
    assert state(service) == ("Draft", READER)
    assert page("report").json()["writable"]


def test_a_page_that_was_cut_off_opens_its_order_again(service: Service) -> None:
    """After a sleep of the machine the page goes on, if nobody else has opened the order."""
    page = service.page(register(service))
    page("report")
    sweep(service, 120)
    assert state(service) == ("Ordered", "")
    assert page("presence", {}).json()["writable"]
    assert state(service) == ("Draft", READER)
    page.save("Typed after the sleep.")
    assert state(service) == ("Draft", READER)


@pytest.mark.parametrize("taken", ["opened", "unassigned"])
def test_a_page_that_was_cut_off_takes_nothing_back(service: Service, taken: str) -> None:
    """An order that somebody else opened, or that was unassigned on purpose, is not taken back."""
    page = service.page(register(service))
    page("report")
    if taken == "opened":
        sweep(service, 120)
        service.page(register(service, OTHER))
    else:
        service.post("report/unassign", identity())
    assert not page("presence", {}).json()["writable"]
    assert state(service) == (("Draft", OTHER) if taken == "opened" else ("Ordered", ""))
