"""The console of an installation, for requests and for pages in a browser."""

from dataclasses import dataclass

import httpx
from playwright.sync_api import Page

from tests.acceptance.house import House
from tests.browser.signing_in import PASSWORD
from tests.eventually import PATIENCE
from tests.trust import TRUSTED


@dataclass
class ConsoleClient:
    house: House

    def cookies(self, email: str) -> dict[str, str]:
        form = {"email": email, "password": PASSWORD, "token": "", "next": ""}
        answer = httpx.post(
            f"{self.house.url}/reporting/login", data=form, timeout=PATIENCE, verify=TRUSTED
        )
        assert answer.status_code == 303, answer.text
        return dict(answer.cookies)

    def call(
        self, email: str, method: str, path: str, body: object = None, **headers: str
    ) -> httpx.Response:
        """Call an endpoint of the console as its pages do."""
        return httpx.request(
            method,
            f"{self.house.url}/console/api/{path}",
            json=body,
            cookies=self.cookies(email),
            headers={"origin": self.house.url, **headers},
            timeout=PATIENCE,
            verify=TRUSTED,
        )

    def add_cookies(self, page: Page, email: str) -> None:
        jar = self.cookies(email)
        page.context.add_cookies(
            [{"name": name, "value": jar[name], "url": self.house.url} for name in jar]
        )


def enter(page: Page, console: ConsoleClient, email: str, path: str = "") -> None:
    page.context.clear_cookies()
    console.add_cookies(page, email)
    page.goto(f"{console.house.url}/console/{path}".rstrip("/"))
