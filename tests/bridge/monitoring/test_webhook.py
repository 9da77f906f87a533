"""Webhook of alerts: the service waits for the status of the response only."""

import socket
import threading
from collections.abc import Iterator

import httpx
import pytest

from bridge.monitoring.alerts import WebhookTarget, call_webhook
from tests.eventually import PATIENCE


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        yield server


def target(server: socket.socket) -> WebhookTarget:
    return WebhookTarget(f"http://127.0.0.1:{server.getsockname()[1]}/", "")


@pytest.mark.parametrize(("status", "accepted"), [(b"200 OK", True), (b"500 Fault", False)])
def test_a_response_that_does_not_end(
    listening: socket.socket, status: bytes, accepted: bool
) -> None:
    """The body of the response is not read: a hostile receiver sends one without an end."""
    closed = threading.Event()

    def answer() -> None:
        line, _ = listening.accept()
        with line:
            line.settimeout(PATIENCE)
            line.recv(65536)
            line.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Type: text/plain\r\n\r\n")
            try:
                while True:
                    line.sendall(bytes(65536))
            except OSError:
                closed.set()

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    if accepted:
        call_webhook(target(listening), "system", [])
    else:
        with pytest.raises(httpx.HTTPStatusError):
            call_webhook(target(listening), "system", [])
    assert closed.wait(PATIENCE)
    thread.join()
