"""The files of the pages, which anonymous clients request."""

import tracemalloc

import pytest

from bridge.engine.http import static_files
from tests.bridge.engine.http.engine_service import Service


@pytest.mark.parametrize("length", [1, 200, 250, 300, 5000])
def test_an_unknown_file_is_not_found(service: Service, length: int) -> None:
    """Also with a name that no file can have."""
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
