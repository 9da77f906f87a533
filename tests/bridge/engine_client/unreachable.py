"""A client of a report service that does not run."""

from bridge.engine_client.client import EngineClient, over_http


def client() -> EngineClient:
    """Return a client whose calls fail: nothing listens on port 9."""
    return EngineClient(over_http("http://127.0.0.1:9"), "T")
