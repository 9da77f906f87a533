"""The engine's application, made once for all tests of a process: each would build its routes."""

from collections.abc import Callable

from fastapi import FastAPI

from bridge.engine.http.engine_application import create_application
from bridge.engine.http.engine_state import EngineState
from bridge.engine.http.requests.request_limits import QuotaMeter
from bridge.engine.settings import EngineSettings
from bridge.store.database import Database

_made: list[FastAPI] = []


def application_with(
    settings: EngineSettings, database: Database, clock: Callable[[], int]
) -> FastAPI:
    """
    Return the application with an engine of the test's own, which `create_application` makes too.

    It forgets the engine before: of two at once, one wants an application of its own.
    """
    if not _made:
        _made.append(create_application(settings, database, clock=clock))
    (application,) = _made
    application.state.engine = EngineState(settings, database, clock)
    application.state.engine.quotas = QuotaMeter(clock)  # whose windows end when a test says so
    return application
