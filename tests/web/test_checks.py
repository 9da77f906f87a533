"""The web apps' unit tests, their languages, sizes, locked packages and documented codes."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.contract.errors import ErrorCode
from bridge.engine.http import static_files
from bridge.engine.launch import LANGUAGES
from mappings.language.rules import TAGS

WEB = Path(__file__).resolve().parents[2] / "web"
CONSOLE = "src/console/main.ts"


@pytest.mark.slow
def test_the_web_apps_pass() -> None:
    """`npm run test` ends without a complaint; `make lint` runs `types` and `lint`."""
    command = [sys.executable, str(WEB / "build.py"), "test"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"


def test_the_app_speaks_the_languages_that_the_engine_knows() -> None:
    """The codes that a launch may ask for are those that there is a catalogue for."""
    assert {path.stem for path in (WEB / "locales").glob("*.json")} == set(LANGUAGES)


def scripts_of(chunks: dict[str, dict[str, list[str]]], *sources: str, lazy: bool) -> set[str]:
    """
    Return the scripts that entries import; `lazy`: also those that are loaded later.

    Without the languages of the report app, of which a page loads one.
    """
    found: set[str] = set()
    waiting = [*sources]
    while waiting:
        name = waiting.pop()
        if name not in found and not name.startswith("locales/"):
            found.add(name)
            waiting += chunks[name].get("imports", [])
            waiting += chunks[name].get("dynamicImports", []) if lazy else []
    return found


def test_the_scripts_of_the_console_keep_their_budget() -> None:
    """Compressed, in kB: what the first page loads, each area, and all scripts together."""
    budget = json.loads((WEB / "budget.json").read_text("utf-8"))
    built = WEB.parent / "bridge" / "engine" / "app" / "assets" / "built"
    chunks = json.loads((built / "console.manifest.json").read_text("utf-8"))

    def size(names: set[str]) -> float:
        files = (built / chunks[name]["file"] for name in names)
        return sum(len(gzip.compress(file.read_bytes(), 9)) for file in files) / 1000

    areas = {name: f"src/console/pages/{name}.ts" for name in budget["areas"]}
    first = scripts_of(chunks, CONSOLE, areas["overview"], lazy=False)
    assert size(first) <= budget["first load"]
    sizes = {name: size({source}) for name, source in areas.items()}
    assert {name: kb for name, kb in sizes.items() if kb > budget["areas"][name]} == {}
    assert size(scripts_of(chunks, CONSOLE, lazy=True)) <= budget["all scripts"]


def test_a_page_loads_its_font_with_its_scripts() -> None:
    """The first text already has its font, so that nothing moves when it arrives."""
    assert [name.rpartition(".")[2] for name in static_files.entry(CONSOLE).fonts] == ["woff2"]


def test_each_script_and_style_sheet_is_sent_compressed() -> None:
    """Brotli is smaller than gzip, and gzip than the file."""
    entry = static_files.entry(CONSOLE)
    for name in (entry.script, *entry.preloads, *entry.styles):
        brotli, gzipped, plain = (static_files.content(name, how) for how in ("br", "gzip", ""))
        assert brotli is not None
        assert gzipped is not None
        assert plain is not None
        assert len(brotli) < len(gzipped) <= len(plain) or len(plain) < 200


def test_the_console_knows_the_tags_of_definitions() -> None:
    """Each tag can be a column and a filter."""
    source = (WEB / "src" / "console" / "data" / "tags.ts").read_text("utf-8")
    assert tuple(re.findall(r'^  "(\w+)",$', source, re.MULTILINE)) == TAGS


def test_the_lock_bears_no_address() -> None:
    """Every package is pinned by its hash; none says where it comes from."""
    text = (WEB / "package-lock.json").read_text("utf-8")
    packages = json.loads(text)["packages"]

    assert "://" not in text
    assert [name for name, package in packages.items() if name and "integrity" not in package] == []


def test_the_lock_has_the_compiler_of_every_machine() -> None:
    """The bundler's binaries of Linux, macOS and Windows are all pinned."""
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
