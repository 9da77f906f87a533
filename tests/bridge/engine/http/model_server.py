"""A model endpoint on a real port with configured responses; it records the requests."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import override


@dataclass
class Model:
    response: Any = None
    status: int = 200
    drips: bool = False
    """Sends spaces without end."""
    url: str = ""
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def listening(model: Model) -> Iterator[Model]:
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the name that http.server calls
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            model.requests.append((headers, body))
            if model.drips:
                self._drip()
                return
            data = json.dumps(model.response).encode()
            self.send_response(model.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(data)

        def _drip(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while not over.wait(0.05):
                    self.wfile.write(b" ")

        @override
        def log_message(self, *arguments: Any) -> None:
            """Do not log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.url = f"http://127.0.0.1:{server.server_address[1]}/v1/it"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield model
    over.set()
    server.shutdown()
    thread.join()
    server.server_close()
