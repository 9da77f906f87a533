"""`bridge check --live` reports each peer that differs from the settings, with a remedy."""

import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest
import trustme
from typing_extensions import override

from bridge.admin.checks.checks import check_home
from bridge.admin.checks.findings import CheckFinding, CheckSeverity
from bridge.admin.checks.live import PeerCheck, check_live, run_checks
from bridge.admin.data_directory import create_data_directory
from tests.conftest import ask_server
from tests.eventually import PATIENCE

TLS = 'tls = { ca = "ca.pem" }'
HELLO = b"\x0bMSH|^~\\&|\x1c\r"
Greeting = Callable[[socket.socket], socket.socket | None]


class Peers:
    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.authority = trustme.CA()

    def plain(self, greeting: Greeting) -> int:
        listening = socket.create_server(("127.0.0.1", 0))
        connections: list[socket.socket] = []

        def serve() -> None:
            while listening.fileno() >= 0:
                with suppress(OSError):
                    connections.append(listening.accept()[0])
                    connections.append(greeting(connections[-1]) or connections[-1])

        def end() -> None:
            listening.shutdown(socket.SHUT_RDWR)
            listening.close()
            serving.join()
            for wire in connections:
                wire.close()

        serving = Thread(target=serve, daemon=True)
        serving.start()
        self._stack.callback(end)
        return int(listening.getsockname()[1])

    def secure(self, *names: str, until: timedelta = timedelta(365), mutual: bool = False) -> int:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        expires = datetime.now(UTC) + until
        self.authority.issue_cert(*names, not_after=expires).configure_cert(context)
        if mutual:
            context.verify_mode = ssl.CERT_REQUIRED
            self.authority.configure_trust(context)
        return self.plain(lambda wire: context.wrap_socket(wire, server_side=True))

    def service(self, status: int, released: Event | None = None, page: str = "") -> str:
        """Start an HTTP service that responds with this status, at once or when it is released."""

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                if released is not None:
                    released.wait(PATIENCE)
                self.send_response(status)
                if page:
                    self.send_header("Content-Type", page)
                self.end_headers()

            do_OPTIONS = do_POST  # noqa: N815  # its name in the library

            @override
            def log_message(self, *values: object) -> None:
                """Log nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"


@pytest.fixture
def peers() -> Iterator[Peers]:
    with ExitStack() as stack:
        yield Peers(stack)


def home(folder: Path, peers: Peers, more: str, base_url: str = "internal") -> Path:
    create_data_directory(folder)
    peers.authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    written = (folder / "bridge.toml").read_text("utf-8").partition("[[listener]]")[0]
    written = written.replace('base_url = "internal"', f'base_url = "{base_url}"')
    (folder / "bridge.toml").write_text(written + more, "utf-8")
    return folder


def test_destinations(tmp_path: Path, peers: Peers) -> None:
    """Each faulty destination has one finding at its place in the file; others have none."""
    with socket.create_server(("127.0.0.1", 0)) as once:
        closed = once.getsockname()[1]
    wanted = {
        "good": (peers.secure("localhost"), TLS, ""),
        "expired": (peers.secure("localhost", until=timedelta(-1)), TLS, "has expired"),
        "soon": (peers.secure("localhost", until=timedelta(3)), TLS, "expires in 3 d"),
        "other": (peers.secure("a.example"), TLS, "not for localhost: set tls.server_name"),
        "mutual": (peers.secure("localhost", mutual=True), TLS, "set tls.certificate and tls.key"),
        "untrusted": (peers.secure("localhost"), "tls = {}", "add it to tls.ca"),
        "clear": (peers.plain(lambda wire: wire.sendall(HELLO)), TLS, "does not use TLS"),
        "quiet": (peers.plain(lambda wire: None), "", ""),
        "shell": (peers.plain(lambda wire: wire.sendall(HELLO)), "", "sends data first"),
        "leaves": (peers.plain(lambda wire: wire.close()), "", "closes each connection"),
        "closed": (closed, "", "no response from localhost:"),
    }
    sections = [
        f'[[destination]]\nname = "{name}"\naddress = "localhost:{port}"\n{tls}\n'
        for name, (port, tls, _) in wanted.items()
    ]
    nowhere = '[[destination]]\nname = "nowhere"\naddress = "no-such-host.invalid:1"\n'
    findings = check_live(home(tmp_path, peers, "".join([*sections, nowhere])))
    messages = {each.place.rpartition(" ")[2]: each.message for each in findings}
    assert messages.pop("nowhere").startswith(
        "no response from no-such-host.invalid:1: unknown host"
    )
    assert messages.keys() == {name for name, (_, _, expected) in wanted.items() if expected}
    for name, message in messages.items():
        assert wanted[name][2] in message
    assert all(f"{tmp_path / 'bridge.toml'}:" in each.place for each in findings)
    assert {each.severity for each in findings if "leaves" in each.place} == {CheckSeverity.WARNING}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, None),
        (405, None),
        (501, None),
        (401, "refuses the credentials (401): set or correct authorization_file"),
        (404, "answers 404 to an OPTIONS request: check the path"),
        (302, "redirects (302)"),
        (503, "answers 503 to an OPTIONS request: see the log"),
    ],
)
def test_http_receiver(tmp_path: Path, peers: Peers, status: int, expected: str | None) -> None:
    """The check reports only those HTTP responses that show a wrong setting."""
    section = f'[[destination]]\nname = "web"\naddress = "{peers.service(status)}/hl7"\n'
    findings = check_live(home(tmp_path, peers, section))
    assert [expected in each.message for each in findings if expected] == [True] * (
        expected is not None
    )
    assert len(findings) == (expected is not None)


def test_a_peer_without_http(tmp_path: Path, peers: Peers) -> None:
    """A peer that does not speak HTTP is reported."""
    port = peers.plain(lambda wire: wire.sendall(HELLO))
    section = f'[[destination]]\nname = "web"\naddress = "http://127.0.0.1:{port}/hl7"\n'
    (finding,) = check_live(home(tmp_path, peers, section))
    assert "does not respond with HTTP" in finding.message


def test_a_page_instead_of_the_report_service(tmp_path: Path, peers: Peers) -> None:
    """A page is reported whatever its status: the sign-in page of a gateway has 200."""
    (finding,) = check_live(home(tmp_path, peers, "", peers.service(200, page="text/html; x=y")))
    assert "with a page (200): check that it is the address" in finding.message


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, None),
        (401, "the token in secrets/engine.token is refused (401)"),
        (404, "with 404: check that it is the address"),
        (503, "with 503: see the log"),
    ],
)
def test_report_service(tmp_path: Path, peers: Peers, status: int, expected: str | None) -> None:
    """The report service answers 400 to a request without a report. Other statuses are reported."""
    findings = check_live(home(tmp_path, peers, "", peers.service(status)))
    assert [expected in each.message for each in findings if expected] == [True] * (
        expected is not None
    )
    assert len(findings) == (expected is not None)


def test_a_slow_check() -> None:
    """A slow check delays neither the others nor the end."""
    released = Event()

    def slow() -> list[CheckFinding]:
        released.wait()
        return []

    quick = CheckFinding(CheckSeverity.ERROR, "quick", "finding")
    found = run_checks([PeerCheck("slow", slow), PeerCheck("quick", lambda: [quick])], patience=2)
    assert not released.is_set()
    released.set()
    assert [(each.place, each.message) for each in found] == [
        ("slow", "no answer within 2 s"),
        ("quick", "finding"),
    ]


@contextmanager
def role(server: str) -> Iterator[str]:
    name = f"weak_{os.getpid()}"
    ask_server(server, f"CREATE ROLE {name} LOGIN")
    try:
        yield name
    finally:
        ask_server(server, f"DROP ROLE {name}")


@pytest.mark.postgres
def test_database_server(
    tmp_path: Path, peers: Peers, postgres_server: str, postgres_url: str
) -> None:
    """The check reports a missing server or database, and a role without rights, once."""
    folder = home(tmp_path, peers, "")
    settings = folder / "bridge.toml"
    plain = settings.read_text("utf-8")

    def errors_with(url: str) -> list[str]:
        settings.write_text(plain.replace("sqlite:///bridge.db", url), "utf-8")
        found = check_home(folder)
        return [each.message for each in found if each.severity is CheckSeverity.ERROR]

    (down,) = errors_with("postgresql+psycopg://u:hidden@127.0.0.1:1/x")
    assert "Connection refused" in down
    assert "hidden" not in down
    (unknown,) = errors_with(postgres_server.replace("/postgres?", "/nosuch?"))
    assert 'database "nosuch" does not exist' in unknown
    with role(postgres_server) as name:
        weak = errors_with(postgres_url.replace("postgres:@", f"{name}:@"))
    assert any(f"role {name} may not create tables: GRANT" in each for each in weak)
    assert any(f"role {name} may not use " in each for each in weak)
    assert errors_with(postgres_url) == []
