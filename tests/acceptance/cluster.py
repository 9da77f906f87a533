"""Several nodes on one PostgreSQL, each with its own HOME, behind HAProxy."""

import shutil
import subprocess
from pathlib import Path

import sqlalchemy
from sqlalchemy import text

from tests.acceptance.forked import ROOT, Forked, Program
from tests.acceptance.house import House, free_port
from tests.acceptance.serving import is_ready
from tests.eventually import eventually
from tests.programs import HAPROXY

CONFIGURATION = ROOT / "deploy" / "haproxy.cfg"


class Cluster:
    def __init__(
        self, folder: Path, url: str, count: int = 2, *, program: Program = Forked
    ) -> None:
        self.folder = folder
        self.url = url
        self.nodes = [
            House(folder / f"node-{number}", database=url, program=program)
            for number in range(count)
        ]
        self._balancer: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.web_port = free_port()

    def make(self) -> None:
        """Make the first node's HOME and copy it; each node gets its own ports."""
        first, *others = self.nodes
        first.make()
        for node in others:
            shutil.copytree(first.home, node.home, ignore=shutil.ignore_patterns("run", "*.log"))
            node.sections, node.settings, node.token = first.sections, first.settings, first.token
            node.configure()

    def name_sessions(self) -> None:
        separator = "&" if "?" in self.url else "?"
        for node in self.nodes:
            node.database = f"{self.url}{separator}application_name={node.home.name}"

    def start(self) -> None:
        for node in self.nodes:
            node.start()

    def close(self) -> None:
        for node in self.nodes:
            node.kill()
        if self._balancer is not None:
            self._balancer.kill()
            self._balancer.wait()

    def balance(self) -> None:
        """Start HAProxy before the first two nodes with the documented configuration."""
        program = HAPROXY.require()
        one, two = self.nodes[:2]
        ports = {
            "12575": one.mllp_port, "18575": one.http_port, "22575": two.mllp_port,
            "28575": two.http_port, "127.0.0.1:2575": self.port, "127.0.0.1:8575": self.web_port,
        }  # fmt: skip
        configured = CONFIGURATION.read_text("utf-8")
        for written, port in ports.items():
            prefix = "127.0.0.1:" if ":" in written else ""
            configured = configured.replace(written, f"{prefix}{port}")
        file = self.folder / "haproxy.cfg"
        file.write_text(configured, "utf-8")
        self._balancer = subprocess.Popen([program, "-db", "-q", "-f", str(file)])
        eventually(lambda: is_ready(f"http://127.0.0.1:{self.web_port}"))

    def node_of(self, owner: str) -> House:
        for node in self.nodes:
            if owner.startswith((node.home / "run" / "node-0").read_text("ascii").split()[0]):
                return node
        raise AssertionError(f"no node has the name {owner}")

    def query(self, statement: str) -> list[tuple[object, ...]]:
        engine = sqlalchemy.create_engine(self.url)
        try:
            with engine.connect() as connection:
                return [tuple(row) for row in connection.execute(text(statement))]
        finally:
            engine.dispose()
