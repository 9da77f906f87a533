"""`bridge serve`: run the service until it is told to stop."""

import gc
import sys
from typing import Annotated

import typer

from bridge.cli.options import Home
from bridge.roles import Role

_NOT_FOR_A_SERVICE = ("rich", "pygments", "greenlet")
"""For terminals and for other kinds of threads: libraries use them where they are installed."""


def _load_lean() -> None:
    """Load what looks for these without them: four megabytes, for nothing."""
    hidden = [name for name in _NOT_FOR_A_SERVICE if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # Python's way to say: not installed
    try:
        import httpx  # noqa: F401  # they look once, when they are loaded
        import structlog  # noqa: F401
    finally:
        for name in hidden:
            del sys.modules[name]


def serve(
    home: Home,
    role: Annotated[
        list[Role] | None, typer.Option("--role", help="Run only these parts; default: all.")
    ] = None,
) -> None:
    """Run the service. SIGTERM drains what is in hand and exits 0."""
    gc.disable()  # a fifth of the start is walking what stays for good; it begins when all runs
    _load_lean()
    from bridge.runtime.service import run
    from config import load

    sys.exit(run(load(home), frozenset(role or Role)))
