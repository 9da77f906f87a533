"""A receiver of HL7 over HTTP that shares no code with the product."""

import http.server
import threading
from dataclasses import dataclass, field

from typing_extensions import override

from tests.acceptance.wire import ack


@dataclass
class Receiver:
    status: int = 200
    answer: bytes | None = None
    with_length: bool = True
    """Whether responses have Content-Length; a response of HTTP/1.0 may end with the connection."""
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.received.append((dict(self.headers.items()), body))
                answer = ack(body) if outer.answer is None else outer.answer
                self.send_response(outer.status)
                if outer.with_length:
                    self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            @override
            def log_message(self, format: str, *args: object) -> None:
                """Print nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
