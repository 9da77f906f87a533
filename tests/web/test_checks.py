"""The web apps' unit tests, their languages, locked packages and documented codes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.contract.errors import ErrorCode
from bridge.engine.launch import LANGUAGES

WEB = Path(__file__).resolve().parents[2] / "web"


@pytest.mark.slow
def test_the_web_apps_pass() -> None:
    """`npm run test` ends without a complaint; `make lint` runs `types` and `lint`."""
    command = [sys.executable, str(WEB / "build.py"), "test"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"


def test_the_app_speaks_the_languages_that_the_engine_knows() -> None:
    """The codes that a launch may ask for are those that there is a catalogue for."""
    assert {path.stem for path in (WEB / "locales").glob("*.json")} == set(LANGUAGES)


def test_the_lock_bears_no_address() -> None:
    """Every package is pinned by its hash; none says where it comes from."""
    text = (WEB / "package-lock.json").read_text("utf-8")
    packages = json.loads(text)["packages"]

    assert "://" not in text
    assert [name for name, package in packages.items() if name and "integrity" not in package] == []


def test_the_lock_has_the_compiler_of_every_machine() -> None:
    """The bundler's binaries of Linux, macOS and Windows are all pinned, whoever made the lock."""
    packages = json.loads((WEB / "package-lock.json").read_text("utf-8"))["packages"]
    systems = {system for package in packages.values() for system in package.get("os", [])}

    assert {"linux", "darwin", "win32"} <= systems


def test_every_code_of_action_failed_is_documented() -> None:
    """The table lists each answer of the app and of the session endpoints to an action."""
    document = (WEB.parent / "docs" / "guides" / "embed-the-app.md").read_text("utf-8")
    table = document.partition("### Why an action failed")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| `")]
    documented = {code for row in rows for code in re.findall(r"`(\w+)`", row.split("|")[1])}
    sources = [
        *(WEB / "src" / "report" / "editor" / "controller").glob("*.ts"),
        WEB / "src" / "report" / "dictation" / "Dictation.svelte",
        WEB / "src" / "report" / "embedding" / "host" / "hostMessaging.ts",
        WEB / "src" / "report" / "embedding" / "microphones.ts",
        WEB / "src" / "shared" / "api" / "client.ts",
    ]
    choice = r'(?:[^",;{]* \? "(\w+)" : )?"(\w+)"'
    pattern = r"(?:ApiProblem\([^,()]*, |fail\(action, |code = )" + choice
    used = {
        code
        for path in sources
        if ".test." not in path.name
        for codes in re.findall(pattern, path.read_text("utf-8"))
        for code in codes
        if code
    }
    assert {"checks_pending", "no_bracket", "not_open", "unknown_device"} <= used
    engine = {"forbidden", "being_edited", "version_conflict", "signing_prohibited"}
    failures = {code.value for code in ErrorCode if code.status == 500} - {
        "internal_error",  # of any request, not of an action
        "refused",  # of an engine of another vendor
    }
    assert used | engine | failures <= documented
