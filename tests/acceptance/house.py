"""The real program in a home of its own: `python -m bridge …` in subprocesses, nothing imported."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
READY_WITHIN = 30.0


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class House:
    """One installation: make it, start it, stop it, kill it, ask it."""

    def __init__(self, home: Path, *, sign_delay: int = 0, database: str = "") -> None:
        self.home = home
        self.http_port, self.mllp_port = free_port(), free_port()
        self.database = database
        self.destinations: list[str] = []
        self.listener_extra = ""
        self.sign_delay = sign_delay
        self.process: subprocess.Popen[bytes] | None = None
        self.token = ""

    @property
    def url(self) -> str:
        """The web address."""
        return f"http://127.0.0.1:{self.http_port}"

    def destination(self, name: str, port: int, **extra: Any) -> None:
        """Add a receiver of results before the start."""
        values: dict[str, Any] = {"retry_first": "200ms", "retry_max": "1s", "ack_timeout": "2s"}
        values |= extra
        lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        head = f'[[destination]]\nname = "{name}"\naddress = "127.0.0.1:{port}"\n'
        self.destinations.append(head + "\n".join(lines) + "\n")

    def make(self) -> None:
        """Init, settings, a site, an administrator and her token."""
        self.bridge("init", str(self.home))
        text = f'[http]\nbind = "127.0.0.1:{self.http_port}"\npublic_url = "{self.url}"\n'
        if self.database:
            text = f'[database]\nurl = "{self.database}"\n' + text
        text += '[schedule]\npoll_status_every = "500ms"\n'
        text += f'[[listener]]\nname = "orders"\nbind = "127.0.0.1:{self.mllp_port}"\n'
        text += f'site = "SITE1"\n{self.listener_extra}\n' + "\n".join(self.destinations)
        (self.home / "bridge.toml").write_text(text, "utf-8")
        delay = ("--sign-delay", str(self.sign_delay)) if self.sign_delay else ()
        self.bridge("site", "add", "SITE1", "--home", str(self.home), "--name", "One", *delay)
        who = ("--home", str(self.home), "--name", "Ada Reader", "--site", "SITE1", "--admin")
        self.bridge("user", "add", "ada@example.org", *who)
        self.token = self.bridge(
            "token", "create", "--home", str(self.home), "--user", "ada@example.org"
        ).strip()

    def bridge(self, *arguments: str, expect: int | None = 0) -> str:
        """Run one `bridge` command; return what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "bridge", *arguments],
            cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        if expect is not None and done.returncode != expect:
            raise AssertionError(f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        """Serve, and wait until it is ready."""
        command = [sys.executable, "-m", "bridge", "serve", "--home", str(self.home), *arguments]
        environment = {**os.environ, **(env or {})}
        with (self.home / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, env=environment
            )
        deadline = time.monotonic() + READY_WITHIN
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                if httpx.get(f"{self.url}/readyz", timeout=2).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.05)
        raise AssertionError(f"not ready: {self.log()[-3000:]}")

    def log(self) -> str:
        """All that the service printed."""
        return (self.home / "serve.log").read_text("utf-8", "replace")

    def kill(self) -> None:
        """Kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """SIGTERM; return the exit status."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def get(self, path: str, **query: Any) -> Any:
        """GET as the site's administrator."""
        return self._call("GET", path, params=query)

    def post(self, path: str, body: Any, expect: int | None = 200) -> Any:
        """POST as the site's administrator."""
        return self._call("POST", path, json=body, expect=expect)

    def _call(self, method: str, path: str, expect: int | None = 200, **kwargs: Any) -> Any:
        reply = httpx.request(
            method, self.url + path, headers={"x-access-token": self.token}, timeout=30, **kwargs
        )
        if expect is not None and reply.status_code != expect:
            raise AssertionError(f"{method} {path}: {reply.status_code} {reply.text}")
        return reply.json() if reply.content else None

    def draft(self, mrn: str, accession: str, text: str, **tags: str) -> Any:
        """Launch a study for reading, its text pre-filled."""
        clinical = {"SiteID": "SITE1", "PatientMRN": mrn, "Accession": accession}
        clinical |= {"KeyFindings": text, **tags}
        body = {"clinicalInfo": clinical, "reportingApp": {}, "response": {"type": "link"}}
        return self.post("/api/report/launch/clinical", body)

    def sign(self, mrn: str, accession: str, **extra: Any) -> None:
        """Sign by the API."""
        identity = {"SiteID": "SITE1", "PatientMRN": mrn, "Accession": accession}
        self.post("/api/report/sign", {"clinicalInfo": identity, **extra})

    def worklist(self, **query: Any) -> list[dict[str, Any]]:
        """All rows of the site's worklist."""
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
