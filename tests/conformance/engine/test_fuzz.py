"""Schemathesis runs on the complete description: all phases, valid and invalid data."""

import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from bridge.store.database import Database
from tests.acceptance.house import free_port
from tests.bridge.engine.http.conftest import add_accounts
from tests.bridge.engine.http.engine_service import ADMIN, launch_body, user
from tests.conformance.engine.fuzz_sessions import ADDRESS, TOKEN
from tests.conformance.engine.node import ROOT, now, running
from tests.databases import fresh_file

PATIENCE = 900
"""Seconds. The number of requests is equal on every machine."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(PATIENCE + 60)]

OURS = "no_failure,described_shape"
STANDARD = (
    "status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,negative_data_rejection,missing_required_header,"
    "unsupported_method,ignored_auth"
)


@dataclass
class Target:
    """An engine in its own process with one report; schemathesis opens pages itself."""

    address: str
    token: str

    def fuzz(self, *arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
        """Run schemathesis, deterministic and without a database of examples."""
        command = [
            sys.executable, "-m", "schemathesis.cli", "run", f"{self.address}/openapi.json",
            "-H", f"x-access-token: {self.token}",
            "--checks", f"{STANDARD},{OURS}", "--continue-on-failure", "--no-shrink", "--no-color",
            "--request-timeout", "120", "--generation-deterministic",
            "--generation-allow-x00", "false", "--suppress-health-check", "too_slow", *arguments,
        ]  # fmt: skip
        environment = {
            "PYTHONPATH": str(ROOT),
            "SCHEMATHESIS_HOOKS": "tests.conformance.engine.fuzz_hooks",
            "HOME": str(folder),
            ADDRESS: self.address,
            TOKEN: self.token,
        }
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False,
            timeout=PATIENCE,
        )  # fmt: skip


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    stored = fresh_file(tmp_path / "engine.db")
    database = Database(stored)
    token = add_accounts(database, now())[ADMIN]
    database.dispose()
    with running(stored, [free_port()], secrets.token_bytes(32)) as (address,):
        with httpx.Client(
            base_url=address, headers={"x-access-token": token}, timeout=120
        ) as client:
            # the report of the examples in the description
            body = launch_body("ACC-2001", "MRN-1001", userInfo=user())
            client.post("/api/report/launch/clinical", json=body).raise_for_status()
        yield Target(address, token)


def test_the_report_page(target: Target, tmp_path: Path) -> None:
    """The endpoints of the page: no failure, and declared responses only."""
    done = target.fuzz(
        "--include-path-regex", "^/reporting/api", "--phases", "examples,coverage,fuzzing",
        "-n", "4", folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_the_interface(target: Target, tmp_path: Path) -> None:
    """Every endpoint of the interface: no failure, no stack trace, no hang, declared responses."""
    done = target.fuzz(
        "--exclude-path-regex", "^/reporting/api", "--phases", "examples,coverage,fuzzing",
        "-n", "6", folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    with httpx.Client(
        base_url=target.address, headers={"x-access-token": target.token}, timeout=120
    ) as client:
        assert client.get("/api/admin/sites").status_code == 200  # the token is still valid


def test_sequences_of_requests(target: Target, tmp_path: Path) -> None:
    """Ids and links of responses are used in the next requests: no failure, declared responses."""
    done = target.fuzz(
        "--phases", "stateful", "-n", "15", folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
