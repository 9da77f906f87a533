"""One installation for the tests of the console's pages, with users of each role."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from playwright.sync_api import Browser, Page, Playwright

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, Sink, sink
from tests.bridge.engine.http.identity_provider import CLIENT, SECRET, identity_provider
from tests.browser.checked_pages import PROCESS_PER_SITE, launched, window
from tests.browser.console_client import ConsoleClient
from tests.browser.signing_in import PASSWORD
from tests.enrolment import open_link
from tests.eventually import eventually

OPERATOR, VIEWER, WITHOUT_ROLE = "olga@site1.test", "vera@site1.test", "sven@site1.test"
CHIEF = "chen@site1.test"


@dataclass
class ServiceHarness(ConsoleClient):
    """The installation and `ris`, the receiver of its results."""

    ris: Sink
    stray_port: int
    mutual_port: int

    def found(self, email: str, **wanted: object) -> list[dict[str, object]]:
        """Search messages until the index has caught up."""

        def rows() -> list[dict[str, object]]:
            found: list[dict[str, object]]
            found = self.call(email, "POST", "lists/messages", {"filters": wanted}).json()["rows"]
            return found

        return eventually(rows)


def mutual_tls(folder: Path) -> dict[str, str]:
    authority = trustme.CA()
    own = authority.issue_cert("localhost")
    files = {name: folder / f"mutual-{name}.pem" for name in ("certificate", "key", "client_ca")}
    files["certificate"].write_bytes(b"".join(pem.bytes() for pem in own.cert_chain_pems))
    files["key"].write_bytes(own.private_key_pem.bytes())
    files["client_ca"].write_bytes(authority.cert_pem.bytes())
    return {name: str(path) for name, path in files.items()}


def without_stream(page: Page) -> None:
    """Block the stream of hints, which stays open, so that the network can become idle."""
    page.route("**/console/api/live", lambda route: route.abort())


@pytest.fixture(scope="module")
def chromium(driver: Playwright) -> Iterator[Browser]:
    """One browser for a module; the pages of a profile share a process."""
    with launched(driver, PROCESS_PER_SITE) as browser:
        yield browser


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page in a fresh profile; errors in its scripts fail the test."""
    with window(chromium) as page:
        yield page


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceHarness]:
    """A delivered report (A7001), an order without one (A7002), a parked message (A7003)."""
    with sink() as ris, identity_provider() as provider:
        provider.email = VIEWER
        house = House(Path(tmp_path_factory.mktemp("service")) / "home")
        house.destination("ris", ris.port)
        stray = house.listener("stray", site="SITE9")
        mutual_port = house.listener("mutual", tls=mutual_tls(house.home.parent))
        house.settings += (
            f'[sign_in]\noidc = {{ issuer = "{provider.issuer}", client_id = "{CLIENT}", '
            'client_secret_file = "secrets/oidc.secret", label = "Hospital account" }\n'
        )
        house.make()
        secret = house.home / "secrets" / "oidc.secret"
        secret.write_text(SECRET, "utf-8")
        secret.chmod(0o600)
        house.start()
        try:
            add_people(house)
            service = ServiceHarness(house, ris, stray, mutual_port)
            _traffic(service)
            yield service
        finally:
            house.stop()
            house.kill()


def add_people(house: House) -> None:
    """Add users of several roles, who can sign in."""
    roles = {
        OPERATOR: ("--role", "operator", "--bodies"),
        VIEWER: ("--role", "viewer"),
        CHIEF: ("--role", "system-administrator"),
    }
    for email in (OPERATOR, VIEWER, WITHOUT_ROLE, CHIEF):
        account = (email, "--name", email[:4].title(), "--site", "SITE1")
        printed = house.bridge("user", "add", *account)
        if email in roles:
            printed = house.bridge("console", "grant", email, *roles[email])
        open_link(printed.split()[-1], house.url, PASSWORD)


def _traffic(service: ServiceHarness) -> None:
    house = service.house
    with Sender(house.mllp_port) as sender:
        for number in (7001, 7002):
            sender.ask(order(number, accession=f"A{number}"))
    with Sender(service.stray_port) as sender:
        sender.ask(order(7003, accession="A7003"))
    house.settle()
    house.draft("M7001", "A7001", "No acute finding.")
    house.sign("M7001", "A7001")
    service.ris.wait(1)
