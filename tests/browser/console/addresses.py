"""
The addresses of the pages of the console in the hospital, by the names in `routes.ts`.

A page without an address here fails `test_screens`.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from playwright.sync_api import Page

from tests.browser.console.hospital import REFUSED_ACCESSION, Hospital

_ROUTES = Path(__file__).resolve().parents[3] / "web" / "src" / "console" / "frame" / "routes.ts"

# The requests that have no answer yet, and since when nothing has arrived.
_REQUESTS = """
window.open_requests = 0;
window.quiet_since = performance.now();
const hear = () => { window.quiet_since = performance.now(); };
const request = window.fetch;
window.fetch = async (...given) => {
  window.open_requests += 1;
  try { return await request(...given); }
  finally { window.open_requests -= 1; hear(); }
};
new PerformanceObserver(hear).observe({type: "resource", buffered: true});
"""
_SETTLED = """() => document.querySelector("h1") && window.open_requests === 0
  && performance.now() - window.quiet_since > 250
  && !document.querySelector(".skeleton, [aria-busy=true]")"""


def watch_requests(page: Page) -> None:
    """Count the requests of the page, so that `settle` can wait for their answers."""
    page.add_init_script(_REQUESTS)


def settle(page: Page) -> None:
    """Wait until the page has its data: also one that asks again and again."""
    page.wait_for_function(_SETTLED)


def page_names() -> list[str]:
    """Return the names of all pages."""
    return re.findall(r"^  (\w+): \{ path: ", _ROUTES.read_text("utf-8"), re.MULTILINE)


def addresses(hospital: Hospital, shadow_run: int) -> Mapping[str, Sequence[str]]:
    """Return the addresses below /console of each page, with its parts and states."""
    order = hospital.rows("orders", number=REFUSED_ACCESSION, kind="order")[0]
    received = hospital.rows("messages", number=REFUSED_ACCESSION, kind="order")[-1]
    parked = hospital.rows("messages", state=["parked"])[0]
    refused = hospital.rows("deliveries", destination=["his"])[-1]
    accepted = hospital.rows("deliveries", destination=["ris"])[-1]
    return {
        "overview": ["overview", "overview?show=problem"],
        "messages": ["messages", "messages?state=parked", "messages?channel=nobody"],
        "message": [
            f"messages/{received['id']}",
            *(f"messages/{received['id']}?tab={tab}" for tab in ("ack", "calls", "history")),
            f"messages/{parked['id']}",
            "messages/999999",
        ],
        "deliveries": ["deliveries"],
        "delivery": [
            f"deliveries/{refused['id']}",
            f"deliveries/{accepted['id']}?tab=attempts",
        ],
        "orders": ["orders", "orders?list=unread"],
        "order": [f"orders/{order['id']}"],
        "steps": ["modality-worklist", "modality-worklist?day=today"],
        "merges": ["merges"],
        "attention": ["attention"],
        "connections": ["connections"],
        "new_connection": ["connections/new?kind=destination", "connections/new?kind=listener"],
        "connection": [
            "connections/listener/orders",
            "connections/destination/his",
            "connections/destination/ris/settings",
            "connections/destination/ris/history",
            "connections/listener/orders/specification",
            "connections/listener/nobody",
        ],
        "mappings": ["mappings", "mappings?show=connections", "mappings?show=codes"],
        "new_mapping": ["mappings/new/messages"],
        "mapping": [
            "mappings/orders",
            *(f"mappings/orders/{tab}" for tab in ("compare", "shadow", "history", "examples")),
            "mappings/nothing-such",
        ],
        "examine": ["examine"],
        "import": ["import"],
        "sites": ["sites"],
        "site": ["sites/SITE1", "sites/SITE1/users", "sites/SITE1/templates"],
        "access": ["access"],
        "audit": ["audit", "audit?source=engine", "audit?source=accepted"],
        "start": ["start"],
        "jobs": ["jobs"],
        "job": [f"jobs/{shadow_run - 1}", f"jobs/{shadow_run}"],
    }
