"""All pages of an installation show its banner."""

from collections.abc import Iterator

import pytest

from bridge import banner
from tests.bridge.engine.http.engine_service import Service


@pytest.fixture(autouse=True)
def _no_banner_afterwards() -> Iterator[None]:
    yield
    banner.install("")


@pytest.mark.parametrize("path", ["/reporting/login", "/reporting/enrol?token=x", "/docs"])
def test_the_banner_is_on_each_page(service: Service, path: str) -> None:
    """As text, whatever it contains; without a banner there is no element."""
    assert "installation-banner" not in service.open(path).text
    banner.install("TEST <1> & copy")
    shown = service.open(path).text
    assert '<p class="installation-banner" role="note">TEST &lt;1&gt; &amp; copy</p>' in shown
