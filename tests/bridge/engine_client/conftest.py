"""Asynchronous tests run on asyncio, as the application does."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Name the event loop."""
    return "asyncio"
