"""
Other listeners for the comparison, installed for a run into a temporary folder.

hl7apy's server and node-hl7-server handle one message per connection (the first closes it, the
second delivers every earlier one again), so patterns with kept connections do not apply to them.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_MEDPLUM = ("@medplum/hl7@4.5.2", "@medplum/core@4.5.2")
_WITHIN = 300.0  # seconds for an installation


@dataclass(frozen=True, slots=True)
class Peer:
    """A listener of another project; `command` starts it on a port."""

    name: str
    command: Callable[[int], list[str]]
    slow: bool = False
    pipelines: bool = True


@dataclass
class Peers:
    installed: list[Peer] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def install(folder: Path) -> Peers:
    peers = Peers()
    module = "tests.benchmarks.python_hl7"
    peers.installed.append(
        Peer("python-hl7", lambda port: [sys.executable, "-m", module, str(port)], slow=True)
    )
    _medplum(folder, peers)
    return peers


def _medplum(folder: Path, peers: Peers) -> None:
    """Install @medplum/hl7. It loses pipelined messages, so it does not get any."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        peers.missing.append("@medplum/hl7: there is no Node on this machine")
        return
    home = folder / "medplum"
    home.mkdir()
    shutil.copy(_HERE / "medplum.mjs", home)
    environment = {**os.environ, "npm_config_cache": str(folder / "npm-cache")}
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", *_MEDPLUM]
    try:
        done = subprocess.run(
            command, cwd=home, env=environment, timeout=_WITHIN, capture_output=True, check=False
        )
    except subprocess.TimeoutExpired:
        peers.missing.append("@medplum/hl7: npm took too long")
        return
    if done.returncode:
        peers.missing.append("@medplum/hl7: npm could not install it")
        return
    script = str(home / "medplum.mjs")
    peers.installed.append(
        Peer("@medplum/hl7", lambda port: [node, script, str(port)], pipelines=False)
    )
