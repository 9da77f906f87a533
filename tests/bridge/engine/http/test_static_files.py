"""The files of the pages, which anonymous clients request."""

import tracemalloc

import pytest

from bridge.engine.http import html_pages, static_files
from tests.bridge.engine.http.engine_service import Service


@pytest.mark.parametrize("length", [1, 200, 250, 300, 5000])
def test_an_unknown_file_is_not_found(service: Service, length: int) -> None:
    response = service.call("GET", f"/reporting/assets/{'a' * length}.js", None)
    assert (response.status_code, response.json()["code"]) == (404, "no_such_path")


def test_unknown_names_are_not_kept() -> None:
    """Requests with random names do not fill the memory."""
    tracemalloc.start()
    try:
        for number in range(5000):
            assert static_files.content(f"{number:0100}.js", compressed=True) is None
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()


PAGES = [
    *(f"/reporting/host-sdk/{name}" for name in ("index.js", "index.d.ts", "protocol.d.ts")),
    *(f"/reporting/assets/{name}" for name in html_pages.ASSETS),
    *("/healthz", "/readyz", "/docs", "/openapi.json", "/", "/reporting", "/reporting/"),
    *("/reporting/login", "/reporting/worklist", "/reporting/settings"),
    *("/reporting/administration", "/reporting/host-sdk/none.js", "/reporting/assets/none.js"),
]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_the_same_headers_for_get_and_head(service: Service, path: str) -> None:
    """A proxy or a link checker that asks with HEAD gets the status and headers of GET."""
    get, head = (service.call(method, path, None) for method in ("GET", "HEAD"))
    varying = {"x-request-id", "date", "set-cookie"}
    assert head.status_code == get.status_code
    assert {name for name in get.headers if name not in varying} <= set(head.headers)
    for name in ("content-type", "content-length", "cache-control", "location"):
        assert head.headers.get(name) == get.headers.get(name), name
