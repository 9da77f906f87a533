"""
A complete installation: the real program with its own HOME, in its own processes.

On SQLite, `init`, `site`, `user` and `token` run once per test run; each installation copies the
result.
"""

import atexit
import json
import random
import shutil
import socket
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.forked import Forked, Program
from tests.acceptance.serving import Serving
from tests.acceptance.wire import Sender, verdict
from tests.eventually import PATIENCE, eventually
from tests.trust import TRUSTED

TOKEN = "token.txt"
_RESERVATIONS: list[socket.socket] = []


def free_port() -> int:
    """
    A free port below the range that the system uses for outgoing connections.

    An abstract socket reserves it for this process, so that no other test run takes it.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        reservation = socket.socket(socket.AF_UNIX)
        with socket.socket() as probe:
            try:
                reservation.bind(f"\0report-bridge-test-port-{port}")
                probe.bind(("127.0.0.1", port))
            except OSError:
                reservation.close()
                continue
        _RESERVATIONS.append(reservation)
        return port


def bridge(*arguments: str, expect: int | None = 0, env: Mapping[str, str] | None = None) -> str:
    """Run one `bridge` command; return its output."""
    with tempfile.TemporaryDirectory(prefix="bridge-command-") as folder:
        output, errors = Path(folder) / "output", Path(folder) / "errors"
        status = Forked(arguments, env or {}, output, errors).wait(120)
        printed, error_output = output.read_text("utf-8"), errors.read_text("utf-8")
    if expect is not None and status != expect:
        raise AssertionError(f"{arguments}: {status}\n{printed}\n{error_output}")
    return printed + (error_output if expect else "")


def populate(home: Path, sign_delay: int) -> None:
    delay = ("--sign-delay", str(sign_delay)) if sign_delay else ()
    bridge("site", "add", "SITE1", "--home", str(home), "--name", "One", *delay)
    account = ("--home", str(home), "--name", "Ada Reader", "--site", "SITE1", "--admin")
    bridge("user", "add", "ada@example.org", *account)
    token = bridge("token", "create", "--home", str(home), "--user", "ada@example.org")
    (home / TOKEN).write_text(token.strip(), "utf-8")


@lru_cache
def model_home(sign_delay: int) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="bridge-model-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    home = folder / "home"
    bridge("init", str(home))
    populate(home, sign_delay)
    return home


class House:
    """One installation: create, start, stop, kill and query it."""

    def __init__(
        self,
        home: Path,
        *,
        sign_delay: int = 0,
        database: str = "",
        program: Program = Forked,
    ) -> None:
        """`database` is a PostgreSQL address, or empty for the embedded one."""
        self.program = program
        self.home = home
        self.http_port, self.mllp_port = free_port(), free_port()
        self.database = database
        self.sections: list[str] = []
        self.listener_extra = ""
        self.settings = ""
        self.sign_delay = sign_delay
        self.service: Serving | None = None
        self.others: list[Serving] = []
        self.token = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    def destination(self, name: str, port: int, **extra: Any) -> None:
        """Add a destination before the start; `extra` are its settings."""
        values: dict[str, Any] = {"retry_first": "200ms", "retry_max": "1s", "ack_timeout": "60s"}
        values |= {"address": f"127.0.0.1:{port}"} | extra
        self._section("destination", name, values)

    def listener(self, name: str, **extra: Any) -> int:
        port = free_port()
        self._section("listener", name, {"bind": f"127.0.0.1:{port}", "site": "SITE1"} | extra)
        return port

    def _section(self, kind: str, name: str, values: dict[str, Any]) -> None:
        lines = [f"{key} = {toml(value)}" for key, value in values.items()]
        self.sections.append(f'[[{kind}]]\nname = "{name}"\n' + "\n".join(lines) + "\n")

    def make(self) -> None:
        if self.database:
            bridge("init", str(self.home))
            self.configure()
            populate(self.home, self.sign_delay)
        else:
            shutil.copytree(model_home(self.sign_delay), self.home)
            shutil.rmtree(self.home / "run", ignore_errors=True)
            self.configure()
        self.token = (self.home / TOKEN).read_text("utf-8")

    def configure(self) -> None:
        text = f'[http]\nbind = "127.0.0.1:{self.http_port}"\npublic_url = "{self.url}"\n'
        if self.database:
            text = f'[database]\nurl = "{self.database}"\n' + text
        text += '[schedule]\npoll_status_every = "500ms"\n' + self.settings
        if "[sign_in]" not in self.settings:
            text += '[sign_in]\nsecond_factor = "optional"\n'
        text += f'[[listener]]\nname = "orders"\nbind = "127.0.0.1:{self.mllp_port}"\n'
        text += f'site = "SITE1"\n{self.listener_extra}\n' + "\n".join(self.sections)
        (self.home / "bridge.toml").write_text(text, "utf-8")

    def bridge(self, *arguments: str, expect: int | None = 0) -> str:
        return bridge(*arguments, "--home", str(self.home), expect=expect)

    def start(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        beside: bool = False,
    ) -> Serving:
        """Start a service and wait until it is ready; `beside`: an extra one with its own probe."""
        probe, more = self.url, dict(env or {})
        if beside:
            port = free_port()
            probe, more["BRIDGE_HTTP__PROBE_BIND"] = f"http://127.0.0.1:{port}", f"127.0.0.1:{port}"
        service = Serving(self.home, probe, arguments, more, self.program)
        if beside:
            self.others.append(service)
        else:
            self.service = service
        service.wait()
        return service

    def log(self) -> str:
        return (self.home / "serve.log").read_text("utf-8", "replace")

    def kill(self) -> None:
        for service in [self.service, *self.others]:
            if service is not None:
                service.kill()

    def stop(self) -> int:
        """Send SIGTERM; return the exit status."""
        return self.service.stop() if self.service is not None else 0

    def get(self, path: str, **query: Any) -> Any:
        """GET as the site's administrator."""
        return self.call("GET", path, params=query)

    def post(self, path: str, body: Any, expect: int | None = 200) -> Any:
        """POST as the site's administrator."""
        return self.call("POST", path, json=body, expect=expect)

    def call(self, method: str, path: str, expect: int | None = 200, **kwargs: Any) -> Any:
        """Call the service as the site's administrator; return the JSON of the response."""
        reply = httpx.request(
            method,
            self.url + path,
            headers={"x-access-token": self.token},
            timeout=PATIENCE,
            verify=TRUSTED,
            **kwargs,
        )
        if expect is not None and reply.status_code != expect:
            raise AssertionError(f"{method} {path}: {reply.status_code} {reply.text}")
        return reply.json() if reply.content else None

    def draft(self, mrn: str, accession: str, text: str, **tags: Any) -> Any:
        clinical = {"SiteID": "SITE1", "PatientMRN": mrn, "Accession": accession}
        clinical |= {"KeyFindings": text, **tags}
        body = {"clinicalInfo": clinical, "reportingApp": {}, "response": {"type": "link"}}
        return self.post("/api/report/launch/clinical", body)

    def sign(self, mrn: str, accession: str, **extra: Any) -> None:
        self.act("sign", mrn, accession, **extra)

    def act(
        self, what: str, mrn: str, accession: str, *, expect: int | None = 200, **extra: Any
    ) -> Any:
        """Call one of `/api/report/…` for an order."""
        identity = {"SiteID": "SITE1", "PatientMRN": mrn, "Accession": accession}
        return self.post(f"/api/report/{what}", {"clinicalInfo": identity, **extra}, expect)

    def worklist(self, **query: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        cursor = None
        while True:
            page = self.get(
                "/api/worklist", SiteID="SITE1", limit=500, **query,
                **({"cursor": cursor} if cursor else {}),
            )  # fmt: skip
            rows += page["items"]
            cursor = page.get("next")
            if not cursor:
                return rows

    def row(self, accession: str) -> dict[str, Any] | None:
        """The worklist row of an order; None if there is none."""
        for row in self.worklist():
            if any(listed["Accession"] == accession for listed in row["clinicalInfo"]):
                return row
        return None

    def group(self, accession: str) -> list[str]:
        """The accessions of an order's report, anchor first."""
        row = self.row(accession)
        return [listed["Accession"] for listed in row["clinicalInfo"]] if row else []

    def metric(self, name: str) -> float:
        """The value of one metric, by its name and labels as `/metrics` writes them."""
        shown = httpx.get(f"{self.url}/metrics", timeout=PATIENCE, verify=TRUSTED).text.splitlines()
        return next(float(line.rpartition(" ")[2]) for line in shown if line.startswith(f"{name} "))

    def send(self, *messages: bytes) -> None:
        """Send messages that are all accepted, and wait until all are applied."""
        with Sender(self.mllp_port) as sender:
            for message in messages:
                assert verdict(sender.ask(message))[0] == "AA", message
        self.settle()

    def settle(self, patience: float = PATIENCE) -> None:
        """Wait until all received messages are applied."""
        depth = 'bridge_queue_depth{queue="inbox",state="'

        def is_settled() -> bool:
            lines = httpx.get(
                f"{self.url}/metrics", timeout=PATIENCE, verify=TRUSTED
            ).text.splitlines()
            waiting = [
                line for line in lines if line.startswith((f"{depth}queued", f"{depth}claimed"))
            ]  # none while the database does not answer
            return len(waiting) == 2 and all(line.endswith(" 0.0") for line in waiting)

        eventually(is_settled, patience)

    def await_rows(self, count: int) -> None:
        """Wait until `count` reports are on the worklist."""
        eventually(lambda: len(self.worklist()) >= count)


def toml(value: Any) -> str:
    """Write a value as TOML: JSON except for tables."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)
