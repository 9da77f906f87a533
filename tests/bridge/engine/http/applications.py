"""The application of the engine, built once per process, because building routes is slow."""

from collections.abc import Callable

from fastapi import FastAPI

from bridge.engine.http.engine_application import create_application
from bridge.engine.http.engine_state import EngineState
from bridge.engine.settings import EngineSettings
from bridge.quotas import QuotaMeter
from bridge.store.database import Database

_made: list[FastAPI] = []


def application_with(
    settings: EngineSettings, database: Database, clock: Callable[[], int]
) -> FastAPI:
    """
    Return the shared application with a new engine, as `create_application` makes it.

    The previous engine is replaced. A test with two engines needs a second application.
    """
    if not _made:
        _made.append(create_application(settings, database, clock=clock))
    (application,) = _made
    application.state.engine = EngineState(settings, database, clock)
    application.state.engine.quotas = QuotaMeter(clock)  # the test controls its windows
    return application
