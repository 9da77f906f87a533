"""`bridge check` names each mistake with its place; `--live` asks each peer."""

import os
import select
import socket
import sqlite3
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import copytree
from threading import Event, Thread

import pytest
import trustme
from typer.testing import CliRunner
from typing_extensions import override

from bridge.admin.checks.checks import (
    CheckFinding,
    CheckSeverity,
    check_home,
    check_protections,
    check_sign_in,
    protection_findings,
)
from bridge.admin.checks.live import PeerCheck, check_live, run_checks
from bridge.admin.installation.data_directory import create_data_directory
from bridge.cli.application import application
from bridge.engine.service.accounts.sign_in_limit import SignInLimiter
from bridge.monitoring import tracing
from bridge.quotas import Quota
from bridge.store.databases import migrate_all, open_engine_database
from bridge.workers.confinement import ALL_PROTECTIONS, FILTER, LANDLOCK, NAMESPACES
from config import SettingsError, load
from mappings.compiler import DEFINITIONS
from tests.conftest import ask_server
from tests.databases import fresh_file
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
    messages = {finding.place.rpartition(" ")[2]: finding.message for finding in findings}
    assert messages.pop("nowhere").startswith(
        "no response from no-such-host.invalid:1: unknown host"
    )
    assert messages.keys() == {name for name, (_, _, expected) in wanted.items() if expected}
    for name, message in messages.items():
        assert wanted[name][2] in message
    assert all(f"{tmp_path / 'bridge.toml'}:" in check_finding.place for check_finding in findings)
    assert {finding.severity for finding in findings if "leaves" in finding.place} == {
        CheckSeverity.WARNING
    }


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
    assert [expected in finding.message for finding in findings if expected] == [True] * (
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
    assert [expected in finding.message for finding in findings if expected] == [True] * (
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
    assert [(item.place, item.message) for item in found] == [
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
        return [finding.message for finding in found if finding.severity is CheckSeverity.ERROR]

    (down,) = errors_with("postgresql+psycopg://u:hidden@127.0.0.1:1/x")
    assert "Connection refused" in down
    assert "hidden" not in down
    (unknown,) = errors_with(postgres_server.replace("/postgres?", "/nosuch?"))
    assert 'database "nosuch" does not exist' in unknown
    with role(postgres_server) as name:
        weak = errors_with(postgres_url.replace("postgres:@", f"{name}:@"))
    assert any(f"role {name} may not create tables: GRANT" in item for item in weak)
    assert any(f"role {name} may not use " in item for item in weak)
    assert errors_with(postgres_url) == []


HOME = """[database]
url = "sqlite:///none.db"
[[listener]]
name = "ris"
bind = "127.0.0.1:0"
mappings = ["orders", "nowhere"]
  charset = "klingon"
tls = { certificate = "missing.pem", key = "missing.key" }
[[listener]]
name = "other"
bind = "127.0.0.1:0"
mappings = ["results"]
[[destination]]
name = "pacs"
address = "127.0.0.1:9"
mapping = "orders"
"""


def home_with(folder: Path, text: str) -> Path:
    copytree(DEFINITIONS, folder / "mappings")
    (folder / "bridge.toml").write_text(text, "utf-8")
    return folder


def test_listeners_and_destinations(tmp_path: Path) -> None:
    """A finding has its own line where it is known, else the line of the connection."""
    text = f'{HOME}tls = {{ ca = "missing-ca.pem" }}\n'
    found = [(finding.place, finding.message) for finding in check_home(home_with(tmp_path, text))]
    file = tmp_path / "bridge.toml"
    for place, expected in (
        ("2:1: database.url", "does not exist"),
        ("6:1: listener ris", "nowhere"),
        ("7:3: listener ris", "charset"),
        ("8:9: listener ris", "tls.certificate"),
        ("12:1: listener other", "not a mapping of incoming"),
        ("16:1: destination pacs", "not a mapping of outgoing"),
        ("17:9: destination pacs", "tls.ca"),
    ):
        assert any(row[0] == f"{file}:{place}" and expected in row[1] for row in found), place


@pytest.mark.parametrize(
    ("text", "place"), [("[http]\nbind = = 1\n", "2:8"), ('[http]\nbind = "', "2:9")]
)
def test_invalid_toml(tmp_path: Path, text: str, place: str) -> None:
    """A syntax error has the line and column of the parser."""
    with pytest.raises(SettingsError) as raised:
        load(home_with(tmp_path, text))
    (mistake,) = raised.value.mistakes
    assert mistake.place == f"{tmp_path / 'bridge.toml'}:{place}"


@pytest.mark.parametrize("more", [[], ["--live"]])
def test_only_a_live_check_contacts_peers(tmp_path: Path, more: list[str]) -> None:
    """Only `--live` opens a connection, and reports an unreachable peer once with its place."""
    home = home_with(tmp_path, HOME)
    with socket.create_server(("127.0.0.1", 0)) as receiver:
        port = receiver.getsockname()[1]
        settings = home / "bridge.toml"
        ris = f'name = "ris"\naddress = "127.0.0.1:{port}"\nmapping = "results"\n'
        settings.write_text(f"{HOME}[[destination]]\n{ris}", "utf-8")
        output = CliRunner().invoke(application, ["check", "--home", str(home), *more]).stdout
        was_contacted = bool(select.select([receiver], [], [], 0)[0])

    place = f"{home / 'bridge.toml'}:15:1: destination pacs: no response from 127.0.0.1:9"
    assert was_contacted is bool(more)
    assert [line for line in output.splitlines() if "no response" in line] == (
        [f"error   {place}: Connection refused"] if more else []
    )


def test_tracing_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check names the package to install for tracing, because the service would not start."""
    home = home_with(tmp_path, '[tracing]\nendpoint = "http://127.0.0.1:4318"\n')
    monkeypatch.setattr(tracing, "_NEEDED", ("opentelemetry.no_such.part",))
    findings = [
        finding for finding in check_home(home) if finding.place.endswith(": tracing.endpoint")
    ]
    assert [finding.message for finding in findings] == [
        "install report-bridge[tracing], or leave it empty"
    ]


@pytest.mark.parametrize(
    ("name", "place"), [("bridge.db", "database.url"), ("bridge-messages.db", "bridge-messages.db")]
)
def test_a_damaged_database(tmp_path: Path, name: str, place: str) -> None:
    """The check finds an index that differs from its table, and a damaged page."""
    home = home_with(tmp_path, '[database]\nurl = "sqlite:///bridge.db"\n')
    file = home / name
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("CREATE INDEX i ON t (x)")
        connection.execute("INSERT INTO t VALUES ('abcdef')")
        connection.commit()
    intact = file.read_bytes()
    assert not [finding for finding in check_home(home) if "damaged" in finding.message]
    for damaged in (intact.replace(b"abcdef", b"abcdeg", 1), intact[:4096] + bytes(4096)):
        file.write_bytes(damaged)
        findings = [finding for finding in check_home(home) if "damaged" in finding.message]
        assert any(finding.place.endswith(place) for finding in findings)


@pytest.mark.parametrize(
    ("name", "table", "column"),
    [("bridge.db", "visit_transfer", "echo"), ("bridge-engine.db", "engine_site", "time_zone")],
)
def test_a_damaged_definition_of_a_table(
    tmp_path: Path, name: str, table: str, column: str
) -> None:
    """The check names a column whose name has changed in the text that SQLite stores."""
    home = home_with(tmp_path, '[database]\nurl = "sqlite:///bridge.db"\n')
    fresh_file(home / "bridge.db")
    fresh_file(home / "bridge-engine.db")
    change = "UPDATE sqlite_schema SET sql = replace(sql, ?, 'x' || ?) WHERE name = ?"
    with closing(sqlite3.connect(home / name)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(change, (f"{column} ", f"{column} ", table))
        connection.commit()
    findings = [finding.message for finding in check_home(home) if "damaged" in finding.message]
    assert any(f"no column {table}.{column}" in message for message in findings)


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({}, []),
        ({"BRIDGE_HTTP__PUBLIC_URL": "https://reports.example"}, ["http.trusted_proxies"]),
        (
            {
                "BRIDGE_HTTP__PUBLIC_URL": "https://reports.example",
                "BRIDGE_HTTP__TRUSTED_PROXIES": '["127.0.0.1/32"]',
            },
            [],
        ),
        ({"BRIDGE_SIGN_IN__SECOND_FACTOR": "optional"}, ["sign_in.second_factor"]),
    ],
)
def test_weak_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, str], place: list[str]
) -> None:
    """The check reports an undeclared proxy and console roles with a password only."""
    home = tmp_path / "home"
    create_data_directory(home)
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    found = list(check_sign_in(load(home)))
    assert [finding.place for finding in found] == place
    assert all(check_finding.severity is CheckSeverity.WARNING for check_finding in found)


def test_an_undeclared_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check reports an undeclared proxy beside a declared one, until it is declared too."""
    home = tmp_path / "home"
    create_data_directory(home)
    settings = load(home)
    migrate_all(settings)
    database = open_engine_database(settings)
    SignInLimiter(database, Quota(20, 900)).record_undeclared_proxy("127.0.0.1")
    database.dispose()
    for declared, places in (
        ("[]", ["http.trusted_proxies"]),
        ('["10.0.0.1"]', ["http.trusted_proxies"]),
        ('["10.0.0.1", "127.0.0.1"]', []),
    ):
        monkeypatch.setenv("BRIDGE_HTTP__TRUSTED_PROXIES", declared)
        assert [finding.place for finding in check_sign_in(load(home))] == places


def test_all_are_listed() -> None:
    """With all protections the check has one note and no warning."""
    (note,) = protection_findings(ALL_PROTECTIONS)
    assert note.severity is CheckSeverity.NOTE
    assert all(protection in note.message for protection in ALL_PROTECTIONS)


def test_none_is_a_warning() -> None:
    """Without protections the check warns, because hooks have the rights of the service."""
    (warning,) = protection_findings([])
    assert (warning.severity, "no protection is active" in warning.message) == (
        CheckSeverity.WARNING,
        True,
    )


def test_missing_protections_are_named() -> None:
    """The note names missing protections, but not namespaces if the filter allows no socket."""
    _, warning = protection_findings(
        [protection for protection in ALL_PROTECTIONS if protection not in (LANDLOCK, NAMESPACES)]
    )
    assert LANDLOCK in warning.message
    assert NAMESPACES not in warning.message
    _, warning = protection_findings(
        [protection for protection in ALL_PROTECTIONS if protection not in (FILTER, NAMESPACES)]
    )
    assert NAMESPACES in warning.message


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels have other protections")
def test_the_command_lists_them(tmp_path: Path) -> None:
    create_data_directory(tmp_path / "home")
    printed = CliRunner().invoke(application, ["check", "--home", str(tmp_path / "home")]).stdout
    for protection in check_protections():
        assert f"{protection.severity:<7} worker processes: {protection.message}" in printed
