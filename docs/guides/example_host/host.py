"""
A host application in one file: serves the example page, and asks the engine for links.

The access token stays here, on the server; the browser sees only links. Standard library alone:

    python docs/guides/example_host/host.py --app http://127.0.0.1:8575 --token-file admin.token
"""

# ruff: noqa: INP001  # a program beside its page, no package

import argparse
import json
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parent
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/host.js": ("host.js", "text/javascript; charset=utf-8"),
    "/host.css": ("host.css", "text/css; charset=utf-8"),
}
ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}


class Host(ThreadingHTTPServer):
    """The host: where the engine is, whom it launches for, and whether it is isolated."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], options: argparse.Namespace) -> None:
        super().__init__(address, Handler)
        self.app: str = options.app.rstrip("/")
        self.token: str = options.token
        self.site: str = options.site
        self.user = {"UserEmail": options.email, "UserName": options.name}
        self.headers = ISOLATED if options.coep else {}

    def ask(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Post to the engine with our token; return the status and the JSON of the answer."""
        headers = {"Content-Type": "application/json", "x-access-token": self.token}
        request = urllib.request.Request(  # noqa: S310  # the operator's own address
            self.app + path, json.dumps(body).encode(), headers
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  # as above
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)

    def session(self) -> tuple[int, Any]:
        """Prepare a session: `{sessionLink, expiresAt}`."""
        info = {"SiteID": self.site}
        return self.ask("/api/report/init", {"clinicalInfo": info, "userInfo": self.user})

    def launch(self, wanted: dict[str, Any]) -> tuple[int, Any]:
        """Launch the study that the page names; `sync` and `force` are the page's checkboxes."""
        tags = {name: str(value) for name, value in wanted.get("tags", {}).items() if value}
        body = {
            "clinicalInfo": {**tags, "SiteID": self.site},
            "reportingApp": {"SyncLaunch": bool(wanted.get("sync"))},
            "response": {"type": "link"},
            "userInfo": {**self.user, "forceOwnershipTransfer": bool(wanted.get("force"))},
        }
        return self.ask("/api/report/launch/clinical", body)


class Handler(BaseHTTPRequestHandler):
    """One request of the page."""

    server: Host

    def do_GET(self) -> None:
        """Serve the page, its files, and where the engine is."""
        path = self.path.partition("?")[0]
        if path == "/config":
            self._answer(200, {"app": self.server.app})
        elif path in FILES:
            name, media_type = FILES[path]
            self._send(200, (PAGES / name).read_bytes(), media_type)
        else:
            self._send(404, b"", "text/plain")

    def do_POST(self) -> None:
        """Prepare a session or launch a study."""
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path == "/session":
            self._answer(*self.server.session())
        elif self.path == "/launch":
            self._answer(*self.server.launch(json.loads(body or b"{}")))
        else:
            self._send(404, b"", "text/plain")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the library's name
        """Log no request: its address can contain patient data."""

    def _answer(self, status: int, value: Any) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _send(self, status: int, body: bytes, media_type: str) -> None:
        self.send_response(status)
        headers = {"Content-Type": media_type, "Cache-Control": "no-store", **self.server.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="An example host of the reporting app.")
    parser.add_argument("--app", required=True, help="the engine's public address")
    parser.add_argument("--token-file", type=Path, required=True, help="a site administrator's")
    parser.add_argument("--site", default="SITE1")
    parser.add_argument("--email", default="reader@example.org")
    parser.add_argument("--name", default="Rea Reader")
    parser.add_argument("--port", type=int, default=8600)
    parser.add_argument("--coep", action="store_true", help="be cross-origin isolated")
    options = parser.parse_args()
    options.token = options.token_file.read_text("utf-8").strip()
    host = Host(("127.0.0.1", options.port), options)
    sys.stdout.write(f"http://localhost:{options.port}/\n")
    try:
        host.serve_forever()
    except KeyboardInterrupt:
        host.server_close()


if __name__ == "__main__":
    main()
