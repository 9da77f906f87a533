"""The web apps' own checks: types, lint and unit tests, with the locked packages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.engine.launching.languages import LANGUAGES

WEB = Path(__file__).resolve().parents[2] / "web"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("script", ["types", "lint", "test"])
def test_the_web_apps_pass(script: str) -> None:
    """`npm run types`, `lint` and `test` each end without a complaint."""
    command = [sys.executable, str(WEB / "build.py"), script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"


def test_the_app_speaks_the_languages_that_the_engine_knows() -> None:
    """The codes that a launch may ask for are those that there is a catalogue for."""
    assert {each.stem for each in (WEB / "locales").glob("*.json")} == set(LANGUAGES)


def test_the_lock_bears_no_address() -> None:
    """Every package is pinned by its hash; none says where it comes from."""
    text = (WEB / "package-lock.json").read_text("utf-8")
    packages = json.loads(text)["packages"]

    assert "://" not in text
    assert [name for name, each in packages.items() if name and "integrity" not in each] == []


def test_the_lock_has_the_compiler_of_every_machine() -> None:
    """The bundler's binaries of Linux, macOS and Windows are all pinned, whoever made the lock."""
    packages = json.loads((WEB / "package-lock.json").read_text("utf-8"))["packages"]
    systems = {system for each in packages.values() for system in each.get("os", [])}

    assert {"linux", "darwin", "win32"} <= systems
